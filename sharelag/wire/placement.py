"""The partition of ``__share_group_state`` that holds the records of a share partition."""

from __future__ import annotations

from sharelag.model import SharePartition


def state_partition(share_partition: SharePartition, partitions: int = 50) -> int:
    """Where Kafka puts the records of a share partition.

    Parameters
    ----------
    share_partition : SharePartition
    partitions : int
        How many partitions the state topic has.

    Returns
    -------
    int
        ``Utils.abs(key.hashCode()) % partitions`` of Kafka's
        ``SharePartitionKey.asCoordinatorKey``.
    """
    return abs_hash(str(share_partition)) % partitions


def abs_hash(text: str) -> int:
    """``Utils.abs`` of Java's ``String.hashCode``: over UTF-16 units, 32 bits, -2**31 becoming 0."""
    hashed = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    if hashed >= 1 << 31:
        hashed -= 1 << 32
    return 0 if hashed == -(1 << 31) else abs(hashed)
