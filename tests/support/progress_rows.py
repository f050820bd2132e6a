"""Rows of the tables for ages, forecasts and retention, and what comes of them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.metrics.evidence import ISOLATION, Evidence
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.progress import progress_of
from sharelag.replay import replay_arrow
from sharelag.tables.arrow import as_table
from sharelag.wire import SHARE_SNAPSHOT, decode_arrow, encode_record
from tests.support.records import raw

ID = "A" * 22
MS = timedelta(milliseconds=1)
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
PLACE = {"topic": "orders", "topic_id": ID, "partition": 0}


def ago(milliseconds: int) -> datetime:
    return NOON - milliseconds * MS


def lag(
    left: int | None = 10, oldest: int | None = 90, end: int | None = 100, **changes: Any
) -> dict[str, Any]:
    """A row of the lag table: that much is unfinished, from an offset on."""
    known: dict[str, Any] = dict.fromkeys(schemas.LAG.names) | PLACE
    known |= {"group_id": "G1", "notes": [], "as_of": NOON, "log_start_offset": 0}
    known |= {"effective_lag": left, "effective_start_offset": oldest, "end_offset": end}
    known |= {"start_offset": oldest, "window_end_offset": oldest, "window_complete": 0}
    return known | changes


def end(offset: int | None, milliseconds: int, **changes: Any) -> dict[str, Any]:
    known = PLACE | {"log_start_offset": 0, "end_offset": offset}
    return known | {"as_of": ago(milliseconds)} | changes


def time(
    requested: int, offset: int | None, timestamp: datetime | None, **changes: Any
) -> dict[str, Any]:
    return PLACE | {"asked_offset": requested, "offset": offset, "timestamp": timestamp} | changes


def observed(bins: list[int], over: int = HOUR, **changes: Any) -> dict[str, Any]:
    sums = {"records": 9, "breaks": 0, "replacements": 0, "finished": sum(bins), "redelivered": 0}
    span = {"begin": ago(over), "end": NOON, "finished_bins": bins}
    place = {"group_id": "G1", "topic_id": ID, "partition": 0}
    return dict.fromkeys(schemas.OBSERVED.names) | place | sums | span | changes


def log(
    policy: str | None = "delete", retention: int | None = 7 * DAY, **changes: Any
) -> dict[str, Any]:
    return PLACE | {"cleanup_policy": policy, "retention_ms": retention} | changes


def progress(
    lags: Any,
    seen: Any = (),
    ends: Any = (),
    times: Any = (),
    logs: Any = (),
    reads_committed: bool = False,
    **more: Any,
) -> pa.Table:
    given_ = {"LAG": lags, "OBSERVED": seen, "OFFSETS": ends, "TIMES": times, "LOGS": logs}
    tables = [
        as_table(rows)
        if isinstance(rows, pa.RecordBatch | pa.Table)
        else pa.Table.from_pylist(list(rows), getattr(schemas, name))
        for name, rows in given_.items()
    ]
    lag, observed, past, at, log = tables
    isolation = {"scope": "group", "name": ISOLATION, "value": "read_committed", "source": "group"}
    groups = sorted(set(lag.column("group_id").to_pylist())) if reads_committed else []
    settings = [isolation | {"entity": group} for group in groups]
    more["settings"] = pa.Table.from_pylist(settings, schemas.SETTINGS)
    known = {"observed": observed, "past_offsets": past, "times": at, "committed": at, "logs": log}
    return progress_of(Evidence(NOON, lag, **known, **more))


def one(lag_row: dict[str, Any], *tables: Any, **more: Any) -> dict[str, Any]:
    (line,) = progress([lag_row], *tables, **more).to_pylist()
    return dict(line)


def lag_of(
    state: dict[str, Any], end_offset: int | None, log_start: int | None = 0
) -> dict[str, Any]:
    records = decode_arrow(raw([encode_record(SHARE_SNAPSHOT, state)])).records
    ends = [PLACE | {"end_offset": end_offset, "log_start_offset": log_start, "as_of": NOON}]
    line: dict[str, Any] = lag_arrow(
        replay_arrow(records), pa.Table.from_pylist(ends, schemas.OFFSETS)
    ).to_pylist()[0]
    return line
