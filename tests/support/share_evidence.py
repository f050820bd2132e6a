"""Evidence of one share partition, built from its writes, and the causes found in it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from sharelag import explain, schemas
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.observed import observe
from sharelag.metrics.progress import progress_of
from sharelag.replay import replay_arrow
from sharelag.replay.history import history_arrow
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, encode_record
from tests.support.records import KEY, decode, row, with_column

NOW = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)
PLACE = {"topic": "orders", "topic_id": KEY.topic_id, "partition": KEY.partition}


@dataclass(frozen=True)
class Wrote:
    """One write, so many seconds ago."""

    ago: float
    start: int
    count: int
    batches: Sequence[tuple[int, int, int, int]] = ()


def evidence(
    *writes: Wrote,
    end: int = 200,
    log_start: int = 0,
    age: float = 60,
    members: int = 1,
    assigned: bool = True,
    past: dict[float, int] | None = None,
    settings: dict[str, str] | None = None,
    next_record: int | None = -1,
    **logs: Any,
) -> Evidence:
    """Evidence of one share partition: a snapshot, then updates.

    ``next_record`` is the first record from the oldest unfinished offset on: -1 for that offset
    itself, None for none; ``past`` where the log ended so many seconds ago.
    """
    kinds = [SHARE_SNAPSHOT] + [SHARE_UPDATE] * (len(writes) - 1)
    states = (row(w.start, list(w.batches), delivery_complete_count=w.count) for w in writes)
    records = decode([encode_record(*one) for one in zip(kinds, states, strict=True)])
    times = pa.array([NOW - timedelta(seconds=w.ago) for w in writes], schemas.TIMESTAMP)
    records = with_column(records, "timestamp", times)
    ends = {"log_start_offset": log_start, "end_offset": end, "leader_epoch": 0, "as_of": NOW}
    windows = pa.Table.from_batches([replay_arrow(records)])
    lag = pa.Table.from_batches(
        [lag_arrow(windows, pa.Table.from_pylist([PLACE | ends], schemas.OFFSETS))]
    )
    seen = pa.Table.from_batches([observe(history_arrow(records), NOW, timedelta(hours=1))])
    head = lag.column("effective_start_offset")[0].as_py()
    found = {"asked_offset": head, "offset": head if next_record == -1 else next_record}
    produced = {"timestamp": None if next_record is None else NOW - timedelta(seconds=age)}
    read = pa.Table.from_pylist([PLACE | found | produced], schemas.TIMES)
    log = pa.Table.from_pylist([PLACE | {"as_of": NOW} | logs], schemas.LOGS)
    then = [
        PLACE | {"end_offset": e, "as_of": NOW - timedelta(seconds=ago)}
        for ago, e in (past or {}).items()
    ]
    past_offsets = pa.Table.from_pylist(then, schemas.OFFSETS)
    mine = [{"topic_id": KEY.topic_id, "partitions": [KEY.partition]}] if assigned else []
    group = {"group_id": KEY.group_id}
    people = [group | {"member_id": f"m{n}", "assigned_partitions": mine} for n in range(members)]
    result = [
        {"scope": "group", "entity": KEY.group_id, "name": name, "value": value, "source": "group"}
        for name, value in (settings or {}).items()
    ]
    whole = Evidence(
        NOW,
        lag,
        observed=seen,
        past_offsets=past_offsets,
        times=read,
        logs=log,
        windows=windows,
        committed=read,
        members=pa.Table.from_pylist(people, schemas.MEMBERS),
        groups=pa.Table.from_pylist(
            [group | {"members": members, "state": "Stable"}], schemas.GROUPS
        ),
        settings=pa.Table.from_pylist(result, schemas.SETTINGS),
    )
    return replace(whole, progress=progress_of(whole))


def only(name: str, *writes: Wrote, **about: Any) -> dict[str, Any]:
    """The row of a cause, with its evidence as a mapping."""
    (line,) = [r for r in explain(evidence(*writes, **about)).to_pylist() if r["cause"] == name]
    found: dict[str, Any] = line | {
        "evidence": {one["name"]: one["value"] for one in line["evidence"]}
    }
    return found
