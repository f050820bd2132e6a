"""Random records, batches and sequences, reproducible by seed, for Kafka's classes and ours."""

import base64
from random import Random
from typing import Any

from sharelag.model import StateBatch
from sharelag.wire import GROUP_KINDS, SHARE_SNAPSHOT, SHARE_UPDATE, STATE_KINDS, encode_record
from sharelag.wire.fields import INT_SIZES, Field, RecordKind

Record = tuple[bytes, bytes | None]

_TEXTS = [
    *("g", "payments", "orders:eu", "グループ", "emoji-🦜", ""),
    *("a" * 249, "<img src=x onerror=1>", "x\u202ey"),
]


def state_batches(random: Random, most: int = 6, offsets: int = 40) -> list[StateBatch]:
    """Batches that overlap and touch each other often."""
    starts = [random.randint(0, offsets) for _ in range(random.randint(0, most))]
    return [
        StateBatch(
            first, first + random.randint(0, 12), random.choice([0, 2, 4]), random.randint(1, 4)
        )
        for first in starts
    ]


def state_by_offset(batches: list[StateBatch]) -> dict[int, int]:
    """The state that each offset has by these batches: the highest delivery count wins."""
    states: dict[int, int] = {}
    for batch in sorted(batches, key=lambda b: (b.delivery_count, b.delivery_state)):
        offsets = range(batch.first_offset, batch.last_offset + 1)
        states |= dict.fromkeys(offsets, batch.delivery_state)
    return states


def ordered_batches(random: Random, first: int, most: int = 6) -> list[StateBatch]:
    """Batches as a leader writes them, in order from an offset on; now and then two overlap."""
    batches = []
    for _ in range(random.randint(0, most)):
        last = first + random.randint(0, 6)
        state, count = random.choice([0, 2, 2, 4]), random.choice([1, 1, 1, 2, 3])
        batches.append(StateBatch(first, last, state, count))
        first = max(first, last + random.choice([1, 1, 1, 3, 0 if random.random() < 0.2 else 1]))
    return batches


def ordered_sequence(random: Random, updates: int = 30) -> list[tuple[int, list[StateBatch]]]:
    """Make writes to one share partition, a start offset (or -1) and ordered batches each."""
    start, writes = 0, []
    for _ in range(random.randint(1, updates)):
        moved = random.random() < 0.4
        start += random.randint(0, 9) if moved else 0
        first = max(0, start + random.randint(-4, 25))
        writes.append((start if moved else -1, ordered_batches(random, first)))
    return writes


def topic_id(random: Random) -> str:
    return base64.urlsafe_b64encode(random.randbytes(16)).decode().rstrip("=")


def record(random: Random, kind: RecordKind | None = None) -> Record:
    """Make a valid record of either topic with random values, unknown tags or a tombstone."""
    kind = kind or random.choice([*STATE_KINDS, *GROUP_KINDS])
    row: dict[str, Any] = {"tombstone": random.random() < 0.05, "unknown_tags": []}
    for field in (*kind.key, *kind.value):
        row[field.column] = _value(random, field)
    if random.random() < 0.3:
        row["unknown_tags"] = _unknown_tags(random, kind, row)
    return encode_record(kind, row)


def record_with_value(random: Random, kind: RecordKind) -> tuple[bytes, bytes]:
    """Make a valid record of a kind that is not a tombstone."""
    while True:
        key, value = record(random, kind)
        if value:
            return key, value


def damaged(random: Random, good: Record) -> Record:
    """The record with bytes cut off, changed, put in or taken out."""
    parts = list(good)
    index = 1 if parts[1] and random.random() < 0.8 else 0
    data = bytearray(parts[index] or b"")
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(data) + 1)
        match random.randrange(4):
            case 0:
                del data[at:]
            case 1:
                data[at : at + 1] = random.randbytes(1)
            case 2:
                data[at:at] = random.randbytes(random.randint(1, 4))
            case 3:
                del data[at : at + random.randint(1, 4)]
    parts[index] = bytes(data)
    return parts[0] or b"", parts[1]


def sequence(random: Random, keys: int = 3, length: int = 12) -> list[Record]:
    """Make snapshots, updates and tombstones of a few share partitions of one state partition."""
    shares = [
        {"group_id": f"g{n}", "topic_id": topic_id(random), "partition": n} for n in range(keys)
    ]
    records = []
    for _ in range(random.randint(1, length)):
        share = random.choice(shares)
        kind = SHARE_SNAPSHOT if random.random() < 0.25 else SHARE_UPDATE
        row: dict[str, Any] = {
            field.column: random.randint(-1, 9) for field in kind.value if field.type == "int32"
        }
        row |= {"start_offset": random.choice([-1, random.randint(0, 45)])}
        row |= {"create_timestamp": random.randint(0, 99), "write_timestamp": random.randint(0, 99)}
        row["state_batches"] = [batch._asdict() for batch in state_batches(random)]
        if kind is SHARE_SNAPSHOT and random.random() < 0.15:
            row["tombstone"] = True
        records.append(encode_record(kind, share | row))
    return records


def _value(random: Random, field: Field) -> Any:
    if field.type in INT_SIZES:
        bits = 8 * INT_SIZES[field.type]
        return random.choice(
            [random.randint(-2, 9), random.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)]
        )
    if field.type == "uuid":
        return topic_id(random)
    if field.type == "string":
        return None if field.nullable and random.random() < 0.3 else random.choice(_TEXTS)
    count = random.choice([0, 1, 2, random.randint(0, 200)])
    if field.element:
        return [_value(random, field.element) for _ in range(count)]
    count = min(count, 40)
    return [{one.column: _value(random, one) for one in field.fields} for _ in range(count)]


def _unknown_tags(random: Random, kind: RecordKind, row: dict[str, Any]) -> list[dict[str, Any]]:
    places: list[tuple[str, int | None]] = [("", None)]
    for field in kind.value:
        if field.fields:
            places += [(field.column, index) for index in range(len(row[field.column]))]
    return [
        {
            "path": path,
            "element": element,
            "tag": random.randint(5, 500),
            "data": random.randbytes(random.randint(0, 9)),
        }
        for path, element in random.choices(places, k=random.randint(1, 3))
    ]
