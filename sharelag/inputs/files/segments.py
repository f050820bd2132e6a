"""Read a broker's log directory without the broker, for forensics and backups.

Topic ids come from ``partition.metadata``; log starts and high watermarks from ``*-checkpoint``,
which brokers write every few seconds.

Two older designs keep the state of a share partition next to its records, in control records of
users' topics, which clients never see. They are searched only if a log directory has no
``__share_group_state``, or on request, because users' topics are large. Of other batches, only the
header is read.
"""

from __future__ import annotations

import io
import mmap
import re
import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import accumulate, chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from kafka.errors import KafkaError
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch
from kafka.record.util import calc_crc32c

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.files.raw_files import entries, refuse_unreadable
from sharelag.model import topic_id_bytes, topic_id_text
from sharelag.tables.arrow import batch_of
from sharelag.wire.encode import read_varint
from sharelag.wire.generations import SHARE_CHECKPOINT, SHARE_DELTA, topic_id_of

_PARTITION = re.compile(r"(?P<topic>.+)-(?P<partition>[0-9]{1,9})")
_SEGMENT = re.compile(r"0*[0-9]{1,18}")
_MOST_OFFSET = 1 << 62
#: Maximum number of offsets in a segment: an index entry has 31 bits for one (LogSegment in Kafka).
_MOST_IN_SEGMENT = 1 << 31
#: Bytes of a batch that its length field does not count.
_BEFORE = 12
#: Records per batch, and in a sample.
_BATCH, _SAMPLE = 50_000, 300
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"

Place = tuple[str, int]
#: Key, value, offset, timestamp and its type.
Row = tuple[bytes | None, bytes | None, int, int | None, int | None]


def partitions(folder: Path) -> dict[Place, Path]:
    """Return the folders of topic partitions in a log directory; InputError for another folder."""
    if not folder.is_dir():
        raise InputError(
            f"no folder {folder}: give a broker's log directory (log.dirs in its properties)"
        )
    found = {
        (match["topic"], int(match["partition"])): path
        for path in entries(folder)
        if path.is_dir() and (match := _PARTITION.fullmatch(path.name))
    }
    # List all of them: an unreadable one would seem to have no records.
    files = [file for path in found.values() for file in entries(path)]
    if not any(file.suffix == ".log" for file in files):
        raise InputError(f"{folder} has no topic partitions: {_instead(folder)}")
    return found


def _instead(folder: Path) -> str:
    below = [str(one) for one in sorted(folder.iterdir()) if any(one.glob("*-*/*.log"))]
    if below:
        return f"give the log directories below it, {','.join(below)}"
    if _PARTITION.fullmatch(folder.name) and any(folder.glob("*.log")):
        return f"it is one itself: give the log directory that has it, {folder.parent}"
    return "give a broker's log directory, with topic-0/"


def read_segments(folder: Path, topic: str) -> Iterator[pa.RecordBatch]:
    """Read a topic's records from a broker's log directory, as `sharelag.schemas.RAW`.

    Each partition is in log order from its log start offset on, without control records. A
    truncated last batch is one row with an empty key, which becomes a reject. Another folder, or a
    corrupt batch, is an InputError.
    """
    starts = _checkpoint(folder / LOG_STARTS)
    for (name, partition), path in partitions(folder).items():
        if name == topic:
            yield from _partition(path, topic, partition, starts.get((topic, partition), 0))


def read_partition(folder: Path, topic: str, partition: int) -> Iterator[pa.RecordBatch]:
    """Read one partition, which must be in the folder, as `read_segments` does."""
    found = partitions(folder)
    if (topic, partition) not in found:
        raise InputError(
            f"{folder} has no {topic}-{partition}: all Spark workers need access to the folder"
        )
    start = log_start(folder, (topic, partition))
    yield from _partition(found[topic, partition], topic, partition, start)


def sample_partitions(folder: Path, topic: str) -> Iterator[pa.RecordBatch]:
    """Read the first records of each partition's last non-empty segment."""
    for (name, partition), path in partitions(folder).items():
        if name != topic:
            continue
        for segment in sorted(path.glob("*.log"), reverse=True):
            found = list(islice(_records(segment, 0, range(_MOST_OFFSET)), _SAMPLE))
            if found:
                yield raw_batch(found, topic, partition)
                break


def segment_offsets(folder: Path) -> pa.Table:
    """Return `sharelag.schemas.OFFSETS` from the broker's checkpoint files.

    ``end_offset`` is the high watermark of the checkpoint, which a broker writes every five seconds
    and at shutdown; ``as_of`` is the time of that file.
    """
    starts, ends = _checkpoint(folder / LOG_STARTS), _checkpoint(folder / HIGH_WATERMARKS)
    noted = folder / HIGH_WATERMARKS
    as_of = datetime.fromtimestamp(noted.stat().st_mtime, UTC) if noted.exists() else None
    rows = []
    for place, path in partitions(folder).items():
        # The checkpoint omits log starts that equal the first segment's offset.
        first = next(iter(base_offsets(path.glob("*.log"))), None)
        row = {"topic": place[0], "topic_id": topic_id(path, place[0]), "partition": place[1]}
        row |= {"log_start_offset": starts.get(place, first), "end_offset": ends.get(place)}
        rows.append(row | {"as_of": as_of})
    return pa.Table.from_pylist(rows, schema=schemas.OFFSETS)


def _partition(path: Path, topic: str, partition: int, start: int) -> Iterator[pa.RecordBatch]:
    segments = sorted(path.glob("*.log"))
    bases = base_offsets(segments)
    records = chain.from_iterable(
        _records(segment, start, offsets_of(segment, bases)) for segment in segments
    )
    while rows := list(islice(records, _BATCH)):
        yield raw_batch(rows, topic, partition)


def _records(segment: Path, start: int, possible: range) -> Iterator[Row]:
    octets = segment.read_bytes()
    records = MemoryRecords(octets)
    at, begin = start, 0
    while not is_allocated_ahead(octets, begin):
        what = f"{segment}: the batch after offset {at}"
        if (batch := next_batch(records, what)) is None:
            break
        check_offset(what, batch.base_offset, possible)
        possible = range(batch.next_offset, possible.stop)
        end = begin + _BEFORE + int.from_bytes(octets[begin + 8 : begin + _BEFORE], "big")
        at = batch.next_offset
        unpack = not batch.is_control_batch and at > start
        for record in records_in(batch, octets[begin:end], what, unpack=unpack):
            if record.offset >= start:
                yield row_of(record)
        begin = end
    if begin < len(octets) and not is_allocated_ahead(octets, begin):
        yield b"", octets[begin:], at, None, None


def base_offsets(segments: Iterable[Path]) -> list[int]:
    """Return the sorted base offsets of segments, from their names; ignore other files."""
    return sorted(int(path.stem) for path in segments if _SEGMENT.fullmatch(path.stem))


def offsets_of(segment: Path, bases: Sequence[int]) -> range:
    """Return the possible offsets of a segment: from its own base offset to that of the next one.

    ``bases`` are the `base_offsets` of all segments of its partition.
    """
    if not _SEGMENT.fullmatch(segment.stem):
        return range(_MOST_OFFSET)
    first = int(segment.stem)
    after = bisect_right(bases, first)
    return range(first, min([first + _MOST_IN_SEGMENT, *bases[after : after + 1]]))


def check_offset(what: str, offset: int, possible: range) -> None:
    """Reject a batch whose offset cannot follow the batch before it: no checksum covers offsets."""
    if offset not in possible:
        raise InputError(
            f"{what} is corrupt (it begins at offset {offset}, where only offsets from "
            f"{possible.start} to {possible.stop - 1} can be)"
        )


def is_allocated_ahead(octets: bytes | mmap.mmap, begin: int) -> bool:
    """Return whether all remaining bytes are zeros, as ``log.preallocate`` leaves them."""
    return not any(octets[begin : begin + _BEFORE]) and not octets[begin:].strip(b"\0")


def next_batch(records: MemoryRecords, what: str) -> DefaultRecordBatch | None:
    """Return the next batch, None after the last complete one; InputError if it is corrupt."""
    try:
        batch = records.next_batch() if records.has_next() else None
    except (KafkaError, struct.error) as error:
        raise InputError(f"{what} cannot be read ({error})") from error
    except AssertionError as error:  # on the length of a format of before Kafka 0.11
        raise InputError(f"{what} is corrupt (its length is wrong)") from error
    if batch is not None and not isinstance(batch, DefaultRecordBatch):
        raise InputError(f"{what} cannot be read (a format of before Kafka 0.11)")
    return batch


def row_of(record: Any) -> Row:
    """Return the fields of a record that `raw_batch` needs."""
    return record.key, record.value, record.offset, record.timestamp, record.timestamp_type


def raw_batch(rows: Sequence[Row], topic: str, partition: int) -> pa.RecordBatch:
    """Return records of one partition as `sharelag.schemas.RAW`."""
    keys, values, offsets, timestamps, kinds = zip(*rows, strict=True) if rows else [()] * 5
    columns = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": topic,
        "partition": partition,
        "offset": pa.array(offsets, pa.int64()),
        "timestamp": pa.array(timestamps, pa.int64()).view(schemas.TIMESTAMP),
        "timestampType": pa.array(kinds, pa.int32()),
    }
    return batch_of(columns, schemas.RAW)


def _checkpoint(path: Path) -> dict[Place, int]:
    """Parse a checkpoint file: a version, a count, and lines of topic, partition and offset."""
    if not path.exists():
        return {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()[2:]
        parts = [line.rsplit(" ", 2) for line in lines if line.strip()]
        found = {(topic, int(partition)): int(offset) for topic, partition, offset in parts}
    except ValueError as error:
        raise InputError(
            f"{path} is damaged ({error}): restore it, or remove it, which leaves its offsets "
            "unknown"
        ) from error
    if wrong := [offset for offset in found.values() if not 0 <= offset < _MOST_OFFSET]:
        raise InputError(
            f"{path} has the offset {wrong[0]}, which no log has: restore it, or remove it, which "
            "leaves its offsets unknown"
        )
    return found


def log_start(folder: Path, place: Place) -> int:
    """Return the offset of the first record that the broker would return."""
    return _checkpoint(folder / LOG_STARTS).get(place, 0)


def topic_id(path: Path, topic: str) -> str:
    """Return the id of the topic whose partition is in a folder.

    Brokers before Kafka 2.8 have no topic ids: the result is then derived from the topic's name.
    """
    file = path / "partition.metadata"
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return topic_id_text(topic_id_of(topic))
    except OSError as error:
        refuse_unreadable(error)
    found = re.search(r"^topic_id: (\S+)$", text, re.MULTILINE)
    if found is None:
        raise InputError(f"{file} is damaged (it has no topic_id): restore it from a copy")
    return found[1]


# ---- records of a batch --------------------------------------------------------------------------


#: Maximum uncompressed size of a batch's records in bytes. A coordinator writes batches of at most
#: ``max.message.bytes`` before compression, by default a megabyte.
MOST_BYTES = 64 << 20
#: Size of the header of a batch, which is never compressed: the minimum size of a batch.
_HEADER = 61
_AT_ONCE = 1 << 20
_XERIAL = b"\x82SNAPPY\x00"


def records_in(
    batch: DefaultRecordBatch, octets: bytes, what: str, unpack: bool = True
) -> list[Any]:
    """Return the records of a batch whose bytes are ``octets``; ``what`` is for messages.

    Without ``unpack``, only verify the checksum, and return no records. It is an InputError if they
    cannot be read, or exceed `MOST_BYTES` without compression.
    """
    try:
        if not batch.validate_crc():
            raise InputError(f"{what} is corrupt (wrong checksum)")
        if not unpack:
            return []
        # An unknown codec is reported by the batch itself.
        sizes = _SIZES.get(batch.compression_type)
        if sizes and any(total > MOST_BYTES for total in accumulate(sizes(octets[_HEADER:]))):
            raise InputError(
                f"{what} has more than {MOST_BYTES >> 20} MiB without compression: no coordinator "
                "writes that, so it is not read"
            )
        return list(batch)
    except InputError:
        raise
    except Exception as error:  # codecs raise different exceptions without a common base class
        raise InputError(f"{what} cannot be read ({error or type(error).__name__})") from error


# ---- uncompressed sizes, computed piece by piece without keeping the data ------------------------


def _gzip(packed: bytes) -> Iterator[int]:
    while packed:
        reader = zlib.decompressobj(wbits=31)
        while packed and not reader.eof:
            yield len(reader.decompress(packed, _AT_ONCE))
            packed = reader.unconsumed_tail
        packed = reader.unused_data.lstrip(b"\0")


def _lz4(packed: bytes) -> Iterator[int]:
    from lz4.frame import LZ4FrameDecompressor

    reader = LZ4FrameDecompressor()
    yield len(reader.decompress(packed, _AT_ONCE))
    while not reader.eof and not reader.needs_input:
        yield len(reader.decompress(b"", _AT_ONCE))


def _zstd(packed: bytes) -> Iterator[int]:
    from zstandard import ZstdDecompressor

    with ZstdDecompressor(max_window_size=MOST_BYTES).stream_reader(
        io.BytesIO(packed), read_across_frames=True
    ) as reader:
        while found := reader.read(_AT_ONCE):
            yield len(found)


def _snappy(packed: bytes) -> Iterator[int]:
    """Yield the sizes that blocks declare, which snappy enforces."""
    if not packed.startswith(_XERIAL):
        yield read_varint(packed, 0)[0]
        return
    at = 16
    while at < len(packed):
        (size,) = struct.unpack_from(">i", packed, at)
        if size <= 0:
            raise ValueError("a block of snappy without bytes")
        yield read_varint(packed, at + 4)[0]
        at += 4 + size


#: Readers of sizes by Kafka's number of the codec.
_SIZES: dict[int, Callable[[bytes], Iterator[int]]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}


#: Base offset, length, leader epoch, magic, checksum and attributes of a batch.
_BATCH_HEADER = struct.Struct(">qiibIh")
_IS_CONTROL = 0x20
#: Position in a batch at which the bytes covered by its checksum begin.
_CHECKED = 21
#: Key of a record in place of a truncated batch, which nothing can decode.
_CUT = struct.pack(">hh", 0, SHARE_CHECKPOINT)


def control_segments(folder: Path) -> list[tuple[Place, Path]]:
    """Return the segments of users' topics in a log directory, which may hold control records."""
    users = {at: path for at, path in partitions(folder).items() if not at[0].startswith("__")}
    return [(at, segment) for at, path in users.items() for segment in sorted(path.glob("*.log"))]


def read_control(folder: Path) -> Iterator[pa.RecordBatch]:
    """Yield the control records of all `control_segments`, as `read_control_segment` does."""
    for place, segment in control_segments(folder):
        yield read_control_segment(folder, place, segment)


def read_control_segment(folder: Path, place: Place, segment: Path) -> pa.RecordBatch:
    """Read the control records with share state of one segment, from the log start offset on.

    They are `sharelag.schemas.RAW`; the topic id follows Kafka's key. A truncated control batch, or
    a truncated batch of any kind if a later segment follows, is one record that cannot be decoded.
    A corrupt batch is an InputError.
    """
    start = log_start(folder, place)
    of_topic = topic_id_bytes(topic_id(segment.parent, place[0]))
    beside = list(segment.parent.glob("*.log"))
    possible = offsets_of(segment, base_offsets(beside))
    rows = [
        (key + of_topic, value, offset, *time)
        for key, value, offset, *time in _control_records(segment, segment == max(beside), possible)
        if offset >= start
    ]
    return raw_batch(rows, *place)


def _control_records(segment: Path, is_last: bool, possible: range) -> Iterator[Any]:
    """Yield the records of control batches with share state, and a truncated batch as one."""
    if not segment.stat().st_size:
        return
    with segment.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole:
        at = 0
        while at + _BATCH_HEADER.size <= len(whole):
            offset, length, _, magic, _, attributes = _BATCH_HEADER.unpack_from(whole, at)
            end, is_control = at + _BEFORE + length, magic == 2 and attributes & _IS_CONTROL
            what = f"{segment}: the batch at offset {offset}"
            if end < at + _HEADER or end > len(whole):
                if is_allocated_ahead(whole, at):
                    return
                if end < at + _HEADER or _has_batch_after(whole, at):
                    raise InputError(f"{what} is corrupt (its length is given as {length} bytes)")
                if is_control or not is_last:
                    yield _CUT, whole[at:], offset, None, None
                return
            check_offset(what, offset, possible)
            possible = range(offset + 1, possible.stop)
            if is_control:
                octets = whole[at:end]
                what = f"{segment}: the control batch at offset {offset}"
                batch = next_batch(MemoryRecords(octets), what)
                for record in records_in(batch, octets, what) if batch else ():
                    if record.type in (SHARE_CHECKPOINT, SHARE_DELTA):
                        yield row_of(record)
            at = end


def _has_batch_after(whole: mmap.mmap, at: int) -> bool:
    """Return whether a complete batch with a later offset follows the header at a position."""
    offset = _BATCH_HEADER.unpack_from(whole, at)[0]
    # Upper half of the offset, and the magic number, of a header; headers may overlap.
    header = re.compile(b"(?=" + re.escape(whole[at : at + 4]) + b".{12}\2)", re.DOTALL)
    for found in header.finditer(whole, at + _BATCH_HEADER.size):
        begin = found.start()
        if begin + _HEADER > len(whole):
            return False
        base, length, _, _, checksum, _ = _BATCH_HEADER.unpack_from(whole, begin)
        end = begin + _BEFORE + length
        is_later = base > offset and begin + _HEADER <= end <= len(whole)
        if is_later and calc_crc32c(whole[begin + _CHECKED : end]) == checksum:
            return True
    return False
