"""Autoscalers as text on a command line.

    keda:threshold=100,min=1,max=20,metric=lag_excluding_stuck
    target-age:goal=30s,max=50
    fixed:8

Times are durations such as 30s or 5m.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from sharelag.durations import parse_duration
from sharelag.errors import InputError
from sharelag.whatif.autoscale import Autoscaler, Fixed, Hpa, Keda, Pods, TargetAge
from sharelag.whatif.scenario import Scenario


def autoscaler_of(text: str) -> Autoscaler:
    """Read an autoscaler, such as ``keda:threshold=100,min=1,max=20``.

    Raises
    ------
    InputError
        With what can be given.
    """
    kind, _, rest = text.strip().partition(":")
    if kind not in _KINDS:
        raise InputError(
            f"unknown autoscaler {kind!r}: choose one of {', '.join(_KINDS)}, such as {_EXAMPLE}"
        )
    if kind == "fixed":
        return Fixed(_count(kind, "members", rest))
    given: dict[str, str] = {}
    for part in filter(None, rest.split(",")):
        name, _, value = (one.strip() for one in part.partition("="))
        if name not in _KINDS[kind]:
            raise InputError(
                f"{kind} has no {name!r}: it knows {', '.join(_KINDS[kind])}; such as {_EXAMPLE}"
            )
        if name in given:
            raise InputError(f"{kind} has {name!r} twice: give it once")
        given[name] = value
    if kind == "target-age" and "goal" not in given:
        raise InputError("target-age needs a goal, a duration such as target-age:goal=30s")
    return _made(
        kind, {name: _KINDS[kind][name](kind, name, value) for name, value in given.items()}
    )


def autoscaled(variants: Mapping[str, Scenario], texts: Sequence[str]) -> dict[str, Scenario]:
    """Each variant with each autoscaler, by names such as ``8 members · keda:threshold=100``.

    Parameters
    ----------
    variants : mapping of str to Scenario
        As `sharelag.whatif.compare.variants` makes them.
    texts : sequence of str
        As `autoscaler_of` reads them; nothing leaves the variants as they are.

    Raises
    ------
    InputError
        One cannot be read, or comes twice.
    """
    autoscalers = {text: autoscaler_of(text) for text in texts}
    if len(autoscalers) < len(texts):
        raise InputError("an autoscaler is given twice: give each once")
    if not autoscalers:
        return dict(variants)
    return {
        text if name == "as it is" else f"{name} · {text}": replace(scenario, autoscaler=autoscaler)
        for name, scenario in variants.items()
        for text, autoscaler in autoscalers.items()
    }


def _made(kind: str, values: Mapping[str, Any]) -> Autoscaler:
    hpa, pods = Hpa(), Pods()
    fields = {_FIELDS[name]: value for name, value in values.items() if name in _FIELDS}
    if "startup" in values:
        pods = replace(pods, startup_ms=values["startup"])
    if "sync" in values:
        hpa = replace(hpa, sync_period_ms=values["sync"])
    if "tolerance" in values:
        hpa = replace(hpa, tolerance=values["tolerance"])
    if "stabilization" in values and hpa.scale_down is not None:
        hpa = replace(
            hpa, scale_down=replace(hpa.scale_down, stabilization_window_ms=values["stabilization"])
        )
    maker = Keda if kind == "keda" else TargetAge
    return maker(**fields, hpa=hpa, pods=pods)


def _count(kind: str, name: str, value: str) -> int:
    if not value.isascii() or not value.isdecimal():
        raise InputError(
            f"{kind}: {name} is {value!r}: give a whole number of at least 0, such as {_EXAMPLE}"
        )
    return int(value)


def _some(kind: str, name: str, value: str) -> int:
    if not (count := _count(kind, name, value)):
        raise InputError(
            f"{kind}: {name} is {value!r}: give a whole number of at least 1, such as {_EXAMPLE}"
        )
    return count


def _part(kind: str, name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise InputError(
            f"{kind}: {name} is {value!r}: give a number of at least 0, such as {_EXAMPLE}"
        )
    return number


def _share(kind: str, name: str, value: str) -> float:
    if not 0 < (share := _part(kind, name, value)) <= 1:
        raise InputError(
            f"{kind}: {name} is {value!r}: give a number above 0 and at most 1, such as 0.8"
        )
    return share


def _seconds(kind: str, name: str, value: str) -> int:
    try:
        return round(parse_duration(value) / timedelta(milliseconds=1))
    except InputError as error:
        raise InputError(f"{kind}: {name}: {error}") from None


def _span(kind: str, name: str, value: str) -> int:
    if not (milliseconds := _seconds(kind, name, value)):
        raise InputError(f"{kind}: {name} is {value!r}: give 1ms at least")
    return milliseconds


def _yes(kind: str, name: str, value: str) -> bool:
    if value not in ("", "yes", "no"):
        raise InputError(f"{kind}: {name} is {value!r}: give yes or no")
    return value != "no"


def _word(_kind: str, _name: str, value: str) -> str:
    return value


_EXAMPLE = "keda:threshold=100,min=1,max=20"
_SHARED: dict[str, Callable[[str, str, str], Any]] = {
    "min": _count,
    "max": _some,
    "metric": _word,
    "startup": _seconds,
    "sync": _span,
    "tolerance": _part,
    "stabilization": _seconds,
}
#: What each can be given, and how it is read.
_KINDS: dict[str, dict[str, Callable[[str, str, str], Any]]] = {
    "keda": {
        "threshold": _some,
        "activation": _count,
        "polling": _span,
        "cooldown": _seconds,
        "refresh": _seconds,
        "cached": _yes,
        "limit-to-partitions": _yes,
        **_SHARED,
    },
    # It measures what members do, so it keeps one at least.
    "target-age": {"goal": _span, "utilization": _share, "window": _span, **_SHARED, "min": _some},
    "fixed": {},
}
_FIELDS = {
    "threshold": "lag_threshold",
    "activation": "activation_lag_threshold",
    "polling": "polling_interval_ms",
    "cooldown": "cooldown_period_ms",
    "refresh": "refresh_ms",
    "cached": "use_cached_metrics",
    "limit-to-partitions": "limit_to_partitions",
    "min": "min_replica_count",
    "max": "max_replica_count",
    "metric": "metric",
    "goal": "goal_ms",
    "utilization": "utilization",
    "window": "window_ms",
}
