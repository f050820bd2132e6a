"""Rows of the tables from which ages, forecasts and retention are computed."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sharelag import schemas

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
    terms = {
        "effective_lag": left,
        "effective_start_offset": oldest,
        "end_offset": end,
        "as_of": NOON,
    }
    window = {
        "start_offset": oldest,
        "window_end_offset": oldest,
        "window_complete": 0,
        "log_start_offset": 0,
    }
    return (
        dict.fromkeys(schemas.LAG.names)
        | PLACE
        | {"group_id": "G1", "notes": []}
        | terms
        | window
        | changes
    )


def end(offset: int | None, milliseconds: int, **changes: Any) -> dict[str, Any]:
    return (
        PLACE | {"log_start_offset": 0, "end_offset": offset, "as_of": ago(milliseconds)} | changes
    )


def time(
    requested: int, offset: int | None, timestamp: datetime | None, **changes: Any
) -> dict[str, Any]:
    return PLACE | {"asked_offset": requested, "offset": offset, "timestamp": timestamp} | changes
