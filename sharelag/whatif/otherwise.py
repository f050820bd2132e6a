"""An incident replayed: what a span of a group's history would have been with a change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.durations import duration, parse_duration
from sharelag.errors import InputError, list_names
from sharelag.metrics.columns import floats
from sharelag.tables import views
from sharelag.tables.displayable import Displayable
from sharelag.tables.presentation import Presentation
from sharelag.tables.words import THOUSANDS, moment, number, percent, pluralize, sentence
from sharelag.whatif.compare import PROJECTED, Comparison, Progress, compare
from sharelag.whatif.comparison.intervals import Interval, half_width
from sharelag.whatif.past import HAPPENED, Past
from sharelag.whatif.presenting import present
from sharelag.whatif.scenario import Scenario

#: What happened, and the span simulated without a change, by name.
HAPPENED_NAME, AS_IT_WAS = "what happened", "as it was, simulated"
#: The number of runs of each variant.
SEEDS = 20
#: The largest mean error, as a share of the highest lag, at which the simulation explains a span.
FAR_OFF = 0.25
#: Columns of `Otherwise.rows`.
_ROW = (
    *("variant", "lag_end", "low", "high", "drain_ms", "drain_low_ms", "drain_high_ms", "lag_max"),
    *("age_max_ms", "alert_at", "alert_share", "member_hours"),
)


class Alert(NamedTuple):
    """A rule that fires if the age or the lag of a group is above a level."""

    measure: str  # age or lag
    level: float  # milliseconds, or offsets

    @classmethod
    def parse(cls, text: str) -> Alert:
        """Read ``age>30s`` or ``lag>1000``.

        Raises
        ------
        InputError
            The text has another format.
        """
        measure, _, level = (part.strip() for part in text.partition(">"))
        try:
            if measure == "age":
                return cls(measure, parse_duration(level).total_seconds() * 1000)
            if measure != "lag":
                raise ValueError
            return cls(measure, float(level))
        except (ValueError, InputError):
            raise InputError(
                f"{text!r} is not an alert: give age>30s or lag>1000, of the whole group"
            ) from None

    @property
    def column(self) -> str:
        """The column over time that the rule uses."""
        return "age_ms" if self.measure == "age" else "lag"

    def share(self, runs: Mapping[str, Any]) -> float:
        """Return the share of the runs in which it fires, by their highest lag and age."""
        highest = runs["age_max_ms" if self.measure == "age" else "lag_max"]
        return float(np.mean(highest > self.level))

    def __str__(self) -> str:
        level = duration(self.level) if self.measure == "age" else f"{self.level:g}"
        return f"{self.measure} > {level}"

    def first(self, over_time: pa.Table) -> float | None:
        """Return when it is first known to hold, by ``time_ms`` of a table; None if never."""
        above = np.flatnonzero(floats(over_time.column(self.column)) > self.level)  # NaN is not
        return float(over_time.column("time_ms")[int(above[0])].as_py()) if len(above) else None


class Explained(NamedTuple):
    """How well the simulated span explains what happened; None if unknown."""

    mean: float | None = None  # absolute error of the lag, over the moments at which it is known
    share: float | None = None  # of the highest known lag
    last: float | None = None  # simulated minus real lag at the last known moment
    moments: int = 0
    drain_ms: float | None = None  # simulated minus real time until nothing was left

    @property
    def is_close(self) -> bool:
        """Whether the simulation of a change can be relied on."""
        return self.share is None or self.share <= FAR_OFF


@dataclass(frozen=True)
class Otherwise(Displayable):
    """What happened, a simulation of the same, and simulations of changes.

    Attributes
    ----------
    past
        The span that was simulated.
    comparison
        The comparison of the runs; the baseline is the span as it was.
    alert
        The alert rule, if one was given.
    """

    past: Past
    comparison: Comparison
    alert: Alert | None = None

    @cached_property
    def explained(self) -> Explained:
        """The error of the simulated span."""
        happened, curve = self.past.happened, _select(self.comparison.projected, AS_IT_WAS)
        lag = floats(happened.column("lag"))
        known = ~np.isnan(lag)
        if not known.any():
            return Explained()
        at = happened.column("time_ms").to_numpy()[known]
        simulated = np.interp(at, curve.column("time_ms").to_numpy(), floats(curve.column("lag")))
        off = simulated - lag[known]
        mean, highest = float(np.abs(off).mean()), float(lag[known].max())
        late = None
        if self.drained_ms is not None:
            drains = floats(_select(self.comparison.runs, AS_IT_WAS).column("drain_ms"))
            late = drains.mean() - self.drained_ms
        share = mean / highest if highest else None
        return Explained(mean, share, float(off[-1]), int(known.sum()), late)

    @cached_property
    def drained_ms(self) -> float | None:
        """The first time after the largest lag at which nothing was left; None: unknown."""
        lag = floats(self.past.happened.column("lag"))
        largest = int(np.nanargmax(lag)) if not np.isnan(lag).all() else 0
        empty = np.flatnonzero(lag[largest:] == 0)
        times = self.past.happened.column("time_ms")
        return float(times[largest + int(empty[0])].as_py()) if len(empty) else None

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """Rows of what happened, of the same simulated, and of every change.

        Returns
        -------
        list of dict
            ``variant``; ``lag_end`` with its bounds ``low`` and ``high``; ``drain_ms`` until
            nothing was left after the largest lag (None: not in all runs), with ``drain_low_ms``
            and ``drain_high_ms``; ``lag_max``, ``age_max_ms``; ``alert_at`` (when the alert first
            fired, in ms since the beginning), ``alert_share`` (of the runs in which it fired);
            ``member_hours``. None means unknown, or never for ``alert_at``. If the simulation does
            not explain what happened (`FAR_OFF`), all values of changes but the last are None.
        """
        happened = self.past.happened
        lag, age = floats(happened.column("lag")), floats(happened.column("age_ms"))
        fired = self.alert.first(happened) if self.alert else None
        is_known = self.alert and not np.isnan(floats(happened.column(self.alert.column))).all()
        real = {
            "variant": HAPPENED_NAME,
            "lag_end": None if not len(lag) or np.isnan(lag[-1]) else float(lag[-1]),
            "drain_ms": self.drained_ms,
            "lag_max": _highest(lag),
            "age_max_ms": _highest(age),
            "alert_at": fired,
            "alert_share": float(fired is not None) if is_known else None,
        }
        rows: list[dict[str, Any]] = [dict.fromkeys(_ROW) | real]
        for name in self.comparison.names:
            runs = _select(self.comparison.runs, name)
            hours = float(floats(runs.column("member_hours")).mean())
            rows.append(dict.fromkeys(_ROW) | {"variant": name, "member_hours": hours})
            if name != AS_IT_WAS and not self.explained.is_close:
                continue
            over_time = _select(self.comparison.projected, name)
            bound = {one: floats(runs.column(one)) for one in ("lag_end", "lag_max", "age_max_ms")}
            bounds = self._bounds(bound["lag_end"], self.explained.last)
            drain = self._bounds(floats(runs.column("drain_ms")), self.explained.drain_ms or 0.0)
            rows[-1] |= {
                **dict(zip(("lag_end", "low", "high"), bounds, strict=True)),
                **dict(zip(("drain_ms", "drain_low_ms", "drain_high_ms"), drain, strict=True)),
                "lag_max": float(bound["lag_max"].mean()),
                "age_max_ms": float(bound["age_max_ms"].mean()),
                "alert_at": self.alert.first(over_time) if self.alert else None,
                "alert_share": self.alert.share(bound) if self.alert else None,
            }
        return rows

    def _say_fired(self, row: Mapping[str, Any]) -> str:
        """Say when the alert fired, as an upper bound if earlier real values are unknown."""
        at = row["alert_at"]
        if self.alert is None or row["variant"] != HAPPENED_NAME:
            return _clock(self.past, at)
        before = self.past.happened.column("time_ms").to_numpy() < at
        is_dark = np.isnan(floats(self.past.happened.column(self.alert.column))[before]).any()
        return _clock(self.past, at) + " at the latest" * bool(is_dark)

    def _bounds(self, values: Any, off: float | None) -> Interval:
        """Return the bounds of a single run, widened by the error of the simulated span."""
        mean = float(values.mean())
        if np.isnan(mean) or len(values) < 2 or off is None or np.isnan(off):
            return Interval(None if np.isnan(mean) else mean)
        # Half of the interval of the mean, converted to that of a run.
        half = float(half_width(values, self.comparison.confidence)) * (len(values) + 1) ** 0.5
        half += abs(off)
        return Interval(mean, max(mean - half, 0.0), mean + half)

    @property
    def curves(self) -> pa.Table:
        """What happened and every variant over time, as `sharelag.whatif.compare.PROJECTED`."""
        known = self.past.happened.filter(self.past.happened.column("lag").is_valid())
        unknown = pa.nulls(len(known), pa.float64())
        given = {"variant": pa.array([HAPPENED_NAME] * len(known), pa.string())}
        given |= {name: known.column(name) for name in HAPPENED.names}
        columns = [given.get(name, unknown) for name in PROJECTED.names]
        return pa.concat_tables([pa.table(columns, schema=PROJECTED), self.comparison.projected])

    def verdict(self) -> str:
        """Return what would have been different, and how well what happened is explained."""
        changes = [row for row in self.rows[2:] if row["variant"] != AS_IT_WAS]
        if self.explained.is_close:
            sentences = [*(self._say_otherwise(row) for row in changes), self._say_explained()]
        else:
            what = list_names([row["variant"] for row in changes])
            sentences = [
                f"{self._say_explained()}, so it does not explain what happened",
                *([f"the effect of {what} is not known"] if changes else []),
            ]
        return " ".join(map(sentence, sentences))

    def _say_otherwise(self, row: Mapping[str, Any]) -> str:
        real, end = self.rows[0]["lag_end"], _clock(self.past, self.past.scenario.duration_ms)
        was = "" if real is None else f" (at {self._last_known()} it was {real:,.0f})"
        bounds = "" if row["low"] is None else f" [{row['low']:,.0f} to {row['high']:,.0f}]"
        would = f"the lag at {end} would have been {row['lag_end']:,.0f}{bounds}{was}"
        alerted = f"; {self._say_alerted(row)}" if self.alert else ""
        return f"with {row['variant']} {would}{alerted}"

    def _say_alerted(self, row: Mapping[str, Any]) -> str:
        real, share, count = self.rows[0], row["alert_share"], self.comparison.seeds
        luck = f"in {round(share * count)} of {pluralize(count, 'run')}"
        did = "did not fire" if real["alert_at"] is None else f"fired at {self._say_fired(real)}"
        if real["alert_share"] is None:
            did = "may have fired or not"
        when = "" if row["alert_at"] is None else f" at {self._say_fired(row)}"
        would = "would not" if share == 0 else "might" if share < 1 else "would"
        return f"the alert {self.alert}, which {did}, {would} have fired{when} ({luck})"

    def _say_explained(self) -> str:
        found = self.explained
        if found.mean is None:
            return (
                "how well the simulation explains the span is unknown, because its real lag is not "
                "known"
            )
        share = "" if found.share is None else f", {percent(found.share)} of the highest"
        way = "above" if (found.last or 0) > 0 else "below"
        return (
            f"simulated as it was, the lag is {found.mean:,.1f} offsets off on average{share}, and "
            f"at {self._last_known()} {abs(found.last or 0):,.0f} {way} what it was"
        )

    def _last_known(self) -> str:
        """Return the last moment with a known real lag, often before the end of the span."""
        known = self.past.happened.filter(self.past.happened.column("lag").is_valid())
        return _clock(self.past, known.column("time_ms")[-1].as_py())

    def conditions(self) -> Iterator[str]:
        """Yield the conditions of the simulation."""
        seeds = self.comparison.seeds
        yield (
            f"{pluralize(seeds, 'run')} of each; "
            f"{100 * self.comparison.confidence:g} % of single runs end between the bounds, "
            "which are widened by the error of the unchanged simulation at the last known lag"
        )
        yield (
            f"the lag is known at {pluralize(self.explained.moments, 'moment')} of the span, and "
            "unknown between them"
        )
        if seeds < 2:
            yield "one run cannot show chance, so there are no bounds"
        yield from (f"assumed: {one}" for one in self.past.scenario.assumed)

    def presentation(self) -> Presentation:
        """Return the table that is displayed."""
        found = [self.for_people(row) for row in self.rows]
        notes = (self.verdict(), *self.conditions())
        when = f"from {moment(self.past.begin)} to {moment(self.past.end)}"
        return present(f"{self.past.scenario.group_id} {when}", found, views.OTHERWISE, notes)

    def for_people(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row in words."""
        share, at = row["alert_share"], row["alert_at"]
        as_words: dict[str, Callable[[float], str]] = {
            **dict.fromkeys(("lag_end", "low", "high", "lag_max"), "{:,.0f}".format),
            "age_max_ms": duration,
            "drain_ms": duration,
            "alert_share": percent,
            "member_hours": lambda hours: number(hours, THOUSANDS),
        }
        texts = {one: None if row[one] is None else say(row[one]) for one, say in as_words.items()}
        fired = None if at is None else self._say_fired(row)
        return {**row, **texts, "alert_at": "never" if share == 0 else fired}


def otherwise(
    past: Past,
    tried: Mapping[str, Scenario],
    *,
    alert: str | Alert | None = None,
    seeds: Iterable[int] = range(SEEDS),
    confidence: float = 0.95,
    progress: Progress | None = None,
) -> Otherwise:
    """Simulate a span of a group's history as it was and with changes.

    Parameters
    ----------
    past : Past
        As `sharelag.workbench.Workbench.past` returns it.
    tried : mapping of str to Scenario
        Changes of ``past.scenario`` by name, as `sharelag.whatif.variants` makes them.
    alert : str, optional
        A rule such as ``age>30s`` or ``lag>1000`` for the whole group: would it have fired?
    seeds : iterable of int
        Random seeds for the work of each record; arrivals are the same in all runs.
    confidence : float
        Confidence of the bounds.
    progress : callable, optional
        Called with ``(done, all)``, in runs.

    Raises
    ------
    InputError
        The alert cannot be read, or no seed is given.
    """
    rule = Alert.parse(alert) if isinstance(alert, str) else alert
    changes = {name: one for name, one in tried.items() if one != past.scenario}
    comparison = compare(
        {AS_IT_WAS: past.scenario} | changes,
        seeds=seeds,
        baseline=AS_IT_WAS,
        confidence=confidence,
        progress=progress,
    )
    return Otherwise(past, comparison, rule)


def _select(table: pa.Table, variant: str) -> pa.Table:
    return table.filter(pc.equal(table.column("variant"), variant))


def _highest(values: Any) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else None


def _clock(past: Past, time_ms: float) -> str:
    return moment(past.at(time_ms))[11:19]
