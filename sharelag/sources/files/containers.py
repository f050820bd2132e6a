"""Lines that container runtimes and others wrote: they put text before each, and cut long ones.

CRI marks a part with ``P`` and the last one with ``F``; in Docker's ``json-file`` a line without a
line feed goes on in the next object. Both cut at 16 KiB, and streams may alternate. Docker Compose,
stern and syslog write names of containers and hosts before what a program printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.wire.json_rows import json_rows

_CRI = r"(?s)^(?P<head>\S+ (?P<stream>stdout|stderr) )(?P<tag>[PF])(?::\S*)? (?P<text>[^\r\n]*)"
_DOCKER = (
    r'(?s)^(?P<head>\{"log":\s?")(?P<text>(?:[^"\\]|\\.)*)'
    r'(?P<rest>",\s?"stream":\s?"(?P<stream>\w+)".*)'
)
#: Costs less to look for than to take lines apart.
_MAY_BE = r"^\S+ std(?:out|err) P"
_IS_WRAPPED = re.compile(rb'^(?:\S+ std(?:out|err) [PF][ :]|\{"log":)', re.MULTILINE)
_ENDS = r"(?:^|[^\\])(?:\\\\)*\\n$"
#: What runtimes and ``kubectl logs --timestamps`` write before a line.
_BEFORE = r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [PF](?::\S*)? )?"
#: How begins what Kafka's tools print: records, their places, segments, and the end.
_PRINTED = (
    r'\{\s*"(?:key|reject|timestamp|name)"\s*:|(?:CreateTime|LogAppendTime|Partition|Offset):-?\d'
    r"|NO_TIMESTAMP\t|Dumping |\| offset: \d|Processed a total of "
)
#: Text that is nothing of a record or its place, which have brackets or tabs, and a blank.
_LED = rf'^(?:[^{{}}"\r\n\t]*? )??({_PRINTED})'
#: A logger wrote a line that has such a word before any bracket, whatever else is in it.
LEVEL = r'^[^{}"\r\n]*\b(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b'
_LINES = {name: re.compile(name, re.MULTILINE) for name in (_BEFORE, _LED, LEVEL)}
_LOG = pa.schema([("log", pa.string())])
#: Bytes that may wait for the end of a line.
_MOST_WAITING = 64 << 20


def is_wrapped(begin: bytes) -> bool:
    """Whether a container runtime wrote a file, by its beginning."""
    return _IS_WRAPPED.search(begin) is not None


def written_text(text: str) -> str:
    """Return the text of a program, without what others put before its lines; see `written`."""
    text = _LINES[_BEFORE].sub("", text)
    return _LINES[_LED].sub(lambda led: led[0 if _LINES[LEVEL].match(led[0]) else 1], text)


def written(lines: pa.Array) -> pa.Array:
    """Return the lines of a program, without what its runtime or others put around them."""
    lines = pc.replace_substring_regex(lines, _BEFORE, "")
    is_logged = pc.match_substring_regex(lines, LEVEL)
    lines = pc.if_else(is_logged, lines, pc.replace_substring_regex(lines, _LED, r"\1"))
    is_docker = pc.starts_with(lines, '{"log":')
    if not pc.any(is_docker).as_py():
        return lines
    rows, good = json_rows(lines.filter(is_docker), _LOG)
    which = np.flatnonzero(is_docker)[good.to_numpy(zero_copy_only=False)]
    is_read = np.zeros(len(lines), bool)
    is_read[which] = True
    said = rows.column("log").combine_chunks()
    return pc.replace_with_mask(lines, pa.array(is_read), said)


class Rejoined:
    """Lines whose parts are put together again, block by block of a file."""

    def __init__(self) -> None:
        self._lines = pa.array([], pa.string())
        self._positions = pa.array([], pa.int64())

    def add(self, lines: pa.Array, positions: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the lines that are whole, and the bytes at which they begin."""
        lines = pa.concat_arrays([self._lines, lines])
        positions = pa.concat_arrays([self._positions, positions])
        wrapped = _Wrapped.of(lines)
        cut = wrapped.waiting_from() if wrapped else len(lines)
        if lines[cut:].nbytes > _MOST_WAITING:  # their end is not in this file
            cut = len(lines)
        self._lines, self._positions = lines[cut:], positions[cut:]
        if wrapped is None:
            return lines, positions
        return wrapped.before(cut, positions)

    def rest(self) -> tuple[pa.Array, pa.Array]:
        """Return what waits for an end that never came, each beginning as a line."""
        lines, positions = self._lines, self._positions
        wrapped = _Wrapped.of(lines)
        return wrapped.before(len(lines), positions) if wrapped else (lines, positions)


@dataclass(frozen=True)
class _Wrapped:
    """Lines of which some are parts, put together by the streams that they are of."""

    firsts: NDArray[np.int64]  # of each whole line its first part, and its last one
    lasts: NDArray[np.int64]
    is_open: NDArray[np.bool_]  # it has no end yet
    whole: pa.Array

    @classmethod
    def of(cls, lines: pa.Array) -> _Wrapped | None:
        """Put lines together; None where none is a part."""
        may_be = pc.or_(pc.match_substring_regex(lines, _MAY_BE), pc.starts_with(lines, '{"log":'))
        if not pc.any(may_be).as_py():
            return None
        cri, docker = (pc.extract_regex(lines, one) for one in (_CRI, _DOCKER))
        has_end = pc.match_substring_regex(pc.struct_field(docker, "text"), _ENDS)
        is_part = pc.or_(
            pc.equal(pc.struct_field(cri, "tag"), "P").fill_null(False),
            pc.invert(has_end).fill_null(False),
        ).to_numpy(zero_copy_only=False)
        if not is_part.any():
            return None
        names = [pc.struct_field(one, "stream").fill_null("") for one in (cri, docker)]
        named = pc.binary_join_element_wise(*names, "/").dictionary_encode()
        stream = named.indices.to_numpy()
        order = np.argsort(stream, kind="stable")
        is_new = np.ones(len(order), bool)
        is_new[1:] = ~is_part[order[:-1]] | (np.diff(stream[order]) != 0)
        begins = np.append(np.flatnonzero(is_new), len(order))
        firsts, lasts = order[begins[:-1]], order[begins[1:] - 1]
        texts = pc.coalesce(pc.struct_field(cri, "text"), pc.struct_field(docker, "text"), lines)
        parts = pa.ListArray.from_arrays(pa.array(begins, pa.int32()), texts.take(pa.array(order)))
        heads = pc.binary_join_element_wise(pc.struct_field(cri, "head"), "F ", "")
        around = [
            pc.coalesce(*column, "").take(pa.array(firsts))
            for column in (
                (heads, pc.struct_field(docker, "head")),
                (pc.struct_field(docker, "rest"),),
            )
        ]
        whole = pc.binary_join_element_wise(around[0], pc.binary_join(parts, ""), around[1], "")
        return cls(firsts, lasts, is_part[lasts], whole)

    def waiting_from(self) -> int:
        """Return the first line that has to wait for others; how many there are if none has."""
        cut = int(self.firsts[self.is_open].min(initial=len(self.lasts) and self.lasts.max() + 1))
        while (across := self.firsts[(self.firsts < cut) & (self.lasts >= cut)]).size:
            cut = int(across.min())
        return cut

    def before(self, cut: int, positions: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the whole lines that begin before a line, and the bytes at which they do."""
        rows = np.argsort(self.firsts)
        rows = pa.array(rows[self.firsts[rows] < cut])
        return self.whole.take(rows), positions.take(pa.array(self.firsts).take(rows))
