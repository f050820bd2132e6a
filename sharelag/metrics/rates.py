"""Arrival, completion and redelivery rates, and the time to drain.

    arrival_rate    = (end now - end at the beginning) / time between
    completion_rate = finished / span                       redelivery_rate = redelivered / span
    drain           = effective lag / (completion_rate - arrival_rate)

Both rates are those since the last change of either, unless the end at the change is unknown: rates
before a burst or a deployment do not predict the rates after it. They are in offsets per second, so
transaction markers and compacted offsets count as they do in Kafka's lag. Records that retention
deleted unread count as finished once Kafka's start offset has passed them, because the state topic
does not distinguish them. What was finished by a moment had arrived by then, whatever timestamps
say.

The interval of the drain time is the 95 % confidence interval of the mean rate over the parts of
that time (Student's t). Rates describe the past: they allow no forecast for a group that has lost
its members or finished nothing lately.

    finished in each part of the span    40 41 39 40 42 | 3 0 2 1 2
                                                        since

At a change, all parts after it lie beyond all parts before it by more than chance: much more than
adjacent parts differ, and more than counts of that size vary. A lump of acknowledgements or a trend
does not count, but a lasting fall by a quarter does. Growth of lag is tested like arrivals and
completions, because it is much steadier than either.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.metrics.age import Ends, Oldest, end_at, first_time
from sharelag.metrics.columns import PARTITION, numbers
from sharelag.metrics.observed import BINS, parts_of
from sharelag.schemas import SHARE_PARTITION, Arrow, Bools, Floats, Ints
from sharelag.tables.arrow import as_table, beside, flat, keys

#: Minimum number of parts on each side of a change, for a meaningful mean.
_LEAST = 2
#: Number of differences between adjacent parts that estimate chance.
_LEAST_STEPS = 4
#: Standard errors of a change, by those differences. With this threshold, one in fifty random
#: histories without a change, lumpy ones included, seems to have one.
_ERRORS = 5.5
#: Standard errors of a change, by the Poisson distribution of counts.
_COUNTED_ERRORS = 3.5
#: Minimum change of a regime: of the rate itself, and of growth as a share of arrivals.
_LEAST_CHANGE, _LEAST_GROWTH = 0.1, 0.05
#: Maximum number of changes per share partition.
_CHANGES = 4
#: First part after a change, and end of the parts before it: the same part, or one earlier.
_SPLITS = [
    (at, at - gap)
    for at in range(_LEAST, BINS - _LEAST + 1)
    for gap in (0, 1)
    if at - gap >= _LEAST
]
_TINY = 1e-9
#: Where one of these happened, what was finished is not known exactly.
_INEXACT = ("breaks", "replacements", "start_back", "count_back")
#: Number of steps between parts.
_STEPS = np.arange(BINS - 1)
#: The 97.5 % point of Student's t distribution with BINS - 1 degrees of freedom.
STUDENT_T = 2.262157162798
#: With 1, 2, ... degrees of freedom.
_STUDENT_T = np.array([12.7062047, 4.3026527, 3.1824463, 2.7764451, 2.5705818, 2.4469119,
                       2.3646243, 2.3060041, STUDENT_T])  # fmt: skip


def last_change(finished: Floats, arrived: Floats | None = None) -> Ints:
    """Return the part of the span with which the present regime of each row begins.

    Both are offsets in each part, ``[rows, BINS]``; NaN is unknown and never a change. Without a
    change the result is 0.
    """
    since = np.zeros(len(finished), np.int64)
    # Steps from part to part that belong to no change.
    calm = np.ones((len(finished), BINS - 1), bool)
    rows = np.arange(len(finished))
    for _ in range(_CHANGES):
        before = since.copy()
        done, came = finished[rows], None if arrived is None else arrived[rows]
        measures: list[tuple[Floats, Floats | None]] = [(done, None)]
        if came is not None:
            known = ~np.isnan(came)
            usual = np.where(known, came, 0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
            measures += [(came, None), (came - done, usual)]
        for parts, arrives in measures:
            found, until = _change(parts, arrives, since[rows], calm[rows])
            jump = (until[:, np.newaxis] - 1 <= _STEPS) & (found[:, np.newaxis] > _STEPS)
            calm[rows] &= ~(jump & (found > since[rows])[:, np.newaxis])
            since[rows] = found
        rows = np.flatnonzero(since > before)
        if not len(rows):
            break
    return since


def _change(parts: Floats, arrives: Floats | None, since: Ints, calm: Bools) -> tuple[Ints, Ints]:
    """Return the largest change of the parts from ``since`` on, or ``since`` if there is none.

    Parts, ``[rows, BINS]``, are counts, or growth of the lag, as a share of what ``arrives`` in a
    part. The second result is the end of the parts before, as the part with the change may belong
    to neither side.
    """
    known = ~np.isnan(parts)
    sums, counts = _running(np.where(known, parts, 0)), _running(known)
    steps = np.diff(parts, axis=1)
    calm = calm & ~np.isnan(steps)
    squares, calms = _running(np.where(calm, steps**2, 0)), _running(calm)
    lowest = np.fmin.accumulate(parts[:, ::-1], axis=1)[:, ::-1]
    highest = np.fmax.accumulate(parts[:, ::-1], axis=1)[:, ::-1]
    found, end, best = since.copy(), since.copy(), np.zeros(len(parts))
    for at, until in _SPLITS:
        # Estimate chance by the steps other than the jump itself.
        others = calms[:, -1] - calms[:, at] + calms[:, until - 1]
        spread = squares[:, -1] - squares[:, at] + squares[:, until - 1]
        noise = np.where(others >= _LEAST_STEPS, spread / (2 * np.maximum(others, 1)), np.inf)
        after, total = counts[:, -1] - counts[:, at], sums[:, -1] - sums[:, at]
        low = high = parts[:, until - 1]
        for begin in range(until - 2, -1, -1):
            low, high = np.fmin(low, parts[:, begin]), np.fmax(high, parts[:, begin])
            before, done = (each[:, until] - each[:, begin] for each in (counts, sums))
            apart = (lowest[:, at] > high) | (highest[:, at] < low)
            apart &= (before >= _LEAST) & (after >= _LEAST) & (begin >= since)
            if not apart.any():
                continue
            sure = _sureness(arrives, noise, (done, before), (total, after))
            better = apart & (sure >= 1) & (sure > best)
            found, end = np.where(better, at, found), np.where(better, until, end)
            best = np.where(better, sure, best)
    return found, end


def _sureness(
    arrives: Floats | None,
    noise: Floats,
    before: tuple[Floats, Floats],
    after: tuple[Floats, Floats],
) -> Floats:
    """Return the ratio of a change to its threshold; each side is a sum and a count."""
    (was, some), (now, others) = ((total, np.maximum(count, 1)) for total, count in (before, after))
    size, few = abs(now / others - was / some), 1 / some + 1 / others
    if arrives is None:
        counted = (was + now) / (some + others)
        least = _LEAST_CHANGE * np.maximum(was / some, now / others)
    else:
        counted, least = np.ones(len(noise)), _LEAST_GROWTH * arrives
    by_noise = size / (_ERRORS * np.sqrt(np.maximum(noise, _TINY) * few))
    by_count = size / (_COUNTED_ERRORS * np.sqrt(np.maximum(counted, _TINY) * few))
    return np.where(size >= least, np.minimum(by_noise, by_count), 0)


def _running(values: Floats | Bools) -> Floats:
    """Return the sum of all parts before each, ``[rows, parts + 1]``."""
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums


def mean_since(parts: Floats, since: Ints) -> tuple[Floats, Floats]:
    """Return the mean of the parts from ``since`` on, and the half-width of its 95 % interval."""
    counts = BINS - since
    chosen = np.arange(BINS) >= since[:, np.newaxis]
    mean = np.where(chosen, parts, 0).sum(axis=1) / counts
    squares = np.where(chosen, (parts - mean[:, np.newaxis]) ** 2, 0).sum(axis=1)
    error = np.sqrt(squares / (counts - 1) / counts)
    return mean, _STUDENT_T[counts - 2] * error


DRAINED = "drained"  # no record is left to deliver
DRAINS = "drains"
NEVER = "never"  # arrivals exceed completions by more than chance
UNCERTAIN = "uncertain"  # arrivals and completions differ by no more than chance
STALLED = "stalled"  # there is lag, but nothing was finished for a long time
# there is lag, but nothing was finished lately: neither a forecast nor an alarm yet
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

#: Tolerance for equal rates, which are quotients of integers.
_SAME = 1e-9
#: Milliseconds, about 285,000 years: the maximum of a drain time.
_FOREVER = 2.0**53


@dataclass(frozen=True)
class Rates:
    """Offsets per second for each row of a lag table, 0 where unknown."""

    span_ms: Ints  # of the whole observed span
    observed_ms: Ints  # of arrival and completion: since their last change
    observed: Bools
    arrival: Floats
    has_arrival: Bools
    completion: Floats
    any_finished: Bools  # in the whole span
    silent: Bools  # nothing was finished since the last change of the rates
    redelivery: Floats
    deviation: Floats  # half-width of the confidence interval of the completion rate
    # no record is missing in the span; otherwise completion and redelivery are lower bounds
    whole: Bools
    last_finished: Ints  # milliseconds; also before the span
    has_finished: Bools


def rates(lag: Arrow, observed: Arrow, ends: Ends, since_change: bool = True) -> Rates:
    """Return the rates of each share partition over its observed span.

    ``observed`` is in the row order of the lag table; all null without an observation. Arrivals are
    counted from the beginning of the span, or from the first of the known ``ends`` if that is
    later. With ``since_change``, rates cover the time since their last change, or the whole span if
    the end at the change is unknown but an earlier one is known.
    """
    (begin, seen), (end, _) = numbers(observed, "begin"), numbers(observed, "end")
    seen &= end > begin
    span = np.where(seen, end - begin, 1)
    counts = parts_of(observed, "finished_bins")
    parts = counts * (1000 * BINS / span)[:, np.newaxis]
    least, rows = _least_ends(lag, observed), np.arange(len(span))

    def arrivals(since: Ints) -> tuple[Floats, Bools]:
        return _arrivals(lag, ends, begin + span * since // BINS, least[rows, since])

    since = np.zeros(len(span), np.int64)
    has_usual = arrivals(since)[1]
    if since_change:
        since = last_change(counts, _arrived_in_parts(lag, ends, begin, span, least))
        since = np.where(has_usual & ~arrivals(since)[1], 0, since)
    completion, deviation = mean_since(parts, since)
    observed_ms = span - span * since // BINS
    # Two parts may be equal by chance, so the interval has a minimum width.
    counted = 2 * np.sqrt(completion * 1000 / np.maximum(observed_ms, 1))
    deviation = np.where(since > 0, np.maximum(deviation, counted), deviation)
    arrival, has_arrival = arrivals(since)
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
    lag: Arrow, old: Oldest, found: Rates, as_of: int, patience: int | Floats, is_empty: Bools
) -> dict[str, pa.Array]:
    """Return the forecast columns of `sharelag.schemas.PROGRESS`.

    If records may be missing in the span, the drain time is an upper bound, and nothing counts as
    stalled, uncertain or never draining. A lag that does not drain at the mean rates is uncertain,
    and not growing, if it may drain at rates within the confidence interval, which gives the lower
    bound, or if the rates are equal.

    Times are in milliseconds. A share partition counts as stalled only if it had lag for the
    patience and for a part of the span, so that a new record of a quiet topic raises no alarm. In
    between it has no forecast. ``is_empty``: the group is known to have no members.
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
    # Nothing was finished since, but lag has not lasted long.
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


def _least_ends(lag: Arrow, observed: Arrow) -> Ints:
    """Return the least end offset at the beginning of each part of the span, ``[rows, BINS]``.

    What was finished by then had arrived; ends by the timestamps of records may be lower, as those
    of ``message.timestamp.type=CreateTime`` are by the clocks of producers. 0 where unknown.
    """
    finished = numbers(lag, "start_offset")[0] + numbers(lag, "delivery_complete_count")[0]
    later = np.cumsum(parts_of(observed, "finished_bins")[:, ::-1], axis=1)[:, ::-1]
    odd = np.any([numbers(observed, name)[0] > 0 for name in _INEXACT], axis=0)
    known = numbers(lag, "start_offset")[1] & ~odd
    return np.where(known[:, np.newaxis], finished[:, np.newaxis] - later, 0).astype(np.int64)


def raise_ends(past: Arrow, lag: Arrow, observed: Arrow) -> pa.Table:
    """Return earlier end offsets, none of them below what a group had finished by then."""
    seen = beside(keys(lag, SHARE_PARTITION), observed, SHARE_PARTITION)
    place, there = keys(lag, PARTITION), keys(past, PARTITION)
    (begin, known), (then, timed) = (
        numbers(seen, "begin"),
        numbers(beside(place, past, PARTITION), "as_of"),
    )
    least = np.where(known & timed & (begin <= then), _least_ends(lag, seen)[:, 0], 0)
    most = (
        pa.table({"place": place, "least": least}).group_by("place").aggregate([("least", "max")])
    )
    least_of = flat(most.column("least_max")).take(pc.index_in(there, flat(most.column("place"))))
    ends = pc.max_element_wise(flat(past.column("end_offset")), least_of)
    return as_table(past).set_column(past.schema.get_field_index("end_offset"), "end_offset", ends)


def _arrivals(lag: Arrow, ends: Ends, begin: Ints, least: Ints) -> tuple[Floats, Bools]:
    (now, ended), (requested, timed) = numbers(lag, "end_offset"), numbers(lag, "as_of")
    first, has_first = first_time(ends)
    since = np.maximum(begin, first)
    then, has_then = end_at(ends, since)
    then = np.maximum(then, least)
    # After an end that went back (an unclean election), arrivals are unknown.
    known = ended & timed & has_first & has_then & (requested > since) & (now >= then)
    return np.where(known, now - then, 0) * 1000 / np.where(known, requested - since, 1), known


def _arrived_in_parts(lag: Arrow, ends: Ends, begin: Ints, span: Ints, least: Ints) -> Floats:
    """Return the offsets that arrived in each part of the span; NaN where unknown.

    The end offset is rarely known at the end of the span, so the last part is extrapolated from its
    known share.
    """
    times = [begin + span * n // BINS for n in range(BINS)]
    edges = [end_at(ends, time) for time in times]
    values = np.stack([np.where(known, end, np.nan) for end, known in edges], axis=1)
    values = np.maximum(values, least)
    (now, ended), (as_of, timed) = numbers(lag, "end_offset"), numbers(lag, "as_of")
    known = ended & timed & (as_of > times[-1]) & (now >= values[:, -1])
    share = np.where(known, as_of - times[-1], 1) * BINS / span
    last = np.where(known, (now - values[:, -1]) / np.minimum(share, 1), np.nan)
    return np.column_stack([np.diff(values, axis=1), last])


def _duration(left: Ints, completion: Floats, arrival: Floats) -> Floats:
    """Return the milliseconds to drain at these rates; infinite if never."""
    net = completion - arrival
    gains = net > _SAME * completion
    lasts = left * 1000 / np.where(gains, net, 1)
    return np.where(gains & (lasts < _FOREVER), lasts, np.inf)


#: The share of the present lag below which a lag has not begun.
_LITTLE = 0.05


def lag_began(lag: Arrow, observed: Arrow, ends: Ends) -> tuple[Floats, Bools]:
    """Estimate when the lag of each share partition began, from the tables of `rates`.

    It began in the last part of the span with almost no lag at its start: the lag at the end of
    that part is traced back at the growth of the next part. The result is in milliseconds, NaN
    without an observation, with whether it may have begun earlier, because lag at the beginning of
    the span was present or unknown.
    """
    (begin, seen), (end, _) = numbers(observed, "begin"), numbers(observed, "end")
    seen &= end > begin
    span = np.where(seen, end - begin, 1)
    arrived = _arrived_in_parts(lag, ends, begin, span, _least_ends(lag, observed))
    growth = arrived - parts_of(observed, "finished_bins")
    left, known = numbers(lag, "effective_lag")
    waiting = np.where(known, left, np.nan)[:, np.newaxis]
    at_edges = waiting - np.cumsum(growth[:, ::-1], axis=1)[:, ::-1]
    # Where it is unknown, there may have been lag.
    is_little = at_edges <= _LITTLE * waiting
    quiet = BINS - 1 - np.argmax(is_little[:, ::-1], axis=1)
    rows, after = np.arange(len(left)), np.minimum(quiet + 1, BINS - 1)
    back = at_edges[rows, after] / np.maximum(growth[rows, after], 1)
    back = np.where(quiet + 1 < BINS, np.clip(back, 0, 1), 1)
    is_older = ~is_little.any(axis=1)
    began = np.where(is_older, begin, begin + span * (quiet + 1 - back) / BINS)
    return np.where(seen, began, np.nan), seen & is_older
