"""Arrival, completion and redelivery rates, and the time to drain.

    arrival_rate    = (end now - end at the beginning) / time between
    completion_rate = finished / span                       redelivery_rate = redelivered / span
    drain           = effective lag / (completion_rate - arrival_rate)

Both rates are those since the last change of either (`sharelag.metrics.regime`), unless the end at
the change is unknown: what a burst or a deployment has ended says nothing of what comes. They are
in offsets per second, so transaction markers and compacted offsets count as they do in Kafka's lag.
Records that retention deleted unread count as finished once Kafka's start offset has passed them,
because the state topic does not distinguish them.

The interval of the drain time is the 95 % confidence interval of the mean rate over the parts of
that time (Student's t). Rates describe the past: they allow no forecast for a group that has lost
its members or finished nothing lately.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sharelag.metrics.age import Oldest
from sharelag.metrics.columns import numbers
from sharelag.metrics.ends import Ends, end_at, first_time
from sharelag.metrics.observed import BINS, parts_of
from sharelag.metrics.regime import last_change, mean_since
from sharelag.schemas import Arrow

DRAINED = "drained"  # no record is left to deliver
DRAINS = "drains"
NEVER = "never"  # more arrive than are finished, by more than chance
UNCERTAIN = "uncertain"  # arrivals and completions differ by no more than chance
STALLED = "stalled"  # there is lag, but nothing was finished for a long time
# there is lag, but nothing was finished lately: no forecast, and no alarm yet
PAUSED = "paused"
NOBODY = "nobody"  # there is lag, but the group has no members
UNKNOWN = "unknown"
DRAINS_OF = {
    DRAINED: "nothing is left to do",
    DRAINS: "more is finished than arrives",
    NEVER: "more arrives than is finished, so the lag grows",
    UNCERTAIN: "arrivals and finished records differ by no more than chance: the lag may or may "
    "not go away",
    STALLED: "nothing is being finished",
    PAUSED: "nothing was finished lately, so earlier rates allow no forecast",
    NOBODY: "the group has no members, so nothing will be finished",
    UNKNOWN: "too little is known about what arrived and what was finished",
}

#: Rates that differ by less are equal: both are quotients of integers.
_SAME = 1e-9
#: Milliseconds, about 285,000 years: the maximum of a drain time.
_FOREVER = 2.0**53

_Floats = NDArray[np.float64]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Rates:
    """Offsets per second for each row of a lag table, 0 where unknown."""

    span_ms: NDArray[np.int64]  # of all that was observed
    observed_ms: NDArray[np.int64]  # of arrival and completion: since they last changed
    observed: _Bools
    arrival: _Floats
    has_arrival: _Bools
    completion: _Floats
    any_finished: _Bools  # in all of the span
    silent: _Bools  # nothing was finished since the rates last changed
    redelivery: _Floats
    deviation: _Floats  # half-width of the confidence interval of the completion rate
    # nothing is missing in the span; otherwise completion and redelivery are lower bounds
    whole: _Bools
    last_finished: NDArray[np.int64]  # milliseconds; also before the span
    has_finished: _Bools


def rates(lag: Arrow, observed: Arrow, ends: Ends, since_change: bool = True) -> Rates:
    """Return the rates of each share partition over its observed span.

    Parameters
    ----------
    lag : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.LAG`.
    observed : pyarrow.RecordBatch or pyarrow.Table
        `sharelag.schemas.OBSERVED`, in the row order of the lag table; all null where nothing was
        observed.
    ends : Ends
        Of the same lag table. Arrivals are counted from the beginning of the span, or from the
        first known end if that is later.
    since_change : bool
        Only since the rates last changed; else over the whole span. Over the whole span, too, where
        the end at the change is unknown but an earlier one is known.
    """
    (begin, seen), (end, _) = numbers(observed, "begin"), numbers(observed, "end")
    seen &= end > begin
    span = np.where(seen, end - begin, 1)
    counts = parts_of(observed, "finished_bins")
    parts = counts * (1000 * BINS / span)[:, np.newaxis]
    has_usual = _arrivals(lag, ends, begin)[1]
    since = np.zeros(len(span), np.int64)
    if since_change:
        since = last_change(counts, arrived_in_parts(lag, ends, begin, span))
        has_arrival = _arrivals(lag, ends, begin + span * since // BINS)[1]
        since = np.where(has_usual & ~has_arrival, 0, since)
    completion, deviation = mean_since(parts, since)
    observed_ms = span - span * since // BINS
    # Two parts may be equal by chance: what was counted in them is not that certain.
    counted = 2 * np.sqrt(completion * 1000 / np.maximum(observed_ms, 1))
    deviation = np.where(since > 0, np.maximum(deviation, counted), deviation)
    arrival, has_arrival = _arrivals(lag, ends, begin + span * since // BINS)
    last_finished, has_finished = numbers(observed, "last_finished")
    return Rates(
        span_ms=np.where(seen, span, 0),
        observed_ms=np.where(seen, observed_ms, 0),
        observed=seen,
        arrival=np.where(has_arrival & seen, arrival, 0),
        has_arrival=has_arrival & seen,
        completion=np.where(since > 0, completion, numbers(observed, "finished")[0] * 1000 / span),
        any_finished=numbers(observed, "finished")[0] > 0,
        silent=seen & (since > 0) & (completion == 0),
        redelivery=numbers(observed, "redelivered")[0] * 1000 / span,
        deviation=deviation,
        whole=seen & (numbers(observed, "breaks")[0] == 0),
        last_finished=last_finished,
        has_finished=has_finished & seen,
    )


def rate_columns(found: Rates) -> dict[str, pa.Array]:
    """Return the rate columns of `sharelag.schemas.PROGRESS`."""
    return {
        "observed_ms": pa.array(found.observed_ms, mask=~found.observed),
        "arrival_rate": pa.array(found.arrival, mask=~found.has_arrival),
        "completion_rate": pa.array(found.completion, mask=~found.observed),
        "redelivery_rate": pa.array(found.redelivery, mask=~found.observed),
    }


def drain_columns(
    lag: Arrow, old: Oldest, found: Rates, as_of: int, patience: int | _Floats, is_empty: _Bools
) -> dict[str, pa.Array]:
    """Return the forecast columns of `sharelag.schemas.PROGRESS`.

    If records may be missing in the span, the drain time is an upper bound, and nothing counts as
    stalled, uncertain or as never draining. A lag that does not drain at the mean rates is
    uncertain, and not growing, if it may drain at rates within the confidence interval, which gives
    the lower bound, or if the rates are equal.

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
        Milliseconds. A share partition counts as stalled only if it was observed with lag for that
        long and for a part of the span: a new record of a quiet topic raises no alarm. After
        ``patience`` alone there is no forecast.
    is_empty : bool[rows]
        True where the group is known to have no members.
    """
    left, known = numbers(lag, "effective_lag")
    busy = known & (left > 0) & ~old.idle & found.observed
    nothing = busy & ~found.any_finished
    long = np.maximum(patience, found.span_ms / BINS)
    since = np.where(
        found.has_finished, as_of - found.last_finished, np.where(nothing, found.span_ms, 0)
    )
    waits = np.where(old.dated, as_of - old.timestamp, since)
    nobody = is_empty & known & (left > 0) & ~old.idle
    stalled = busy & found.whole & (found.span_ms >= long) & (since >= long) & (waits >= long)
    moves = busy & ~nothing & found.has_arrival
    point = _duration(left, found.completion, found.arrival)
    low = _duration(left, found.completion + found.deviation, found.arrival)
    high = _duration(left, found.completion - found.deviation, found.arrival)
    paused = moves & np.isfinite(point) & (since >= patience) & (waits >= patience)
    # Nothing was finished since, and it is not for long that there was something to do.
    paused |= moves & found.silent
    foretold = ~(nobody | stalled | paused)
    drains = moves & np.isfinite(point) & foretold
    lasts = moves & ~np.isfinite(point) & found.whole & foretold
    never = lasts & ~np.isfinite(low) & (found.arrival > found.completion * (1 + _SAME))
    uncertain = lasts & ~never
    verdicts = [(old.idle, DRAINED), (nobody, NOBODY), (stalled, STALLED), (paused, PAUSED)]
    verdicts += [(drains, DRAINS), (never, NEVER), (uncertain, UNCERTAIN)]
    named = np.select([where for where, _ in verdicts], [name for _, name in verdicts], UNKNOWN)
    columns: dict[str, pa.Array] = {"drain": pa.array(named, pa.string())}
    for name, length, is_known in (
        ("drain_ms", np.rint(point), drains),
        ("drain_low_ms", np.floor(low), drains | uncertain),
        ("drain_high_ms", np.ceil(high), drains),
    ):
        is_known = old.idle | (is_known & np.isfinite(length))
        columns[name] = pa.array(
            np.where(is_known & ~old.idle, length, 0).astype(np.int64), mask=~is_known
        )
    return columns


def _arrivals(lag: Arrow, ends: Ends, begin: NDArray[np.int64]) -> tuple[_Floats, _Bools]:
    (now, ended), (requested, timed) = numbers(lag, "end_offset"), numbers(lag, "as_of")
    first, has_first = first_time(ends)
    since = np.maximum(begin, first)
    then, has_then = end_at(ends, since)
    # After an end that went back (an unclean election), arrivals are unknown.
    known = ended & timed & has_first & has_then & (requested > since) & (now >= then)
    return np.where(known, now - then, 0) * 1000 / np.where(known, requested - since, 1), known


def arrived_in_parts(
    lag: Arrow, ends: Ends, begin: NDArray[np.int64], span: NDArray[np.int64]
) -> _Floats:
    """Return offsets that arrived in each part of the span; NaN where unknown.

    The lag's end is rarely of the very end of the span: the last part is as its known share.
    """
    times = [begin + span * n // BINS for n in range(BINS)]
    edges = [end_at(ends, time) for time in times]
    values = np.stack([np.where(known, end, np.nan) for end, known in edges], axis=1)
    (now, ended), (as_of, timed) = numbers(lag, "end_offset"), numbers(lag, "as_of")
    known = ended & timed & (as_of > times[-1]) & (now >= edges[-1][0])
    share = np.where(known, as_of - times[-1], 1) * BINS / span
    last = np.where(known, (now - values[:, -1]) / np.minimum(share, 1), np.nan)
    return np.column_stack([np.diff(values, axis=1), last])


def _duration(left: NDArray[np.int64], completion: _Floats, arrival: _Floats) -> _Floats:
    """Return milliseconds until nothing is left at these rates; infinite if never."""
    net = completion - arrival
    gains = net > _SAME * completion
    lasts = left * 1000 / np.where(gains, net, 1)
    return np.where(gains & (lasts < _FOREVER), lasts, np.inf)
