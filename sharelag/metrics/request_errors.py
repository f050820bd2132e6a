"""Errors in the answers of a broker's log of requests: which, how often, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.model.kafka_errors import ERRORS
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import as_table, flat, keys
from sharelag.schemas.requests import REQUEST_ERRORS

_OF_GROUP = "GROUP_AUTHORIZATION_FAILED"
#: Requests by what tables call them.
_CALLS = {
    "initialize": "InitializeShareGroupState",
    "read": "ReadShareGroupState",
    "write": "WriteShareGroupState",
    "delete": "DeleteShareGroupState",
    "summary": "ReadShareGroupStateSummary",
    "describe offsets": "DescribeShareGroupOffsets",
    "alter offsets": "AlterShareGroupOffsets",
    "delete offsets": "DeleteShareGroupOffsets",
    "delete group": "DeleteGroups",
}


class Failed(NamedTuple):
    """Rows of one table whose answer is an error.

    Attributes
    ----------
    rows
        Of that table.
    api
        As Kafka's message schemas call the request of each row.
    code
        Kafka's number of its error.
    """

    rows: pa.Table
    api: pa.Array
    code: pa.Array


def failed(tables: Mapping[str, Arrow]) -> Iterator[Failed]:
    """Return what was answered with an error, table by table.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table or pyarrow.RecordBatch
        `sharelag.schemas.requests.REQUEST_TABLES` by name.

    Notes
    -----
    An answer that failed as a whole is a row of ``requests`` alone, and not of each partition.
    """
    whole = pa.array([], pa.string())
    for name, column in (
        *(("requests", "api"), ("acknowledgements", "api")),
        *(("state_calls", "call"), ("offset_calls", "call")),
    ):
        table = as_table(tables[name])
        code = flat(table.column("error_code"))
        line = keys(table, ("source", "position"))
        bad = pc.and_not(pc.not_equal(code, 0).fill_null(False), pc.is_in(line, whole))
        rows = table.filter(bad)
        if name == "requests":
            whole = flat(line.filter(bad))
        api = flat(rows.column(column))
        if column == "call":
            at = pc.index_in(api, pa.array(list(_CALLS)))
            api = pa.array(list(_CALLS.values())).take(at)
        yield Failed(rows, api, flat(rows.column("error_code")))


def request_errors(tables: Mapping[str, Arrow]) -> pa.Table:
    """Return which requests of which group were answered with which error.

    Parameters
    ----------
    tables : mapping of str to pyarrow.Table or pyarrow.RecordBatch
        As for `failed`.

    Returns
    -------
    pyarrow.Table
        `sharelag.schemas.requests.REQUEST_ERRORS`, the most frequent first. Acknowledgements are
        counted by runs of offsets.
    """
    every = pa.concat_tables(
        pa.table(
            {
                "group_id": flat(one.rows.column("group_id")),
                "api": one.api,
                "error_code": one.code,
                "timestamp": flat(one.rows.column("timestamp")),
            }
        )
        for one in failed(tables)
    )
    by = ["group_id", "api", "error_code"]
    counted = every.group_by(by).aggregate(
        [("timestamp", "count"), ("timestamp", "min"), ("timestamp", "max")]
    )
    known = [ERRORS.get(code) for code in counted.column("error_code").to_pylist()]
    groups = counted.column("group_id").to_pylist()
    advice = [
        one and one.what_to_do(group if group and one.name == _OF_GROUP else "NAME")
        for one, group in zip(known, groups, strict=True)
    ]
    columns = {
        **{name: counted.column(name) for name in by},
        "error_name": pa.array([one and one.name for one in known], pa.string()),
        "answers": counted.column("timestamp_count"),
        "first_answer": counted.column("timestamp_min"),
        "last_answer": counted.column("timestamp_max"),
        "meaning": pa.array([one and one.meaning for one in known], pa.string()),
        "advice": pa.array(advice, pa.string()),
    }
    table = pa.table(columns).select(REQUEST_ERRORS.names).cast(REQUEST_ERRORS)
    order = [("answers", "descending"), *((name, "ascending") for name in by)]
    return table.sort_by(order)
