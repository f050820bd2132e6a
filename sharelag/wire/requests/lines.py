"""Read lines of ``kafka.request.logger``: whole columns of JSON, regardless of their wrapping.

A message may be a JSON text or a CSV cell, possibly nested, and a collector's line may have many
messages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.errors import InputError
from sharelag.schemas import INSTANT, LINE_REJECTS
from sharelag.tables.arrow import batch_of, one_batch
from sharelag.wire.json_rows import json_rows
from sharelag.wire.messages import APIS, Api, api

#: Text in each line of a request.
MARK = "Completed request:"
#: The start of JSON in a JSON text, or in a CSV cell.
_ESCAPED, _DOUBLED = "{\\", '{""'
#: It ends at the first quotation mark that is not escaped, or not doubled.
_TO_QUOTE = r'^(?P<json>\{(?:[^"\\]|\\.)*)(?P<behind>.*)'
_TO_CELL_END = r'^(?P<json>\{(?:[^"]|"")*)(?P<behind>.*)'
_IS_DOUBLED = r'^\{\\*""'
#: Maximum depth of JSON in JSON, by layouts and container runtimes.
_MOST_LAYERS = 3
#: The boundary between the objects of two messages.
_NEXT = r"(?s)^.*\}\s*,\s*\{"
#: JSON of a request up to a context after it by the layout, which may contain braces, too.
_BEFORE_CONTEXT = r"""(?s)^(?P<json>\{.*?\})["'\s].*$"""
_KEY = r'"requestApiKey": ?(?P<key>-?\d+)'
_DURATIONS = ("totalTimeMs", "requestQueueTimeMs", "responseQueueTimeMs", "sendTimeMs")
#: The required format of a line's time.
LAYOUT = "a date and a time such as %d{yyyy-MM-dd HH:mm:ss,SSS}"
#: Why a line is a reject whose layout is not one of those that are read.
NO_TIME = f"it has no time in a known format: its layout needs {LAYOUT}"
UNCLEAR = "its time zone is ambiguous or skips that time: name the one of the log with --zone"
#: An impossible duration of a request in milliseconds: 31 years.
_LONGEST = 1e12
_HEADER = pa.struct(
    [("requestApiKey", pa.int16()), ("requestApiVersion", pa.int16()), ("clientId", pa.string())]
)


class Completed(NamedTuple):
    """Requests of one kind, from their JSON."""

    api: Api
    source: str
    position: pa.Array
    completed: Times
    rows: pa.Table  # requestHeader, request, response, connection and durations


class Lines(NamedTuple):
    """The contents of some lines: ``total`` counts requests, rejects and skipped lines.

    A line with several requests counts once for each.
    """

    total: int
    skipped: int
    rejects: pa.RecordBatch  # LINE_REJECTS
    requests: list[Completed]

    @property
    def zone_sources(self) -> frozenset[int]:
        """Origins of the time zones of requests' times: `sharelag.wire.requests.lines`."""
        every = (pc.unique(one.completed.zone_source).to_pylist() for one in self.requests)
        return frozenset().union(*every)


def read_lines(
    lines: pa.Array, positions: pa.Array, zone: str | None = None, source: str = ""
) -> Lines:
    """Read lines of a broker's request log, each with the byte at which it begins in the file.

    ``zone`` is the zone of times without one; see `sharelag.wire.requests.lines.times_of`.
    ``source`` is the name of the file in tables.
    """
    is_request = pc.match_substring(lines, MARK)
    found = unwrap(positions.filter(is_request), lines.filter(is_request))
    numbers, texts, before, objects, behind = found
    total = len(lines) + len(texts) - is_request.true_count
    keys = pc.struct_field(pc.extract_regex(objects, _KEY), "key")
    has_key = keys.is_valid()
    is_known = pc.is_in(keys, pa.array([str(key) for key in APIS]))
    times = times_of(before, behind, zone)
    is_cut = pc.invert(pc.ends_with(objects, "}"))
    has_time = times.at.is_valid()
    whole = pc.and_(has_time, pc.invert(is_cut))
    timeless = pc.and_(is_known, pc.and_(pc.invert(is_cut), pc.invert(has_time)))
    odd = [
        (pc.invert(has_key), "it has no API key"),
        (pc.and_(is_known, is_cut), "it is cut off"),
        (pc.and_(timeless, pc.invert(times.is_unclear)), NO_TIME),
        (pc.and_(timeless, times.is_unclear), UNCLEAR),
    ]
    rejects = [_rejects(numbers, texts, times.at, which, source, why) for which, why in odd]
    requests = []
    for key in APIS:
        chosen = pc.and_(pc.equal(keys, str(key)), whole).fill_null(False)
        if not pc.any(chosen).as_py():
            continue
        line, text, at = numbers.filter(chosen), texts.filter(chosen), times.filter(chosen)
        bodies = objects.filter(chosen)
        for form, mine in _find_forms(api(key), bodies):
            json, left = bodies.filter(mine), pa.array(np.flatnonzero(mine))
            if form.is_draft:
                json = pc.replace_substring_regex(json, _NUMBER, _TEXT)
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
    bad = one_batch(pa.Table.from_batches(rejects))
    read = sum(len(one.position) for one in requests)
    return Lines(total, total - read - len(bad), bad, requests)


def unread(lines: pa.Array, positions: pa.Array, source: str, why: str) -> Lines:
    """Return unreadable lines, each as a reject."""
    which, times = pa.repeat(True, len(lines)), pa.nulls(len(lines), INSTANT)
    return Lines(len(lines), 0, _rejects(positions, lines, times, which, source, why), [])


def _find_forms(today: Api, objects: pa.Array) -> list[tuple[Api, pa.Array]]:
    """Return the known forms of a request, with the objects in each form."""
    if today.name != "ShareAcknowledge":
        return [(today, pa.repeat(True, len(objects)))]
    is_draft = pc.match_substring_regex(objects, _SESSION)
    forms = [
        (today, pc.invert(is_draft)),
        (today._replace(request=_DRAFT, is_draft=True), is_draft),
    ]
    return [(form, mine) for form, mine in forms if pc.any(mine).as_py()]


def _rejects(
    numbers: pa.Array, texts: pa.Array, times: pa.Array, which: pa.Array, source: str, why: str
) -> pa.RecordBatch:
    which = which.fill_null(False)
    line = numbers.filter(which)
    text = pc.utf8_rtrim(texts.filter(which), "\r\n")
    columns = {"position": line, "timestamp": times.filter(which), "text": text}
    return batch_of(columns | {"source": source, "reason": why}, LINE_REJECTS)


# ---- JSON ----------------------------------------------------------------------------------------


def _schema(api: Api) -> pa.Schema:
    body = [("request", api.request), ("response", api.response)]
    durations = [(name, pa.float64()) for name in _DURATIONS]
    return pa.schema([("requestHeader", _HEADER), *body, ("connection", pa.string()), *durations])


def _is_whole(table: pa.Table) -> bool:
    needed = ("requestHeader", "request", "response", "totalTimeMs")
    has_all = all(table.column(name).null_count == 0 for name in needed)
    # NaN is in no range, and unknown values are in none.
    spans = (table.column(name) for name in _DURATIONS)
    inside = (pc.and_(pc.greater_equal(one, 0), pc.less(one, _LONGEST)) for one in spans)
    return has_all and all(pc.all(one).as_py() is not False for one in inside)


# ---- wrappers of requests ------------------------------------------------------------------------


class Wrapped(NamedTuple):
    """Texts with one request each."""

    positions: pa.Array
    texts: pa.Array
    before: pa.Array
    objects: pa.Array  # the JSON, possibly cut off
    behind: pa.Array


def unwrap(positions: pa.Array, texts: pa.Array) -> Wrapped:
    """Split lines that contain `MARK`; one row is one request, with its position in bytes.

    A request that is repeated in one line, as in GELF, is one row.
    """
    whole = Wrapped(positions, texts, *_parts(texts))
    has_more = pc.match_substring(whole.behind, MARK)
    if not pc.any(has_more).as_py():
        return whole
    lines = np.flatnonzero(has_more)
    many, of = _split_requests(positions.take(pa.array(lines)), texts.take(pa.array(lines)))
    counted = np.bincount(of, minlength=len(lines))
    many = Wrapped(*(column.filter(pa.array(counted[of] > 1)) for column in many))
    is_single = np.ones(len(texts), bool)
    is_single[lines[counted > 1]] = False
    single = Wrapped(*(column.filter(pa.array(is_single)) for column in whole))
    return Wrapped(*(pa.concat_arrays(both) for both in zip(single, many, strict=True)))


def before_context(objects: pa.Array) -> pa.Array:
    """Return JSON without text after it, such as a thread's context.

    A text with another request in it becomes empty, because that request would be lost.
    """
    found = pc.struct_field(pc.extract_regex(objects, _BEFORE_CONTEXT), "json").fill_null("")
    return pc.if_else(pc.match_substring(objects, MARK), "", found)


def _split_requests(positions: pa.Array, texts: pa.Array) -> tuple[Wrapped, NDArray[np.int64]]:
    lists = pc.split_pattern(texts, MARK)
    pieces, line = pc.list_flatten(lists), pc.list_parent_indices(lists).to_numpy()
    sizes = pc.binary_length(pieces).to_numpy() + len(MARK)
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    first = np.searchsorted(line, np.arange(len(texts)))
    follows = np.flatnonzero(line[1:] == line[:-1]) + 1
    # Text after a request belongs to the next one from its start on.
    above = pc.replace_substring_regex(pieces.take(pa.array(follows - 1)), _NEXT, "{")
    each = pc.binary_join_element_wise(above, pieces.take(pa.array(follows)), MARK)
    at = positions.to_numpy()[line[follows]] + begins[follows] - begins[first][line[follows]]
    found = Wrapped(pa.array(at), each, *_parts(each))
    keys = pa.table({"line": line[follows], "said": found.objects, "row": np.arange(len(follows))})
    firsts = keys.group_by(["line", "said"]).aggregate([("row", "min")]).column("row_min")
    rows = np.sort(firsts.to_numpy())
    return Wrapped(*(column.take(pa.array(rows)) for column in found)), line[follows][rows]


def _parts(texts: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    parts = pc.split_pattern(pc.utf8_rtrim(texts, "\r\n"), MARK, max_splits=1)
    before, body = pc.list_element(parts, 0), pc.list_element(parts, 1)
    behind = pa.repeat(pa.scalar(""), len(texts))
    for _ in range(_MOST_LAYERS):
        is_escaped = pc.starts_with(body, _ESCAPED)
        is_doubled = pc.match_substring_regex(body, _IS_DOUBLED)
        is_wrapped = pc.or_(is_escaped, is_doubled)
        if not pc.any(is_wrapped).as_py():
            break
        cell, text = (pc.extract_regex(body, one) for one in (_TO_CELL_END, _TO_QUOTE))
        found = pc.if_else(is_doubled, cell, text)
        json, rest = pc.struct_field(found, "json"), pc.struct_field(found, "behind")
        # The last backslash before a quotation mark escapes it, so these are replaced first.
        of_text = pc.replace_substring(pc.replace_substring(json, '\\"', '"'), "\\\\", "\\")
        plain = pc.if_else(is_doubled, pc.replace_substring(json, '""', '"'), of_text)
        body = pc.if_else(is_wrapped, plain, body)
        behind = pc.if_else(is_wrapped, pc.binary_join_element_wise(rest, behind, " "), behind)
    is_closed = pc.match_substring(body, "}")
    ends = pc.split_pattern(pc.if_else(is_closed, body, "}"), "}", max_splits=1, reverse=True)
    objects = pc.binary_join_element_wise(pc.list_element(ends, 0), "}", "")
    objects = pc.if_else(is_closed, objects, body)
    return before, objects, pc.binary_join_element_wise(pc.list_element(ends, 1), behind, " ")


# ---- ShareAcknowledge of a draft -----------------------------------------------------------------
# It has a session instead of a group and a member. No broker of Apache Kafka writes it; logs of
# test rigs or forks may contain it. The draft leaves its API key open: it is assumed to be today's.


#: A field that only the draft has.
_SESSION = r'"sessionId": ?-?\d'
#: The meaning of the draft's numbers of acknowledgements.
_WORDS = ("accept", "release", "reject")
#: Offsets of a batch without records, for which the draft has no number.
GAP = "gap"
#: A numeric type, and as a text, which words have in the older form.
_NUMBER, _TEXT = r'"acknowledgeType": ?(-?\d+)', r'"acknowledgeType":"\1"'
_OFFSETS = {"startOffset": pa.int64(), "lastOffset": pa.int64(), "gapOffsets": pa.list_(pa.int64())}
_BATCH = pa.struct(_OFFSETS | {"acknowledgeType": pa.string()})
_PARTITION = {"partitionIndex": pa.int32(), "acknowledgementBatches": pa.list_(_BATCH)}
_TOPIC = pa.struct({"topicId": pa.string(), "partitions": pa.list_(pa.struct(_PARTITION))})
#: Group and member are kept as nulls.
_DRAFT = pa.struct(
    {"groupId": pa.string(), "memberId": pa.string(), "sessionId": pa.int32()}
    | {"sessionEpoch": pa.int32(), "topics": pa.list_(_TOPIC)}
)


def numbers_and_words(types: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the number and the word of each type.

    A missing type is 0, accept. The word of an unknown type says so; the number of an unknown word
    is null.
    """
    given = pc.fill_null(types, "0")
    by_word = pc.index_in(given, pa.array(_WORDS))
    is_number = pc.match_substring_regex(given, r"^-?\d{1,3}$")
    number = pc.if_else(is_number, given, None).cast(pa.int16())
    code = pc.coalesce(number, by_word.cast(pa.int16()))
    known = pc.and_(pc.greater_equal(code, 0), pc.less(code, len(_WORDS))).fill_null(False)
    word = pa.array(_WORDS).take(pc.if_else(known, code, None))
    unknown = pc.binary_join_element_wise("unknown", given, " ")
    return code, pc.coalesce(word, unknown)


def split_at_gaps(
    first: pa.Array, last: pa.Array, gaps: pa.Array
) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """Split batches at offsets without records.

    Return for each run, in order: its batch, first and last offset, and whether it has no records.
    Both offsets are null if a batch lacks its first or last offset.
    """
    begin, end = (_integers(side) for side in (first, last))
    of_gap = _integers(pc.list_parent_indices(gaps))
    gap = _integers(pc.list_flatten(gaps))
    inside = (gap >= begin[of_gap]) & (gap <= end[of_gap])
    of_gap, gap = np.unique(np.stack([of_gap[inside], gap[inside]]), axis=1)
    batch = np.concatenate([np.arange(len(begin)), of_gap])
    starts, stops = np.concatenate([begin, gap + 1]), np.concatenate([end, gap - 1])
    starts, stops = starts[np.lexsort((starts, batch))], stops[np.lexsort((stops, batch))]
    batch = np.sort(batch, kind="stable")
    kept = starts <= stops
    runs = [np.concatenate(pair) for pair in ((batch[kept], of_gap), (starts[kept], gap))]
    runs.append(np.concatenate([stops[kept], gap]))
    is_gap = np.arange(len(runs[0])) >= int(kept.sum())
    order = np.lexsort((runs[1], runs[0]))
    of, begins, ends = (pa.array(column[order].astype(np.int64)) for column in runs)
    unknown = pc.or_(first.is_null(), last.is_null()).take(of)
    begins, ends = (pc.if_else(unknown, None, side) for side in (begins, ends))
    return of, begins, ends, pa.array(is_gap[order])


def _integers(column: pa.Array) -> NDArray[np.int64]:
    """Return integers, -1 for missing ones."""
    return np.asarray(pc.fill_null(column, -1), np.int64)


# ---- times of lines ------------------------------------------------------------------------------
# A line may have two times: the log's own, and that of a container runtime or a collector around
# it. The one next to the message is the log's. If the other has a zone, it shows how far the log is
# from UTC, unless the line was collected hours later.


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
#: Offsets from UTC, in minutes, of zones with an unambiguous abbreviation.
_ZONES = {"Z": 0, "UTC": 0, "GMT": 0, "WET": 0, "WEST": 60, "CET": 60, "CEST": 120, "EET": 120}
_ZONES |= {"EEST": 180, "MSK": 180, "SAST": 120, "PKT": 300, "ICT": 420, "WIB": 420, "HKT": 480}
_ZONES |= {"SGT": 480, "AWST": 480, "JST": 540, "KST": 540, "ACST": 570, "AEST": 600, "ACDT": 630}
_ZONES |= {"AEDT": 660, "NZST": 720, "NZDT": 780, "BRT": -180, "EST": -300, "EDT": -240}
_ZONES |= {"CDT": -300, "MST": -420, "MDT": -360, "PST": -480, "PDT": -420, "AKST": -540}
_ZONES |= {"AKDT": -480, "HST": -600}
#: Abbreviations of several zones, such as those of Chicago and Shanghai.
_AMBIGUOUS = ("ADT", "AMT", "AST", "BST", "CST", "GST", "IST", "SST")
_CLOCK = (
    r"(?P<hms>\d\d?:\d\d:\d\d|\d{6})(?:[.,:]?(?P<part>\d{1,9}))?"
    r"(?:[\s\x{a0}\x{202f}]?(?P<half>[AaPp])\.?[Mm]\b\.?)?"
)
_NAMES = "|".join(sorted((*_ZONES, *_AMBIGUOUS), reverse=True))
_SIGN = r"[+\x{2212}-]"
_ZONE = (
    rf"\s?(?P<zone>(?:UTC|GMT){_SIGN}\d\d?(?::?\d\d)?|{_SIGN}\d\d(?::?\d\d)?|{_NAMES})(?:[^\d\w]|$)"
)
_MONTH = rf"(?P<mo>{'|'.join(_MONTHS)})[a-z]*\.?"
_DATES = (
    r"(?P<y>(?:19|20)\d\d)[-/.]?(?P<mo>\d\d)[-/.]?(?P<d>\d\d)[T _,\t]{0,2}",
    r"(?P<d>\d\d)\.(?P<mo>\d\d)\.(?P<y>(?:19|20)\d\d)[T ,\t]{1,2}",
    rf"(?P<d>\d\d?)\.?[ /-]{_MONTH}[ /-](?P<y>(?:19|20)\d\d)[ :,]{{1,2}}",
    rf"{_MONTH} (?P<d>\d\d?), (?P<y>(?:19|20)\d\d)[ @,]{{1,3}}",
)
#: Seconds since 1970 with any fraction, which log4j2's JSON may have in another field.
_EPOCH = r"(?:^|[^\d.])(?P<s>1\d{9})[.,]?(?P<part>\d{3}|\d{6}|\d{9})?(?:\D|$)"
#: The time at which a collector received a line, unrelated to the time of logging.
_RECEIVED = r'"(?:receive|ingest)\w*\\*":\s*(?:\\*"[^"]*"|[\d.]+)'
_NANOS = r'nanoOfSecond\\*"\s*:\s*(?P<n>\d{1,9})'
#: Zone offsets are multiples of this, up to a limit.
_QUARTER, _MOST_AHEAD = 15 * 60_000_000, 14 * 3600_000_000
#: Maximum delay of a runtime or a collector if its time is to reveal the log's zone, or to replace
#: a time without a fraction of a second.
_LATE_FOR_ZONE, _LATE_FOR_FRACTION = 60_000_000, 2_000_000
#: The change of clocks when summer time begins or ends.
_SUMMER = 3600_000_000
#: Origins of a time's zone: the line itself, a collector's time beside it, or the default.
OWN, BESIDE, TAKEN = 0, 1, 2


class Times(NamedTuple):
    """Times at which lines were logged; null if a line has none."""

    at: pa.Array  # INSTANT
    is_exact: pa.Array  # false: with a precision of seconds
    is_unclear: pa.Array  # true: null because its zone is ambiguous, or has no such time
    zone_source: pa.Array  # OWN, BESIDE or TAKEN

    def filter(self, which: pa.Array) -> Times:
        """Return the times of some lines."""
        return Times(*(column.filter(which) for column in self))

    def take(self, rows: pa.Array) -> Times:
        """Return the times of some lines by their numbers."""
        return Times(*(column.take(rows) for column in self))


class _Local(NamedTuple):
    """Local times, in microseconds since 1970 as if in UTC."""

    at: pa.Array  # null: none
    is_exact: pa.Array
    ahead: pa.Array  # of UTC, in microseconds; null: not written
    is_unclear: pa.Array  # the zone's abbreviation is ambiguous


def times_of(before: pa.Array, behind: pa.Array, zone: str | None) -> Times:
    """Return when lines were logged, by the texts before and after the message of each.

    ``zone`` is that of times without one, or with an ambiguous abbreviation such as ``CST``. By
    default it is derived from a collector's times beside them if they agree; otherwise times
    without a zone are in UTC, and those with an ambiguous abbreviation are unclear.
    """
    before, behind = (
        pc.replace_substring_regex(one, _RECEIVED, "")
        if pc.any(pc.match_substring_regex(one, _RECEIVED)).as_py()
        else one
        for one in (before, behind)
    )
    own = _take_first([_find_times(before, "^.*"), _find_times(behind, "^.*?")])
    around = pc.binary_join_element_wise(before, behind, " ")
    zoned, since = _find_times(around, "^.*?", needs_zone=True), _since_1970(around)
    of_zone = pc.coalesce(pc.subtract(zoned.at, zoned.ahead), since.at)
    ahead = own.ahead
    if zone is None:
        bare = pc.if_else(own.ahead.is_null(), own.at, None)
        ahead = pc.coalesce(ahead, _infer_offsets(bare, of_zone))
    is_unclear = pc.and_(pc.and_(own.is_unclear, ahead.is_null()), zone is None).fill_null(False)
    at = pc.coalesce(pc.subtract(own.at, ahead), _in_zone(own.at, zone or "UTC"))
    is_unclear = pc.or_(is_unclear, pc.and_(own.at.is_valid(), at.is_null()))
    untold = pc.if_else(ahead.is_valid(), BESIDE, TAKEN)
    zone_source = pc.if_else(pc.or_(own.ahead.is_valid(), own.at.is_null()), OWN, untold)
    # A runtime with fractions of seconds is more precise than a log without.
    later = pc.subtract(of_zone, at)
    is_soon = pc.and_(pc.greater_equal(later, 0), pc.less(later, _LATE_FOR_FRACTION))
    has_more = pc.and_(pc.invert(own.is_exact), pc.coalesce(zoned.is_exact, since.is_exact))
    finer = pc.and_(is_soon, has_more).fill_null(False)
    at = pc.coalesce(pc.if_else(finer, of_zone, at), since.at)
    at = pc.if_else(is_unclear, None, at)
    is_exact = pc.coalesce(pc.or_(own.is_exact, finer), since.is_exact).fill_null(False)
    return Times(at.cast(INSTANT), is_exact, is_unclear, zone_source)


def _infer_offsets(local: pa.Array, instants: pa.Array) -> pa.Array:
    """Return how far local times are ahead of UTC, by the instants at which they were collected."""
    # Times collected at once differ by whole quarters of an hour. More than half have to do so and
    # to agree, unless summer time begins or ends; late ones follow their neighbours.
    apart = pc.subtract(local, instants)
    quarters = pc.round(pc.divide(pc.cast(apart, pa.float64()), float(_QUARTER)))
    ahead = pc.multiply(quarters.cast(pa.int64()), _QUARTER)
    is_soon = pc.less_equal(pc.abs(pc.subtract(apart, ahead)), _LATE_FOR_ZONE)
    is_soon = pc.and_(is_soon, pc.less_equal(pc.abs(ahead), _MOST_AHEAD)).fill_null(False)
    times = pc.filter(ahead, is_soon).to_numpy()
    steps = np.diff(times)[np.diff(times) != 0]
    agree = len(steps) == 0 or (len(steps) == 1 and abs(steps[0]) == _SUMMER)
    if not agree or 2 * len(times) <= len(apart) - apart.null_count:
        return pa.nulls(len(apart), pa.int64())
    ahead = pc.fill_null_backward(pc.fill_null_forward(pc.if_else(is_soon, ahead, None)))
    return pc.if_else(apart.is_valid(), ahead, None)


def _find_times(texts: pa.Array, begin: str, needs_zone: bool = False) -> _Local:
    """Return the first or last time of texts; ``begin`` is the pattern before it."""
    zone = _ZONE if needs_zone else f"(?:{_ZONE})?"
    found: list[_Local] = []
    for date in _DATES:
        found.append(_read(texts, rf"{begin}(?:^|\D){date}{_CLOCK}{zone}"))
        if not found[-1].at.null_count:  # most logs have one layout
            break
    return _take_first(found)


def _read(texts: pa.Array, pattern: str) -> _Local:
    # Searching for a layout that no line has costs less than splitting lines by it.
    if not pc.any(pc.match_substring_regex(texts, pattern)).as_py():
        kinds = (pa.int64(), pa.bool_(), pa.int64(), pa.bool_())
        return _Local(*(pa.nulls(len(texts), kind) for kind in kinds))
    found = pc.extract_regex(texts, pattern)
    names = ("y", "mo", "d", "hms", "part", "half", "zone")
    named = {name: pc.struct_field(found, name) for name in names}
    month = pc.index_in(named["mo"], pa.array(_MONTHS))
    month = pc.coalesce(pc.add(month, 1).cast(pa.string()), named["mo"])
    day = pc.binary_join_element_wise(
        *(named["y"], pc.utf8_lpad(month, 2, "0"), pc.utf8_lpad(named["d"], 2, "0")), ""
    )
    clock = pc.utf8_lpad(pc.replace_substring(named["hms"], ":", ""), 6, "0")
    whole = pc.binary_join_element_wise(day, clock, "")
    seconds = pc.strptime(whole, "%Y%m%d%H%M%S", "us", error_is_null=True).cast(pa.int64())
    at = pc.add(seconds, pc.add(_micros(named["part"]), _half_day(clock, named["half"])))
    exact = pc.if_else(at.is_valid(), pc.not_equal(named["part"], ""), None)
    is_unclear = pc.is_in(named["zone"], pa.array(_AMBIGUOUS))
    return _Local(at, exact, _parse_offsets(named["zone"]), is_unclear)


def _half_day(clock: pa.Array, half: pa.Array) -> pa.Array:
    hours = pc.if_else(pc.equal(pc.utf8_upper(half), "P"), 12, 0)
    # Twelve is the first hour of its half.
    is_twelve = pc.and_(pc.starts_with(clock, "12"), pc.not_equal(half, ""))
    return pc.multiply(pc.subtract(hours, pc.if_else(is_twelve, 12, 0)), 3600_000_000)


def _micros(digits: pa.Array) -> pa.Array:
    return pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 6, "0"), 0, 6).cast(pa.int64())


def _parse_offsets(zones: pa.Array) -> pa.Array:
    """Return how far zones such as ``+02`` and ``CET`` are ahead of UTC, in microseconds."""
    found = pc.extract_regex(zones, rf"(?P<s>{_SIGN})(?P<h>\d\d?):?(?P<m>\d\d)?")
    hours, rest = (pc.struct_field(found, name) for name in "hm")
    rest = pc.utf8_lpad(rest, 1, "0").cast(pa.int64())
    minutes = pc.add(pc.multiply(hours.cast(pa.int64()), 60), rest)
    minutes = pc.if_else(pc.equal(pc.struct_field(found, "s"), "+"), minutes, pc.negate(minutes))
    named = pc.index_in(zones, pa.array(_ZONES.keys()))
    of_name = pa.array(_ZONES.values(), pa.int64()).take(named)
    return pc.multiply(pc.coalesce(minutes, of_name), 60_000_000)


def _take_first(found: list[_Local]) -> _Local:
    """Return the first available time of each text."""
    there = [pc.if_else(one.at.is_valid(), n, None) for n, one in enumerate(found)]
    which = pc.coalesce(*there, pa.scalar(0)).cast(pa.int64())
    return _Local(*(pc.choose(which, *columns) for columns in zip(*found, strict=True)))


def _in_zone(at: pa.Array, zone: str) -> pa.Array:
    """Return the instants of local times; null: the zone's clocks skip that time."""
    try:
        local = at.cast(pa.timestamp("us"))
        instants = pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent="earliest")
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise InputError(
            f"unknown time zone {zone!r}: give a name such as Europe/Berlin, or UTC"
        ) from error
    exists = pc.equal(pc.local_timestamp(instants), local)
    return pc.if_else(exists, instants.cast(pa.int64()), None)


def _since_1970(texts: pa.Array) -> _Local:
    found = pc.extract_regex(texts, _EPOCH)
    nanos = pc.struct_field(pc.extract_regex(texts, _NANOS), "n")
    part = pc.struct_field(found, "part")
    digits = pc.coalesce(pc.utf8_lpad(nanos, 9, "0"), part)
    seconds = pc.struct_field(found, "s").cast(pa.int64())
    at = pc.add(pc.multiply(seconds, 1_000_000), _micros(digits))
    exact = pc.if_else(at.is_valid(), pc.not_equal(digits, ""), None)
    zeros = pa.array(np.zeros(len(texts), np.int64))
    return _Local(at, exact, zeros, pa.nulls(len(texts), pa.bool_()))
