"""How much of what members acquire at once they also acknowledge at once.

Acknowledgements of whole batches cost least: a batch that is acknowledged in parts is kept record
by record from then on (KIP-932, "Batching").
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat, keys
from sharelag.schemas.requests import BATCHING

_MEMBER = ("group_id", "topic_id", "partition", "member_id")
_RENEW = 4


def batching(tables: Mapping[str, Arrow]) -> pa.Table:
    """Return how many acknowledged runs are whole runs of those that were acquired.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table or pyarrow.RecordBatch
        ``acquisitions`` and ``acknowledgements`` of `sharelag.schemas.requests.REQUEST_TABLES`.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.requests.BATCHING`, sorted. A run is whole if it begins and ends where
        runs that the member acquired do: clients acknowledge neighbours as one. Neither renewals
        nor what was refused count; ``whole_ratio`` is null where nothing was acknowledged.
    """
    acquired = as_table(tables["acquisitions"])
    acknowledged = as_table(tables["acknowledgements"])
    counts = pc.and_not(
        pc.equal(acknowledged.column("error_code"), 0),
        pc.equal(acknowledged.column("acknowledge_type"), _RENEW),
    )
    counts = pc.and_not(counts, acknowledged.column("legacy"))
    acknowledged = acknowledged.filter(counts.fill_null(False))
    whole = pc.and_(
        *(
            pc.is_in(keys(acknowledged, (*_MEMBER, name)), keys(acquired, (*_MEMBER, name)))
            for name in ("first_offset", "last_offset")
        )
    )
    both = pa.concat_tables(
        [_counted(acquired, "acquired"), _counted(acknowledged, "acknowledged", whole)],
        promote_options="default",
    )
    names = [name for name in BATCHING.names if name not in (*_MEMBER, "whole_ratio")]
    summed = both.group_by(list(_MEMBER)).aggregate([(name, "sum") for name in names])
    columns = {name: flat(summed.column(name)) for name in _MEMBER}
    columns |= {name: flat(summed.column(f"{name}_sum")).fill_null(0) for name in names}
    runs = columns["acknowledged_runs"]
    runs = pc.if_else(pc.equal(runs, 0), pa.scalar(None, pa.int64()), runs)
    columns["whole_ratio"] = pc.divide(columns["whole_runs"].cast(pa.float64()), runs)
    table = pa.table([columns[field.name] for field in BATCHING], schema=BATCHING)
    return table.sort_by([(name, "ascending") for name in _MEMBER])


def _counted(rows: pa.Table, name: str, whole: pa.Array | None = None) -> pa.Table:
    size = pc.add(pc.subtract(rows.column("last_offset"), rows.column("first_offset")), 1)
    counted = {
        **{key: rows.column(key) for key in _MEMBER},
        f"{name}_runs": pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows),
        f"{name}_offsets": size,
    }
    return pa.table(counted if whole is None else counted | {"whole_runs": whole.cast(pa.int64())})
