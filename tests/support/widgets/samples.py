"""Windows and lag of made-up share partitions: every state, gaps, and hostile names."""

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

from sharelag import schemas

HOSTILE = "<img src=x onerror=alert(1)>\u202e🦜" + "x" * 200
BEGIN = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
TOPIC_ID = "A" * 22

_WITH_END = pa.schema([*schemas.WINDOWS, pa.field("end_offset", pa.int64())])


def run(first: int, last: int, state: int, count: int = 1) -> dict[str, int]:
    names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    return dict(zip(names, (first, last, state, count), strict=True))


def window(**changes: Any) -> dict[str, Any]:
    """Offsets 100 to 119: three finished, available, nothing persisted, acknowledged, archived."""
    known: dict[str, Any] = {"group_id": "payments", "topic_id": TOPIC_ID, "partition": 0}
    known |= {"start_offset": 100, "effective_start_offset": 103, "window_end_offset": 120}
    known |= {"end_offset": 1120}
    known |= {
        "runs": [run(103, 104, 0, 3), run(107, 112, 2), run(113, 113, 4, 5), run(118, 119, 0)]
    }
    return dict.fromkeys(_WITH_END.names) | known | {"record_timestamp": BEGIN} | changes


def windows(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=_WITH_END)


def moving(moments: int = 40, partitions: int = 2, seed: int = 1) -> pa.Table:
    """Windows that move on, some moments of some share partitions."""
    random, rows = Random(seed), []
    for partition in range(partitions):
        start = 1_000_000 * (partition + 1)
        for moment in range(moments):
            start += random.randrange(12)
            at = head = start + random.choice([0, 0, 4])
            runs: list[dict[str, Any]] = []
            while at < start + 220:
                length = random.randrange(1, 18)
                state = random.choices([None, 0, 2, 4], [3, 3, 5, 1])[0]
                if state is not None and (runs or state == 0):
                    runs.append(run(at, at + length - 1, state, random.choice([1, 1, 1, 2, 3, 5])))
                at += length
            changes = {
                "partition": partition,
                "start_offset": start,
                "effective_start_offset": head,
                "runs": runs,
            }
            changes |= {"window_end_offset": at, "end_offset": at + 5000 + moment}
            rows.append(window(**changes, record_timestamp=BEGIN + timedelta(seconds=7 * moment)))
    return windows(*rows)


def lag(rows: int = 400, groups: int = 5, seed: int = 3) -> pa.Table:
    """`LAG` with an age and a verdict beside it; the keys of `moving` are among the rows."""
    random, made = Random(seed), []
    for row in range(rows):
        group = row * groups // rows
        amount = int(10 ** random.uniform(0, 6)) if random.random() > 0.25 else 0
        known = random.random() > 0.05
        made.append(
            dict.fromkeys(schemas.LAG.names)
            | {"group_id": ["payments", HOSTILE][group] if group < 2 else f"group-{group}"}
            | {
                "topic": None if row % 50 == 7 else f"orders-{group % 3}",
                "topic_id": TOPIC_ID,
                "partition": row,
            }
            | {"lag": amount if known else None, "unread": amount // 2, "start_offset": 10**6 + row}
            | {
                "end_offset": 10**6 + row + amount,
                "notes": [],
                "as_of": BEGIN,
                "window_available": row % 50,
            }
        )
    table = pa.Table.from_pylist(made, schema=schemas.LAG)
    ages = pa.array([random.choice([None, int(10 ** random.uniform(0, 9))]) for _ in made])
    verdicts = pa.array([random.choice(["healthy", "burst", "held head"]) for _ in made])
    return table.append_column("age_ms", ages).append_column("verdict", verdicts)
