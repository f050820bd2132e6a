"""Members that an autoscaler adds and removes, as KEDA, an HPA and a Deployment do.

The HPA follows ``pkg/controller/podautoscaler`` of Kubernetes: ``replica_calculator.go``
recommends, ``horizontal.go`` stabilizes and limits. Times are microseconds.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pyarrow as pa

from sharelag.whatif.autoscale import Autoscaler, Fixed, Hpa, Keda, Rules, TargetAge, fewest
from sharelag.whatif.scenario import Member
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.life import Life
from sharelag.whatif.simulation.tables import table

#: One decision on the number of members.
SCALING = pa.schema(
    [
        ("time_ms", pa.int64()),
        ("metric", pa.float64()),  # offsets, as the autoscaler knows them; null: not known
        ("recommended", pa.int32()),  # by the metric alone; null: no recommendation
        ("desired", pa.int32()),  # members from now on
        ("members", pa.int32()),  # running, before the change
        ("starting", pa.int32()),  # starting, before the change
    ]
)


@dataclass(frozen=True)
class Observed:
    """The state of a group at one moment.

    ``lag`` is the sum over all share partitions with a known lag, None if there are none.
    ``age_ms`` is the age of the oldest unfinished record. ``arrived`` and ``finished`` are offsets
    since the start.
    """

    lag: int | None
    age_ms: int
    arrived: int
    finished: int


class Scaling:
    """The members of a simulation with an autoscaler.

    New members are added to those of the scenario, and resemble them in turn. ``of`` is the `Loop`.
    """

    def __init__(self, of: Any, autoscaler: Autoscaler) -> None:
        self._of, self._policy, self._clock, self._each = of, autoscaler, of.clock, of.each
        self._like = tuple(of.each) or (Member(topics=tuple(of.first)),)
        self._present = list(range(len(of.each)))  # in the order of creation
        self._starting: set[int] = set()
        self.retired: set[int] = set()
        self.replicas = len(of.each)
        self._rows: list[tuple[int | float | None, ...]] = []
        self._kept: int | None = None
        self._kept_at = -1
        self._active_at: int | None = None
        self._hpa = Stabilizer(autoscaler.hpa, *_bounds(autoscaler))
        self._age = AgeKeeper(autoscaler) if isinstance(autoscaler, TargetAge) else None
        if isinstance(autoscaler, Keda):
            self._clock.at(0, self._poll, autoscaler)
        self._clock.at(0, self._sync)

    def table(self) -> pa.Table:
        """Return all decisions, as `SCALING`."""
        return table(self._rows, SCALING)

    # ---- decisions ----

    def _sync(self) -> None:
        """Run one sync period of the HPA."""
        self._clock.after(self._policy.hpa.sync_period_ms * MS, self._sync)
        if self.replicas == 0 and isinstance(self._policy, Keda):
            return  # an HPA ignores a target with no replicas
        desired = self._hpa.clamp(self.replicas)
        is_within = desired == self.replicas  # otherwise it goes to the bound at once
        metric, recommended = self._recommend() if is_within else (None, None)
        if recommended is not None:
            desired = self._hpa.stabilize(self._clock.now, self.replicas, recommended)
        self._scale_to(desired, metric, recommended)

    def _poll(self, keda: Keda) -> None:
        """Run one polling interval of KEDA, which scales from zero and back."""
        now = self._clock.now
        self._clock.after(keda.polling_interval_ms * MS, self._poll, keda)
        metric = self._look(keda, anew=True)
        is_active = metric is not None and metric > keda.activation_lag_threshold
        if is_active:
            self._active_at = now
        if self.replicas == 0 and (is_active or keda.min_replica_count):
            self._scale_to(max(keda.min_replica_count, 1), metric, None)
        elif not is_active and self.replicas and keda.min_replica_count == 0:
            over = self._active_at is None or self._active_at + keda.cooldown_period_ms * MS < now
            if over:
                self._scale_to(0, metric, None)

    def _recommend(self) -> tuple[int | None, int | None]:
        """Return the metric, and the members that it recommends; None if not known."""
        policy = self._policy
        if self._age is not None:
            seen: Observed = self._of.observe(self._age.policy.metric)
            busy = sum(life.busy_so_far() for life in self._of.lives)
            return seen.lag, self._age.recommend(self._clock.now, seen, busy)
        if not isinstance(policy, Keda):
            return None, None
        metric = self._look(policy, anew=not policy.use_cached_metrics)
        if metric is None:
            return None, None
        partitions, threshold = len(self._of.names), policy.lag_threshold
        if policy.limit_to_partitions and metric // threshold > partitions:
            metric = partitions * threshold
        return metric, average_value(metric, threshold, self.replicas, policy.hpa.tolerance)

    def _look(self, keda: Keda, anew: bool) -> int | None:
        """Return the lag that KEDA reads from the source of its metric."""
        now, every = self._clock.now, keda.refresh_ms * MS
        is_old = not every or self._kept_at // every < now // every
        if self._kept_at < 0 or (anew and is_old):
            self._kept, self._kept_at = self._of.observe(keda.metric).lag, now
        return self._kept

    # ---- changes ----

    def _scale_to(self, desired: int, metric: float | None, recommended: int | None) -> None:
        self._present = [which for which in self._present if self._is_there(which)]
        starting = sum(which in self._starting for which in self._present)
        ready = len(self._present) - starting
        self._rows.append((self._clock.now // MS, metric, recommended, desired, ready, starting))
        self.replicas = desired
        while len(self._present) < desired:
            self._start()
        # The youngest members go first, and starting ones before all others (ReplicaSet).
        order = sorted(self._present, key=lambda which: (which in self._starting, which))
        for which in order[desired:]:
            self._retire(which)

    def _is_there(self, which: int) -> bool:
        """Return whether a member runs, starts, or restarts after a crash."""
        if which in self._starting:
            return True
        life, restart_ms = self._last_life(which), self._each[which].behaviour.restart_ms
        comes_back = restart_ms is not None and life is not None and life.ended == "crashed"
        return comes_back or (life is not None and life.ended is None)

    def _start(self) -> None:
        which, taken = len(self._each), {member.name for member in self._each}
        names = (f"scaled-{number}" for number in count(which))
        name = next(name for name in names if name not in taken)
        like = self._like[which % len(self._like)]
        self._each.append(replace(like, name=name, join_ms=0, leave_ms=None))
        self._present.append(which)
        self._starting.add(which)
        # Members that run from the beginning need no startup.
        is_there = self._clock.now == 0 and isinstance(self._policy, Fixed)
        startup_ms = 0 if is_there else self._policy.pods.startup_ms
        self._clock.after(startup_ms * MS, self._begin, which)

    def _begin(self, which: int) -> None:
        if which in self._starting:
            self._starting.discard(which)
            self._of.spawn(which, 0)

    def _retire(self, which: int) -> None:
        self._present.remove(which)
        self.retired.add(which)
        self._starting.discard(which)
        life = self._last_life(which)
        if life is not None and life.ended is None:
            life.leave()
            self._clock.after(self._policy.pods.grace_ms * MS, life.crash)

    def _last_life(self, which: int) -> Life | None:
        return next((life for life in reversed(self._of.lives) if life.which == which), None)


def _bounds(autoscaler: Autoscaler) -> tuple[int, int]:
    """Return the bounds of the HPA, which are at least 1."""
    if isinstance(autoscaler, Fixed):
        return autoscaler.replicas, autoscaler.replicas
    return max(autoscaler.min_replica_count, 1), autoscaler.max_replica_count


#: ``--horizontal-pod-autoscaler-downscale-stabilization``, for an HPA without rules.
_DOWNSCALE = 300_000 * MS


def average_value(metric: float, target: float, replicas: int, tolerance: float) -> int:
    """Return the replicas for a metric whose target is an average per replica.

    ``GetExternalPerPodMetricReplicas``: the number stays if metric and target differ by at most the
    tolerance.
    """
    ratio = metric / (target * replicas)
    return replicas if abs(1 - ratio) <= tolerance else math.ceil(metric / target)


class Stabilizer:
    """The state of an HPA between syncs: its recommendations, and its changes with their times."""

    def __init__(self, hpa: Hpa, least: int, most: int) -> None:
        self._hpa, self._least, self._most = hpa, least, most
        self._recommended: list[tuple[int, int]] = []
        self._up: list[tuple[int, int]] = []
        self._down: list[tuple[int, int]] = []

    def clamp(self, replicas: int) -> int:
        """Return the nearest number of replicas within the bounds."""
        return min(max(replicas, self._least), self._most)

    def stabilize(self, now: int, replicas: int, recommended: int) -> int:
        """Return the number of replicas that a sync sets, given the current ``replicas``."""
        if not self._recommended:
            self._recommended.append((now, replicas))  # the HPA starts with the current number
        up, down = self._hpa.scale_up, self._hpa.scale_down
        if up is None or down is None:
            count = max([recommended, *self._since(now - _DOWNSCALE - 1)])
            limit, floor = max(2 * replicas, 4), self._least
        else:
            rises = recommended >= replicas
            rules = up if rises else down
            window = self._since(now - rules.stabilization_window_ms * MS)
            count = (min if rises else max)([recommended, *window])
            limit = max(_limit(up, replicas, now, self._up, rises=True), replicas)
            floor = min(_limit(down, replicas, now, self._down, rises=False), replicas)
        self._recommended.append((now, recommended))
        desired = self.clamp(min(max(count, floor), limit))
        if desired != replicas:
            (self._up if desired > replicas else self._down).append((now, abs(desired - replicas)))
        return desired

    def _since(self, cutoff: int) -> list[int]:
        return [recommended for time, recommended in self._recommended if time > cutoff]


def _limit(rules: Rules, count: int, now: int, events: list[tuple[int, int]], rises: bool) -> int:
    """``calculateScaleUpLimitWithScalingRules``, or ``calculateScaleDownLimitWithBehaviors``."""
    if rules.select_policy == "disabled":
        return count
    proposed, sign = [], 1 if rises else -1
    for policy in rules.policies:
        cutoff = now - policy.period_ms * MS
        base = count - sign * sum(change for time, change in events if time > cutoff)
        if policy.type == "pods":
            proposed.append(base + sign * policy.value)
        else:
            part = base * (1 + sign * policy.value / 100)
            proposed.append(math.ceil(part) if rises else int(part))
    return (max if rises == (rules.select_policy == "max") else min)(proposed)


_SECOND = 1_000_000


class AgeKeeper:
    """The state of `TargetAge` between decisions: counts of the last window, a member's rate."""

    def __init__(self, policy: TargetAge) -> None:
        self.policy = policy
        self._past: deque[tuple[int, int, int, int]] = deque()  # time, arrived, finished, busy
        self._rate: float | None = None  # of one member, records per second at work

    def recommend(self, now: int, seen: Observed, busy: int) -> int | None:
        """Return the number of members wanted, None while their rate is unknown.

        Times are microseconds; ``busy`` is the total working time of all members.
        """
        policy, lag = self.policy, seen.lag
        if lag is None:
            return None
        self._past.append((now, seen.arrived, seen.finished, busy))
        while len(self._past) > 1 and self._past[1][0] <= now - policy.window_ms * MS:
            self._past.popleft()
        since, arrived, finished, was_busy = self._past[0]
        if busy > was_busy and seen.finished > finished:
            self._rate = (seen.finished - finished) / (busy - was_busy) * _SECOND
        if self._rate is None:
            return None if lag else policy.min_replica_count
        arrival = (seen.arrived - arrived) / (now - since) * _SECOND if now > since else 0.0
        if policy.utilization is None:
            count = fewest(arrival, self._rate, lag, policy.goal_ms).members
        else:
            left_ms = policy.goal_ms - seen.age_ms - policy.pods.startup_ms
            left = max(left_ms, policy.goal_ms / 4) / 1000
            count = math.ceil(max(arrival / policy.utilization, lag / left) / self._rate)
        return max(count, policy.min_replica_count)
