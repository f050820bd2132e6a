"""Read lines of ``kafka.request.logger``: whole columns of JSON, by the schemas of the requests."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.schemas.requests import INSTANT, LINE_REJECTS
from sharelag.wire.json_rows import json_rows
from sharelag.wire.requests import drafts
from sharelag.wire.requests.of_brokers import OF_BROKERS
from sharelag.wire.requests.of_clients import OF_CLIENTS
from sharelag.wire.requests.part import Api, Part, struct_of
from sharelag.wire.requests.times import LAYOUT, Times, times_of

#: What each line of a request says.
MARK = "Completed request:"
_KEY = r'"requestApiKey": ?(?P<key>-?\d+)'
#: A message that is a text of JSON: it ends at the first quotation mark that is not escaped.
_ESCAPED = r'^(?P<json>\{(?:[^"\\]|\\.)*)(?P<behind>.*)'
#: How many times a layout and a container runtime may have written it as JSON.
_MOST_LAYERS = 3
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
    """What some lines are: ``total`` is requests, rejects and skipped lines together."""

    total: int
    skipped: int
    rejects: pa.RecordBatch  # LINE_REJECTS
    requests: list[Completed]


def read_lines(lines: pa.Array, positions: pa.Array, zone: str = "UTC", source: str = "") -> Lines:
    """Read lines of a broker's log of requests.

    Parameters
    ----------
    lines : pyarrow.StringArray
    positions : pyarrow.Int64Array
        The byte of the file at which each begins.
    zone : str
        The time zone of the log, such as ``Europe/Berlin``, where a line does not tell it: log4j's
        ``%d`` has none.
    source : str
        What the file is called in the tables.

    Raises
    ------
    InputError
        There is no such time zone.
    """
    is_request = pc.match_substring(lines, MARK)
    numbers, texts = positions.filter(is_request), lines.filter(is_request)
    before, objects, behind = _parts(texts)
    keys = pc.struct_field(pc.extract_regex(objects, _KEY), "key")
    has_key = keys.is_valid()
    wanted = pc.is_in(keys, pa.array([str(key) for key in READ]))
    times = times_of(before, behind, zone)
    is_cut = pc.invert(pc.ends_with(objects, "}"))
    has_time = times.at.is_valid()
    whole = pc.and_(has_time, pc.invert(is_cut))
    odd = [
        (pc.invert(has_key), "it has no API key"),
        (pc.and_(wanted, is_cut), "it is cut off"),
        (pc.and_(wanted, pc.and_(pc.invert(is_cut), pc.invert(has_time))), NO_TIME),
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
            asked, when = line.filter(mine), at.filter(mine)
            given = said.filter(mine)
            given = drafts.with_words(given) if form is drafts.ACKNOWLEDGE else given
            rows, good = json_rows(given, _schema(form), _is_whole)
            requests.append(Completed(form, source, asked.filter(good), when.filter(good), rows))
            bad = f"it is not the JSON of a {form.name}"
            rejects.append(
                _rejects(asked, text.filter(mine), when.at, pc.invert(good), source, bad)
            )
    rejected = pa.Table.from_batches(rejects).combine_chunks().to_batches()
    found = rejected[0] if rejected else rejects[0]
    read = sum(len(one.position) for one in requests)
    return Lines(len(lines), len(lines) - read - len(found), found, requests)


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


def _parts(texts: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return what is before the JSON of requests, it, and what is behind it."""
    parts = pc.split_pattern(pc.utf8_rtrim(texts, "\r\n"), MARK, max_splits=1)
    before, said = pc.list_element(parts, 0), pc.list_element(parts, 1)
    behind = pa.repeat(pa.scalar(""), len(texts))
    for _ in range(_MOST_LAYERS):
        is_escaped = pc.starts_with(said, "{\\")
        if not pc.any(is_escaped).as_py():
            break
        found = pc.extract_regex(said, _ESCAPED)
        json, rest = pc.struct_field(found, "json"), pc.struct_field(found, "behind")
        # Of escaped quotation marks the last backslash is theirs, so they come first.
        plain = pc.replace_substring(pc.replace_substring(json, '\\"', '"'), "\\\\", "\\")
        said = pc.if_else(is_escaped, plain, said)
        behind = pc.if_else(is_escaped, pc.binary_join_element_wise(rest, behind, " "), behind)
    is_closed = pc.match_substring(said, "}")
    ends = pc.split_pattern(pc.if_else(is_closed, said, "}"), "}", max_splits=1, reverse=True)
    objects = pc.binary_join_element_wise(pc.list_element(ends, 0), "}", "")
    objects = pc.if_else(is_closed, objects, said)
    return before, objects, pc.binary_join_element_wise(pc.list_element(ends, 1), behind, " ")


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
