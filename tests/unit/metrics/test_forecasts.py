"""Forecasts: what the rates say, intervals by past errors, outcomes, and how they are graded."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.metrics.forecasts import (
    AGE,
    CONFIDENCE,
    DRAIN,
    LEAST,
    STEPS,
    calibration,
    make_forecasts,
    moments_of,
    score,
)
from sharelag.model import milliseconds
from tests.support.progress_rows import MINUTE, NOON, PLACE, ago, end, lag

HORIZON = timedelta(minutes=1)
LATER = NOON + HORIZON
NOTHING = schemas.FORECASTS.empty_table()


def table(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict.fromkeys(schema.names) | row for row in rows], schema=schema)


def progress(**values: Any) -> pa.Table:
    known = {"age_ms": 10_000, "arrival_rate": 4.0, "completion_rate": 5.0, "drain": "drains"}
    return table([PLACE | {"group_id": "G1"} | known | values], schemas.PROGRESS)


def made(left: int = 40, past: pa.Table = NOTHING, **values: Any) -> dict[str, dict[str, Any]]:
    rows = make_forecasts(
        progress(drain_ms=40_000, **values), table([lag(left)], schemas.LAG), past, NOON, HORIZON
    )
    assert rows.schema == schemas.FORECASTS
    return {row["forecast"]: row for row in rows.to_pylist()}


def told(errors: Any, drain: str = "drains", outcome: str | None = None) -> pa.Table:
    """Ages that were that many milliseconds off a trend of a minute, an hour ago."""
    rows = [
        PLACE
        | {"group_id": f"G{number}", "forecast": AGE, "drain": drain, "trend_ms": MINUTE}
        | {"as_of": ago(60 * MINUTE), "due_at": ago(59 * MINUTE), "actual_ms": MINUTE + int(error)}
        | {"outcome": outcome}
        for number, error in enumerate(errors)
    ]
    return table(rows, schemas.FORECASTS)


# ---- forecasts -----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("values", "rate", "trend"),
    [
        # A lag of 40 less a second's record for a minute: none is left.
        ({}, 0, 0),
        # It grows by one a second: 40 + 60 records are 20 s of arrivals; ages by 0.2 s a second.
        ({"arrival_rate": 5.0, "completion_rate": 4.0}, 20_000, 22_000),
        # Nobody finishes anything: the oldest record grows older by all of the minute.
        ({"completion_rate": 0.0}, 70_000, 70_000),
        # Nothing arrives, and 40 records are not finished in a minute at half a record a second.
        ({"arrival_rate": 0.0, "completion_rate": 0.5}, 70_000, 70_000),
        ({"arrival_rate": 0.0, "completion_rate": 1.0}, 0, 0),
    ],
)
def test_an_age_is_foretold_by_the_rates(values: dict[str, Any], rate: int, trend: int) -> None:
    found = made(**values)[AGE]
    assert (found["rate_ms"], found["trend_ms"]) == (rate, trend)
    assert (found["as_of"], found["due_at"], found["effective_lag"]) == (NOON, NOON + HORIZON, 40)
    assert found["low_ms"] is found["middle_ms"] is found["high_ms"] is found["outcome"] is None


def test_what_cannot_be_foretold_is_not() -> None:
    assert (set(made()), made(left=0), set(made(age_ms=None))) == ({AGE, DRAIN}, {}, {DRAIN})
    assert (set(made(arrival_rate=None)), set(made(drain="never"))) == ({DRAIN}, {AGE})
    beyond = make_forecasts(
        progress(drain_ms=2 * MINUTE), table([lag(40)], schemas.LAG), NOTHING, NOON, HORIZON
    )
    assert beyond.column("forecast").to_pylist() == [AGE]


# ---- intervals -----------------------------------------------------------------------------------
def test_the_interval_is_made_of_the_errors_of_forecasts_like_it() -> None:
    """Of 99 errors, the tenth and the ninetieth are the points below which 10 and 90 of 100 lie."""
    errors = np.random.default_rng(1).permutation(np.arange(-49, 50)) * 100
    grows: dict[str, Any] = {"arrival_rate": 5.0, "completion_rate": 4.0}
    found = made(past=told(errors), **grows)[AGE]
    assert (found["low_ms"], found["middle_ms"], found["high_ms"]) == (18_000, 22_000, 26_000)
    # Those of another course count where there are too few of this one.
    few = pa.concat_tables([told(errors, "never"), told([5000] * (LEAST - 1))])
    assert made(past=few, **grows)[AGE]["middle_ms"] < 25_000
    enough = pa.concat_tables([told(errors, "never"), told([5000] * LEAST)])
    assert made(past=enough, **grows)[AGE]["middle_ms"] == 27_000
    assert made(past=told([0] * (LEAST - 1)), **grows)[AGE]["middle_ms"] is None
    # Nothing is younger than a record of now.
    assert made(past=told([-(10**7)] * LEAST), **grows)[AGE]["low_ms"] == 0


def test_misses_make_intervals_wider_and_hits_narrower() -> None:
    errors = np.arange(-100, 101) * 50
    widths = {}
    for outcome in ("missed", "no interval", "came true"):
        found = made(past=told(errors, outcome=outcome), arrival_rate=5.0, completion_rate=4.0)
        widths[outcome] = found[AGE]["high_ms"] - found[AGE]["low_ms"]
    assert widths["missed"] > widths["no interval"] > widths["came true"]


@pytest.mark.exhaustive
def test_four_of_five_come_true_though_the_errors_change() -> None:
    """Errors that grow sixfold within the history, of a lopsided distribution."""
    random = np.random.default_rng(3)
    errors = np.concatenate([each * (random.exponential(2000, 120) - 1000) for each in (1, 6)])
    past, hits = told([]), []
    for error in errors:
        found = made(past=past, arrival_rate=5.0, completion_rate=4.0)[AGE]
        actual = max(int(found["trend_ms"] + error), 0)
        row = found | {"actual_ms": actual, "outcome": "no interval"}
        if found["low_ms"] is not None:
            hits.append(found["low_ms"] <= actual <= found["high_ms"])
            row["outcome"] = "came true" if hits[-1] else "missed"
        past = pa.concat_tables([past, table([row], schemas.FORECASTS)])
    assert len(hits) == len(errors) - LEAST
    assert 0.75 <= np.mean(hits) <= 0.85


# ---- outcomes ------------------------------------------------------------------------------------
def outcome(
    starts: Sequence[int | None], forecast: str = AGE, is_ended: bool = True, **values: Any
) -> dict[str, Any]:
    """What became of a forecast of a minute, where start offsets were seen at even moments.

    The log had 0 records ten minutes before it was due and 600 then, one a second; what it had a
    minute later is known, or not.
    """
    made = {"as_of": ago(MINUTE), "due_at": ago(0), "effective_lag": 100, "forecast": forecast}
    made |= {"low_ms": 20_000, "middle_ms": 30_000, "high_ms": 40_000, "rate_ms": 0}
    due = table([PLACE | {"group_id": "G1"} | made | values], schemas.FORECASTS)
    moments = moments_of(due)
    assert len(moments) == STEPS + 1
    states = [
        PLACE
        | {"group_id": "G1", "as_of": at, "start_offset": start, "window_complete": 0}
        | {"effective_start_offset": start, "window_end_offset": start}
        for at, start in zip(moments, starts, strict=True)
        if start is not None
    ]
    found = score(
        due,
        table([lag(end=660 if is_ended else None, as_of=LATER)], schemas.LAG),
        table(states, schemas.TIMELINE),
        table([end(0, 10 * MINUTE), end(600, 0)][: 1 + is_ended], schemas.OFFSETS),
        milliseconds(LATER),
    )
    assert found.schema == schemas.FORECASTS
    (row,) = found.to_pylist()
    return row


def test_an_age_comes_true_or_is_missed() -> None:
    found = outcome([570] * (STEPS + 1))  # the record of half a minute ago
    assert (found["actual_ms"], found["outcome"], found["reason"]) == (30_000, "came true", None)
    assert (found["scored_at"], outcome([550] * (STEPS + 1))["outcome"]) == (LATER, "missed")
    assert outcome([600] * (STEPS + 1))["actual_ms"] == 0  # no lag
    assert outcome([570] * (STEPS + 1), low_ms=None)["outcome"] == "no interval"
    assert outcome([None] * STEPS + [570])["actual_ms"] == 30_000  # only the last moment counts


def test_a_drain_lasts_until_a_twentieth_is_left() -> None:
    """100 offsets when it was made; the end is at 540 + 2 s x step, and 5 may be left."""
    steps = np.arange(STEPS + 1)
    lefts = np.where(steps < 15, 100 - 6 * steps, np.where(steps < 16, 10, 0))
    starts = (540 + 2 * steps - lefts).tolist()
    found = outcome(starts, DRAIN)
    assert (found["actual_ms"], found["outcome"]) == (31_000, "came true")
    # Longer than the horizon is at least as long as that.
    never = outcome((440 + 2 * steps).tolist(), DRAIN)
    assert (never["actual_ms"], never["outcome"]) == (MINUTE, "missed")
    # It may have been gone at a moment that is not known.
    starts[8] = None
    assert outcome(starts, DRAIN)["outcome"] == "not known"
    starts[8], starts[20] = 0, None
    assert outcome(starts, DRAIN)["outcome"] == "came true"


@pytest.mark.parametrize(
    ("starts", "values", "reason"),
    [
        ([570] * STEPS + [None], {}, "its state at that time is not known"),
        ([570] * (STEPS + 1), {"group_id": "G2"}, "its state at that time is not known"),
        ([590] * 9 + [570] * (STEPS - 8), {}, "its start offset was set back"),
        ([570] * (STEPS + 1), {"is_ended": False}, "where its log ended at that time is not known"),
        ([-5] * (STEPS + 1), {}, "when its oldest record arrived is not known"),
    ],
)
def test_untold_says_why(starts: Sequence[int | None], values: dict[str, Any], reason: str) -> None:
    found = outcome(starts, **values)
    assert (found["outcome"], found["reason"]) == ("not known", reason)
    assert found["actual_ms"] is None


# ---- grades --------------------------------------------------------------------------------------
def test_calibration_counts_and_scores() -> None:
    """CRPS by hand: 2/3 of the pinball losses; interval score: the width, and ten times beyond."""
    each = {"forecast": AGE, "low_ms": 0, "middle_ms": 100, "high_ms": 300, "rate_ms": 500}
    rows = [each | {"actual_ms": 100, "outcome": "came true"}] * 15
    rows += [each | {"actual_ms": 400, "outcome": "missed"}] * 5
    rows += [each | {"outcome": "not known"}, each, each | {"outcome": "no interval"}]
    age, drain = calibration(table(rows, schemas.FORECASTS)).to_pylist()
    assert (age["scored"], age["came_true"], age["untold"], age["not_due"]) == (20, 15, 1, 1)
    assert (age["covered"], age["shown"]) == (0.75, True)
    inside = 2 / 3 * (0.1 * 100 + 0 + 0.1 * 200)
    outside = 2 / 3 * (0.1 * 400 + 0.5 * 300 + 0.9 * 100)
    assert age["crps_ms"] == pytest.approx((15 * inside + 5 * outside) / 20)
    assert age["rate_crps_ms"] == (15 * 400 + 5 * 100) / 20
    assert age["interval_score_ms"] == pytest.approx(300 + 5 / 20 * 2 / (1 - CONFIDENCE) * 100)
    assert drain == dict.fromkeys(drain) | {
        "forecast": DRAIN, "scored": 0, "came_true": 0, "untold": 0, "not_due": 0, "shown": False
    }  # fmt: skip


def test_what_is_worse_than_lag_by_rate_is_not_shown() -> None:
    each = {"forecast": AGE, "low_ms": 0, "middle_ms": 100, "high_ms": 300, "rate_ms": 110}
    each |= {"actual_ms": 100, "outcome": "came true"}
    better = [each | {"rate_ms": 500}]
    for rows, shown in (
        ([each] * LEAST, False),
        (better * LEAST, True),
        (better * (LEAST - 1), False),
    ):
        graded = calibration(table(rows, schemas.FORECASTS))
        assert graded.column("shown")[0].as_py() is shown
