"""A broker's log directory, written without a broker."""

import struct
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import calc_crc32c

_ATTRIBUTES, _CRC = 21, 17
_CONTROL = 0x20

#: Offset, key, value.
Record = tuple[int, bytes | None, bytes | None]


def batch(records: Iterable[Record], control: bool = False, codec: int = 0) -> bytes:
    """Return a record batch, of control records if asked, one batch for records without a gap."""
    rows = list(records)
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
    first = rows[0][0]
    for offset, key, value in rows:
        builder.append(offset - first, 1_732_000_000_000 + offset, key, value, [])
    octets = bytearray(builder.build())
    struct.pack_into(">q", octets, 0, first)
    if control:
        octets[_ATTRIBUTES + 1] |= _CONTROL
        struct.pack_into(">I", octets, _CRC, calc_crc32c(bytes(octets[_ATTRIBUTES:])))
    return bytes(octets)


def user_log(control: pa.RecordBatch) -> bytes:
    """Return a user topic's log: control records at their offsets, a user's record at each other.

    The keys of ``control`` end with the topic's id, which no broker writes there.
    """
    kept = {
        offset: (key[:4], value)
        for offset, key, value in zip(
            *(control.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True
        )
    }
    # A user's key may look like that of a control record.
    return b"".join(
        batch([(offset, *kept[offset])], control=True)
        if offset in kept
        else batch([(offset, b"\0\0\0\5", b"of a user")])
        for offset in range(max(kept) + 3)
    )


def write(folder: Path, log: bytes, topic: str = "orders", topic_id: str | None = None) -> Path:
    """Write partition 0 of a topic, of two segments, and its high watermark."""
    place = folder / f"{topic}-0"
    place.mkdir(parents=True)
    (length,) = struct.unpack_from(">i", log, 8)
    (place / "00000000000000000000.log").write_bytes(log[: 12 + length])
    (place / "00000000000000000001.log").write_bytes(log[12 + length :])
    if topic_id:
        (place / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    (folder / "replication-offset-checkpoint").write_text(f"0\n1\n{topic} 0 140\n")
    return folder


def beside(folder: Path, key: bytes, value: bytes | None) -> Path:
    """Write a state topic of one record beside what a log directory has."""
    place = folder / "__share_group_state-0"
    place.mkdir()
    (place / "00000000000000000000.log").write_bytes(batch([(0, key, value)]))
    return folder
