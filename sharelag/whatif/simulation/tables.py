"""Counters of a run, the tables made from them, and a summary."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sharelag.tables.declared import trials
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.life import Life
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.streams import Longs

#: The number of bins, as a power of two, into which values fall in the search for quantiles.
_BIN_BITS = 12
#: Counts of a share partition and a member, in records.
COUNTS = ("deliveries", "redeliveries", "acknowledged", "released", "rejected", "refused")


class Tally:
    """Counters of one run.

    ``counts`` (by `COUNTS`) are by share partition and member. By share partition, in offsets:
    ``archived``, ``expired`` (released because their locks expired) and ``lost`` (deleted before
    they were finished). ``finished`` has rows of share partition, first and last offset and time
    (microseconds). ``given_back`` counts records that members released themselves, without those of
    closed sessions and expired locks. ``drained_at`` are times (microseconds) at which nothing was
    left, at most one per step of the timeline.
    """

    def __init__(self, places: int, step: int) -> None:
        self.counts: defaultdict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        self.archived, self.expired, self.lost = [0] * places, [0] * places, [0] * places
        self.finished: list[tuple[int, int, int, int]] = []
        self.given_back = 0
        self.drained_at: list[int] = []
        self._step = step

    def list_finished(self) -> Longs:
        """Return the finished offsets, as rows of `finished`."""
        return np.array(self.finished, np.int64).reshape(-1, 4)

    @property
    def duplicates(self) -> int:
        """Redeliveries without a release by a member."""
        redelivered = sum(counts["redeliveries"] for counts in self.counts.values())
        return max(redelivered - self.given_back, 0)

    def note_drained(self, now: int) -> None:
        """Record that nothing is left at a time."""
        if not self.drained_at or self.drained_at[-1] // self._step < now // self._step:
            self.drained_at.append(now)


_PLACE = [("topic", pa.string()), ("partition", pa.int32())]
_OFFSETS = [("first_offset", pa.int64()), ("last_offset", pa.int64())]
#: One share partition at one moment of a simulation.
TIMELINE = trials.TIMELINE.schema
#: One share partition and one member.
DELIVERIES = pa.schema(
    # records; refused: acknowledged too late
    [*_PLACE, ("member", pa.string()), *((name, pa.int64()) for name in COUNTS)]
)
#: One life of one member.
MEMBERS = pa.schema(
    [
        ("member", pa.string()),
        ("life", pa.int32()),  # number of restarts before
        ("member_id", pa.string()),
        ("joined_ms", pa.int64()),
        ("left_ms", pa.int64()),  # null: still in the group
        ("ended", pa.string()),  # left, crashed, or refused: the group was full
        ("busy_ms", pa.float64()),
        ("idle_ms", pa.float64()),  # alive, but not processing records
        ("unassigned_ms", pa.float64()),  # of these, without a partition
        ("polls", pa.int64()),  # with records
        ("deliveries", pa.int64()),
        ("partitions", pa.int32()),  # assigned at the end
    ]
)
#: One target assignment.
ASSIGNMENTS = pa.schema(
    [
        ("time_ms", pa.float64()),
        ("assignment_epoch", pa.int32()),  # its group epoch
        ("members", pa.int32()),
        ("pairs", pa.int32()),  # member and partition
        ("added", pa.int32()),
        ("revoked", pa.int32()),  # from remaining members
        ("idle", pa.int32()),  # members without a partition
        ("unserved", pa.int32()),  # partitions without a member
        # Kafka's rebalance-count of the group, which excludes members who leave
        ("rebalances", pa.int32()),
    ]
)
#: Offsets that were finished together, acknowledged or archived.
FINISHED = pa.schema([("time_ms", pa.float64()), *_PLACE, *_OFFSETS])
#: Adjacent offsets in flight with the same state at one moment.
IN_FLIGHT = pa.schema(
    [
        *(*_PLACE, *_OFFSETS),
        ("delivery_state", pa.string()),  # available, acquired, acknowledged or archived
        ("delivery_count", pa.int32()),
        ("member", pa.string()),  # the holder; null: not acquired
        ("lock_ends_ms", pa.int64()),  # since the start; null: not acquired
    ]
)
#: One request, at the time when it was sent.
REQUESTS = pa.schema(
    [
        ("time_ms", pa.float64()),
        ("member", pa.string()),
        ("broker", pa.int32()),
        ("session_epoch", pa.int32()),  # 0 opens, -1 closes
        ("request", pa.string()),
    ]
)
#: Kinds of requests by their number in `sharelag.whatif.compiled.layout`.
_WHAT = ("fetch", "acknowledge", "close")


def deliveries(tally: Tally, names: Sequence[tuple[str, int]], clients: Sequence[Life]) -> pa.Table:
    """Return deliveries and their outcomes by partition and member."""
    rows = [
        (*names[place], clients[number].member.name, *(counts[name] for name in COUNTS))
        for (place, number), counts in sorted(tally.counts.items())
    ]
    return table(rows, DELIVERIES)


def members(tally: Tally, clients: Sequence[Life], now: int) -> pa.Table:
    """Return how the members spent their time."""
    delivered = Counter[int]()
    for (_, number), counts in tally.counts.items():
        delivered[number] += counts["deliveries"]
    rows = []
    for client in clients:
        until = now if client.left is None else client.left
        idle = until - client.joined - client.busy
        left = None if client.left is None else client.left // MS
        spent = (one / MS for one in (client.busy, idle, client.unassigned))
        who = (client.member.name, client.life, client.id, client.joined // MS, left, client.ended)
        had = (client.polls, delivered[client.number], len(client.places))
        rows.append((*who, *spent, *had))
    return table(rows, MEMBERS)


def requests(made: Longs, clients: Sequence[Life]) -> pa.Table:
    """Return the requests of all sessions, given as rows of time, member, and the last columns."""
    rows = [
        (time / MS, clients[number].member.name, *session, _WHAT[what])
        for time, number, *session, what in made.tolist()
    ]
    return table(rows, REQUESTS)


def table(rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table of a schema."""
    return pa.table(list(zip(*rows, strict=True)) or [()] * len(schema), schema=schema)


#: One simulation.
SUMMARY = trials.SUMMARY.schema


def summary(
    of: Any, timeline: pa.Table, members: pa.Table, assigned: pa.Table, held: int
) -> pa.Table:
    """Return one row about a `Loop`, of which ``held`` offsets are acquired at the end."""
    scenario, tally, logs = of.scenario, of.tally, of.logs
    steps = len(set(timeline.column("time_ms").to_pylist()))
    lag = timeline.column("lag").to_numpy().reshape(steps, -1).sum(axis=1)
    age = timeline.column("age_ms").to_numpy().reshape(steps, -1).max(axis=1)
    (lag_p50, lag_p95), (age_p50, age_p95) = np.percentile([lag, age], [50, 95], axis=1).T.tolist()
    totals = sum(tally.counts.values(), Counter[str]())
    rows = tally.list_finished()
    archived, finished = sum(tally.archived), int(np.sum(rows[:, 2] - rows[:, 1] + 1))
    latency, ends = _latency(rows, logs), sum(log.known_end for log in logs)
    delivered, again = totals["deliveries"], totals["redeliveries"]
    useful, ended = totals["acknowledged"] + totals["rejected"], delivered - held
    busy = float(np.sum(members.column("busy_ms")))
    alive = float(np.sum(members.column("idle_ms"))) + busy
    moves = int(np.sum(assigned.column("revoked").to_numpy()))
    peak = int(lag.argmax()) * scenario.step_ms * MS
    drained = next((time / MS for time in tally.drained_at if time > peak), None)
    # Members without a record in any of their lives.
    brought = members.group_by("member").aggregate([("deliveries", "sum")]).column("deliveries_sum")
    row = {
        "scenario": scenario.name or None,
        "assignor": of.assignor,
        "members": len(scenario.each_member()),
        "seed": of.seed,
        "duration_ms": scenario.duration_ms,
        "drain_ms": drained if lag.any() else 0.0,
        "lag_p50": lag_p50,
        "lag_p95": lag_p95,
        "lag_max": int(lag.max()),
        "lag_end": int(lag[-1]),
        "age_p50_ms": age_p50,
        "age_p95_ms": age_p95,
        "age_max_ms": float(age.max()),
        "latency_p50_ms": latency[0],
        "latency_p95_ms": latency[1],
        "arrived": ends - sum(start.end_offset for start in scenario.starts.values()),
        "completed": finished,
        "acknowledged": finished - archived,
        "archived": archived,
        "lost": sum(tally.lost),
        "deliveries": delivered,
        "redeliveries": again,
        "redelivered_share": again / delivered if delivered else None,
        "expired": sum(tally.expired),
        "wasted": ended - useful,
        "wasted_share": 1 - useful / ended if ended else None,
        "assignments": assigned.num_rows,
        "moves": moves,
        "moves_per_minute": moves / (scenario.duration_ms / 60_000),
        "pairs": int(np.max(assigned.column("pairs").to_numpy(), initial=0)),
        "idle_members": int(np.sum(brought.to_numpy() == 0)),
        "fairness": _fairness(members),
        "busy_share": busy / alive if alive else None,
        "member_hours": alive / 3_600_000,
    }
    return pa.Table.from_pylist([row], schema=SUMMARY)


def _fairness(members: pa.Table) -> float | None:
    """Return Jain's index over members, with all lives of a member as one."""
    names = members.column("member").combine_chunks().dictionary_encode().indices.to_numpy()
    busy, idle = (members.column(one).to_numpy() for one in ("busy_ms", "idle_ms"))
    spent, alive = np.bincount(names, busy), np.bincount(names, busy + idle)
    shares = spent[alive > 0] / alive[alive > 0]
    squares = float(np.sum(shares**2))
    return float(np.sum(shares)) ** 2 / (len(shares) * squares) if squares else None


def _latency(rows: Longs, logs: Sequence[Log]) -> tuple[float | None, float | None]:
    """Return the median and 95th percentile of the time from append to finish, by record."""
    if not len(rows):
        return None, None
    # Place by place: sorting all rows at once needs more than a cache holds.
    order = np.argsort(rows[:, 0].astype(np.min_scalar_type(len(logs))), kind="stable")
    ends = np.cumsum(np.bincount(rows[:, 0], minlength=len(logs)))
    by_place = zip(logs, np.split(order, ends[:-1]), strict=True)
    found = [_waiting_times(log, rows.take(own, axis=0)) for log, own in by_place if len(own)]
    waited, counts = (np.concatenate(column) for column in zip(*found, strict=True))
    half, most = (_weighted_quantile(waited, counts, share) for share in (0.5, 0.95))
    return max(half / MS, 0.0), max(most / MS, 0.0)


def _weighted_quantile(values: Longs, counts: Longs, share: float) -> int:
    """Return the least value up to which a share of all counts lies.

    As ``np.quantile`` with ``weights`` and the method ``inverted_cdf``, but without sorting all
    values: they fall into bins, those of the bin with the answer into finer ones, and so on.
    """
    total, below = int(counts.sum()), 0.0
    while spread := int(np.ptp(values)):
        bins = (values - values.min()) >> max(spread.bit_length() - _BIN_BITS, 0)
        ends = below + np.cumsum(np.bincount(bins, counts))
        at = int(np.searchsorted(ends / total, share))
        below = ends[at - 1] if at else below
        within = np.flatnonzero(bins == at)
        values, counts = values[within], counts[within]
    return int(values[0])


def _waiting_times(log: Log, rows: Longs) -> tuple[Longs, Longs]:
    """Return microseconds from append to finish, and the number of records of each."""
    firsts, lasts, times = (np.ascontiguousarray(column) for column in rows.T[1:])
    bases, appended = np.asarray(log.bases), np.asarray(log.times)
    low = np.searchsorted(bases, firsts, side="right") - 1
    waited = times - appended[low]
    is_longer = lasts >= bases[low + 1]  # than the rest of its first record batch
    if not is_longer.any():
        return waited, lasts - firsts + 1
    at = np.flatnonzero(is_longer)
    high = np.searchsorted(bases, lasts[at], side="right") - 1
    sizes = high - low[at] + 1
    run = np.repeat(at, sizes)
    batch = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes - low[at], sizes)
    begin = np.maximum(bases[batch], firsts[run])
    end = np.minimum(bases[batch + 1] - 1, lasts[run])
    waited = np.concatenate([waited[~is_longer], times[run] - appended[batch]])
    counts = np.concatenate([(lasts - firsts + 1)[~is_longer], end - begin + 1])
    return waited, counts
