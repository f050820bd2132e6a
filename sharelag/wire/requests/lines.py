"""Read lines of ``kafka.request.logger``: whole columns of JSON, by the schemas of the requests."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas.requests import INSTANT, LINE_REJECTS
from sharelag.wire.json_rows import json_rows
from sharelag.wire.requests import drafts
from sharelag.wire.requests.of_brokers import OF_BROKERS
from sharelag.wire.requests.of_clients import OF_CLIENTS
from sharelag.wire.requests.part import Api, Part, struct_of
from sharelag.wire.requests.times import LAYOUT, Times, times_of
from sharelag.wire.requests.wrapped import MARK, before_context, unwrap

_KEY = r'"requestApiKey": ?(?P<key>-?\d+)'
#: Deletes groups of any kind; share groups among them.
DELETE_GROUPS = Api(
    "DeleteGroups",
    42,
    "0-2",
    (Part("GroupsNames", "[]string"),),
    (Part("Results", "[]struct", (Part("GroupId", "string"), Part("ErrorCode", "int16"))),),
)
#: Lists groups of all kinds, those of one coordinator.
LIST_GROUPS = Api(
    "ListGroups",
    16,
    "0-5",
    (
        Part("StatesFilter", "[]string", versions="4+"),
        Part("TypesFilter", "[]string", versions="5+"),
    ),
    (
        Part("ThrottleTimeMs", "int32", versions="1+"),
        Part("ErrorCode", "int16"),
        Part(
            "Groups",
            "[]struct",
            (
                Part("GroupId", "string"),
                Part("ProtocolType", "string"),
                Part("GroupState", "string", versions="4+"),
                Part("GroupType", "string", versions="5+"),
            ),
        ),
    ),
)
#: The kinds of requests that are read; all others are skipped.
READ = {api.key: api for api in (*OF_CLIENTS, *OF_BROKERS, DELETE_GROUPS, LIST_GROUPS)}
_DURATIONS = ("totalTimeMs", "requestQueueTimeMs", "responseQueueTimeMs", "sendTimeMs")
#: Why a line is a reject whose layout is not one of those that are read.
NO_TIME = f"it has no time that is understood: its layout needs {LAYOUT}"
UNCLEAR = "its time has the abbreviation of several zones: name the one of the log with --zone"
#: A duration in milliseconds that no request takes: 31 years.
_LONGEST = 1e12
_HEADER = pa.struct(
    [
        ("requestApiKey", pa.int16()),
        ("requestApiVersion", pa.int16()),
        ("clientId", pa.string()),
    ]
)


class Completed(NamedTuple):
    """Requests of one kind, as their JSON has them."""

    api: Api
    source: str
    position: pa.Array
    completed: Times
    rows: pa.Table  # requestHeader, request, response, connection and durations


class Lines(NamedTuple):
    """What some lines are: ``total`` is requests, rejects and skipped lines together.

    A line with several requests counts once for each.
    """

    total: int
    skipped: int
    rejects: pa.RecordBatch  # LINE_REJECTS
    requests: list[Completed]

    @property
    def told_by(self) -> frozenset[int]:
        """What tells the zones of the times of requests: `sharelag.wire.requests.times`."""
        every = (pc.unique(one.completed.told_by).to_pylist() for one in self.requests)
        return frozenset().union(*every)


def read_lines(
    lines: pa.Array, positions: pa.Array, zone: str | None = None, source: str = ""
) -> Lines:
    """Read lines of a broker's log of requests.

    Parameters
    ----------
    lines : pyarrow.StringArray
    positions : pyarrow.Int64Array
        The byte of the file at which each begins.
    zone : str, optional
        The time zone of the log, such as ``Europe/Berlin``, of times without one: log4j's ``%d``
        has none. Without it, see `sharelag.wire.requests.times.times_of`.
    source : str
        What the file is called in the tables.

    Raises
    ------
    InputError
        There is no such time zone.
    """
    is_request = pc.match_substring(lines, MARK)
    found = unwrap(positions.filter(is_request), lines.filter(is_request))
    numbers, texts, before, objects, behind = found
    total = len(lines) + len(texts) - is_request.true_count
    keys = pc.struct_field(pc.extract_regex(objects, _KEY), "key")
    has_key = keys.is_valid()
    wanted = pc.is_in(keys, pa.array([str(key) for key in READ]))
    times = times_of(before, behind, zone)
    is_cut = pc.invert(pc.ends_with(objects, "}"))
    has_time = times.at.is_valid()
    whole = pc.and_(has_time, pc.invert(is_cut))
    timeless = pc.and_(wanted, pc.and_(pc.invert(is_cut), pc.invert(has_time)))
    odd = [
        (pc.invert(has_key), "it has no API key"),
        (pc.and_(wanted, is_cut), "it is cut off"),
        (pc.and_(timeless, pc.invert(times.is_unclear)), NO_TIME),
        (pc.and_(timeless, times.is_unclear), UNCLEAR),
    ]
    rejects = [_rejects(numbers, texts, times.at, which, source, why) for which, why in odd]
    requests = []
    for key, api in READ.items():
        chosen = pc.and_(pc.equal(keys, str(key)), whole).fill_null(False)
        if not pc.any(chosen).as_py():
            continue
        line, text, at = numbers.filter(chosen), texts.filter(chosen), times.filter(chosen)
        said = objects.filter(chosen)
        for form, mine in _forms(api, said):
            json, left = said.filter(mine), pa.array(np.flatnonzero(mine))
            json = drafts.with_words(json) if form is drafts.ACKNOWLEDGE else json
            for is_last in (False, True):
                rows, good = json_rows(json, _schema(form), _is_whole)
                row, left = left.filter(good), left.filter(pc.invert(good))
                requests.append(Completed(form, source, line.take(row), at.take(row), rows))
                if is_last or not len(left):
                    break
                json = before_context(json.filter(pc.invert(good)))
            is_bad = pc.is_in(pa.array(np.arange(len(mine))), left)
            why = f"it is not the JSON of a {form.name}"
            rejects.append(_rejects(line, text, at.at, is_bad, source, why))
    rejected = pa.Table.from_batches(rejects).combine_chunks().to_batches()
    bad = rejected[0] if rejected else rejects[0]
    read = sum(len(one.position) for one in requests)
    return Lines(total, total - read - len(bad), bad, requests)


def unread(lines: pa.Array, positions: pa.Array, source: str, why: str) -> Lines:
    """Return lines that cannot be read, each a reject."""
    which = pa.repeat(pa.scalar(True), len(lines))
    times = pa.nulls(len(lines), INSTANT)
    return Lines(len(lines), 0, _rejects(positions, lines, times, which, source, why), [])


def _forms(api: Api, objects: pa.Array) -> list[tuple[Api, pa.Array]]:
    """Return the forms of a request that there are, and which of the objects have each."""
    if api.name != drafts.ACKNOWLEDGE.name:
        return [(api, pa.repeat(pa.scalar(True), len(objects)))]
    is_draft = pc.match_substring_regex(objects, drafts.MARK)
    forms = [(api, pc.invert(is_draft)), (drafts.ACKNOWLEDGE, is_draft)]
    return [(form, mine) for form, mine in forms if pc.any(mine).as_py()]


def _rejects(
    numbers: pa.Array, texts: pa.Array, times: pa.Array, which: pa.Array, source: str, why: str
) -> pa.RecordBatch:
    which = which.fill_null(False)
    line = numbers.filter(which)
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(source), len(line)),
            line,
            times.filter(which),
            pa.repeat(pa.scalar(why), len(line)),
            pc.utf8_rtrim(texts.filter(which), "\r\n"),
        ],
        schema=LINE_REJECTS,
    )


# ---- JSON ----------------------------------------------------------------------------------------


def _schema(api: Api) -> pa.Schema:
    body = [("request", struct_of(api.request)), ("response", struct_of(api.response))]
    durations = [(name, pa.float64()) for name in _DURATIONS]
    return pa.schema([("requestHeader", _HEADER), *body, ("connection", pa.string()), *durations])


def _is_whole(table: pa.Table) -> bool:
    """Whether every row has what a request has."""
    needed = ("requestHeader", "request", "response", "totalTimeMs")
    has_all = all(table.column(name).null_count == 0 for name in needed)
    return has_all and all(_is_possible(table.column(name)) for name in _DURATIONS)


def _is_possible(milliseconds: pa.ChunkedArray) -> bool:
    """Whether every duration is one: no NaN, none without end, none before its beginning."""
    inside = pc.and_(pc.greater_equal(milliseconds, 0), pc.less(milliseconds, _LONGEST))
    return pc.all(inside).as_py() is not False
