"""Find the backlog of a Kafka share group, why it is there, and what would make it go away.

The names below are the public API. Importing this package is cheap: what a name needs (Spark,
compiled kernels) is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sharelag.errors import ShareLagError
from sharelag.model import DeliveryState, SharePartition, StateBatch, Window
from sharelag.version import __version__

if TYPE_CHECKING:
    from sharelag import replay, wire
    from sharelag.metrics.evidence import Evidence
    from sharelag.metrics.explain import explain
    from sharelag.pipeline import (
        Decoded,
        decode,
        groups,
        health,
        history,
        imbalance,
        lag,
        members,
        observed,
        offsets,
        rollup,
        stream,
        windows,
    )
    from sharelag.workbench import Result, Workbench, charts, samples, told
    from sharelag.workbench import open_workbench as open
    from sharelag.workbench.investigate import gather

__all__ = [
    "Decoded",
    "DeliveryState",
    "Evidence",
    "Result",
    "ShareLagError",
    "SharePartition",
    "StateBatch",
    "Window",
    "Workbench",
    "__version__",
    "charts",
    "decode",
    "explain",
    "gather",
    "groups",
    "health",
    "history",
    "imbalance",
    "lag",
    "members",
    "observed",
    "offsets",
    "open",
    "replay",
    "rollup",
    "samples",
    "stream",
    "told",
    "windows",
    "wire",
]

#: Modules by their public names.
_MODULES = {
    "charts": "sharelag.workbench.charts",
    "checks": "sharelag.monitoring.checks",
    "pipeline": "sharelag.pipeline",
    "replay": "sharelag.replay",
    "reports": "sharelag.reports",
    "stream": "sharelag.pipeline.stream",
    "whatif": "sharelag.whatif",
    "wire": "sharelag.wire",
}
_HOMES = {
    "sharelag.pipeline": (
        "Decoded",
        "decode",
        "groups",
        "health",
        "history",
        "imbalance",
        "lag",
        "members",
        "observed",
        "offsets",
        "rollup",
        "windows",
    ),
    "sharelag.workbench.investigate": ("gather",),
    "sharelag.metrics.evidence": ("Evidence",),
    "sharelag.metrics.explain": ("explain",),
    "sharelag.workbench": ("Result", "Workbench", "samples", "told"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(home), name)
    if name == "open":  # within sharelag the builtin keeps its name
        return import_module("sharelag.workbench").open_workbench
    if name in _MODULES:
        return import_module(_MODULES[name])
    raise AttributeError(f"module 'sharelag' has no attribute {name!r}")
