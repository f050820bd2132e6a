"""The replicas that the HorizontalPodAutoscaler sets, given what its metric wants.

As ``pkg/controller/podautoscaler`` of Kubernetes: ``replica_calculator.go`` recommends,
``horizontal.go`` stabilizes and limits. Times are microseconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable

from sharelag.whatif.autoscale import Hpa, Rules

_MS = 1000
#: ``--horizontal-pod-autoscaler-downscale-stabilization``, of an HPA without any rules.
_DOWNSCALE = 300_000 * _MS


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
            rules.stabilization_window_ms * _MS for rules in (hpa.scale_up, hpa.scale_down) if rules
        ]
        self._kept = max(windows, default=_DOWNSCALE)

    def outside(self, replicas: int) -> int | None:
        """Where to go at once from a number that is out of bounds; None: it is within."""
        bounded = min(max(replicas, self._least), self._most)
        return None if bounded == replicas else bounded

    def desired(self, now: int, replicas: int, recommended: int) -> int:
        """The number of replicas to set at a sync, of which there are ``replicas`` now."""
        if not self._recommended:
            self._recommended.append((now, replicas))  # the HPA begins with what it finds
        up, down = self._hpa.scale_up, self._hpa.scale_down
        if up is None or down is None:
            wanted = max([recommended, *self._since(now - _DOWNSCALE - 1)])
            limit, floor = max(2 * replicas, 4), self._least
        else:
            rises = recommended >= replicas
            rules = up if rises else down
            window = self._since(now - rules.stabilization_window_ms * _MS)
            wanted = (min if rises else max)([recommended, *window])
            limit = max(_highest(up, replicas, now, self._up), replicas)
            floor = min(_lowest(down, replicas, now, self._down), replicas)
        self._note(now, recommended)
        if wanted > replicas:
            wanted = min(wanted, self._most, limit)
        elif wanted < replicas:
            wanted = max(wanted, self._least, floor)
        return min(max(wanted, self._least), self._most)

    def scaled(self, now: int, before: int, after: int) -> None:
        """The number of replicas was set."""
        (self._up if after > before else self._down).append((now, abs(after - before)))

    def _since(self, cutoff: int) -> Iterable[int]:
        return [recommended for time, recommended in self._recommended if time > cutoff]

    def _note(self, now: int, recommended: int) -> None:
        self._recommended.append((now, recommended))
        while self._recommended[0][0] < now - self._kept:
            self._recommended.popleft()


def _highest(rules: Rules, replicas: int, now: int, events: Iterable[tuple[int, int]]) -> int:
    """``calculateScaleUpLimitWithScalingRules``."""
    if rules.select_policy == "disabled":
        return replicas
    proposed = []
    for policy in rules.policies:
        begun = replicas - _changed(now - policy.period_ms * _MS, events)
        proposed.append(
            begun + policy.value
            if policy.type == "pods"
            else math.ceil(begun * (1 + policy.value / 100))
        )
    return min(proposed) if rules.select_policy == "min" else max(proposed)


def _lowest(rules: Rules, replicas: int, now: int, events: Iterable[tuple[int, int]]) -> int:
    """``calculateScaleDownLimitWithBehaviors``."""
    if rules.select_policy == "disabled":
        return replicas
    proposed = []
    for policy in rules.policies:
        begun = replicas + _changed(now - policy.period_ms * _MS, events)
        proposed.append(
            begun - policy.value if policy.type == "pods" else int(begun * (1 - policy.value / 100))
        )
    return max(proposed) if rules.select_policy == "min" else min(proposed)


def _changed(cutoff: int, events: Iterable[tuple[int, int]]) -> int:
    return sum(change for time, change in events if time > cutoff)
