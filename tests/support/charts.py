"""Figures of charts, by name, and the tables that they draw."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import charts, schemas
from sharelag.charts import palette
from sharelag.engine import engines
from sharelag.inputs import CaptureInput
from sharelag.metrics.evidence import Evidence
from tests.support import readings
from tests.support.chapters import CAPTURE

ROOT = Path(__file__).parents[2]

SCENARIOS = ROOT / "data" / "captures" / "scenarios"
THEMES: tuple[palette.Theme, ...] = ("light", "dark")
NOW = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)
HOSTILE = "<img src=x onerror=alert(1)><b>bold</b>&lt; %{x} $a$ \u202e🦜"
LONG = "x" * 200
ARABIC = "مجموعة"
TOPIC_ID = "A" * 22


def row_of(schema: pa.Schema, **values: Any) -> dict[str, Any]:
    """A row of one share partition at one moment; what is not given is null."""
    known = {"group_id": "g", "topic": "t", "topic_id": TOPIC_ID, "partition": 0, "as_of": NOW}
    known |= {"record_timestamp": NOW, "notes": [], "runs": []}
    return {name: known.get(name) for name in schema.names} | values


def lag_rows(*rows: dict[str, Any]) -> pa.Table:
    """A table of lag with these values."""
    return pa.Table.from_pylist([row_of(schemas.LAG, **row) for row in rows], schemas.LAG)


@cache
def evidence(name: str) -> Evidence:
    return engines.gather(CaptureInput(folder(name)), "local")


@cache
def timeline(name: str) -> pa.Table:
    return readings.timeline(CaptureInput(folder(name)), timedelta(seconds=1), "local").table


@cache
def history(name: str) -> pa.Table:
    return readings.history(CaptureInput(folder(name)), "local").table


@cache
def moments(name: str, count: int = 6) -> tuple[pa.Table, pa.Array]:
    """The windows at the last few seconds, and when each row was so."""
    end = evidence(name).as_of
    at = [end - timedelta(seconds=n) for n in range(count)]
    tables = [
        readings.windows(CaptureInput(folder(name)), "local", as_of=moment).table for moment in at
    ]
    times = [moment for moment, table in zip(at, tables, strict=True) for _ in range(len(table))]
    return pa.concat_tables(tables), pa.array(times, schemas.TIMESTAMP)


@cache
def health(name: str) -> pa.Table:
    return readings.health(CaptureInput(folder(name)), "local")[0]


def folder(name: str) -> Path:
    return CAPTURE if name == "chapters" else SCENARIOS / name


def records(name: str) -> dict[str, pa.Table]:
    """The records of every chart of one capture."""
    known = evidence(name)
    states = charts.window_state_records(*moments("head_of_line"))
    return {
        "lag_over_time": charts.lag_over_time_records(timeline(name)),
        "decomposition": charts.decomposition_records(known.lag),
        "window_heat": charts.window_heat_records(history(name)),
        "window_state": states.filter(pc.equal(states.column("partition"), 0)),
        "delivery_count": charts.delivery_count_records(evidence("redelivery_storm").windows),
        "lorenz": charts.lorenz_records(known.lag),
        "assigned": charts.assigned_records(known.members, known.lag),
        "rates_over_time": charts.rates_over_time_records(timeline(name)),
        "rates": charts.rates_records(known.progress),
        "drain": charts.drain_records(known.progress),
        "window_span": charts.window_span_records(known.lag, known.settings),
        "cause": charts.cause_records(CAUSES, NOW),
        "state_record": charts.state_record_records(health(name)),
        "state_key": charts.state_key_records(health(name), None),
    }


FIGURES: dict[str, Callable[..., Any]] = {
    "lag_over_time": charts.lag_over_time_figure,
    "decomposition": charts.decomposition_figure,
    "window_heat": charts.window_heat_figure,
    "window_state": charts.window_state_figure,
    "delivery_count": charts.delivery_count_figure,
    "lorenz": charts.lorenz_figure,
    "assigned": charts.assigned_figure,
    "rates_over_time": charts.rates_over_time_figure,
    "rates": charts.rates_figure,
    "drain": charts.drain_figure,
    "window_span": charts.window_span_figure,
    "cause": charts.cause_figure,
    "state_record": charts.state_record_figure,
    "state_key": charts.state_key_figure,
}

CAUSES = pa.Table.from_pylist(
    [
        row_of(schemas.CAUSES, group_id="h", topic=None, topic_id="A-topic", partition=3, rank=1)
        | {"cause": "not_started", "severity": "note", "summary": "Nothing was fetched yet."}
        | {"advice": "Wait.", "evidence": [{"name": "partitions", "value": "3"}]},
        row_of(schemas.CAUSES, topic="orders", partition=None, rank=1, held=1234)
        | {"cause": "no_members", "severity": "critical", "since": NOW - timedelta(minutes=10)}
        | {"summary": "The group has no members.", "advice": "Start a member."}
        | {"evidence": [{"name": "partitions", "value": "0,1"}]},
    ],
    schema=schemas.CAUSES,
)


def renamed(table: pa.Table, name: str) -> pa.Table:
    """The same table with every name that comes from outside replaced."""
    for column in ("group_id", "topic", "member_id", "client_id", "client_host"):
        if column in table.column_names:
            value = pc.if_else(table.column(column).is_valid(), name, pa.scalar(None, pa.string()))
            table = table.set_column(table.column_names.index(column), column, value)
    return table
