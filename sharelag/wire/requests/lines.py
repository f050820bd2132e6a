"""Read lines of ``kafka.request.logger``: whole columns of JSON, by the schemas of the requests."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.schemas.requests import INSTANT, LINE_REJECTS
from sharelag.wire.json_rows import json_rows
from sharelag.wire.requests import drafts
from sharelag.wire.requests.of_brokers import OF_BROKERS
from sharelag.wire.requests.of_clients import OF_CLIENTS
from sharelag.wire.requests.part import Api, Part, struct_of

_MARK = "Completed request:"
_KEY = r'"requestApiKey": ?(?P<key>-?\d+)'
_TIME = r"^[^{]*?(?P<at>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[,.]\d{3})(?P<zone>Z|[+-]\d\d:?\d\d)?"
_JSON = r"Completed request:(?P<json>\{.*\})"
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
    completed: pa.Array  # INSTANT
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
    is_request = pc.match_substring(lines, _MARK)
    numbers, texts = positions.filter(is_request), lines.filter(is_request)
    keys = pc.struct_field(pc.extract_regex(texts, _KEY), "key")
    objects = pc.struct_field(pc.extract_regex(texts, _JSON), "json")
    has_key = keys.is_valid()
    wanted = pc.is_in(keys, pa.array([str(key) for key in READ]))
    times = _times(texts, zone)
    whole = pc.and_(objects.is_valid(), times.is_valid())
    rejects = [
        _rejects(numbers, texts, times, pc.invert(has_key), source, "it has no API key"),
        _rejects(
            *(numbers, texts, times, pc.and_(wanted, pc.invert(whole)), source),
            "it is cut off, or has no time",
        ),
    ]
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
            rejects.append(_rejects(asked, text.filter(mine), when, pc.invert(good), source, bad))
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


def _times(texts: pa.Array, zone: str) -> pa.Array:
    found = pc.extract_regex(texts, _TIME)
    at = pc.replace_substring(pc.struct_field(found, "at"), ",", ".")
    at = pc.replace_substring(at, " ", "T")
    own = pc.struct_field(found, "zone")
    has_own = pc.not_equal(pc.coalesce(own, ""), "")
    try:
        local = pc.assume_timezone(
            _instants(at), zone, ambiguous="earliest", nonexistent="earliest"
        ).cast(INSTANT)
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise InputError(
            f"unknown time zone {zone!r}: give a name such as Europe/Berlin, or UTC"
        ) from error
    if not pc.any(has_own).as_py():
        return local
    with_zone = _instants(pc.if_else(has_own, at, pa.scalar(None, pa.string())))
    shift = _shift(pc.if_else(has_own, own, "Z"))
    return pc.if_else(has_own, pc.subtract(with_zone, shift).cast(INSTANT), local)


def _instants(at: pa.Array) -> pa.Array:
    """Times without a zone; null for what no calendar has."""
    try:
        return at.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        seconds = pc.strptime(
            pc.utf8_slice_codeunits(at, 0, 19), "%Y-%m-%dT%H:%M:%S", "us", error_is_null=True
        )
        millis = pc.utf8_slice_codeunits(at, 20, 23).cast(pa.int64())
        return pc.add(seconds, pc.multiply(millis, 1000).cast(pa.duration("us")))


def _shift(zones: pa.Array) -> pa.Array:
    """How far zones such as ``+0200`` are ahead of UTC."""
    found = pc.extract_regex(
        pc.if_else(pc.equal(zones, "Z"), "+00:00", zones), r"(?P<s>[+-])(?P<h>\d\d):?(?P<m>\d\d)"
    )
    hours = pc.struct_field(found, "h").cast(pa.int64())
    minutes = pc.add(pc.multiply(hours, 60), pc.struct_field(found, "m").cast(pa.int64()))
    signed = pc.if_else(pc.equal(pc.struct_field(found, "s"), "-"), pc.negate(minutes), minutes)
    return pc.multiply(signed, 60_000_000).cast(pa.duration("us"))


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
