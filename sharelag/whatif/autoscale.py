"""Autoscalers, which add and remove members during a scenario, as frozen values.

    autoscaler = Keda(lag_threshold=100, min_replica_count=1, max_replica_count=20)
    simulate(replace(named("burst"), autoscaler=autoscaler)).scaling   # its decisions

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

#: The metric of `Keda`: Kafka's lag, or the lag without stuck offsets, as in exports.
Metric: TypeAlias = Literal["lag", "lag_excluding_stuck"]


@dataclass(frozen=True)
class Policy:
    """At most this number or percentage of members is added or removed per period."""

    type: Literal["pods", "percent"]
    value: int
    period_ms: int = 15_000


@dataclass(frozen=True)
class Rules:
    """Limits on changes of the number of members in one direction (``HPAScalingRules``).

    Attributes
    ----------
    stabilization_window_ms
        The smallest change recommended in this window counts.
    policies
        Limits per period.
    select_policy
        Whether the policy that allows the largest or the smallest change counts, or changes are
        disabled.
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
        Nothing changes if the metric deviates from its target by at most this share.
    scale_up, scale_down
        None for both is an HPA without a ``behavior``: it at most doubles the members or goes to 4,
        whichever is more, and goes down to the highest recommendation of five minutes.
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
    """The time that scaling takes.

    Attributes
    ----------
    startup_ms
        From the decision until a new member joins: scheduling, image, start of the process.
    grace_ms
        ``terminationGracePeriodSeconds``: a member that is removed finishes its current records and
        closes, or is killed after this time.
    """

    startup_ms: int = 10_000
    grace_ms: int = 30_000


@dataclass(frozen=True)
class Keda:
    """A ScaledObject with one trigger on the lag of the group, and the HPA that KEDA creates.

    The HPA recommends ``ceil(metric / lag_threshold)`` members (``AverageValue`` of an external
    metric). KEDA itself scales from zero and back, by what it polls.

    Attributes
    ----------
    activation_lag_threshold
        The lag above which it scales from zero.
    polling_interval_ms, cooldown_period_ms
        How often KEDA checks for work; how long after the last work it scales to zero.
    use_cached_metrics
        The HPA gets the value of the last poll; otherwise KEDA queries the source for each request.
    refresh_ms
        The interval at which the source of the metric refreshes its values, such as an exporter
        with a cache; 0: always live.
    limit_to_partitions
        The limit that KEDA's Kafka scaler has for consumer groups without ``allowIdleConsumers``.
        Members of share groups need no exclusive partition.
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

    They suffice for the arrivals, at ``utilization``, and finish the waiting records before these
    are too old::

        members = ceil(max(arrival rate / utilization, lag / time left) / service rate of a member)
        time left = max(goal - age of the oldest unfinished record - startup, goal / 4)

    Without a ``utilization``, it is the smallest number that keeps arrivals below the goal, by
    `fewest`, which ``/keda/GROUP`` returns as ``members_wanted``.

    Rates are those of the last ``window_ms``; the service rate of a member is its finished records
    per working time. The rules of the HPA prevent flapping.

    Attributes
    ----------
    metric
        Which lag; more members would not finish stuck offsets.
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
        # It measures members at work, so one has to stay.
        require_least(self, 1, "goal_ms", "window_ms", "min_replica_count")
        if self.utilization is not None and not 0 < self.utilization <= 1:
            raise InputError(
                f"utilization is {self.utilization}: give a number above 0 and at most 1, or None"
            )


@dataclass(frozen=True)
class Fixed:
    """A fixed number of members for comparison. As in a Deployment, one that ends is replaced."""

    replicas: int
    hpa: Hpa = Hpa()  # how often the number is checked
    pods: Pods = Pods()
    kind: Literal["fixed"] = "fixed"

    def __post_init__(self) -> None:
        require_least(self, 0, "replicas")


#: The share of records that may wait longer than the goal.
_LATE = 0.05
#: The end of the sum: no broker accepts more members.
_MOST = 1000


class Fewest(NamedTuple):
    """The fewest members that keep up with arrivals, and that also finish the backlog in time."""

    keep_up: int
    catch_up: int

    @property
    def members(self) -> int:
        """The fewest members that do both."""
        return max(self.keep_up, self.catch_up)


def fewest(arriving: float, each: float, waiting: float, goal_ms: float) -> Fewest:
    """Return the fewest members that keep records younger than a goal.

    They keep up with arrivals: of records that arrive at random, at most 5 % wait longer than the
    goal (Erlang C). And they finish the waiting records within the goal, besides the arrivals.
    ``arriving`` and ``each`` are records per second: arrivals, and those that a busy member
    finishes.
    """

    def late(members: int) -> float:
        """Return the share of records that wait longer than the goal in an M/M/c queue."""
        load, lost = arriving / each, 1.0
        for count in range(1, members + 1):
            lost = load * lost / (count + load * lost)  # Erlang B, from which Erlang C follows
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
    """Return the autoscaler of a text such as ``keda:threshold=100,min=1,max=20``."""
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
    """Return a value; errors of readers say what to give instead."""
    try:
        return how(value)
    except InputError as error:
        raise InputError(f"{kind}: {name}: {error}") from None
    except ValueError as advice:
        raise InputError(f"{kind}: {name} is {value!r}: give {advice}") from None


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
#: The options of each kind: their field, and the function that reads them.
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
        "min": ("min_replica_count", _some),  # it measures members at work, so it keeps one
    },
    "fixed": {},
}  # fmt: skip
