"""The partition of ``__share_group_state`` that stores a share partition, and their number.

Kafka stores a share partition in ``Utils.abs(hash) % n``, so each key restricts the possible
``n``: ``hash - partition`` is a multiple of it.
"""

from __future__ import annotations

from collections.abc import Set
from math import lgamma, log
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sharelag.model import SharePartition
from sharelag.schemas import SHARE_PARTITION, Arrow
from sharelag.tables.arrow import as_table, flat, keys
from sharelag.tables.words import in_runs, pluralize
from sharelag.wire.fields import STATE_TOPIC

#: Kafka's default of ``share.coordinator.state.topic.num.partitions``.
USUAL = 50
#: Maximum probability of an event that is excluded as chance.
_CHANCE = 1e-6


def state_partition(share_partition: SharePartition, partitions: int = USUAL) -> int:
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


def abs_hashes(texts: pa.Array) -> NDArray[np.int64]:
    """Return `abs_hash` of non-empty texts.

    The hash is the sum of unit[i] * 31 ** (n - 1 - i) over the n UTF-16 units.
    """
    octets = "".join(texts.to_pylist()).encode("utf-16-le")
    units = np.frombuffer(octets, np.uint16).astype(np.uint32)
    # Java encodes code points beyond 16 bits as two units.
    lengths = pc.add(
        pc.utf8_length(texts), pc.count_substring_regex(texts, r"[\x{10000}-\x{10FFFF}]")
    ).to_numpy()
    ends = np.cumsum(lengths)
    exponents = np.repeat(ends, lengths) - 1 - np.arange(len(units))
    powers = np.cumprod(np.concatenate([[1], np.full(lengths.max(initial=0), 31)]), dtype=np.uint32)
    if not len(units):
        return np.zeros(0, np.int64)
    hashed = np.add.reduceat(units * powers[exponents], ends - lengths, dtype=np.uint32)
    signed = np.abs(hashed.view(np.int32).astype(np.int64))
    return np.where(signed == 1 << 31, 0, signed)


class Missing(NamedTuple):
    """Missing state partitions, derived from the keys in the others."""

    possible: tuple[int, ...]
    """Possible numbers of partitions of the state topic, ascending."""
    missing: frozenset[int]
    """Missing partitions below the smallest of these numbers."""

    @property
    def words(self) -> str:
        """``50 partitions``, or ``at least 8 partitions``."""
        least, *others = self.possible
        usual = f" (Kafka's default of {USUAL} fits)" if USUAL in others else ""
        return f"{'at least ' if others else ''}{pluralize(least, 'partition')}{usual}"


def missing_partitions(states: Arrow, folders: Set[int] | None = None) -> Missing | None:
    """Return the missing state partitions if the keys in the others leave no doubt.

    None: nothing is missing, or it cannot be known. If a share partition is in a state partition
    where Kafka would not store it, everything is unknown.

    ``states`` are share partitions with their state partitions, as in `sharelag.schemas.WINDOWS`,
    possibly repeated. ``folders`` are the existing state partitions, including those without
    records. Without it, a state partition without share partitions may be missing or just empty; it
    counts as missing only if the latter would be unlikely.
    """
    table = as_table(states)
    table = table.filter(pc.equal(table.column("record_topic"), STATE_TOPIC))
    place = np.asarray(flat(table.column("record_partition")), np.int64)
    if not len(place):
        return None
    there = frozenset(folders or ()) | frozenset(np.unique(place).tolist())
    spread = np.unique(abs_hashes(keys(table, SHARE_PARTITION)) - place)
    common = int(np.gcd.reduce(spread))
    small = np.arange(1, int(common**0.5) + 1)
    small = small[common % small == 0]  # for 0, a multiple of all numbers, none
    possible = np.unique(np.concatenate([small, common // np.maximum(small, 1)]))
    possible = possible[possible > max(there)]
    if not len(possible) or spread[0] < 0:
        return None
    # A few keys may all fit another number by chance; many do not.
    shared = np.gcd.outer(possible, possible)
    with np.errstate(over="ignore"):
        luck = (len(spread) - 1) * np.log(shared / possible[np.newaxis, :]).min(axis=1)
    possible = possible[luck > log(_CHANCE)]
    if folders is None:
        topics = len(pc.unique(table.column("topic_id")))
        is_whole = [not _is_rare(len(there), topics, number) for number in possible.tolist()]
    else:
        is_whole = (possible == len(there)).tolist()
    if any(is_whole):
        return None
    return Missing(tuple(possible.tolist()), frozenset(range(possible[0])) - there)


def missing_in_words(states: Arrow) -> str:
    """Return the result of `missing_partitions` without folders in words; empty without any."""
    found = missing_partitions(states)
    if found is None:
        return ""
    return f"{in_runs(found.missing, 'partition')} of the state topic, which has {found.words}"


def _is_rare(occupied: int, topics: int, number: int) -> bool:
    """Return whether so many topics in so few state partitions are unlikely."""
    if occupied >= number:
        return False
    # Topics count, not share partitions: texts of the latter differ by only one or two digits.
    ways = lgamma(number + 1) - lgamma(occupied + 1) - lgamma(number - occupied + 1)
    return ways + topics * log(occupied / number) < log(_CHANCE)
