"""What happened to runs of offsets, by a broker's log of requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.replay.hold_kernel import ACKNOWLEDGED, ACQUIRED, WRITTEN
from sharelag.replay.request_columns import Ints, codes, ints, micros
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat, keys
from sharelag.schemas.records import SHARE_PARTITION

_MEMBER = ("group_id", "member_id")


class Events(NamedTuple):
    """What happened to runs of offsets; a row an acquisition, acknowledgement or state batch."""

    place: Ints  # share partition, by number
    first: Ints
    end: Ints  # exclusive
    time: Ints
    kind: Ints
    member: Ints
    deliveries: Ints  # delivery count; of a finished state batch the most there is
    lock: Ints  # microseconds; 0: not known
    type: Ints  # of an acknowledgement
    of: Ints  # the row of the acquisitions; else -1


def events_of(tables: Mapping[str, Arrow]) -> Events:
    """Return what happened to runs of offsets, by the tables that `holds_of` takes."""
    acquired = as_table(tables["acquisitions"])
    acknowledged = as_table(tables["acknowledgements"])
    counts = pc.equal(acknowledged.column("error_code"), 0).fill_null(False)
    acknowledged = acknowledged.filter(counts)
    written = _written(as_table(tables["state_calls"]))
    parts = (acquired, acknowledged, written)
    places = codes([keys(part, SHARE_PARTITION) for part in parts])
    members = codes([keys(part, _MEMBER) for part in (acquired, acknowledged)])
    nobody = np.full(written.num_rows, -1)
    times = [micros(part, "timestamp") for part in parts]
    times[1] = _after_acquiring(acquired, acknowledged, times[0], times[1], members)
    kinds = [
        np.full(part.num_rows, kind)
        for part, kind in zip(parts, (ACQUIRED, ACKNOWLEDGED, WRITTEN), strict=True)
    ]
    zeros = np.zeros(written.num_rows, dtype=np.int64)
    return Events(
        place=np.concatenate(places),
        first=np.concatenate([ints(part, "first_offset") for part in parts]),
        end=np.concatenate([ints(part, "last_offset") for part in parts]) + 1,
        time=np.concatenate(times),
        kind=np.concatenate(kinds),
        member=np.concatenate([*members, nobody]),
        deliveries=np.concatenate(
            [
                ints(acquired, "delivery_count"),
                np.zeros(acknowledged.num_rows, dtype=np.int64),
                ints(written, "delivery_count"),
            ]
        ),
        lock=1000
        * np.concatenate([ints(acquired, "lock_ms"), ints(acknowledged, "lock_ms"), zeros]),
        type=np.concatenate(
            [
                np.zeros(acquired.num_rows, dtype=np.int64),
                ints(acknowledged, "acknowledge_type"),
                zeros,
            ]
        ),
        of=np.concatenate(
            [
                np.arange(acquired.num_rows),
                np.full(acknowledged.num_rows + written.num_rows, -1),
            ]
        ),
    )


def _written(calls: pa.Table) -> pa.Table:
    """Return a row a state batch that was written; one that is finished ends any delivery."""
    good = pc.and_(pc.equal(calls.column("call"), "write"), pc.equal(calls.column("error_code"), 0))
    written = calls.filter(good.fill_null(False)).combine_chunks()
    lists = flat(written.column("state_batches"))
    parent, items = pc.list_parent_indices(lists), pc.list_flatten(lists)
    table = written.select([*SHARE_PARTITION, "timestamp"]).take(parent)
    for name in ("first_offset", "last_offset"):
        table = table.append_column(name, pc.struct_field(items, name))
    finished = pc.not_equal(pc.struct_field(items, "delivery_state"), 0)
    count = pc.struct_field(items, "delivery_count").cast(pa.int64())
    return table.append_column("delivery_count", pc.if_else(finished, 1 << 20, count))


def _after_acquiring(
    acquired: pa.Table,
    acknowledged: pa.Table,
    acquired_at: Ints,
    acknowledged_at: Ints,
    members: list[Ints],
) -> Ints:
    """Return times of acknowledgements, never before what the member acquired in earlier lines.

    The log tells milliseconds, so that a quick acknowledgement may seem earlier; lines of one
    connection stand in their order.
    """
    files = codes([flat(part.column("source")).fill_null("") for part in (acquired, acknowledged)])
    of = np.concatenate(members) * (1 + max(int(f.max(initial=0)) for f in files)) + np.concatenate(
        files
    )
    line = np.concatenate([ints(acquired, "position"), ints(acknowledged, "position")])
    is_acknowledgement = np.arange(len(line)) >= acquired.num_rows
    # Acknowledgements of a line come before what the same line acquires.
    order = np.lexsort((~is_acknowledgement, line, of))
    time = np.concatenate([acquired_at + 1, np.full(len(acknowledged_at), np.iinfo(np.int64).min)])
    ranks = np.unique(time, return_inverse=True)
    number = np.unique(of[order], return_inverse=True)[1].astype(np.int64)
    step = len(ranks[0]) + 1
    latest = np.maximum.accumulate(ranks[1][order] + number * step) - number * step
    earliest = np.empty(len(line), dtype=np.int64)
    earliest[order] = ranks[0][latest]
    return np.maximum(acknowledged_at, earliest[acquired.num_rows :])
