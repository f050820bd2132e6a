"""The iteration order of Java's hash maps, by which Kafka's assignor decides who gets what.

Written from the documented behaviour of ``java.util.HashMap`` of Java 17: a table of bins, whose
number doubles beyond three quarters; `JavaMap.put` appends to a bin and ``computeIfAbsent``
(`JavaMap.setdefault`) goes before its head; a bin that grows beyond eight doubles the table. From
64 bins on Java makes a tree of such a bin, whose shape decides the order from then on. Hashes of
random ids and of partition numbers spread too well for that, so it is not repeated: a bin stays a
list, and a `RuntimeWarning` says that the order may differ from Kafka's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_TREEIFY_THRESHOLD = 8
_MIN_TREEIFY_CAPACITY = 64
_DEFAULT_CAPACITY = 16
#: Hashes of texts that are kept: a topic's name is hashed for each member that subscribes to it.
_HASHES = 1 << 14


@lru_cache(_HASHES)
def string_hash(text: str) -> int:
    """Java's ``String.hashCode``: over UTF-16 code units."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value


def uuid_hash(raw: bytes) -> int:
    """``Uuid.hashCode`` of Kafka, from its 16 bytes."""
    words = [int.from_bytes(raw[at : at + 4], "big") for at in range(0, 16, 4)]
    return words[0] ^ words[1] ^ words[2] ^ words[3]


def int_hash(value: int) -> int:
    """``Integer.hashCode``."""
    return value & 0xFFFFFFFF


def capacity_for(entries: int) -> int:
    """Return the capacity that ``AssignorHelpers.newHashMap(entries)`` asks for."""
    return (entries + 1) * 4 // 3 + 1


class JavaMap(Generic[K, V]):
    """A ``HashMap``, as far as its order of iteration goes.

    ``hash_of`` is ``hashCode`` of the keys, as a number of 32 bits.
    """

    def __init__(self, hash_of: Callable[[K], int], capacity: int = _DEFAULT_CAPACITY) -> None:
        self._hash_of = hash_of
        self._values: dict[K, V] = {}
        self._size = 1 << max(capacity - 1, 0).bit_length()
        # By number, the bins that were used: keys with their hashes.
        self._bins: dict[int, list[tuple[K, int]]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __iter__(self) -> Iterator[K]:
        """Return the keys as they are now; as in Java, a key removed meanwhile still comes."""
        bins = self._bins
        return iter([key for number in sorted(bins) for key, _ in bins[number]])

    def items(self) -> Iterator[tuple[K, V]]:
        """Keys with their values, in order."""
        return ((key, self._values[key]) for key in self)

    def put(self, key: K, value: V) -> None:
        """Set a value; a new key goes to the end of its bin."""
        if key not in self._values:
            hash_, bin_ = self._bin(key)
            bin_.append((key, hash_))
            if len(bin_) > _TREEIFY_THRESHOLD:
                self._overfill()
            self._values[key] = value
            if len(self._values) > self._threshold:
                self._resize()
        self._values[key] = value

    def setdefault(self, key: K, make: Callable[[], V]) -> V:
        """``computeIfAbsent``: a new key goes first in its bin; the table grows a call late."""
        if len(self._values) > self._threshold:
            self._resize()
        if key not in self._values:
            hash_, bin_ = self._bin(key)
            bin_.insert(0, (key, hash_))
            if len(bin_) >= _TREEIFY_THRESHOLD:
                self._overfill()
            self._values[key] = make()
        return self._values[key]

    def remove(self, key: K) -> bool:
        """Remove a key, and tell whether it was there."""
        if key not in self._values:
            return False
        del self._values[key]
        hash_, bin_ = self._bin(key)
        bin_.remove((key, hash_))
        return True

    @property
    def _threshold(self) -> int:
        return self._size * 3 // 4

    def _bin(self, key: K) -> tuple[int, list[tuple[K, int]]]:
        """Return the spread hash of a key, and the bin that it belongs to."""
        hash_ = self._hash_of(key)
        hash_ ^= hash_ >> 16
        return hash_, self._bins.setdefault(hash_ & (self._size - 1), [])

    def _overfill(self) -> None:
        if self._size < _MIN_TREEIFY_CAPACITY:
            self._resize()
            return
        warnings.warn(
            "hashes of many ids of this group end in the same bits, and Java puts them in a tree: "
            "Kafka's assignor may choose other members than are chosen here",
            RuntimeWarning,
            stacklevel=2,
        )

    def _resize(self) -> None:
        bins, self._size, self._bins = self._bins, 2 * self._size, {}
        for number in sorted(bins):
            for entry in bins[number]:
                self._bins.setdefault(entry[1] & (self._size - 1), []).append(entry)


class JavaSet(JavaMap[K, bool]):
    """A ``HashSet``, as far as its order of iteration goes: a ``HashMap`` of its keys."""

    @classmethod
    def of(cls, hash_of: Callable[[K], int], keys: Iterable[K]) -> JavaSet[K]:
        """``new HashSet<>(collection)``."""
        listed = list(keys)
        made = cls(hash_of, max(len(listed) * 4 // 3 + 1, _DEFAULT_CAPACITY))
        for key in listed:
            made.add(key)
        return made

    def add(self, key: K) -> None:
        """Add a key, if it is not there."""
        self.put(key, True)
