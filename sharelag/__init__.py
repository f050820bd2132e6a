"""sharelag: where the backlog of a Kafka share group is, why it is there, and what would make it go away.

The names below are the public API. Importing this package is cheap: what a name needs (Spark, compiled
kernels) is imported when the name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sharelag.errors import ShareLagError
from sharelag.model import DeliveryState, SharePartition, StateBatch, Window
from sharelag.version import __version__

if TYPE_CHECKING:
    from sharelag import replay, wire
    from sharelag.pipeline import Decoded, decode, lag, rollup, windows

__all__ = [
    "Decoded",
    "DeliveryState",
    "ShareLagError",
    "SharePartition",
    "StateBatch",
    "Window",
    "__version__",
    "decode",
    "lag",
    "replay",
    "rollup",
    "windows",
    "wire",
]

_MODULES = ("replay", "wire")
_FROM_PIPELINE = ("Decoded", "decode", "lag", "rollup", "windows")


def __getattr__(name: str) -> Any:
    if name in _FROM_PIPELINE:
        return getattr(import_module("sharelag.pipeline"), name)
    if name in _MODULES:
        return import_module(f"sharelag.{name}")
    raise AttributeError(f"module 'sharelag' has no attribute {name!r}")
