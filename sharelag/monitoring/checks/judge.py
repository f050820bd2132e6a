"""Judge share groups by rules, from one reading.

rules ──► measures, now and in the past ──► levels that lasted ──► rows, and the worst level

A level begins when it is reached and ends when the value is better than it by the rule's
hysteresis. It counts once it has held, at every moment examined, for as long as the rule says.
An unknown value neither breaks a rule nor satisfies it: the outcome is the rule's `unknown`.
For a share partition that was never fetched it is the rule's `not_started`, if it has one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag import schemas
from sharelag.durations import duration
from sharelag.engine import OVER, Reading
from sharelag.engine.engines import group_names, lacks_of, read, without_group, without_records
from sharelag.inputs import Input
from sharelag.metrics.causes.inputs import Bools, Floats
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.explain import explain
from sharelag.metrics.health import in_words
from sharelag.monitoring.checks.measures import (
    Series,
    as_of_now,
    before,
    matches,
    of_causes,
    past,
    series,
)
from sharelag.monitoring.checks.rules import TIMED, Rule, Rules, Silence
from sharelag.replay.moment import Choice, Moment
from sharelag.tables.level import CRITICAL, OK, UNKNOWN, WARNING, of_rule, rank, worst
from sharelag.tables.words import THOUSANDS, number, pluralize
from sharelag.workbench.questions.state_topic import judge_state_topic

#: Exit codes of Nagios plug-ins.
CODES = {OK: 0, WARNING: 1, CRITICAL: 2, UNKNOWN: 3}
#: The outcome of one rule for one group.
CHECKED = schemas.CHECKED
#: Levels are evaluated at this many moments of a span, so durations are known to a sixth.
PARTS = 6
#: Summaries if there is nothing to measure yet, or nothing that could get worse.
_NONE = {
    "imbalance": "too little lag to be uneven",
    "retention": "no unfinished record will be deleted",
}


@dataclass(frozen=True)
class Judged:
    """The outcome of one rule, a row per item of its series."""

    level: NDArray[Any]
    is_unknown: Bools  # the level is the rule's `unknown`
    since: Floats  # milliseconds: latest start of the level; NaN: not reached, or unknown
    due: Floats  # milliseconds: when a worse level will have lasted long enough; NaN: none is near
    due_level: NDArray[Any]


@dataclass(frozen=True)
class _Lasting:
    fires: Bools
    may_fire: Bools
    since: Floats

    def due(self, rule: Rule) -> Floats:
        """Time when the level will have lasted long enough if it persists; NaN: never, unknown."""
        waits = ~self.fires & ~self.may_fire
        return np.where(waits, self.since + _milliseconds(rule), np.nan)


def judge(rule: Rule, found: Series) -> Judged:
    """Judge every item by a rule."""
    warn, critical = (_lasting(rule, level, found) for level in (rule.warn, rule.critical))
    level = np.full(len(found.values), OK, object)
    is_unknown = (warn.may_fire | critical.may_fire) & ~warn.fires & ~critical.fires
    level[is_unknown] = of_rule(rule.unknown)
    level[warn.fires] = WARNING
    level[critical.fires] = CRITICAL
    if rule.not_started is not None:
        level[found.not_started] = of_rule(rule.not_started)
    since = np.where(critical.fires | np.isnan(warn.since), critical.since, warn.since)
    soon = np.where(
        critical.fires | found.not_started, np.nan, [critical.due(rule), warn.due(rule)]
    )
    is_critical = ~np.isnan(soon[0])
    due = np.where(is_critical | warn.fires, soon[0], soon[1])
    due_level = np.where(is_critical, CRITICAL, WARNING)
    return Judged(level, is_unknown & ~found.not_started, since, due, due_level)


def _lasting(rule: Rule, level: float | None, found: Series) -> _Lasting:
    count, steps = found.values.shape
    if level is None or not count:
        nowhere = np.zeros(count, bool)
        return _Lasting(nowhere, nowhere, np.full(count, np.nan))
    reached = found.values >= level * rule.sign
    may_reach = reached | ~found.is_exact
    kept = found.values >= level * rule.sign - level * rule.hysteresis
    for at in range(1, steps):
        for starts in (reached, may_reach):
            starts[:, at] |= starts[:, at - 1] & kept[:, at]
    ended = ~may_reach
    if found.since is not None:
        lasted = found.at[-1] - found.since
        return _by_start(rule, reached[:, -1], ended[:, -1], lasted, found.since)
    # Kafka's times are in milliseconds, and so are moments.
    begins = found.at[-1] - _milliseconds(rule) + 1
    reaches = found.at <= begins
    requested = found.at >= found.at[reaches].max(initial=found.at[0])
    may_fire = np.asarray(~ended[:, requested].any(axis=1), bool)
    fires = np.asarray(reached[:, requested].all(axis=1) & reaches.any(), bool)
    # The moment after the last one without the level.
    first = np.where(reached, 0, np.arange(1, steps + 1)).max(axis=1)
    since = np.append(found.at.astype(float), np.nan)[first]
    return _Lasting(fires, may_fire & ~fires, since if steps > 1 else np.full(count, np.nan))


def _by_start(rule: Rule, reached: Bools, ended: Bools, lasted: Floats, since: Floats) -> _Lasting:
    fires = reached
    if rule.lasting:
        fires = np.asarray(reached & (lasted >= _milliseconds(rule)), bool)
    may_fire = ~fires & ~ended & (~reached | np.isnan(since))
    return _Lasting(fires, np.asarray(may_fire, bool), np.where(reached, since, np.nan))


def _milliseconds(rule: Rule) -> float:
    return rule.lasting.total_seconds() * 1000


@dataclass(frozen=True)
class Checked:
    """The outcome of all rules."""

    table: pa.Table  # CHECKED, worst first
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
        Restrict the check to these groups and topics; a rule about others finds nothing.
    over : timedelta
        The span before each moment over which rates are measured, and in which a level with
        hysteresis may have begun.

    Returns
    -------
    Checked
        One row per rule and group. Silences are those in force at the moment that is judged.
    """
    with read(source, engine, as_of, choice, over) as reading:
        return check_reading(reading, rules)


def check_reading(reading: Reading, rules: Rules) -> Checked:
    """Judge an open reading; see `check`."""
    # Rules of lag alone need no history.
    lag_alone = all(
        rule.measure == "lag" and not rule.lasting and not rule.hysteresis for rule in rules.rules
    )
    evidence = reading.lag_evidence if lag_alone else reading.evidence
    over = reading.over
    now = as_of_now(evidence)
    # Causes have their own start.
    own = ("poison", "cause")
    spans = [rule.lasting for rule in rules.rules if rule.lasting and rule.measure not in own]
    spans += [over for rule in rules.rules if rule.hysteresis]
    rates = any(rule.measure == "drain" for rule in rules.rules if rule.lasting or rule.hysteresis)
    moments = [*past(reading, before(evidence, spans, PARTS), over, rates), now]
    is_part = bool(reading.choice.groups or reading.choice.topics)
    known = None if is_part else evidence.lag.column("group_id").to_pylist()
    rows: list[dict[str, Any]] = []
    for rule in rules.rules:
        if rule.measure == "state_topic":
            rows.append(_state_topic(rule, reading))
            continue
        if rule.measure == "cause":
            found = of_causes(rule, explain(evidence, rule.patience), now)
        else:
            found = series(rule, moments)
        rows += _rows(rule, found, known, reading)
    rows += completeness(reading, of_groups=not evidence.lag_only)
    for row in rows:
        row["as_of"] = evidence.as_of
        row["silenced_until"] = _find_silence(row, rules.silences, evidence.as_of)
    rows.sort(key=lambda row: (row["silenced_until"] is not None, -rank(row["level"])))
    level = worst([row["level"] for row in rows if row["silenced_until"] is None])
    return Checked(pa.Table.from_pylist(rows, CHECKED), level, evidence.as_of, evidence)


def completeness(reading: Reading, of_groups: bool = True) -> list[dict[str, Any]]:
    """Return a row of `CHECKED` for each gap in the records, which may hide a broken rule.

    ``of_groups``: include gaps in group records and in times of records.
    """
    return [
        dict.fromkeys(CHECKED.names)
        | {"rule": "completeness", "level": UNKNOWN, "summary": f"not known: {one}"}
        for one in lacks_of(reading, of_groups, of_times=of_groups)
    ]


def _rows(
    rule: Rule, found: Series, known: Sequence[str] | None, reading: Reading
) -> Iterator[dict[str, Any]]:
    """Yield one row per group, on its worst share partition; ``known`` as for `_say_no_group`."""
    judged = judge(rule, found)
    for pattern in rule.groups:
        if not any(fnmatchcase(group, pattern) for group in found.group):
            is_name = not set("*?[") & set(pattern)
            # Groups that match a pattern may appear later; but a rule without any group is not ok.
            is_fine = not is_name and len(found.group)
            words = _say_no_group(rule, pattern, is_name, known, reading)
            named = pattern if is_name else None
            level = OK if is_fine else of_rule(rule.unknown)
            yield _row(rule, level, group_id=named, summary=words)
    severity = np.array([rank(level) for level in judged.level])
    size = np.where(np.isnan(found.values[:, -1]), -np.inf, found.values[:, -1])
    names = found.group.astype(str)
    order = np.lexsort((-size, found.not_started, -severity, names))
    _, first, of = np.unique(names[order], return_index=True, return_inverse=True)
    chosen = order[first]
    alike = severity[order] == severity[chosen][of]
    alike &= found.not_started[order] == found.not_started[chosen][of]
    for place, count in zip(chosen.tolist(), np.bincount(of[alike]).tolist(), strict=True):
        yield _of_group(rule, found, judged, place, count)


def _say_no_group(
    rule: Rule, pattern: str, is_name: bool, known: Sequence[str] | None, reading: Reading
) -> str:
    """Explain why no group matches a pattern; ``known`` is all groups, None if some were chosen."""
    if known is None:
        return f"nothing that was chosen (--group, --topic) matches {pattern}"
    if any(fnmatchcase(group, pattern) for group in known):
        where = f"share group {pattern!r}" if is_name else f"any share group that matches {pattern}"
        return f"no topic matches {', '.join(rule.topics)} in {where}"
    source, moment, choice = reading.source, reading.as_of, reading.choice
    if is_name:
        ever = known if moment is None else group_names(source, choice.generation)
        return without_group(pattern, choice, ever)
    if not known and not reading.record_counts.rejected:
        return without_records(source, moment)
    return f"no share group matches {pattern}"


def _of_group(
    rule: Rule, found: Series, judged: Judged, place: int, matching: int
) -> dict[str, Any]:
    value = float(found.values[place, -1])
    return _row(
        rule,
        str(judged.level[place]),
        group_id=found.group[place],
        topic=found.topic[place],
        partition=found.partition[place],
        value=value * rule.sign if np.isfinite(value) else None,
        at_least=not found.is_exact[place, -1] if np.isfinite(value) else None,
        since=_moment(judged.since[place]),
        due=_moment(judged.due[place]),
        at_this_level=matching,
        summary=_summary(rule, found, judged, place),
    )


def _moment(milliseconds: float) -> datetime | None:
    return None if np.isnan(milliseconds) else datetime.fromtimestamp(milliseconds / 1000, UTC)


def _summary(rule: Rule, found: Series, judged: Judged, place: int) -> str:
    due = float(judged.due[place])
    words = _so_far(rule, found, judged, place)
    if np.isnan(due):
        return words
    # A value measured at intervals may have begun earlier.
    how = "within" if found.since is None else "in"
    rest = duration(max(due - float(found.at[-1]), 0))
    return f"{words}; would be {judged.due_level[place]} {how} {rest}"


def _so_far(rule: Rule, found: Series, judged: Judged, place: int) -> str:
    value, since = float(found.values[place, -1]), float(judged.since[place])
    words = _describe(rule, value)
    if found.not_started[place]:
        return f"{'not judged: ' if rule.not_started == 'ok' else ''}{found.reason[place]}"
    if judged.is_unknown[place]:
        if np.isnan(value):
            return str(found.reason[place])
        if not found.is_exact[place, -1]:
            return f"{words} or more: {found.reason[place] or 'some of it is unknown'}"
        lasting = duration(rule.lasting / timedelta(milliseconds=1))
        what = f"has lasted {lasting}" if rule.lasting else "was worse and has not ended since"
        return f"{words} now; unknown whether it {what}: the records do not go back that far"
    if np.isnan(value):
        return str(found.reason[place])
    or_more = "" if found.is_exact[place, -1] else " or more"
    start = _moment(since)
    held = "" if start is None else f", since {start:%Y-%m-%d %H:%M:%S} UTC"
    # `explain` shows the start of a cause; values measured at intervals have none.
    is_exact = found.since is not None and (found.is_older is None or not found.is_older[place])
    if held and not is_exact:
        held += " at the latest"
    return f"{words}{or_more}{held}"


def _describe(rule: Rule, value: float) -> str:
    if rule.measure == "drain" and value == np.inf:
        return "does not drain"
    if np.isinf(value):
        nothing = _NONE.get(rule.measure, "no share partition yet")
        return "holds an unknown number of offsets" if value > 0 else nothing
    value *= rule.sign
    if rule.measure in TIMED:
        return f"{rule.measure} {duration(value)}"
    if rule.measure == "window":
        return f"window {100 * value:.3g} % full"
    if rule.measure == "imbalance":
        return f"{rule.figure} {number(value, THOUSANDS)}"
    if rule.measure == "lag":
        return f"lag {value:,.0f}"
    held = pluralize(value, "offset")
    return f"failing records hold {held}" if rule.measure == "poison" else f"holds {held}"


def _state_topic(rule: Rule, reading: Reading) -> dict[str, Any]:
    if reading.as_of is not None:
        why = "the state topic can only be checked as of now"
        return _row(rule, of_rule(rule.unknown), summary=why)
    with reading.whole() as whole:
        _, findings = judge_state_topic(whole)
    words = in_words(findings.filter(pc.field("finding").isin(rule.findings)))
    values = np.array([[float(len(words))]])
    found = Series.of_groups(np.array([None], object), np.array([0]), values)
    level = str(judge(rule, found).level[0])
    summary = pluralize(len(words), "finding") + (f": {words[0]}" if words else "")
    return _row(rule, level, value=values[0, 0], at_least=False, summary=summary)


def _row(rule: Rule, level: str, **known: Any) -> dict[str, Any]:
    about = {name: getattr(rule, name) for name in ("measure", "warn", "critical")}
    return dict.fromkeys(CHECKED.names) | about | {"rule": rule.name, "level": level} | known


def _find_silence(
    row: dict[str, Any], silences: tuple[Silence, ...], now: datetime
) -> datetime | None:
    """Return the end of the silence in force; a row that is fine needs none."""
    if row["level"] == OK:
        return None
    ends = (
        silence.until
        for silence in silences
        if (silence.since is None or silence.since <= now)
        and now < silence.until
        and matches([row["rule"]], silence.rules)[0]
        and matches([row["group_id"]], silence.groups)[0]
    )
    return max(ends, default=None)
