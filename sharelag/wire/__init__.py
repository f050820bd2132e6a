"""Bytes to columns and back: the only code that knows Kafka's record formats. No I/O."""

from sharelag.wire.columns import ShareKeys, StateColumns, decode_columns
from sharelag.wire.decode import Decoded, decode_arrow
from sharelag.wire.encode import encode
from sharelag.wire.placement import state_partition

__all__ = [
    "Decoded",
    "ShareKeys",
    "StateColumns",
    "decode_arrow",
    "decode_columns",
    "encode",
    "state_partition",
]
