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
    from sharelag import replay, reports, whatif, wire
    from sharelag.engine import spark as pipeline
    from sharelag.engine.engines import gather
    from sharelag.engine.spark import consumed as consumed
    from sharelag.engine.spark import decode as decode
    from sharelag.engine.spark import groups as groups
    from sharelag.engine.spark import health as health
    from sharelag.engine.spark import history as history
    from sharelag.engine.spark import imbalance as imbalance
    from sharelag.engine.spark import lag as lag
    from sharelag.engine.spark import members as members
    from sharelag.engine.spark import offsets as offsets
    from sharelag.engine.spark import read_kafka as read_kafka
    from sharelag.engine.spark import stream
    from sharelag.engine.spark import windows as windows
    from sharelag.engine.spark.sweep import sweep as sweep
    from sharelag.metrics.explain import explain
    from sharelag.monitoring import checks
    from sharelag.workbench import Result, Workbench, samples, summarize
    from sharelag.workbench import open_workbench as open

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

#: Functions of `sharelag.engine.spark` that are public here, too.
_PIPELINE_NAMES = (
    *("consumed", "decode", "groups", "health", "history", "imbalance", "lag", "members"),
    *("offsets", "read_kafka", "windows"),
)
#: Module, and the name in it; None for a module itself.
_HOMES = {
    "Result": ("sharelag.workbench", "Result"),
    "Workbench": ("sharelag.workbench", "Workbench"),
    "charts": ("sharelag.charts", ""),
    "checks": ("sharelag.monitoring.checks", ""),
    "explain": ("sharelag.metrics.explain", "explain"),
    "gather": ("sharelag.engine.engines", "gather"),
    "open": ("sharelag.workbench", "open_workbench"),  # another name, to keep the builtin usable
    "pipeline": ("sharelag.engine.spark", ""),
    "replay": ("sharelag.replay", ""),
    "reports": ("sharelag.reports", ""),
    "samples": ("sharelag.workbench", "samples"),
    "schemas": ("sharelag.schemas", ""),
    "stream": ("sharelag.engine.spark.stream", ""),
    "summarize": ("sharelag.workbench", "summarize"),
    "sweep": ("sharelag.engine.spark.sweep", "sweep"),
    "whatif": ("sharelag.whatif", ""),
    "wire": ("sharelag.wire", ""),
} | {name: ("sharelag.engine.spark", name) for name in _PIPELINE_NAMES}
#: Former names, and their replacements.
_MOVED = {
    "Decoded": ("sharelag.engine.spark", "Decoded"),
    "Evidence": ("sharelag.metrics.evidence", "Evidence"),
    "observed": ("sharelag.engine.spark", "observed"),
    "rollup": ("sharelag.engine.spark", "rollup"),
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
    return sorted({*__all__, *_HOMES})
