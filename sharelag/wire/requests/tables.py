"""Requests as tables: acquisitions, acknowledgements, heartbeats, and calls of the coordinators."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas import requests as schemas
from sharelag.wire.requests import coordinators, drafts, fetches, groups
from sharelag.wire.requests.lines import Completed, Lines
from sharelag.wire.requests.log import Columns, Log
from sharelag.wire.requests.values import column


def tables_of(lines: Lines) -> dict[str, pa.RecordBatch]:
    """Return what lines tell as tables.

    Returns
    -------
    dict
        `sharelag.schemas.requests.REQUEST_TABLES` by name, each in the order of its lines.
    """
    found: dict[str, list[pa.RecordBatch]] = {name: [] for name in schemas.REQUEST_TABLES}
    found["rejects"].append(lines.rejects)
    for one in lines.requests:
        for name, batch in _of_kind(one):
            found[name].append(batch)
    return {name: _ordered(found[name], schema) for name, schema in schemas.REQUEST_TABLES.items()}


def _ordered(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    table = pa.Table.from_batches(batches, schema).sort_by("position").combine_chunks()
    parts = table.to_batches()
    return parts[0] if parts else pa.RecordBatch.from_pylist([], schema)


def _of_kind(one: Completed) -> Iterable[tuple[str, pa.RecordBatch]]:
    log = Log(one)
    yield "requests", _requests(log)
    name = one.api.name
    if one.api is drafts.ACKNOWLEDGE:
        yield "acknowledgements", fetches.drafted_acknowledgements(log)
    elif name in (fetches.FETCH, fetches.ACKNOWLEDGE):
        yield "acknowledgements", fetches.acknowledgements(log)
        yield "current_leaders", fetches.current_leaders(log)
    if name == fetches.FETCH:
        yield "acquisitions", fetches.acquisitions(log)
        yield "session_partitions", fetches.named_partitions(log)
        yield "session_partitions", fetches.forgotten_partitions(log)
    elif name == "ShareGroupHeartbeat":
        yield "heartbeats", groups.heartbeats(log)
    elif name in coordinators.STATE_CALLS:
        yield "state_calls", coordinators.state_calls(log, coordinators.STATE_CALLS[name])
    elif name == "ShareGroupDescribe":
        yield "descriptions", groups.descriptions(log)
        yield "described_members", groups.described_members(log)
    elif name == "ListGroups":
        yield "listings", groups.listings(log)
    elif name in coordinators.OFFSET_CALLS:
        call, columns = coordinators.OFFSET_CALLS[name]
        row, values = columns(log)
        yield "offset_calls", log.made(schemas.OFFSET_CALLS, row, {"call": call} | values)


def _requests(log: Log) -> pa.RecordBatch:
    header = column(log.one.rows, "requestHeader")
    names = {
        "group_id": "groupId",
        "member_id": "memberId",
        "session_epoch": "sessionEpoch" if log.is_draft else "shareSessionEpoch",
        "session_id": "sessionId",
    }
    there = {part.json_name for part in log.one.api.request}
    answered = {part.json_name for part in log.one.api.response}
    columns: Columns = {
        "api": log.one.api.name,
        "api_version": pc.struct_field(header, "requestApiVersion"),
        "client_id": pc.struct_field(header, "clientId"),
        "connection": column(log.one.rows, "connection"),
        "began": pa.array(log.began).cast(schemas.INSTANT),
        "legacy": log.is_draft,
    }
    columns |= {name: log.asked(asked) for name, asked in names.items() if asked in there}
    if "errorCode" in answered:
        columns["error_code"] = log.response.of("errorCode")
    return log.made(schemas.REQUESTS, log.request.row, columns)
