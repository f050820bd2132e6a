"""The partition of ``__share_group_state`` that stores a share partition."""

from __future__ import annotations

from sharelag.model import SharePartition


def state_partition(share_partition: SharePartition, partitions: int = 50) -> int:
    """Return the partition of the state topic that stores a share partition.

    Parameters
    ----------
    share_partition : SharePartition
    partitions : int
        The number of partitions of the state topic.

    Returns
    -------
    int
        ``Utils.abs(key.hashCode()) % partitions`` of Kafka's
        ``SharePartitionKey.asCoordinatorKey``.
    """
    return abs_hash(str(share_partition)) % partitions


def abs_hash(text: str) -> int:
    """Return ``Utils.abs`` of Java's ``String.hashCode``: UTF-16 units, 32 bits, -2**31 gives 0."""
    hashed = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    if hashed >= 1 << 31:
        hashed -= 1 << 32
    return 0 if hashed == -(1 << 31) else abs(hashed)
