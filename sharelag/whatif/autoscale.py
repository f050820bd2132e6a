"""Autoscalers, which add and remove members while a scenario runs, as frozen values.

    autoscaler = Keda(lag_threshold=100, min_replica_count=1, max_replica_count=20)
    simulate(replace(named("burst"), autoscaler=autoscaler)).scaling   # what it saw, wanted and did

Names are those of KEDA and Kubernetes, times are milliseconds. Sources: keda.sh, *ScaledObject
specification* and *Apache Kafka* scaler, ``pkg/scalers/kafka_scaler.go`` and
``pkg/scaling/executor/scale_scaledobjects.go``; kubernetes.io, *Horizontal Pod Autoscaling*,
``pkg/controller/podautoscaler``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from math import ceil, exp, floor, inf
from typing import Any, Literal, NamedTuple, TypeAlias

from sharelag.durations import parse_duration
from sharelag.errors import InputError
from sharelag.whatif.consumers import require_least

#: What `Keda` may go by: Kafka's lag, or without what no member can finish, as in exports.
Metric: TypeAlias = Literal["lag", "lag_excluding_stuck"]


@dataclass(frozen=True)
class Policy:
    """At most so many members, or percent of them, are added or removed a period."""

    type: Literal["pods", "percent"]
    value: int
    period_ms: int = 15_000


@dataclass(frozen=True)
class Rules:
    """How fast the number of members may change in one direction (``HPAScalingRules``).

    Attributes
    ----------
    stabilization_window_ms
        Of all that was wanted in this window the least change counts.
    policies
    select_policy
        Whether the policy that allows the most change counts, or the one that allows the least; or
        nothing changes.
    """

    stabilization_window_ms: int = 0
    policies: tuple[Policy, ...] = (Policy("percent", 100),)
    select_policy: Literal["max", "min", "disabled"] = "max"

    def __post_init__(self) -> None:
        if self.select_policy != "disabled" and not self.policies:
            raise InputError(
                "scaling rules without a policy: give policies, or select_policy='disabled'"
            )


@dataclass(frozen=True)
class Hpa:
    """The HorizontalPodAutoscaler, with Kubernetes' defaults.

    Attributes
    ----------
    sync_period_ms
        ``--horizontal-pod-autoscaler-sync-period``.
    tolerance
        Nothing changes where the metric is off its target by no more than this part.
    scale_up, scale_down
        None for both of them is an HPA without a ``behavior``: it goes up to the double or to 4,
        whichever is more, and down by the highest of five minutes.
    """

    sync_period_ms: int = 15_000
    tolerance: float = 0.1
    scale_up: Rules | None = Rules(0, (Policy("percent", 100), Policy("pods", 4)))
    scale_down: Rules | None = Rules(300_000)

    def __post_init__(self) -> None:
        require_least(self, 1, "sync_period_ms")
        require_least(self, 0, "tolerance")
        if (self.scale_up is None) != (self.scale_down is None):
            raise InputError(
                "an HPA has rules for both directions or no behavior at all: "
                "give both, or None for both"
            )


@dataclass(frozen=True)
class Pods:
    """What scaling costs in time.

    Attributes
    ----------
    startup_ms
        From the decision until a new member joins: scheduling, image, start of the process.
    grace_ms
        ``terminationGracePeriodSeconds``: a member that goes finishes the records at hand and
        closes; who needs longer is killed.
    """

    startup_ms: int = 10_000
    grace_ms: int = 30_000


@dataclass(frozen=True)
class Keda:
    """A ScaledObject with one trigger on the lag of the group, and the HPA that KEDA makes for it.

    The HPA wants ``ceil(metric / lag_threshold)`` members (``AverageValue`` of an external metric).
    KEDA itself goes from none to some, and back, by what it polls.

    Attributes
    ----------
    activation_lag_threshold
        From none to some above this lag only.
    polling_interval_ms, cooldown_period_ms
        How often KEDA looks whether there is work at all; how long after it last saw some it goes
        to none.
    use_cached_metrics
        The HPA gets what was polled last; else KEDA asks again whenever the HPA does.
    refresh_ms
        How often the source of the metric gathers anew, such as an exporter with a cache; 0: it is
        always live.
    limit_to_partitions
        As KEDA's Kafka scaler does for consumer groups unless ``allowIdleConsumers`` is set.
        Members of share groups need no separate partition.
    """

    lag_threshold: int = 10
    min_replica_count: int = 0
    max_replica_count: int = 100
    metric: Metric = "lag"
    activation_lag_threshold: int = 0
    polling_interval_ms: int = 30_000
    cooldown_period_ms: int = 300_000
    use_cached_metrics: bool = False
    refresh_ms: int = 0
    limit_to_partitions: bool = False
    hpa: Hpa = Hpa()
    pods: Pods = Pods()
    kind: Literal["keda"] = "keda"

    def __post_init__(self) -> None:
        _require_bounds(self.min_replica_count, self.max_replica_count)
        require_least(self, 1, "lag_threshold", "polling_interval_ms")
        if self.metric not in ("lag", "lag_excluding_stuck"):
            raise InputError(f"unknown metric {self.metric!r}: choose lag or lag_excluding_stuck")


@dataclass(frozen=True)
class TargetAge:
    """As many members as keep records from waiting longer than ``goal_ms``; not part of KEDA.

    It wants enough for what arrives, at ``utilization``, and enough to finish what waits now before
    it is too old::

        members = ceil(max(arrival rate / utilization, lag / time left) / service rate of one
        member) time left = max(goal - age of the oldest unfinished record - startup, goal / 4)

    Without a ``utilization`` they are the fewest that keep what arrives below the goal, as `fewest`
    has it: what ``/keda/GROUP`` calls ``members_wanted``.

    Rates are those of the last ``window_ms``; a member's is what it finished by the time it was at
    work. The same rules as the HPA's keep it from flapping.

    Attributes
    ----------
    metric
        Which lag; of what is stuck nothing would be finished by more members.
    """

    goal_ms: int
    min_replica_count: int = 1
    max_replica_count: int = 100
    metric: Metric = "lag_excluding_stuck"
    utilization: float | None = 0.8
    window_ms: int = 60_000
    hpa: Hpa = Hpa()
    pods: Pods = Pods()
    kind: Literal["target-age"] = "target-age"

    def __post_init__(self) -> None:
        _require_bounds(self.min_replica_count, self.max_replica_count)
        # It measures what members do, so one has to stay.
        require_least(self, 1, "goal_ms", "window_ms", "min_replica_count")
        if self.utilization is not None and not 0 < self.utilization <= 1:
            raise InputError(
                f"utilization is {self.utilization}: give a number above 0 and at most 1, or None"
            )


@dataclass(frozen=True)
class Fixed:
    """A fixed number of members, to compare with. As in a Deployment, one that ends is replaced."""

    replicas: int
    hpa: Hpa = Hpa()  # how often it is looked whether they are all there
    pods: Pods = Pods()
    kind: Literal["fixed"] = "fixed"

    def __post_init__(self) -> None:
        require_least(self, 0, "replicas")


#: The share of records that may wait for longer than the goal.
_LATE = 0.05
#: Where the sum ends: no broker lets more join.
_MOST = 1000


class Fewest(NamedTuple):
    """How many members keep up with what comes, and how many also finish what waits in time."""

    keep_up: int
    catch_up: int

    @property
    def members(self) -> int:
        """The fewest that do both."""
        return max(self.keep_up, self.catch_up)


def fewest(arriving: float, each: float, waiting: float, goal_ms: float) -> Fewest:
    """Return the fewest members that keep records younger than a goal.

    They have to keep up with what comes: of records that arrive by chance, 95 % may wait no longer
    than the goal (Erlang's C). And beside what comes they finish what waits within the goal.
    ``arriving`` and ``each`` are records a second: that come, and that a busy member finishes.
    """

    def late(members: int) -> float:
        """Return the share of records that wait longer than the goal, of Erlang's queue M/M/c."""
        load, lost = arriving / each, 1.0
        for count in range(1, members + 1):
            lost = load * lost / (count + load * lost)  # his B, which his C is made of
        waits = lost / (1 - load / members * (1 - lost))
        return waits * exp(-(members * each - arriving) * goal_ms / 1000)

    keep_up = floor(arriving / each) + 1 if arriving > 0 else 0
    while 0 < keep_up < _MOST and late(keep_up) > _LATE:
        keep_up += 1
    return Fewest(keep_up, ceil((arriving + 1000 * waiting / goal_ms) / each))


Autoscaler: TypeAlias = Keda | TargetAge | Fixed


def _require_bounds(least: int, most: int) -> None:
    if not 0 <= least <= most or most < 1:
        raise InputError(
            f"the range of {least} to {most} members is invalid: "
            f"give min of at least 0, and max of at least min"
        )


def autoscaler_of(text: str) -> Autoscaler:
    """Read an autoscaler, such as ``keda:threshold=100,min=1,max=20``."""
    kind, _, rest = text.strip().partition(":")
    if kind not in _KINDS:
        raise InputError(
            f"unknown autoscaler {kind!r}: choose one of {', '.join(_KINDS)}, such as {_EXAMPLE}"
        )
    if kind == "fixed":
        return Fixed(_read(_count, kind, "members", rest))
    read: dict[str, Any] = {}
    for part in filter(None, rest.split(",")):
        name, _, value = (one.strip() for one in part.partition("="))
        if name not in _KINDS[kind]:
            raise InputError(
                f"{kind} has no {name!r}: it knows {', '.join(_KINDS[kind])}; such as {_EXAMPLE}"
            )
        path, how = _KINDS[kind][name]
        if path in read:
            raise InputError(f"{kind} has {name!r} twice: give it once")
        read[path] = _read(how, kind, name, value)
    if kind == "target-age" and "goal_ms" not in read:
        raise InputError("target-age needs a goal, a duration such as target-age:goal=30s")
    own = {path: value for path, value in read.items() if "." not in path}
    made: Keda | TargetAge = Keda(**own) if kind == "keda" else TargetAge(**own)
    for path in (path for path in read if path not in own):
        made = _replace(made, path, read[path])
    return made


def _replace(whole: Any, path: str, value: Any) -> Any:
    name, _, rest = path.partition(".")
    return replace(whole, **{name: _replace(getattr(whole, name), rest, value) if rest else value})


def _read(how: Callable[[str], Any], kind: str, name: str, value: str) -> Any:
    """Read a value; readers raise what to give instead."""
    try:
        return how(value)
    except InputError as error:
        raise InputError(f"{kind}: {name}: {error}") from None
    except ValueError as wanted:
        raise InputError(f"{kind}: {name} is {value!r}: give {wanted}") from None


def _count(value: str, least: int = 0) -> int:
    if not value.isascii() or not value.isdecimal() or int(value) < least:
        raise ValueError(f"a whole number of at least {least}, such as {_EXAMPLE}")
    return int(value)


def _part(value: str) -> float:
    with suppress(ValueError):
        if 0 <= (number := float(value)) < inf:
            return number
    raise ValueError(f"a number of at least 0, such as {_EXAMPLE}")


def _share(value: str) -> float | None:
    if value == "fewest":
        return None
    if not 0 < (share := _part(value)) <= 1:
        raise ValueError("a number above 0 and at most 1, such as 0.8, or fewest")
    return share


def _seconds(value: str, least: int = 0) -> int:
    if (milliseconds := round(parse_duration(value) / timedelta(milliseconds=1))) < least:
        raise ValueError(f"{least}ms at least")
    return milliseconds


def _yes(value: str) -> bool:
    if value not in ("", "yes", "no"):
        raise ValueError("yes or no")
    return value != "no"


_some, _span = partial(_count, least=1), partial(_seconds, least=1)
_EXAMPLE = "keda:threshold=100,min=1,max=20"
#: What each kind can be given: the field that it is, and how it is read.
_Readers = dict[str, tuple[str, Callable[[str], Any]]]
_SHARED: _Readers = {
    "min": ("min_replica_count", _count), "max": ("max_replica_count", _some),
    "metric": ("metric", str), "startup": ("pods.startup_ms", _seconds),
    "sync": ("hpa.sync_period_ms", _span), "tolerance": ("hpa.tolerance", _part),
    "stabilization": ("hpa.scale_down.stabilization_window_ms", _seconds),
}  # fmt: skip
_KINDS: dict[str, _Readers] = {
    "keda": {
        "threshold": ("lag_threshold", _some), "activation": ("activation_lag_threshold", _count),
        "polling": ("polling_interval_ms", _span), "cooldown": ("cooldown_period_ms", _seconds),
        "refresh": ("refresh_ms", _seconds), "cached": ("use_cached_metrics", _yes),
        "limit-to-partitions": ("limit_to_partitions", _yes), **_SHARED,
    },
    "target-age": {
        "goal": ("goal_ms", _span), "utilization": ("utilization", _share),
        "window": ("window_ms", _span), **_SHARED,
        "min": ("min_replica_count", _some),  # it measures what members do, so it keeps one
    },
    "fixed": {},
}  # fmt: skip
