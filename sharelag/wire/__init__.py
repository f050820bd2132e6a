"""Bytes to columns and back: the only code that knows Kafka's record formats. No I/O."""

from sharelag.wire.decode import Decoded, ShareKeys, StateColumns, decode_arrow, decode_columns
from sharelag.wire.encode import encode, encode_record
from sharelag.wire.fields import (
    GROUP_KINDS,
    GROUP_TOPIC,
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    STATE_KINDS,
    STATE_TOPIC,
)
from sharelag.wire.placement import state_partition

__all__ = [
    "GROUP_KINDS",
    "GROUP_TOPIC",
    "SHARE_SNAPSHOT",
    "SHARE_UPDATE",
    "STATE_KINDS",
    "STATE_TOPIC",
    "Decoded",
    "ShareKeys",
    "StateColumns",
    "decode_arrow",
    "decode_columns",
    "encode",
    "encode_record",
    "state_partition",
]
