"""Arrival, completion and redelivery rates, and the time to drain.

    arrival_rate    = (end now - end at the beginning) / time between
    completion_rate = finished / span                       redelivery_rate = redelivered / span
    drain           = effective lag / (completion_rate - arrival_rate)

A second's offsets, so transaction markers and compacted offsets count as they do in Kafka's lag;
what retention deleted unread counts as finished once Kafka's start offset has passed it, for the
state topic does not tell them apart.

The interval for the drain is the one of 95 % confidence for the mean rate of the parts of the span
(Student's t). Rates are of the past: where nobody is in the group any more, or nothing was finished
lately, they foretell nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag.metrics.age import Oldest
from sharelag.metrics.columns import numbers
from sharelag.metrics.ends import Ends, end_at, first_time
from sharelag.metrics.observed import BINS
from sharelag.schemas import Arrow
from sharelag.schemas.arrow import flat

DRAINED = "drained"  # no record is left to deliver
DRAINS = "drains"
NEVER = "never"  # no fewer arrive than are finished
STALLED = "stalled"  # nothing was finished for long, although there was something to do
# nothing was finished lately, although there was something to do: no forecast, and no alarm yet
PAUSED = "paused"
NOBODY = "nobody"  # there is something to do, and nobody is in the group
UNKNOWN = "unknown"
DRAINS_OF = {
    DRAINED: "nothing is left to do",
    DRAINS: "finishes more than arrives",
    NEVER: "as much arrives as is finished, or more",
    STALLED: "nothing is finished any more",
    PAUSED: "nothing was finished lately, so that the rates before foretell nothing",
    NOBODY: "the group is empty, so that nothing will be finished",
    UNKNOWN: "not enough is known of what arrived and what was finished",
}

#: The 97.5 % point of Student's t distribution with BINS - 1 degrees of freedom.
STUDENT_T = 2.262157162798
#: Rates that differ by less are equal: both are quotients of whole numbers.
_SAME = 1e-9
#: Milliseconds, some 285,000 years: nobody will see the end of it.
_FOREVER = 2.0**53

_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Rates:
    """Offsets a second of each row of a lag table, 0 where not known."""

    observed_ms: NDArray[np.int64]
    observed: _Bools
    arrival: _Floats
    has_arrival: _Bools
    completion: _Floats
    redelivery: _Floats
    deviation: _Floats  # how far the true completion rate may be off
    # nothing is missing in the span; otherwise completion and redelivery are at least so much
    whole: _Bools
    last_finished: NDArray[np.int64]  # milliseconds; also before the span
    has_finished: _Bools


def rates(lag: Arrow, observed: Arrow, ends: Ends) -> Rates:
    """The rates of each share partition over the span that was observed of it.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    observed : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.OBSERVED`, its rows beside those of the lag table; all null where nothing
        was observed.
    ends : Ends
        Of the same lag table. Arrivals are counted from the beginning of the span, or the first
        known end if later.
    """
    (begin, seen), (end, _) = numbers(observed, "begin"), numbers(observed, "end")
    seen &= end > begin
    span = np.where(seen, end - begin, 1)
    arrival, has_arrival = _arrivals(lag, ends, begin)
    parts = _parts(observed) * (1000 * BINS / span)[:, np.newaxis]
    last_finished, has_finished = numbers(observed, "last_finished")
    return Rates(
        observed_ms=np.where(seen, span, 0),
        observed=seen,
        arrival=np.where(has_arrival & seen, arrival, 0),
        has_arrival=has_arrival & seen,
        completion=numbers(observed, "finished")[0] * 1000 / span,
        redelivery=numbers(observed, "redelivered")[0] * 1000 / span,
        deviation=STUDENT_T * parts.std(axis=1, ddof=1) / math.sqrt(BINS),
        whole=seen & (numbers(observed, "breaks")[0] == 0),
        last_finished=last_finished,
        has_finished=has_finished & seen,
    )


def rate_columns(found: Rates) -> dict[str, pa.Array]:
    """The columns of `sharelag.schemas.PROGRESS` that tell the rates."""
    return {
        "observed_ms": pa.array(found.observed_ms, mask=~found.observed),
        "arrival_rate": pa.array(found.arrival, mask=~found.has_arrival),
        "completion_rate": pa.array(found.completion, mask=~found.observed),
        "redelivery_rate": pa.array(found.redelivery, mask=~found.observed),
    }


def drain_columns(
    lag: Arrow, old: Oldest, found: Rates, as_of: int, patience: int | _Floats, is_empty: _Bools
) -> dict[str, pa.Array]:
    """The columns of `sharelag.schemas.PROGRESS` that tell when nothing will be left.

    Where records may be missing in the span, a drain takes so long at most, and nobody is said to
    be stalled or never to drain. What never drains at the mean rates has a low end where it may
    drain at rates that are possible.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    old : Oldest
        Of the same lag table.
    found : Rates
        Of the same lag table.
    as_of : int
        Milliseconds.
    patience : int
        Milliseconds. Stalled is only who was observed, and had something to do, for so long and for
        a part of the span: a record of a quiet topic that has just come is no alarm. After
        ``patience`` alone there is no forecast.
    is_empty : bool[rows]
        Known: nobody is in the group.
    """
    left, known = numbers(lag, "effective_lag")
    busy = known & (left > 0) & ~old.idle & found.observed
    nothing = busy & (found.completion == 0)
    long = np.maximum(patience, found.observed_ms / BINS)
    since = np.where(
        found.has_finished, as_of - found.last_finished, np.where(nothing, found.observed_ms, 0)
    )
    waits = np.where(old.dated, as_of - old.timestamp, since)
    nobody = is_empty & known & (left > 0) & ~old.idle
    stalled = busy & found.whole & (found.observed_ms >= long) & (since >= long) & (waits >= long)
    moves = busy & ~nothing & found.has_arrival
    point = _duration(left, found.completion, found.arrival)
    low = _duration(left, found.completion + found.deviation, found.arrival)
    high = _duration(left, found.completion - found.deviation, found.arrival)
    paused = moves & np.isfinite(point) & (since >= patience) & (waits >= patience)
    foretold = ~(nobody | stalled | paused)
    drains = moves & np.isfinite(point) & foretold
    never = moves & ~np.isfinite(point) & found.whole & foretold
    verdicts = [(old.idle, DRAINED), (nobody, NOBODY), (stalled, STALLED), (paused, PAUSED)]
    verdicts += [(drains, DRAINS), (never, NEVER)]
    named = np.select([where for where, _ in verdicts], [name for _, name in verdicts], UNKNOWN)
    columns: dict[str, pa.Array] = {"drain": pa.array(named, pa.string())}
    for name, length, told in (
        ("drain_ms", np.rint(point), drains),
        ("drain_low_ms", np.floor(low), drains | never),
        ("drain_high_ms", np.ceil(high), drains),
    ):
        told = old.idle | (told & np.isfinite(length))
        columns[name] = pa.array(np.where(told & ~old.idle, length, 0).astype(np.int64), mask=~told)
    return columns


def _arrivals(lag: Arrow, ends: Ends, begin: NDArray[np.int64]) -> tuple[_Floats, _Bools]:
    (now, ended), (asked, timed) = numbers(lag, "end_offset"), numbers(lag, "as_of")
    first, has_first = first_time(ends)
    since = np.maximum(begin, first)
    then, has_then = end_at(ends, since)
    # An end that fell (an unclean election) says nothing of what arrived.
    known = ended & timed & has_first & has_then & (asked > since) & (now >= then)
    return np.where(known, now - then, 0) * 1000 / np.where(known, asked - since, 1), known


def _parts(observed: Arrow) -> _Floats:
    """What was finished in each part of the span, a row a share partition; 0 where nothing was observed."""
    column = flat(observed.column("finished_bins"))
    known = np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)
    parts = np.zeros((len(column), BINS))
    parts[known] = column.drop_null().flatten().to_numpy().reshape(-1, BINS)
    return parts


def _duration(left: NDArray[np.int64], completion: _Floats, arrival: _Floats) -> _Floats:
    """Milliseconds until nothing is left at these rates; infinite where that never comes."""
    net = completion - arrival
    gains = net > _SAME * completion
    lasts = left * 1000 / np.where(gains, net, 1)
    return np.where(gains & (lasts < _FOREVER), lasts, np.inf)
