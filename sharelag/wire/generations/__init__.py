"""Older designs of durable share state: their layouts, how to read them and how to write them."""

from sharelag.wire.generations.layouts import (
    LAYOUTS,
    NAMES,
    SHARE_CHECKPOINT,
    SHARE_DELTA,
    TODAY,
    Layout,
    require_generation,
)
from sharelag.wire.generations.read import (
    Older,
    control_mask,
    named_control_mask,
    read_older,
    topic_id_of,
)

__all__ = [
    "LAYOUTS",
    "NAMES",
    "SHARE_CHECKPOINT",
    "SHARE_DELTA",
    "TODAY",
    "Layout",
    "Older",
    "control_mask",
    "named_control_mask",
    "read_older",
    "require_generation",
    "topic_id_of",
]
