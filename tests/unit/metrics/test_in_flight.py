"""Gauges of brokers bound what is acquired, and say nothing where they may be of another window."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.metrics.measured import (
    CLOSE,
    add_measured,
    describe_measured,
    measured_arrow,
    readings,
)
from tests.support.records import assert_fields

AT = datetime(2026, 11, 23, 7, tzinfo=UTC)
BEAN = "kafka.server:type=SharePartitionMetrics"
#: Offsets 0 to 99 are in the log; 10 to 19 are in the persisted window, of which 13 to 19 tell
#: no state, and 0 to 9 are finished. So 80 offsets are unread.
LAG: dict[str, Any] = {"group_id": "g", "topic": "t", "topic_id": "T", "partition": 0, "as_of": AT}
LAG |= {"log_start_offset": 0, "start_offset": 8, "effective_start_offset": 10}
LAG |= {"window_end_offset": 20, "end_offset": 100}
LAG |= {"unread": 80, "window_unknown": 7, "window_available": 3}


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


@pytest.mark.parametrize(
    ("counts", "change", "increase", "rate"),
    [([7.0], None, None, None), ([1.0, 7.0], 6, 6, 0.1), ([9.0, 7.0], -2, None, None)],
    ids=["one reading", "it grew", "a broker began to count again"],
)
def test_change_and_rate_need_an_earlier_reading(
    counts: list[float], change: float | None, increase: float | None, rate: float | None
) -> None:
    name, minute = "AcquisitionLockTimeoutPerSec", timedelta(minutes=1)
    rows = [figure(name, count, as_of=AT + n * minute) for n, count in enumerate(counts)]
    table = pa.Table.from_pylist(rows, schema=schemas.BROKER_METRICS)
    (row,) = readings(table, name, "Count", ["group_id"]).to_pylist()
    assert_fields(row, figure=7, change=change, increase=increase, rate=rate)


def window(size: float, **given: Any) -> dict[str, Any]:
    return figure("InFlightMessageCount", size, **given)


IN_FLIGHT = (loads(1), window(30))
EMPTY = {"start_offset": 20, "effective_start_offset": 20, "window_unknown": 0}
UNKNOWN = (None,) * 4


def bounds(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in schemas.MEASURED.names[5:9])


@pytest.mark.parametrize(
    ("figures", "lag", "expected"),
    [
        # It begins at 8, 9 or 10, so it ends at 38, 39 or 40: 18 to 20 of the unread are in it.
        # The 7 without a state may be acquired, too.
        (IN_FLIGHT, {}, (18, 27, 60, 62)),
        ((loads(1), window(0)), EMPTY, (0, 0, 80, 80)),
        ((), {}, UNKNOWN),
        ((loads(2), IN_FLIGHT[1]), {}, UNKNOWN),  # of an earlier load, perhaps
        (IN_FLIGHT[1:], {}, UNKNOWN),  # how often it was loaded is not known
        ((loads(1), window(3)), {}, UNKNOWN),  # shorter than the persisted
        ((loads(1), window(95)), {}, UNKNOWN),  # longer than the log
        (IN_FLIGHT, {"start_offset": None}, UNKNOWN),
        (IN_FLIGHT, {"topic": None}, UNKNOWN),
        ((loads(1), window(30, group_id="other")), {}, UNKNOWN),
        ((loads(1), figure("InFlightBatchCount", 30)), {}, UNKNOWN),
        *(
            ((loads(1), window(30, as_of=AT + off)), {}, UNKNOWN)
            for off in (CLOSE + timedelta(seconds=1), -CLOSE - timedelta(seconds=1))
        ),
        (tuple(one | {"broker": n} for n in "12" for one in IN_FLIGHT), {}, UNKNOWN),  # two tell
    ],
)
def test_the_window_in_memory_ends_between_two_offsets(
    figures: tuple[dict[str, Any], ...], lag: dict[str, Any], expected: tuple[int | None, ...]
) -> None:
    row = measured(*figures, **lag)
    assert bounds(row) == expected
    if figures == IN_FLIGHT and not lag:
        assert row["in_flight_offsets"] == 30


def test_a_gauge_that_moves_between_two_readings_is_of_now() -> None:
    before = {"as_of": AT - timedelta(minutes=5), "read_from": "1", "broker": "b"}
    now = {"broker": "b"}
    load, moved = loads(9, **now), [window(40, **before), window(30, **now)]
    assert bounds(measured(loads(9, **before), load, *moved)) == (18, 27, 60, 62)
    still = [window(30, **when) for when in (before, now)]
    assert measured(loads(9, **before), load, *still)["in_flight_offsets"] is None
    assert measured(loads(8, **before), load, *moved)["in_flight_offsets"] is None


@pytest.mark.parametrize(
    ("version", "known"), [("4.3.1", False), ("4.3", False), (None, False), ("4.4", True)]
)
def test_brokers_that_remove_gauges_have_those_of_now(version: str | None, known: bool) -> None:
    row = measured(loads(9), window(30), kafka_version=version)
    assert row["in_flight_offsets"] == (30 if known else None)
    assert bounds(row) == ((18, 27, 60, 62) if known else UNKNOWN)


def test_what_the_last_reading_of_a_broker_has_no_more_is_gone() -> None:
    before = {"as_of": AT - timedelta(seconds=10), "broker": "b"}
    earlier = [window(30, **before), loads(1, **before)]
    earlier.append(figure("AcquisitionLockTimeoutPerSec", 3, **before))
    row = measured(*earlier, loads(1, broker="b"), kafka_version="4.4")
    assert_fields(row, in_flight_offsets=None, lock_timeouts=None)


@pytest.mark.parametrize(
    ("loaded", "version", "rate"),
    [
        *((False, None, 0.5), (True, "4.3.1", 0.5), (True, "4.3", None)),
        *((True, None, None), (True, "4.4.0", None)),
    ],
)
def test_expired_locks_have_a_rate(loaded: bool, version: str | None, rate: float | None) -> None:
    before = {"as_of": AT - timedelta(seconds=10), "broker": "b"}
    counts = [figure("AcquisitionLockTimeoutPerSec", 3, **before)]
    counts += [figure("AcquisitionLockTimeoutPerSec", 8, broker="b")]
    counts += [loads(1, **before), loads(2, broker="b")] if loaded else []
    row = measured(*counts, kafka_version=version)
    assert_fields(row, lock_timeouts=8, lock_timeout_rate=rate)


def test_it_is_said_in_words_and_in_columns() -> None:
    row = measured(*IN_FLIGHT)
    table = pa.Table.from_pylist([row], schema=schemas.MEASURED)
    found = describe_measured(table)
    assert found == {("g", "T", 0): "18 to 27 acquired, 60 to 62 never delivered, 30 in flight"}
    lag = pa.Table.from_pylist([LAG], schema=schemas.LAG)
    assert add_measured(lag, table).column("acquired_high").to_pylist() == [27]
    assert add_measured(lag, schemas.MEASURED.empty_table()) is lag
