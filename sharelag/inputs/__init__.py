"""Inputs: the only code that accesses brokers, disks and Spark sessions.

A cluster, a capture, raw Parquet, a broker's files: all have the same interface.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sharelag.inputs.cluster import KafkaInput
    from sharelag.inputs.contract import Input, RecordsOnly
    from sharelag.inputs.local import (
        CaptureInput,
        PrintedInput,
        RawInput,
        SegmentsInput,
        TableInput,
    )

__all__ = [
    "CaptureInput",
    "Input",
    "KafkaInput",
    "PrintedInput",
    "RawInput",
    "RecordsOnly",
    "SegmentsInput",
    "TableInput",
]

#: Loaded on first use: Spark's workers do not need the Kafka client.
_HOMES = {"Input": "contract", "RecordsOnly": "contract", "KafkaInput": "cluster"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'local')}"), name)
