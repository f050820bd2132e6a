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
    CONTROL_KEYS,
    Older,
    control_key_sizes,
    control_mask,
    named_control_mask,
    read_older,
    topic_id_of,
)

__all__ = [
    "CONTROL_KEYS",
    "LAYOUTS",
    "NAMES",
    "SHARE_CHECKPOINT",
    "SHARE_DELTA",
    "TODAY",
    "Layout",
    "Older",
    "control_key_sizes",
    "control_mask",
    "named_control_mask",
    "read_older",
    "require_generation",
    "topic_id_of",
]
