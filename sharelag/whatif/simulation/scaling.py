"""Members that come and go by an autoscaler: KEDA, the HPA and the Deployment between them.

The HPA is as in ``pkg/controller/podautoscaler`` of Kubernetes: ``replica_calculator.go``
recommends, ``horizontal.go`` stabilizes and limits. Times are microseconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import pyarrow as pa

from sharelag.whatif.autoscale import Autoscaler, Fixed, Hpa, Keda, Rules, TargetAge, fewest
from sharelag.whatif.scenario import Member
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.life import Life
from sharelag.whatif.simulation.tables import table

#: One look at the group: each time the number of members is decided on.
SCALING = pa.schema(
    [
        ("time_ms", pa.int64()),
        ("metric", pa.float64()),  # offsets, as the autoscaler got to know them; null: not known
        ("recommended", pa.int32()),  # by the metric alone; null: nothing was
        ("desired", pa.int32()),  # members there should be from now on
        ("members", pa.int32()),  # that work, before anything was changed
        ("starting", pa.int32()),  # on their way, likewise
    ]
)


@dataclass(frozen=True)
class Observed:
    """What is known of a group at one moment.

    ``lags`` are by share partition, as ``metric`` has it, None where not known; ``age_ms`` is the
    age of the oldest unfinished record; ``arrived`` and ``finished`` are offsets since the begin.
    """

    lags: Sequence[int | None]
    age_ms: int
    arrived: int
    finished: int


class Scaling:
    """The members of a simulation with an autoscaler.

    New ones are added to those of the scenario, and are like them in turn. ``of`` is its `Loop`.
    """

    def __init__(self, of: Any, autoscaler: Autoscaler) -> None:
        self._policy, self._clock, self._each, self._lives = autoscaler, of.clock, of.each, of.lives
        self._spawn, self._observe = of.spawn, of.observe
        each, topics, clock = of.each, tuple(of.first), of.clock
        self._like = tuple(each) or (Member(topics=topics),)
        self._names = {member.name for member in each}
        self._partitions = len(of.names)
        self._present = list(range(len(each)))  # by creation
        self._starting: set[int] = set()
        self.retired: set[int] = set()
        self.replicas = len(each)
        self._rows: list[tuple[int | float | None, ...]] = []
        self._kept: Observed | None = None
        self._kept_at = -1
        self._active_at: int | None = None
        least, most = _bounds(autoscaler)
        self._hpa = Stabilizer(autoscaler.hpa, least, most)
        self._age = AgeKeeper(autoscaler) if isinstance(autoscaler, TargetAge) else None
        if isinstance(autoscaler, Keda):
            clock.at(0, self._poll, autoscaler)
        clock.at(0, self._sync)

    def table(self) -> pa.Table:
        """All decisions, as `SCALING`."""
        return table(self._rows, SCALING)

    # ---- decisions ----

    def _sync(self) -> None:
        now, policy = self._clock.now, self._policy
        self._clock.after(policy.hpa.sync_period_ms * MS, self._sync)
        if isinstance(policy, Fixed):
            self._scale_to(policy.replicas, None, None)
            return
        outside = self._hpa.outside(self.replicas)
        if self.replicas == 0 and isinstance(policy, Keda):
            return  # an HPA leaves a target alone that is at none
        if outside is not None:
            self._scale_to(outside, None, None)
            return
        metric, recommended = self._recommended(now)
        if recommended is None:
            self._scale_to(self.replicas, metric, None)
            return
        desired = self._hpa.desired(now, self.replicas, recommended)
        if desired != self.replicas:
            self._hpa.scaled(now, self.replicas, desired)
        self._scale_to(desired, metric, recommended)

    def _poll(self, keda: Keda) -> None:
        """What KEDA does in every polling interval: it goes from none to some, and back."""
        now = self._clock.now
        self._clock.after(keda.polling_interval_ms * MS, self._poll, keda)
        seen = self._look(keda, anew=True)
        metric = _total(seen)
        is_active = metric is not None and metric > keda.activation_lag_threshold
        if is_active:
            self._active_at = now
        if self.replicas == 0 and (is_active or keda.min_replica_count):
            self._scale_to(max(keda.min_replica_count, 1), metric, None)
        elif not is_active and self.replicas and keda.min_replica_count == 0:
            over = self._active_at is None or self._active_at + keda.cooldown_period_ms * MS < now
            if over:
                self._scale_to(0, metric, None)

    def _recommended(self, now: int) -> tuple[float | None, int | None]:
        policy = self._policy
        if isinstance(policy, Keda):
            metric = _total(self._look(policy, anew=not policy.use_cached_metrics))
            if metric is None:
                return None, None
            if policy.limit_to_partitions and metric // policy.lag_threshold > self._partitions:
                metric = self._partitions * policy.lag_threshold
            return metric, average_value(
                metric, policy.lag_threshold, self.replicas, policy.hpa.tolerance
            )
        if self._age is None or isinstance(policy, Fixed):
            return None, None
        seen = self._observe(policy.metric == "lag_excluding_stuck")
        metric = _total(seen)
        if metric is None:
            return None, None
        busy = sum(life.busy for life in self._lives)
        return metric, self._age.recommended(now, metric, seen, busy)

    def _look(self, keda: Keda, anew: bool) -> Observed:
        """Return what KEDA gets from where its metric comes from."""
        now, every = self._clock.now, keda.refresh_ms * MS
        is_old = not every or self._kept_at // every < now // every
        if self._kept is None or (anew and is_old):
            self._kept, self._kept_at = self._observe(keda.metric == "lag_excluding_stuck"), now
        return self._kept

    # ---- what is done about it ----

    def _scale_to(self, desired: int, metric: float | None, recommended: int | None) -> None:
        self._present = [which for which in self._present if self._is_there(which)]
        starting = sum(which in self._starting for which in self._present)
        ready = len(self._present) - starting
        self._rows.append((self._clock.now // MS, metric, recommended, desired, ready, starting))
        self.replicas = desired
        while len(self._present) < desired:
            self._start()
        # The youngest go first, those that have not begun before all others (ReplicaSet).
        order = sorted(self._present, key=lambda which: (which in self._starting, which))
        for which in order[desired:]:
            self._retire(which)

    def _is_there(self, which: int) -> bool:
        """Whether a member works, or is about to: one that crashed and comes back is."""
        if which in self._starting:
            return True
        life = self._last_life(which)
        return life is not None and (
            life.ended is None
            or (life.ended == "crashed" and self._each[which].behaviour.restart_ms is not None)
        )

    def _start(self) -> None:
        which = len(self._each)
        names = (f"scaled-{number}" for number in count(which))
        name = next(name for name in names if name not in self._names)
        self._names.add(name)
        like = self._like[which % len(self._like)]
        self._each.append(replace(like, name=name, join_ms=0, leave_ms=None))
        self._present.append(which)
        self._starting.add(which)
        # Who is there from the begin on needs no start.
        is_there = self._clock.now == 0 and isinstance(self._policy, Fixed)
        startup_ms = 0 if is_there else self._policy.pods.startup_ms
        self._clock.after(startup_ms * MS, self._begin, which)

    def _begin(self, which: int) -> None:
        if which in self._starting:
            self._starting.discard(which)
            self._spawn(which, 0)

    def _retire(self, which: int) -> None:
        self._present.remove(which)
        self.retired.add(which)
        self._starting.discard(which)
        life = self._last_life(which)
        if life is not None and life.ended is None:
            life.leave()
            self._clock.after(self._policy.pods.grace_ms * MS, self._kill, life)

    def _kill(self, life: Life) -> None:
        if life.ended is None:
            life.crash()

    def _last_life(self, which: int) -> Life | None:
        return next((life for life in reversed(self._lives) if life.which == which), None)


def _bounds(autoscaler: Autoscaler) -> tuple[int, int]:
    """Of the HPA, which knows no 0."""
    if isinstance(autoscaler, Fixed):
        return autoscaler.replicas, autoscaler.replicas
    return max(autoscaler.min_replica_count, 1), autoscaler.max_replica_count


def _total(seen: Observed) -> int | None:
    known = [lag for lag in seen.lags if lag is not None]
    return sum(known) if known else None


#: ``--horizontal-pod-autoscaler-downscale-stabilization``, of an HPA without any rules.
_DOWNSCALE = 300_000 * MS


def average_value(metric: float, target: float, replicas: int, tolerance: float) -> int:
    """How many replicas a metric asks for that is to be shared out, ``target`` for each.

    ``GetExternalPerPodMetricReplicas``: the number stays where metric and target differ by no more
    than the tolerance.
    """
    ratio = metric / (target * replicas)
    return replicas if abs(1 - ratio) <= tolerance else math.ceil(metric / target)


class Stabilizer:
    """What an HPA keeps between two syncs: recommendations, and by how much it scaled when."""

    def __init__(self, hpa: Hpa, least: int, most: int) -> None:
        self._hpa, self._least, self._most = hpa, least, most
        self._recommended: deque[tuple[int, int]] = deque()
        self._up: deque[tuple[int, int]] = deque()
        self._down: deque[tuple[int, int]] = deque()
        windows = [
            rules.stabilization_window_ms * MS for rules in (hpa.scale_up, hpa.scale_down) if rules
        ]
        self._kept = max(windows, default=_DOWNSCALE)

    def outside(self, replicas: int) -> int | None:
        """Where to go at once from a number that is out of bounds; None: it is within."""
        bounded = min(max(replicas, self._least), self._most)
        return None if bounded == replicas else bounded

    def desired(self, now: int, replicas: int, recommended: int) -> int:
        """Return the number of replicas to set at a sync, of which there are ``replicas`` now."""
        if not self._recommended:
            self._recommended.append((now, replicas))  # the HPA begins with what it finds
        up, down = self._hpa.scale_up, self._hpa.scale_down
        if up is None or down is None:
            wanted = max([recommended, *self._since(now - _DOWNSCALE - 1)])
            limit, floor = max(2 * replicas, 4), self._least
        else:
            rises = recommended >= replicas
            rules = up if rises else down
            window = self._since(now - rules.stabilization_window_ms * MS)
            wanted = (min if rises else max)([recommended, *window])
            limit = max(_limit(up, replicas, now, self._up, rises=True), replicas)
            floor = min(_limit(down, replicas, now, self._down, rises=False), replicas)
        self._note(now, recommended)
        if wanted > replicas:
            wanted = min(wanted, self._most, limit)
        elif wanted < replicas:
            wanted = max(wanted, self._least, floor)
        return min(max(wanted, self._least), self._most)

    def scaled(self, now: int, before: int, after: int) -> None:
        """The number of replicas was set."""
        (self._up if after > before else self._down).append((now, abs(after - before)))

    def _since(self, cutoff: int) -> list[int]:
        return [recommended for time, recommended in self._recommended if time > cutoff]

    def _note(self, now: int, recommended: int) -> None:
        self._recommended.append((now, recommended))
        while self._recommended[0][0] < now - self._kept:
            self._recommended.popleft()


def _limit(
    rules: Rules, replicas: int, now: int, events: Iterable[tuple[int, int]], rises: bool
) -> int:
    """``calculateScaleUpLimitWithScalingRules``, or ``calculateScaleDownLimitWithBehaviors``."""
    if rules.select_policy == "disabled":
        return replicas
    proposed, sign = [], 1 if rises else -1
    for policy in rules.policies:
        cutoff = now - policy.period_ms * MS
        begun = replicas - sign * sum(change for time, change in events if time > cutoff)
        if policy.type == "pods":
            proposed.append(begun + sign * policy.value)
        else:
            part = begun * (1 + sign * policy.value / 100)
            proposed.append(math.ceil(part) if rises else int(part))
    return (max if rises == (rules.select_policy == "max") else min)(proposed)


_SECOND = 1_000_000


class AgeKeeper:
    """What is kept between two looks: counts of the last window, and how fast a member was."""

    def __init__(self, policy: TargetAge) -> None:
        self._policy = policy
        self._past: deque[tuple[int, int, int, int]] = deque()  # time, arrived, finished, busy
        self._rate: float | None = None  # of one member, records a second at work

    def recommended(self, now: int, lag: float, seen: Observed, busy: int) -> int | None:
        """How many members are wanted; None while nothing is known of how fast they are.

        Times are microseconds; ``busy`` is what all members together were at work so far.
        """
        policy = self._policy
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
            found = fewest(arrival, self._rate, lag, policy.goal_ms)
            return max(found.members, policy.min_replica_count)
        left = max(policy.goal_ms - seen.age_ms - policy.pods.startup_ms, policy.goal_ms / 4) / 1000
        return max(
            math.ceil(max(arrival / policy.utilization, lag / left) / self._rate),
            policy.min_replica_count,
        )
