"""Control records with share state, out of the segments of users' topics.

Two older designs keep the state of a share partition beside the records that it is about. Clients
never see such records, so only a broker's files have them. They are looked for where a log
directory has no ``__share_group_state``, or where they are requested: users' topics are large. Of
batches that are not control batches only the header is read.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from kafka.record import MemoryRecords
from kafka.record.util import calc_crc32c

from sharelag.errors import InputError
from sharelag.inputs.files import segments
from sharelag.inputs.files.segments import records_in
from sharelag.model import topic_id_bytes
from sharelag.wire.generations import SHARE_CHECKPOINT, SHARE_DELTA

#: Base offset, length, leader epoch, magic, checksum and attributes of a batch.
_HEADER = struct.Struct(">qiibIh")
#: Bytes before what the length counts, and the least of a whole batch.
_BEFORE, _LEAST = 12, 61
_IS_CONTROL = 0x20
#: Where in a batch that begins which its checksum is about.
_CHECKED = 21
#: The key of the beginning of a batch in the place of a record, which nothing can decode.
_CUT = struct.pack(">hh", 0, SHARE_CHECKPOINT)


def control_segments(folder: Path) -> list[tuple[segments.Place, Path]]:
    """Return the segments of users' topics in a log directory, which may hold control records."""
    return [
        (place, segment)
        for place, path in segments.partitions(folder).items()
        if not place[0].startswith("__")
        for segment in sorted(path.glob("*.log"))
    ]


def read_control(folder: Path) -> Iterator[pa.RecordBatch]:
    """Yield the control records of all `control_segments`, as `read_control_segment` does."""
    for place, segment in control_segments(folder):
        yield read_control_segment(folder, place, segment)


def read_control_segment(folder: Path, place: segments.Place, segment: Path) -> pa.RecordBatch:
    """Read the control records with share state of one segment, from the log start offset on.

    They are `sharelag.schemas.RAW`; the topic's id follows Kafka's key. The beginning of a control
    batch that was not written to its end is one record that cannot be decoded; so is that of any
    batch if a later segment follows. A control batch that is corrupt, or a length, is an
    InputError.
    """
    start = segments.log_start(folder, place)
    topic_id = topic_id_bytes(segments.topic_id(segment.parent, place[0]))
    beside = list(segment.parent.glob("*.log"))
    possible = segments.offsets_of(segment, segments.base_offsets(beside))
    rows = [
        (key + topic_id, value, offset, *time)
        for key, value, offset, *time in _control_records(segment, segment == max(beside), possible)
        if offset >= start
    ]
    return segments.raw_batch(rows, *place)


def _control_records(segment: Path, is_last: bool, possible: range) -> Iterator[Any]:
    """Yield the records with share state of control batches, and what is not whole as one."""
    if not segment.stat().st_size:
        return
    with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        at = 0
        while at + _HEADER.size <= len(whole):
            offset, length, _, magic, _, attributes = _HEADER.unpack_from(whole, at)
            end, is_control = at + _BEFORE + length, magic == 2 and attributes & _IS_CONTROL
            what = f"{segment}: the batch at offset {offset}"
            if end < at + _LEAST or end > len(whole):
                if segments.is_allocated_ahead(whole, at):
                    return
                if end < at + _LEAST or _has_batch_after(whole, at):
                    raise InputError(f"{what} is corrupt (its length is given as {length} bytes)")
                if is_control or not is_last:
                    yield _CUT, whole[at:], offset, None, None
                return
            segments.check_offset(what, offset, possible)
            possible = range(offset + 1, possible.stop)
            if is_control:
                octets = whole[at:end]
                what = f"{segment}: the control batch at offset {offset}"
                batch = segments.next_batch(MemoryRecords(octets), what)
                for record in records_in(batch, octets, what) if batch else ():
                    if record.type in (SHARE_CHECKPOINT, SHARE_DELTA):
                        yield segments.row_of(record)
            at = end


def _has_batch_after(whole: mmap.mmap, at: int) -> bool:
    """Whether a whole batch with a later offset is somewhere behind the header at a place."""
    offset = _HEADER.unpack_from(whole, at)[0]
    # Of a header, the upper half of the offset and the magic number; headers may overlap.
    header = re.compile(b"(?=" + re.escape(whole[at : at + 4]) + b".{12}\2)", re.DOTALL)
    for found in header.finditer(whole, at + _HEADER.size):
        begin = found.start()
        if begin + _LEAST > len(whole):
            return False
        base, length, _, _, checksum, _ = _HEADER.unpack_from(whole, begin)
        end = begin + _BEFORE + length
        if base > offset and begin + _LEAST <= end <= len(whole):
            body = whole[begin + _CHECKED : end]
            if calc_crc32c(body) == checksum:
                return True
    return False
