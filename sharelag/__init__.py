"""Find the backlog of a Kafka share group, why it is there, and what would make it go away.

The names below are the public API. Importing this package is cheap: what a name needs (Spark,
compiled kernels) is imported when the name is first used.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

from sharelag.errors import ShareLagError, unknown_name
from sharelag.model import DeliveryState, SharePartition, StateBatch, Window
from sharelag.version import __version__

if TYPE_CHECKING:
    from sharelag import pipeline, replay, reports, whatif, wire
    from sharelag.metrics.explain import explain
    from sharelag.monitoring import checks
    from sharelag.pipeline import consumed as consumed
    from sharelag.pipeline import decode as decode
    from sharelag.pipeline import groups as groups
    from sharelag.pipeline import health as health
    from sharelag.pipeline import history as history
    from sharelag.pipeline import imbalance as imbalance
    from sharelag.pipeline import lag as lag
    from sharelag.pipeline import members as members
    from sharelag.pipeline import offsets as offsets
    from sharelag.pipeline import read_kafka as read_kafka
    from sharelag.pipeline import stream
    from sharelag.pipeline import windows as windows
    from sharelag.workbench import Result, Workbench, samples, summarize
    from sharelag.workbench import open_workbench as open
    from sharelag.workbench.investigate import gather

__all__ = [
    "DeliveryState",
    "Result",
    "ShareLagError",
    "SharePartition",
    "StateBatch",
    "Window",
    "Workbench",
    "__version__",
    "checks",
    "explain",
    "gather",
    "open",
    "pipeline",
    "replay",
    "reports",
    "samples",
    "stream",
    "summarize",
    "whatif",
    "wire",
]

#: Functions of `sharelag.pipeline` that are here as well.
_OF_PIPELINE = (
    *("consumed", "decode", "groups", "health", "history", "imbalance", "lag", "members"),
    *("offsets", "read_kafka", "windows"),
)
#: Module, and the name in it; of a module itself no name.
_HOMES = {
    "Result": ("sharelag.workbench", "Result"),
    "Workbench": ("sharelag.workbench", "Workbench"),
    "checks": ("sharelag.monitoring.checks", ""),
    "explain": ("sharelag.metrics.explain", "explain"),
    "gather": ("sharelag.workbench.investigate", "gather"),
    "open": ("sharelag.workbench", "open_workbench"),  # within sharelag the builtin keeps its name
    "pipeline": ("sharelag.pipeline", ""),
    "replay": ("sharelag.replay", ""),
    "reports": ("sharelag.reports", ""),
    "samples": ("sharelag.workbench", "samples"),
    "stream": ("sharelag.pipeline.stream", ""),
    "summarize": ("sharelag.workbench", "summarize"),
    "whatif": ("sharelag.whatif", ""),
    "wire": ("sharelag.wire", ""),
} | {name: ("sharelag.pipeline", name) for name in _OF_PIPELINE}
#: Names that were here before, and where they are now.
_MOVED = {
    "Decoded": ("sharelag.pipeline", "Decoded"),
    "Evidence": ("sharelag.metrics.evidence", "Evidence"),
    "charts": ("sharelag.workbench.charts", ""),
    "observed": ("sharelag.pipeline", "observed"),
    "rollup": ("sharelag.pipeline", "rollup"),
    "told": ("sharelag", "summarize"),
}


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        home = ".".join(part for part in _MOVED[name] if part)
        warnings.warn(f"sharelag.{name} is now {home}", DeprecationWarning, stacklevel=2)
    module, attribute = (_HOMES | _MOVED).get(name, ("", ""))
    if not module:
        raise AttributeError(unknown_name(name, __dir__(), "module 'sharelag'"))
    found = import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted({*__all__, *_OF_PIPELINE})
