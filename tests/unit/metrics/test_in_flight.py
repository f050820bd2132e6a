"""Gauges of brokers bound what is acquired, and say nothing where they may be of another window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.metrics.in_flight import CLOSE, measured_arrow, measured_by, with_measured

AT = datetime(2026, 11, 23, 7, tzinfo=UTC)
BEAN = "kafka.server:type=SharePartitionMetrics"
#: Offsets 0 to 99 are in the log; 10 to 19 are in the persisted window, of which 13 to 19 tell
#: no state, and 0 to 9 are finished. So 80 offsets are unread.
LAG = {
    "group_id": "g",
    "topic": "t",
    "topic_id": "T",
    "partition": 0,
    "log_start_offset": 0,
    "start_offset": 8,
    "effective_start_offset": 10,
    "window_end_offset": 20,
    "end_offset": 100,
    "unread": 80,
    "window_unknown": 7,
    "window_available": 3,
    "as_of": AT,
}


def figure(metric: str, value: float, **given: Any) -> dict[str, Any]:
    place = {"group_id": "g", "topic": "t", "partition": 0}
    attribute = "Value" if metric.startswith("InFlight") else "Count"
    rest = {"metric": metric, "attribute": attribute, "figure": value, "mbean": BEAN, "tags": []}
    return {"as_of": AT, "read_from": "m.txt", "legacy": False} | place | rest | given


def loads(count: float, **given: Any) -> dict[str, Any]:
    nowhere = {"group_id": None, "topic": None, "partition": None}
    return figure("PartitionLoadTimeMs", count, **nowhere, **given)


def measured(*figures: dict[str, Any], kafka_version: Any = None, **lag: Any) -> dict[str, Any]:
    table = pa.Table.from_pylist(list(figures), schema=schemas.BROKER_METRICS)
    rows = pa.Table.from_pylist([LAG | lag], schema=schemas.LAG)
    found = measured_arrow(rows, table, AT, kafka_version)
    assert found.schema == schemas.MEASURED
    (row,) = found.to_pylist()
    return dict(row)


def bounds(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in schemas.MEASURED.names[5:9])


def test_the_window_in_memory_ends_between_two_offsets() -> None:
    # It begins at 8, 9 or 10, so it ends at 38, 39 or 40: 18 to 20 of the unread are in it.
    row = measured(loads(1), figure("InFlightMessageCount", 30))
    assert row["in_flight_offsets"] == 30
    assert bounds(row) == (18, 27, 60, 62)  # the 7 without a state may be acquired, too


def test_an_empty_window_has_nothing_acquired() -> None:
    given = {"start_offset": 20, "effective_start_offset": 20, "window_unknown": 0}
    assert bounds(measured(loads(1), figure("InFlightMessageCount", 0), **given)) == (0, 0, 80, 80)


@pytest.mark.parametrize(
    ("figures", "lag"),
    [
        ((), {}),
        ((loads(2), figure("InFlightMessageCount", 30)), {}),  # of an earlier load, perhaps
        ((figure("InFlightMessageCount", 30),), {}),  # how often it was loaded is not known
        ((loads(1), figure("InFlightMessageCount", 3)), {}),  # shorter than what is persisted
        ((loads(1), figure("InFlightMessageCount", 95)), {}),  # longer than the log
        ((loads(1), figure("InFlightMessageCount", 30)), {"start_offset": None}),
        ((loads(1), figure("InFlightMessageCount", 30)), {"topic": None}),
        ((loads(1), figure("InFlightMessageCount", 30, group_id="other")), {}),
        ((loads(1), figure("InFlightBatchCount", 30)), {}),
    ],
)
def test_what_a_gauge_does_not_tell_is_unknown(
    figures: tuple[dict[str, Any], ...], lag: dict[str, Any]
) -> None:
    assert bounds(measured(*figures, **lag)) == (None,) * 4


@pytest.mark.parametrize("off", [CLOSE + timedelta(seconds=1), -CLOSE - timedelta(seconds=1)])
def test_a_reading_of_another_time_says_nothing(off: timedelta) -> None:
    row = measured(loads(1), figure("InFlightMessageCount", 30, as_of=AT + off))
    assert row["in_flight_offsets"] is None


def test_two_brokers_that_tell_are_one_too_many() -> None:
    both = [loads(1, broker=one) for one in "12"]
    both += [figure("InFlightMessageCount", 30, broker=one) for one in "12"]
    assert measured(*both)["in_flight_offsets"] is None


def test_a_gauge_that_moves_between_two_readings_is_of_now() -> None:
    before = {"as_of": AT - timedelta(minutes=5), "read_from": "1", "broker": "b"}
    now = {"broker": "b"}
    moved = [loads(9, **before), loads(9, **now)]
    moved += [
        figure("InFlightMessageCount", 40, **before),
        figure("InFlightMessageCount", 30, **now),
    ]
    assert bounds(measured(*moved)) == (18, 27, 60, 62)
    still = [figure("InFlightMessageCount", 30, **when) for when in (before, now)]
    assert measured(*moved[:2], *still)["in_flight_offsets"] is None
    loaded = [loads(8, **before), *moved[1:]]
    assert measured(*loaded)["in_flight_offsets"] is None


def test_expired_locks_have_a_rate_between_two_readings() -> None:
    before = {"as_of": AT - timedelta(seconds=10), "broker": "b"}
    counts = [figure("AcquisitionLockTimeoutPerSec", 3, **before)]
    counts.append(figure("AcquisitionLockTimeoutPerSec", 8, broker="b"))
    row = measured(*counts)
    assert (row["lock_timeouts"], row["lock_timeout_rate"]) == (8, 0.5)


@pytest.mark.parametrize(
    ("version", "known"), [("4.3.1", False), ("4.3", False), (None, False), ("4.4", True)]
)
def test_brokers_that_remove_gauges_have_those_of_now(version: str | None, known: bool) -> None:
    row = measured(loads(9), figure("InFlightMessageCount", 30), kafka_version=version)
    assert (row["in_flight_offsets"] == 30) is known
    assert (bounds(row) == (18, 27, 60, 62)) is known


def test_what_the_last_reading_of_a_broker_has_no_more_is_gone() -> None:
    before = {"as_of": AT - timedelta(seconds=10), "broker": "b"}
    earlier = [figure("InFlightMessageCount", 30, **before), loads(1, **before)]
    earlier.append(figure("AcquisitionLockTimeoutPerSec", 3, **before))
    row = measured(*earlier, loads(1, broker="b"), kafka_version="4.4")
    assert (row["in_flight_offsets"], row["lock_timeouts"]) == (None, None)


@pytest.mark.parametrize(
    ("version", "rate"), [("4.3.1", 0.5), ("4.3", None), (None, None), ("4.4.0", None)]
)
def test_locks_are_counted_anew_after_a_load(version: str | None, rate: float | None) -> None:
    before = {"as_of": AT - timedelta(seconds=10), "broker": "b"}
    counts = [figure("AcquisitionLockTimeoutPerSec", 3, **before), loads(1, **before)]
    counts += [figure("AcquisitionLockTimeoutPerSec", 8, broker="b"), loads(2, broker="b")]
    row = measured(*counts, kafka_version=version)
    assert (row["lock_timeouts"], row["lock_timeout_rate"]) == (8, rate)


def test_it_is_said_in_words_and_in_columns() -> None:
    row = measured(loads(1), figure("InFlightMessageCount", 30))
    table = pa.Table.from_pylist([row], schema=schemas.MEASURED)
    assert measured_by(table) == {
        ("g", "T", 0): "18 to 27 acquired, 60 to 62 never delivered, 30 in flight"
    }
    lag = pa.Table.from_pylist([LAG], schema=schemas.LAG)
    assert with_measured(lag, table).column("acquired_high").to_pylist() == [27]
    assert with_measured(lag, schemas.MEASURED.empty_table()) is lag
