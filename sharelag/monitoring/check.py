"""Judge share groups by rules, from one reading.

rules ──► what each looks at, now and in the past ──► levels that lasted ──► rows, and the worst of them
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from sharelag import schemas
from sharelag.durations import duration
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.explain import explain
from sharelag.model import iso
from sharelag.monitoring.checks.judge import Judged, judge
from sharelag.monitoring.checks.measures import Series, matches, of_causes, series
from sharelag.monitoring.checks.past import as_of_now, before, past
from sharelag.monitoring.checks.rules import TIMED, Rule, Rules, Silence
from sharelag.reading import OVER, Reading
from sharelag.replay.moment import Choice, Moment
from sharelag.sources.inputs import Input
from sharelag.tables.level import OK, of_rule, rank, worst
from sharelag.workbench import investigate
from sharelag.workbench.engine import reading

#: The outcome of one rule for one group.
CHECKED = pa.schema(
    [
        ("rule", pa.string()),
        ("level", pa.string()),  # ok, warning, critical or unknown
        ("measure", pa.string()),
        ("group_id", pa.string()),  # null: the rule is of no group, or no group matches it
        (
            "topic",
            pa.string(),
        ),  # the worst share partition; null where the group is judged as a whole
        ("partition", pa.int32()),
        ("value", pa.float64()),  # milliseconds where it is a time; null: not known, or without end
        ("warn", pa.float64()),
        ("critical", pa.float64()),
        (
            "since",
            schemas.TIMESTAMP,
        ),  # when the level was reached, at the latest; null: not, or not known
        ("at_this_level", pa.int64()),  # share partitions of the group that are no better
        ("silenced_until", schemas.TIMESTAMP),  # not null: does not count
        ("summary", pa.string()),
        ("as_of", schemas.TIMESTAMP),
    ]
)
#: At how many moments of a span levels are looked at: it is known to a sixth how long something
#: lasted.
PARTS = 6


@dataclass(frozen=True)
class Checked:
    """The outcome of all rules."""

    table: pa.Table  # CHECKED, the worst first
    level: str  # the worst of those that are not silenced
    as_of: datetime
    evidence: Evidence


def check(
    source: Input,
    rules: Rules,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    over: timedelta = OVER,
) -> Checked:
    """Judge share groups by rules.

    Parameters
    ----------
    source : Input
    rules : Rules
        As `sharelag.monitoring.checks.rules.read_rules` reads them.
    engine : {"auto", "local", "spark"}
    as_of : datetime, mapping of state partition to offset, or None
    choice : Choice, optional
        Only these groups and topics; a rule about others finds nothing.
    over : timedelta
        The span before each moment which rates are of, and in which a level with hysteresis may
        have begun.

    Returns
    -------
    Checked
        A row a rule and group. Silences are those in force at the moment that is judged.
    """
    with reading(source, engine, as_of, choice, over) as begun:
        return check_reading(begun, rules)


def check_reading(begun: Reading, rules: Rules) -> Checked:
    """Judge what a reading holds; see `check`."""
    evidence, over = begun.evidence, begun.over
    now = as_of_now(evidence)
    spans = [rule.lasting for rule in rules.rules if _looks_back(rule)]
    spans += [over for rule in rules.rules if rule.hysteresis]
    rates = any(rule.measure == "drain" for rule in rules.rules if rule.lasting or rule.hysteresis)
    moments = [*past(begun, before(evidence, spans, PARTS), over, rates), now]
    rows: list[dict[str, Any]] = []
    for rule in rules.rules:
        if rule.measure == "state_topic":
            rows.append(_state_topic(rule, begun))
            continue
        is_cause = rule.measure == "cause"
        rows += _rows(
            rule,
            of_causes(rule, explain(evidence, rule.patience), now)
            if is_cause
            else series(rule, moments),
        )
    for row in rows:
        row["as_of"] = evidence.as_of
        row["silenced_until"] = _silenced(row, rules.silences, evidence.as_of)
    rows.sort(key=lambda row: (row["silenced_until"] is not None, -rank(row["level"])))
    counted = [row["level"] for row in rows if row["silenced_until"] is None]
    return Checked(
        pa.Table.from_pylist(rows, schema=CHECKED), worst(counted), evidence.as_of, evidence
    )


def _looks_back(rule: Rule) -> bool:
    """Causes tell themselves since when they hold."""
    return bool(rule.lasting) and rule.measure not in ("poison", "cause")


def _rows(rule: Rule, found: Series) -> Iterator[dict[str, Any]]:
    """A row a group, about the worst of its share partitions."""
    judged = judge(rule, found)
    if not len(found.group):
        yield _row(
            rule,
            of_rule(rule.unknown),
            summary=f"no share group here matches {', '.join(rule.groups)}",
        )
        return
    missing = [
        name for name in rule.groups if not set("*?[") & set(name) and name not in set(found.group)
    ]
    for name in missing:
        yield _row(
            rule,
            of_rule(rule.unknown),
            group_id=name,
            summary="no state of this share group is there",
        )
    severity = np.array([rank(level) for level in judged.level])
    size = np.where(np.isnan(found.values[:, -1]), -np.inf, found.values[:, -1])
    order = np.lexsort((-size, found.not_started, -severity, found.group.astype(str)))
    groups, first = np.unique(found.group[order].astype(str), return_index=True)
    for group, place in zip(groups, order[first], strict=True):
        alike = (found.group == group) & (severity >= severity[place])
        alike &= found.not_started == found.not_started[place]
        yield _of_group(rule, found, judged, int(place), int(alike.sum()))


def _of_group(rule: Rule, found: Series, judged: Judged, place: int, alike: int) -> dict[str, Any]:
    value, since = float(found.values[place, -1]), float(judged.since[place])
    level = str(judged.level[place])
    return _row(
        rule,
        level,
        group_id=found.group[place],
        topic=found.topic[place],
        partition=found.partition[place],
        value=value * rule.sign if np.isfinite(value) else None,
        since=None if np.isnan(since) else datetime.fromtimestamp(since / 1000, UTC),
        at_this_level=alike,
        summary=_summary(rule, found, judged, place),
    )


def _summary(rule: Rule, found: Series, judged: Judged, place: int) -> str:
    value, since = float(found.values[place, -1]), float(judged.since[place])
    told = _told(rule, value)
    if found.not_started[place]:
        return f"{'not judged: ' if rule.not_started == OK else ''}{found.reason[place]}"
    if judged.is_unknown[place]:
        if np.isnan(value):
            return str(found.reason[place])
        if not found.is_exact[place, -1]:
            return f"{told} at least: {found.reason[place] or 'some of it is not known'}"
        lasting = duration(rule.lasting / timedelta(milliseconds=1))
        return (
            f"{told} now; whether for {lasting} is not known, for records do not reach back so far"
        )
    if np.isnan(value):
        return str(found.reason[place])
    at_least = "" if found.is_exact[place, -1] else " at least"
    held = (
        ""
        if np.isnan(since)
        else f", since {iso(datetime.fromtimestamp(since / 1000, UTC))} at the latest"
    )
    return f"{told}{at_least}{held}"


def _told(rule: Rule, value: float) -> str:
    if rule.measure == "drain" and value == np.inf:
        return "does not drain"
    if np.isinf(value):
        return (
            "holds an unknown number of offsets" if value > 0 else f"no {rule.measure} to speak of"
        )
    value *= rule.sign
    if rule.measure in TIMED:
        return f"{rule.measure} {duration(value)}"
    if rule.measure == "window":
        return f"window {value:.1%} taken"
    if rule.measure == "imbalance":
        return f"{rule.figure} {value:.3g}"
    held = {
        "lag": "lag {:,.0f}",
        "poison": "records that fail hold {:,.0f} offsets",
        "cause": "holds {:,.0f} offsets",
    }
    return held[rule.measure].format(value)


def _state_topic(rule: Rule, begun: Reading) -> dict[str, Any]:
    if begun.as_of is not None:
        return _row(rule, of_rule(rule.unknown), summary="the state topic is judged as of now only")
    _, findings = investigate.health_of(begun)
    told = [row["summary"] for row in findings.to_pylist() if row["finding"] in rule.findings]
    values, exact = np.array([[float(len(told))]]), np.ones((1, 1), bool)
    nothing = np.array([None], object)
    found = Series(
        nothing, nothing, nothing, np.array([0]), values, exact, [None], np.zeros(1, bool)
    )
    level = str(judge(rule, found).level[0])
    summary = f"{len(told)} findings" + (f": {told[0]}" if told else "")
    return _row(rule, level, value=values[0, 0], summary=summary)


def _row(rule: Rule, level: str, **known: Any) -> dict[str, Any]:
    about = {
        "rule": rule.name,
        "measure": rule.measure,
        "warn": rule.warn,
        "critical": rule.critical,
    }
    return dict.fromkeys(CHECKED.names) | about | {"level": level} | known


def _silenced(row: dict[str, Any], silences: tuple[Silence, ...], now: datetime) -> datetime | None:
    """Until when; a row that is fine needs no silence."""
    if row["level"] == OK:
        return None
    return max(
        (
            silence.until
            for silence in silences
            if (silence.since is None or silence.since <= now) and now < silence.until
            and matches([row["rule"]], silence.rules)[0] and matches([row["group_id"]], silence.groups)[0]
        ),
        default=None,
    )  # fmt: skip
