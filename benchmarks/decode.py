"""Decoding and replaying a million state records, against a Python loop and plain copying."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import pyarrow as pa

from benchmarks.sides import in_turn
from sharelag import schemas
from sharelag.metrics.observed import observe
from sharelag.replay import drop_superseded, replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.wire import decode_arrow
from sharelag.wire.encode import encode_record
from sharelag.wire.fields import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC

_END = datetime(1970, 1, 2, tzinfo=UTC)
RECORDS, KEYS, DISTINCT = 1_000_000, 10_000, 20_000


def run() -> None:
    batch = records()
    decoded = decode_arrow(batch).records
    loop = batch.slice(0, RECORDS // 20)
    print(
        f"{RECORDS:,} records of {KEYS:,} share partitions, {batch.nbytes / RECORDS:.0f} bytes "
        "each; the loop does 1/20"
    )
    in_turn(
        {
            "struct in a Python loop (1/20)": lambda: struct_loop(loop),
            "decode_arrow (1/20)": lambda: decode_arrow(loop),
            "decode_arrow": lambda: decode_arrow(batch),
            "copy the bytes": lambda: copied(batch),
            "drop_superseded": lambda: drop_superseded(decoded),
            "replay_arrow": lambda: replay_arrow(decoded),
            "history_arrow": lambda: history_arrow(decoded),
            "history and what a span of it says": lambda: observe(
                history_arrow(decoded), _END, timedelta(hours=1)
            ),
        }
    )


def records() -> pa.RecordBatch:
    """Make a busy coordinator's traffic: a snapshot every 500 updates, four batches a record."""
    random = Random(1)
    pool = []
    for n in range(DISTINCT):
        key = {"group_id": f"group-{n % 200}", "topic_id": "A" * 22, "partition": n % KEYS}
        start = random.randrange(10**6)
        batches = [
            {
                "first_offset": start + 9 * i,
                "last_offset": start + 9 * i + 6,
                "delivery_state": 2,
                "delivery_count": 1,
            }
            for i in range(random.randrange(9))
        ]
        row = key | {
            "snapshot_epoch": 1,
            "state_epoch": 1,
            "leader_epoch": 1,
            "start_offset": start,
        }
        row |= {
            "create_timestamp": 1,
            "write_timestamp": 2,
            "delivery_complete_count": 3,
            "state_batches": batches,
        }
        pool.append(encode_record(SHARE_SNAPSHOT if n % 500 == 0 else SHARE_UPDATE, row))
    order = [random.randrange(DISTINCT) for _ in range(RECORDS)]
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([key for key, _ in pool], pa.binary()).take(pa.array(order)),
            "value": pa.array([value for _, value in pool], pa.binary()).take(pa.array(order)),
            "topic": pa.array([STATE_TOPIC] * RECORDS),
            "partition": pa.array(np.zeros(RECORDS, np.int32)),
            "offset": pa.array(np.arange(RECORDS)),
            "timestamp": pa.array(np.arange(RECORDS)).view(schemas.TIMESTAMP),
            "timestampType": pa.array(np.zeros(RECORDS, np.int32)),
        },
        schema=schemas.RAW,
    )


def struct_loop(batch: pa.RecordBatch) -> int:
    """What one would write by hand: all fields of a record into Python objects."""
    total = 0
    for key, value in zip(
        batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True
    ):
        kind, size = struct.unpack_from(">hh", key)
        key[4 : 4 + size].decode()
        struct.unpack_from(">16si", key, 4 + size)
        head = ">hiiiqqq" if kind == 0 else ">hiiq"
        fields = struct.unpack_from(head, value)
        at = struct.calcsize(head)
        count = value[at] - 1
        at += 1
        batches = [struct.unpack_from(">qqbhb", value, at + 20 * i) for i in range(count)]
        total += len(fields) + len(batches)
    return total


def copied(batch: pa.RecordBatch) -> int:
    return sum(
        len(bytes(buffer))
        for name in ("key", "value")
        for buffer in batch.column(name).buffers()
        if buffer
    )
