"""The JSON of requests within what layouts, container runtimes and collectors wrap it in.

A message may be a text of JSON or a cell of CSV, once or several times over, and a line of a
collector may have many messages.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

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


class Wrapped(NamedTuple):
    """Texts with a request each."""

    positions: pa.Array
    texts: pa.Array
    before: pa.Array
    objects: pa.Array  # the JSON, which may be cut off
    behind: pa.Array


def unwrap(positions: pa.Array, texts: pa.Array) -> Wrapped:
    """Take lines apart that say `MARK`.

    Parameters
    ----------
    positions : pyarrow.Int64Array
        The byte of the file at which each begins.
    texts : pyarrow.StringArray

    Returns
    -------
    Wrapped
        A row a request. What says the same request twice, as GELF does, is one.
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
    """Make of lines a row a request; return also the line of each."""
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
