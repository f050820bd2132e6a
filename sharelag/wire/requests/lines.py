"""Read lines of ``kafka.request.logger``: whole columns of JSON, whatever wraps a request.

A message may be a text of JSON or a cell of CSV, once or several times over, and a line of a
collector may have many messages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.schemas import INSTANT, LINE_REJECTS
from sharelag.tables.arrow import one_batch
from sharelag.wire.json_rows import json_rows
from sharelag.wire.messages import APIS, Api, api
from sharelag.wire.requests.times import LAYOUT, Times, times_of

#: What each line of a request says.
MARK = "Completed request:"
#: How JSON begins that is in a text of JSON, or in a cell of CSV.
_ESCAPED, _DOUBLED = "{\\", '{""'
#: It ends at the first quotation mark that is not escaped, or not doubled.
_TO_QUOTE = r'^(?P<json>\{(?:[^"\\]|\\.)*)(?P<behind>.*)'
_TO_CELL_END = r'^(?P<json>\{(?:[^"]|"")*)(?P<behind>.*)'
_IS_DOUBLED = r'^\{\\*""'
#: How many times a layout and a container runtime may have written it as JSON.
_MOST_LAYERS = 3
#: Where the object of one message ends and that of the next one begins.
_NEXT = r"(?s)^.*\}\s*,\s*\{"
#: JSON of a request up to a context that a layout writes behind it, which may have braces too.
_BEFORE_CONTEXT = r"""(?s)^(?P<json>\{.*?\})["'\s].*$"""
_KEY = r'"requestApiKey": ?(?P<key>-?\d+)'
_DURATIONS = ("totalTimeMs", "requestQueueTimeMs", "responseQueueTimeMs", "sendTimeMs")
#: Why a line is a reject whose layout is not one of those that are read.
NO_TIME = f"it has no time that is understood: its layout needs {LAYOUT}"
UNCLEAR = "its time has the abbreviation of several zones: name the one of the log with --zone"
#: A duration in milliseconds that no request takes: 31 years.
_LONGEST = 1e12
_HEADER = pa.struct(
    [("requestApiKey", pa.int16()), ("requestApiVersion", pa.int16()), ("clientId", pa.string())]
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
    """Read lines of a broker's log of requests, each with the byte at which it begins in the file.

    ``zone`` is that of times without one; see `sharelag.wire.requests.times.times_of`. ``source``
    is what tables call the file.
    """
    is_request = pc.match_substring(lines, MARK)
    found = unwrap(positions.filter(is_request), lines.filter(is_request))
    numbers, texts, before, objects, behind = found
    total = len(lines) + len(texts) - is_request.true_count
    keys = pc.struct_field(pc.extract_regex(objects, _KEY), "key")
    has_key = keys.is_valid()
    wanted = pc.is_in(keys, pa.array([str(key) for key in APIS]))
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
    for key in APIS:
        chosen = pc.and_(pc.equal(keys, str(key)), whole).fill_null(False)
        if not pc.any(chosen).as_py():
            continue
        line, text, at = numbers.filter(chosen), texts.filter(chosen), times.filter(chosen)
        said = objects.filter(chosen)
        for form, mine in _forms(api(key), said):
            json, left = said.filter(mine), pa.array(np.flatnonzero(mine))
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
    """Return lines that cannot be read, each a reject."""
    which, times = pa.repeat(True, len(lines)), pa.nulls(len(lines), INSTANT)
    return Lines(len(lines), 0, _rejects(positions, lines, times, which, source, why), [])


def _forms(today: Api, objects: pa.Array) -> list[tuple[Api, pa.Array]]:
    """Return the forms of a request that there are, and which of the objects have each."""
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
    return pa.RecordBatch.from_arrays(
        [
            pa.repeat(source, len(line)),
            line,
            times.filter(which),
            pa.repeat(why, len(line)),
            pc.utf8_rtrim(texts.filter(which), "\r\n"),
        ],
        schema=LINE_REJECTS,
    )


# ---- JSON ----------------------------------------------------------------------------------------


def _schema(api: Api) -> pa.Schema:
    body = [("request", api.request), ("response", api.response)]
    durations = [(name, pa.float64()) for name in _DURATIONS]
    return pa.schema([("requestHeader", _HEADER), *body, ("connection", pa.string()), *durations])


def _is_whole(table: pa.Table) -> bool:
    needed = ("requestHeader", "request", "response", "totalTimeMs")
    has_all = all(table.column(name).null_count == 0 for name in needed)
    # NaN is in no range, and what is not known in any.
    spans = (table.column(name) for name in _DURATIONS)
    inside = (pc.and_(pc.greater_equal(one, 0), pc.less(one, _LONGEST)) for one in spans)
    return has_all and all(pc.all(one).as_py() is not False for one in inside)


# ---- what wraps a request ------------------------------------------------------------------------


class Wrapped(NamedTuple):
    """Texts with a request each."""

    positions: pa.Array
    texts: pa.Array
    before: pa.Array
    objects: pa.Array  # the JSON, which may be cut off
    behind: pa.Array


def unwrap(positions: pa.Array, texts: pa.Array) -> Wrapped:
    """Take lines apart that say `MARK`; one row is one request, with the byte at which it begins.

    What says the same request twice, as GELF does, is one.
    """
    whole = Wrapped(positions, texts, *_parts(texts))
    has_more = pc.match_substring(whole.behind, MARK)
    if not pc.any(has_more).as_py():
        return whole
    lines = np.flatnonzero(has_more)
    many, of = _each(positions.take(pa.array(lines)), texts.take(pa.array(lines)))
    counted = np.bincount(of, minlength=len(lines))
    many = Wrapped(*(column.filter(pa.array(counted[of] > 1)) for column in many))
    is_single = np.ones(len(texts), bool)
    is_single[lines[counted > 1]] = False
    single = Wrapped(*(column.filter(pa.array(is_single)) for column in whole))
    return Wrapped(*(pa.concat_arrays(both) for both in zip(single, many, strict=True)))


def before_context(objects: pa.Array) -> pa.Array:
    """Return JSON without what may follow it, such as a context of the thread.

    Of a text with another request in it nothing is returned, since that one would be lost.
    """
    found = pc.struct_field(pc.extract_regex(objects, _BEFORE_CONTEXT), "json").fill_null("")
    return pc.if_else(pc.match_substring(objects, MARK), "", found)


def _each(positions: pa.Array, texts: pa.Array) -> tuple[Wrapped, NDArray[np.int64]]:
    """Turn lines into one row per request; return also the line of each."""
    lists = pc.split_pattern(texts, MARK)
    said, line = pc.list_flatten(lists), pc.list_parent_indices(lists).to_numpy()
    sizes = pc.binary_length(said).to_numpy() + len(MARK)
    begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    first = np.searchsorted(line, np.arange(len(texts)))
    follows = np.flatnonzero(line[1:] == line[:-1]) + 1
    # What is behind a request belongs to the next one from where that begins.
    above = pc.replace_substring_regex(said.take(pa.array(follows - 1)), _NEXT, "{")
    each = pc.binary_join_element_wise(above, said.take(pa.array(follows)), MARK)
    at = positions.to_numpy()[line[follows]] + begins[follows] - begins[first][line[follows]]
    found = Wrapped(pa.array(at), each, *_parts(each))
    keys = pa.table({"line": line[follows], "said": found.objects, "row": np.arange(len(follows))})
    firsts = keys.group_by(["line", "said"]).aggregate([("row", "min")]).column("row_min")
    rows = np.sort(firsts.to_numpy())
    return Wrapped(*(column.take(pa.array(rows)) for column in found)), line[follows][rows]


def _parts(texts: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Return what is before the JSON of requests, it, and what is behind it."""
    parts = pc.split_pattern(pc.utf8_rtrim(texts, "\r\n"), MARK, max_splits=1)
    before, said = pc.list_element(parts, 0), pc.list_element(parts, 1)
    behind = pa.repeat(pa.scalar(""), len(texts))
    for _ in range(_MOST_LAYERS):
        is_escaped = pc.starts_with(said, _ESCAPED)
        is_doubled = pc.match_substring_regex(said, _IS_DOUBLED)
        is_wrapped = pc.or_(is_escaped, is_doubled)
        if not pc.any(is_wrapped).as_py():
            break
        cell, text = (pc.extract_regex(said, one) for one in (_TO_CELL_END, _TO_QUOTE))
        found = pc.if_else(is_doubled, cell, text)
        json, rest = pc.struct_field(found, "json"), pc.struct_field(found, "behind")
        # Of escaped quotation marks the last backslash is theirs, so they come first.
        of_text = pc.replace_substring(pc.replace_substring(json, '\\"', '"'), "\\\\", "\\")
        plain = pc.if_else(is_doubled, pc.replace_substring(json, '""', '"'), of_text)
        said = pc.if_else(is_wrapped, plain, said)
        behind = pc.if_else(is_wrapped, pc.binary_join_element_wise(rest, behind, " "), behind)
    is_closed = pc.match_substring(said, "}")
    ends = pc.split_pattern(pc.if_else(is_closed, said, "}"), "}", max_splits=1, reverse=True)
    objects = pc.binary_join_element_wise(pc.list_element(ends, 0), "}", "")
    objects = pc.if_else(is_closed, objects, said)
    return before, objects, pc.binary_join_element_wise(pc.list_element(ends, 1), behind, " ")


# ---- ShareAcknowledge as a draft had it ----------------------------------------------------------
# A session stood in place of a group and a member. No broker of Apache Kafka writes it; a log of a
# test rig or a fork may have it. The draft leaves its number open: it is taken to be today's.


#: A field of the draft alone.
_SESSION = r'"sessionId": ?-?\d'
#: What the draft's numbers of acknowledgements mean.
_WORDS = ("accept", "release", "reject")
#: Offsets of a batch without records, for which the draft has no number.
GAP = "gap"
#: A type that is a number, and as a text, which words are in the older form.
_NUMBER, _TEXT = r'"acknowledgeType": ?(-?\d+)', r'"acknowledgeType":"\1"'
_OFFSETS = {"startOffset": pa.int64(), "lastOffset": pa.int64(), "gapOffsets": pa.list_(pa.int64())}
_BATCH = pa.struct(_OFFSETS | {"acknowledgeType": pa.string()})
_PARTITION = {"partitionIndex": pa.int32(), "acknowledgementBatches": pa.list_(_BATCH)}
_TOPIC = pa.struct({"topicId": pa.string(), "partitions": pa.list_(pa.struct(_PARTITION))})
#: Group and member stay in it, as null.
_DRAFT = pa.struct(
    {"groupId": pa.string(), "memberId": pa.string(), "sessionId": pa.int32()}
    | {"sessionEpoch": pa.int32(), "topics": pa.list_(_TOPIC)}
)


def numbers_and_words(types: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the number and the word of each type.

    A type that is left out is 0, accept. The word of an unknown one says so; the number of an
    unknown word is null.
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
    """Cut batches at their offsets without records.

    Return of each run, in order: its batch, first and last offset, and whether it is such an
    offset. Of a batch that lacks its first or last offset both are null.
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
    """Return integers, -1 where a line lacks one."""
    return np.asarray(pc.fill_null(column, -1), np.int64)
