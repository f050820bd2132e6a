"""Forecasts of the lag, their outcomes, and their calibration.

    age      the oldest record ages by 1 - completion rate / arrival rate a second
    drain    lag / (completion rate - arrival rate), as in `sharelag.metrics.rates`
    error    (actual - trend) / horizon of an age, log(actual / trend) of a drain

Student's interval of a mean rate describes how well the rate is known, not how well it predicts,
because rates change. So intervals come from the errors of earlier forecasts of the same kind and
course (`drain`), which only assumes that future errors are like them (conformal prediction). Of n
errors the k-th smallest is the point below which k of n + 1 lie.

When rates change, earlier errors are too small. So the share that an interval leaves out adapts:
each miss widens the next interval, each hit narrows it a little (adaptive conformal inference,
Gibbs and Candès 2021), for any distribution of errors.

Every forecast is due after its horizon, even if its outcome is known earlier, so early outcomes are
not favoured. A drain that takes longer than the horizon is not forecast.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.compiled import without_numba
from sharelag.metrics.age import end_at, known_ends, time_of
from sharelag.metrics.columns import floats, known_times, mask, numbers
from sharelag.metrics.rates import DRAINS
from sharelag.model import milliseconds
from sharelag.schemas import SHARE_PARTITION, Arrow, Bools, Floats, Ints
from sharelag.tables.arrow import as_table, beside, flat, integers, keys, table_of, with_columns

AGE, DRAIN = "age", "drain"
CAME_TRUE, MISSED, UNTOLD, NO_INTERVAL = "came true", "missed", "not known", "no interval"
#: The nominal coverage of an interval.
CONFIDENCE = 0.8
#: Minimum number of errors for an interval: with fewer than nine, none would cover 80 %.
LEAST = 20
#: How much a miss widens the next interval, as a share of outcomes. From a quarter to more than
#: twice of it, 77 to 79 % of the forecasts in docs/forecasts.md came true.
_GAIN = 0.02
#: The share of the initial lag at which it is gone, as in `sharelag.metrics.rates.lag_began`.
LITTLE = 0.05
#: Equal parts of a forecast's horizon, at whose ends the lag is read.
STEPS = 30
#: Key columns of forecasts.
KEY = (*SHARE_PARTITION, "as_of", "forecast")
_POINTS = np.array([(1 - CONFIDENCE) / 2, 0.5, (1 + CONFIDENCE) / 2])
_NAMES = ("low_ms", "middle_ms", "high_ms")
_MS = timedelta(milliseconds=1)
#: Rounding error of products of integers and tenths.
_TINY = 1e-9


def make_forecasts(
    progress: Arrow, lag: Arrow, past: Arrow, as_of: datetime, horizon: timedelta
) -> pa.Table:
    """Make forecasts of every share partition with lag, as `sharelag.schemas.FORECASTS`.

    ``progress`` and ``lag`` describe the moment ``as_of``; ``past`` has earlier forecasts, each
    once. Ages are forecast for ``horizon`` later, drains up to then.
    """
    now, span, rows = milliseconds(as_of), horizon // _MS, as_table(progress)
    of_lag = beside(keys(rows, SHARE_PARTITION), lag, SHARE_PARTITION)
    (left, is_known), (age, is_aged) = numbers(of_lag, "effective_lag"), numbers(rows, "age_ms")
    (drain, drains), waits = numbers(rows, "drain_ms"), is_known & (left > 0)
    drains &= mask(pc.equal(rows.column("drain"), DRAINS)) & (drain > 0) & (drain <= span)
    arrives, finishes = floats(rows.column("arrival_rate")), floats(rows.column("completion_rate"))
    later = np.maximum(left + (arrives - finishes) * span / 1000, 0)
    some = arrives > 0
    each = np.where(some, arrives, 1)
    rate = np.where(some, later * 1000 / each, np.where(later > 0, np.inf, 0))
    # Without arrivals, assume that the next record is as old as the oldest, until none is left.
    trend = age + span * np.where(some, 1 - finishes / each, np.where(later > 0, 1, -np.inf))
    ages = np.stack([np.minimum(rate, age + span), np.clip(trend, 0, age + span)])
    known = waits & is_aged & ~np.isnan(arrives) & ~np.isnan(finishes)
    durations = np.stack([drain, drain]).astype(np.float64)
    made = [
        _forecasts(rows, kind, np.flatnonzero(is_made), found, left, now, span)
        for kind, is_made, found in ((AGE, known, ages), (DRAIN, waits & drains, durations))
    ]
    return _add_intervals(pa.concat_tables(made), as_table(past))


def _forecasts(
    rows: pa.Table, kind: str, place: Ints, found: Floats, left: Ints, now: int, span: int
) -> pa.Table:
    chosen = rows.take(pa.array(place))
    columns: dict[str, Any] = {
        name: flat(chosen.column(name)) for name in (*SHARE_PARTITION, "topic", "drain")
    }
    columns |= {
        "as_of": _moments(now, len(place)),
        "forecast": pa.repeat(kind, len(place)),
        "due_at": _moments(now + span, len(place)),
        "effective_lag": pa.array(left[place]),
        "rate_ms": pa.array(np.rint(found[0, place]).astype(np.int64)),
        "trend_ms": pa.array(np.rint(found[1, place]).astype(np.int64)),
    }
    return table_of(columns, schemas.FORECASTS, pad=True)


def _moments(at: int, count: int) -> pa.Array:
    return known_times(np.full(count, at), np.ones(count, bool))


def _add_intervals(made: pa.Table, past: pa.Table) -> pa.Table:
    """Add intervals from the errors of past forecasts."""
    points = np.full((made.num_rows, len(_POINTS)), np.nan)
    for names in (("forecast",), ("forecast", "drain")):
        found = _points(past, keys(past, names), keys(made, names))
        points = np.where(np.isnan(found), points, found)
    trend, span = _column(made, "trend_ms")[:, np.newaxis], _span(made)[:, np.newaxis]
    is_age = mask(pc.equal(made.column("forecast"), AGE))[:, np.newaxis]
    with np.errstate(over="ignore"):
        values = np.where(is_age, trend + points * span, np.maximum(trend, 1) * np.exp(points))
    # Both ages are interpolated, so an age may seem to grow faster than time.
    values = np.clip(values, 0, np.where(is_age, np.inf, span))
    for name, rounded, each in zip(_NAMES, (np.floor, np.rint, np.ceil), values.T, strict=True):
        unknown = np.isnan(each)
        whole = rounded(np.where(unknown, 0, each)).astype(np.int64)
        made = with_columns(made, {name: pa.array(whole, mask=unknown)})
    return made


def _column(rows: pa.Table, name: str) -> Floats:
    return numbers(rows, name)[0].astype(np.float64)


def _span(rows: pa.Table) -> Floats:
    """Return the horizon of each forecast, in milliseconds."""
    return (integers(rows, "due_at") - integers(rows, "as_of")).astype(np.float64)


def _errors(judged: pa.Table) -> Floats:
    """Return the error of each trend; infinite where a drain took longer than the horizon."""
    actual, trend, span = _column(judged, "actual_ms"), _column(judged, "trend_ms"), _span(judged)
    drained = np.log(np.maximum(actual, 1) / np.maximum(trend, 1))
    return np.where(
        mask(pc.equal(judged.column("forecast"), AGE)),
        (actual - trend) / np.maximum(span, 1),
        np.where(actual >= span, np.inf, drained),
    )


def _points(past: pa.Table, names: pa.Array, requested: pa.Array) -> Floats:
    """Return the points of past errors with each requested name, `[requested, points]`.

    NaN where there are fewer than `LEAST`.
    """
    has_outcome = pc.is_valid(past.column("actual_ms"))
    each, past = names.filter(flat(has_outcome)), past.filter(has_outcome)
    kinds = pc.unique(each)
    mine = pc.index_in(requested, kinds).fill_null(-1).to_numpy().astype(np.int64)
    if not len(kinds) or not len(mine):
        return np.full((len(mine), len(_POINTS)), np.nan)
    code, errors = pc.index_in(each, kinds).to_numpy().astype(np.int64), _errors(past)
    errors = errors[np.lexsort((errors, code))]
    count = np.bincount(code, minlength=len(kinds))
    first = np.cumsum(count) - count
    missed, true = (
        np.bincount(code, mask(pc.equal(past.column("outcome"), one)), len(kinds))
        for one in (MISSED, CAME_TRUE)
    )
    outside = 1 - CONFIDENCE
    outside = np.clip(outside + _GAIN * (outside * (missed + true) - missed), 0, 1)
    shares = np.stack([outside / 2, np.full(len(kinds), 0.5), 1 - outside / 2], axis=1)
    among = (count + 1)[:, np.newaxis] * shares
    among[:, 0], among[:, 1:] = np.floor(among[:, 0] + _TINY), np.ceil(among[:, 1:] - _TINY)
    at = np.clip(among.astype(np.int64), 1, count[:, np.newaxis]) - 1 + first[:, np.newaxis]
    enough = (mine >= 0) & (count[mine] >= LEAST)
    return np.where(enough[:, np.newaxis], errors[at[mine]], np.nan)


# ---- what became of them -------------------------------------------------------------------------


def moments_of(due: Arrow) -> list[datetime]:
    """Return the moments whose lag is needed to score forecasts."""
    at = pa.array(np.unique(_grid(as_table(due)))).view(schemas.TIMESTAMP)
    return at.to_pylist()  # type: ignore[no-any-return]


def _grid(rows: pa.Table) -> Ints:
    made, due = integers(rows, "as_of"), integers(rows, "due_at")
    parts: Ints = (due - made)[:, np.newaxis] * np.arange(STEPS + 1) // STEPS
    return made[:, np.newaxis] + parts


def score(due: Arrow, lag: Arrow, timeline: Arrow, past_offsets: Arrow, now: int) -> pa.Table:
    """Return the forecasts that are ``due`` with their known outcomes.

    ``lag`` is that of the reading ``now`` (milliseconds), ``timeline`` that at `moments_of` the
    forecasts; ``past_offsets`` may have any moments of that time.
    """
    rows, grid = as_table(due), _grid(as_table(due))
    state, has_state = _states(rows, as_table(timeline), grid)
    ends = known_ends(lag, past_offsets, now)
    here = pc.index_in(keys(rows, SHARE_PARTITION), keys(lag, SHARE_PARTITION))
    # A share partition that no longer exists has a place beyond all others, without a log.
    places = np.append(ends.rows, len(ends.rows))
    place = places[here.fill_null(len(ends.rows)).to_numpy().astype(np.int64)]
    ends = replace(ends, rows=place.repeat(STEPS + 1))
    start = state["effective_start_offset"]
    (end, has_end), (since, is_dated) = (
        (values.reshape(grid.shape), known.reshape(grid.shape))
        for values, known in (end_at(ends, grid.ravel()), time_of(ends, start.ravel()))
    )
    left = np.maximum(end, state["window_end_offset"]) - start - state["window_complete"]
    left, is_known = np.maximum(left, 0), has_state & has_end
    age = np.where(left[:, -1] > 0, np.maximum(grid[:, -1] - since[:, -1], 0), 0)
    drained, has_drained = _measure_drains(left, is_known, grid, numbers(rows, "effective_lag")[0])
    is_age = mask(pc.equal(rows.column("forecast"), AGE))
    actual = np.where(is_age, age, drained)
    judged = np.where(is_age, is_known[:, -1] & (is_dated[:, -1] | (left[:, -1] == 0)), has_drained)
    was_reset = (np.diff(state["start_offset"], axis=1) < 0).any(axis=1) & has_state.all(axis=1)
    reasons = np.select(
        [~has_state[:, -1], was_reset, is_known[:, -1] & is_age],
        [
            "its state at that time is not known",
            "its start offset was set back",
            "when its oldest record arrived is not known",
        ],
        "where its log ended at that time is not known",
    )
    judged &= ~was_reset
    (low, has_interval), (high, _) = numbers(rows, "low_ms"), numbers(rows, "high_ms")
    cases = [~judged, ~has_interval, (low <= actual) & (actual <= high)]
    outcomes = np.select(cases, [UNTOLD, NO_INTERVAL, CAME_TRUE], MISSED)
    columns = {name: flat(rows.column(name)) for name in rows.schema.names} | {
        "actual_ms": pa.array(actual, mask=~judged),
        "outcome": pa.array(outcomes.tolist(), pa.string()),
        "reason": pa.array(reasons.tolist(), pa.string(), mask=judged),
        "scored_at": _moments(now, len(rows)),
    }
    return table_of(columns, schemas.FORECASTS)


def _states(rows: pa.Table, timeline: pa.Table, grid: Ints) -> tuple[dict[str, Ints], Bools]:
    """Return the state of each forecast's share partition at each moment, and whether known."""
    names = ("start_offset", "effective_start_offset", "window_end_offset", "window_complete")
    if not len(timeline) or not len(rows):
        return dict.fromkeys(names, np.zeros(grid.shape, np.int64)), np.zeros(grid.shape, bool)
    mine = keys(rows, SHARE_PARTITION)
    there = pc.index_in(keys(timeline, SHARE_PARTITION), mine).fill_null(-1).to_numpy()
    time, first = integers(timeline, "as_of"), int(grid.min())
    width = int(max(grid.max(), time.max())) - first + 1
    numbered = np.where(time < first, -1, there.astype(np.int64) * width + time - first)
    order = np.argsort(numbered, kind="stable")
    target = pc.index_in(mine, mine).to_numpy().astype(np.int64)[:, np.newaxis] * width
    target = target + grid - first
    place = np.minimum(np.searchsorted(numbered[order], target), len(order) - 1)
    is_known, found = numbered[order][place] == target, {}
    for name in names:
        values, known = numbers(timeline, name)
        found[name] = values[order][place]
        is_known &= known[order][place]
    return found, is_known


def _measure_drains(left: Ints, is_known: Bools, grid: Ints, was: Ints) -> tuple[Ints, Bools]:
    """Return how long the lag lasted, up to the due moment, and whether known."""
    little = (LITTLE * was).astype(np.int64)
    gone = is_known & (left <= little[:, np.newaxis])
    gone[:, 0] = False
    ever, rows = gone.any(axis=1), np.arange(len(left))
    first = np.where(ever, np.argmax(gone, axis=1), STEPS)
    fell = left[rows, first - 1] - left[rows, first]
    share = np.clip((left[rows, first - 1] - little) / np.maximum(fell, 1), 0, 1)
    step = grid[rows, first] - grid[rows, first - 1]
    lasted = grid[rows, first - 1] - grid[:, 0] + np.rint(share * step).astype(np.int64)
    # At an unknown moment the lag may have been gone.
    were_known = np.cumsum(is_known, axis=1)[rows, first] == first + 1
    return np.where(ever, lasted, grid[:, -1] - grid[:, 0]), were_known


# ---- how good they are ---------------------------------------------------------------------------


@cache
def scoring_rules() -> ModuleType:
    """Import `scoringrules` without numba.

    With numba it compiles dozens of unused functions at each import, which takes seconds.
    """
    with without_numba():
        return import_module("scoringrules")


def calibration(forecasts: Arrow) -> pa.Table:
    """Return how often forecasts came true, as `sharelag.schemas.CALIBRATION`; a row per kind."""
    rows, found = as_table(forecasts), []
    for kind in (AGE, DRAIN):
        mine = rows.filter(pc.equal(rows.column("forecast"), kind))
        judged = mine.filter(pc.is_in(mine.column("outcome"), pa.array([CAME_TRUE, MISSED])))
        true = pc.sum(pc.equal(judged.column("outcome"), CAME_TRUE)).as_py() or 0
        row = {
            "forecast": kind,
            "scored": judged.num_rows,
            "came_true": true,
            "untold": pc.sum(pc.equal(mine.column("outcome"), UNTOLD)).as_py() or 0,
            "not_due": mine.column("outcome").null_count,
        }
        if judged.num_rows:
            row |= {"covered": true / judged.num_rows} | _scores(judged)
        # Without evidence it does not count as better.
        is_shown = judged.num_rows >= LEAST and row["crps_ms"] < row["rate_crps_ms"]
        found.append(row | {"shown": is_shown})
    return pa.Table.from_pylist(found, schema=schemas.CALIBRATION)


def _scores(judged: pa.Table) -> dict[str, float]:
    """Return mean scores; the CRPS of a point forecast is its absolute error."""
    rules = scoring_rules()
    actual, low, middle, high = (_column(judged, name) for name in ("actual_ms", *_NAMES))
    crps = rules.crps_quantile(actual, np.stack([low, middle, high], axis=1), _POINTS)
    return {
        "crps_ms": float(crps.mean()),
        "rate_crps_ms": float(abs(actual - _column(judged, "rate_ms")).mean()),
        "interval_score_ms": float(rules.interval_score(actual, low, high, 1 - CONFIDENCE).mean()),
    }
