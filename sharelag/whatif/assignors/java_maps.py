"""The iteration order of Java's hash maps, by which Kafka's assignor decides who gets what.

Written from the documented behaviour of ``java.util.HashMap`` of Java 17: a table of bins, whose
number doubles beyond three quarters; `JavaMap.put` appends to a bin and ``computeIfAbsent``
(`JavaMap.setdefault`) goes before its head; a bin that grows beyond eight doubles the table, or
from 64 bins on becomes a red-black tree (`TreeBin`; Cormen, Leiserson, Rivest: Introduction to
Algorithms) that is still walked through as a list. The shape of the tree decides the order of that
list: a new node follows its parent, and whatever becomes the root goes to the front.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K")


class Node(Generic[K]):
    """A key in a bin, its hash (32 bits, signed), and its place in the tree if there is one."""

    __slots__ = ("hash", "key", "left", "parent", "red", "right")

    def __init__(self, key: K, hash_: int) -> None:
        self.key = key
        self.hash = hash_
        self.left: Node[K] | None = None
        self.right: Node[K] | None = None
        self.parent: Node[K] | None = None
        self.red = False

    def sends_right(self, key: Any, hash_: int) -> bool:
        """Whether a key belongs to the right of this node.

        Keys of equal hash are ordered by their own order if they have one, as strings have
        (compared by UTF-16 code units). Of others Java asks where they lie in memory, which nobody
        can repeat.
        """
        if self.hash != hash_:
            return self.hash < hash_
        return bool(_ordered(key) > _ordered(self.key))


class TreeBin(Generic[K]):
    """An overfull bin: iterate over it for the nodes in the order of the list."""

    def __init__(self, nodes: Iterable[Node[K]]) -> None:
        self._order: list[Node[K]] = []
        self._root: Node[K] | None = None
        # The list keeps its order while the tree grows beside it; only the last root comes to the
        # front.
        for node in nodes:
            fresh = Node(node.key, node.hash)
            self._insert(fresh)
            self._order.append(fresh)
        self._root_to_front()

    def __iter__(self) -> Iterator[Node[K]]:
        return iter(self._order)

    def add(self, node: Node[K]) -> None:
        """Add a key that is not there."""
        parent = self._insert(node)
        self._order.insert(self._order.index(parent) + 1 if parent else 0, node)
        self._root_to_front()

    def remove(self, key: K, hash_: int, movable: bool) -> bool:
        """Remove a key; True when the bin becomes too small for a tree and turns into a list."""
        root = self._root
        # Java judges by the shape before the removal.
        small = root is None or root.right is None or root.left is None or root.left.left is None
        self._order = [node for node in self._order if node.key != key]
        if movable and small:
            return True
        self._delete(self._find(key, hash_))
        if movable:
            self._root_to_front()
        return False

    def _root_to_front(self) -> None:
        if self._root is not None:
            at = next(i for i, node in enumerate(self._order) if node is self._root)
            self._order.insert(0, self._order.pop(at))

    def _find(self, key: K, hash_: int) -> Node[K]:
        node = self._root
        while node is not None and node.key != key:
            node = node.right if node.sends_right(key, hash_) else node.left
        if node is None:
            raise KeyError(key)
        return node

    def _insert(self, node: Node[K]) -> Node[K] | None:
        """Insert a node and return its parent, before the tree is rebalanced."""
        parent, at = None, self._root
        while at is not None:
            parent, at = at, at.right if at.sends_right(node.key, node.hash) else at.left
        node.parent, node.red = parent, True
        if parent is None:
            self._root = node
        elif parent.sends_right(node.key, node.hash):
            parent.right = node
        else:
            parent.left = node
        self._mend_after_insert(node)
        return parent

    def _mend_after_insert(self, node: Node[K]) -> None:
        while (
            (parent := node.parent) is not None
            and parent.red
            and (grand := parent.parent) is not None
        ):
            left = parent is grand.left
            uncle = grand.right if left else grand.left
            if uncle is not None and uncle.red:
                parent.red = uncle.red = False
                grand.red = True
                node = grand
                continue
            if node is (parent.right if left else parent.left):
                self._rotate(parent, left)
                node, parent = parent, node
            parent.red, grand.red = False, True
            self._rotate(grand, not left)
        if self._root is not None:
            self._root.red = False

    def _delete(self, node: Node[K]) -> None:
        if node.left is not None and node.right is not None:
            node = self._swap_with_successor(node)
        child = node.left or node.right
        if child is not None:
            self._replace(node, child)
            if not node.red:
                self._mend_after_delete(child)
            return
        if not node.red:
            self._mend_after_delete(node)
        self._replace(node, None)

    def _swap_with_successor(self, node: Node[K]) -> Node[K]:
        """Swap a node with its successor, places and colours; the list knows them by identity."""
        after = node.right
        while after is not None and after.left is not None:
            after = after.left
        if after is None:  # cannot be: the node has a right child
            raise KeyError(node.key)
        node.red, after.red = after.red, node.red
        parent, right = after.parent, after.right
        self._replace(node, after)
        after.left = node.left
        if after.left is not None:
            after.left.parent = after
        if parent is node:
            after.right, node.parent = node, after
        else:
            after.right = node.right
            if after.right is not None:
                after.right.parent = after
            node.parent = parent
            if parent is not None:
                parent.left = node
        node.left, node.right = None, right
        if right is not None:
            right.parent = node
        return node

    def _mend_after_delete(self, node: Node[K]) -> None:
        while (parent := node.parent) is not None and not node.red:
            left = node is parent.left
            sibling = parent.right if left else parent.left
            if sibling is not None and sibling.red:
                sibling.red, parent.red = False, True
                self._rotate(parent, left)
                sibling = parent.right if left else parent.left
            if sibling is None:
                node = parent
                continue
            near, far = (sibling.left, sibling.right) if left else (sibling.right, sibling.left)
            if not _is_red(near) and not _is_red(far):
                sibling.red = True
                node = parent
                continue
            if not _is_red(far) and near is not None:
                self._rotate(sibling, not left)
                sibling, far = near, sibling
            sibling.red, parent.red = parent.red, False
            if far is not None:
                far.red = False
            self._rotate(parent, left)
            return
        node.red = False

    def _rotate(self, node: Node[K], left: bool) -> None:
        """Let a node sink to the left (or the right), and its child of the other side rise."""
        child = node.right if left else node.left
        if child is None:
            return
        inner = child.left if left else child.right
        self._replace(node, child)
        if left:
            child.left, node.right = node, inner
        else:
            child.right, node.left = node, inner
        node.parent = child
        if inner is not None:
            inner.parent = node

    def _replace(self, node: Node[K], by: Node[K] | None) -> None:
        parent = node.parent
        if parent is None:
            self._root = by
        elif parent.left is node:
            parent.left = by
        else:
            parent.right = by
        if by is not None:
            by.parent = parent


def _is_red(node: Node[K] | None) -> bool:
    return node is not None and node.red


def _ordered(key: Any) -> Any:
    return key.encode("utf-16-be", "surrogatepass") if isinstance(key, str) else key


V = TypeVar("V")

_TREEIFY_THRESHOLD = 8
_UNTREEIFY_THRESHOLD = 6
_MIN_TREEIFY_CAPACITY = 64
_DEFAULT_CAPACITY = 16


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
    """The capacity that ``AssignorHelpers.newHashMap(entries)`` asks for."""
    return (entries + 1) * 4 // 3 + 1


class JavaMap(Generic[K, V]):
    """A ``HashMap``, as far as its order of iteration goes.

    ``hash_of`` is ``hashCode`` of the keys, as a number of 32 bits.
    """

    def __init__(self, hash_of: Callable[[K], int], capacity: int = _DEFAULT_CAPACITY) -> None:
        self._hash_of = hash_of
        self._values: dict[K, V] = {}
        self._bins: list[list[Node[K]] | TreeBin[K]] = [[] for _ in range(_power_of_two(capacity))]

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __getitem__(self, key: K) -> V:
        return self._values[key]

    def __iter__(self) -> Iterator[K]:
        """The keys as they are now; as in Java, a key removed meanwhile still comes."""
        return iter([node.key for bin_ in self._bins for node in bin_])

    def get(self, key: K) -> V | None:
        """The value, or None."""
        return self._values.get(key)

    def items(self) -> Iterator[tuple[K, V]]:
        """Keys with their values, in order."""
        return ((key, self._values[key]) for key in self)

    def put(self, key: K, value: V) -> None:
        """Set a value; a new key goes to the end of its bin."""
        if key not in self._values:
            node = self._node(key)
            at = node.hash & (len(self._bins) - 1)
            bin_ = self._bins[at]
            if isinstance(bin_, TreeBin):
                bin_.add(node)
            else:
                bin_.append(node)
                if len(bin_) > _TREEIFY_THRESHOLD:
                    self._treeify(at)
            self._values[key] = value
            if len(self._values) > self._threshold:
                self._resize()
        self._values[key] = value

    def setdefault(self, key: K, make: Callable[[], V]) -> V:
        """``computeIfAbsent``: a new key goes first in its bin; the table grows a call late."""
        if len(self._values) > self._threshold:
            self._resize()
        if key not in self._values:
            node = self._node(key)
            at = node.hash & (len(self._bins) - 1)
            bin_ = self._bins[at]
            if isinstance(bin_, TreeBin):
                bin_.add(node)
            else:
                bin_.insert(0, node)
                if len(bin_) >= _TREEIFY_THRESHOLD:
                    self._treeify(at)
            self._values[key] = make()
        return self._values[key]

    def remove(self, key: K, by_iterator: bool = False) -> bool:
        """Remove a key, if it is there. An iterator's ``remove`` leaves a tree's root in place."""
        if key not in self._values:
            return False
        del self._values[key]
        hash_ = _spread(self._hash_of(key))
        at = hash_ & (len(self._bins) - 1)
        bin_ = self._bins[at]
        if not isinstance(bin_, TreeBin):
            self._bins[at] = [node for node in bin_ if node.key != key]
        elif bin_.remove(key, hash_, movable=not by_iterator) or not list(bin_):
            self._bins[at] = list(bin_)
        return True

    @property
    def _threshold(self) -> int:
        return len(self._bins) * 3 // 4

    def _node(self, key: K) -> Node[K]:
        return Node(key, _spread(self._hash_of(key)))

    def _treeify(self, at: int) -> None:
        if len(self._bins) < _MIN_TREEIFY_CAPACITY:
            self._resize()
        else:
            self._bins[at] = TreeBin(self._bins[at])

    def _resize(self) -> None:
        size = len(self._bins)
        low: list[list[Node[K]] | TreeBin[K]] = []
        high: list[list[Node[K]] | TreeBin[K]] = []
        for bin_ in self._bins:
            stay = [node for node in bin_ if not node.hash & size]
            move = [node for node in bin_ if node.hash & size]
            if isinstance(bin_, TreeBin):
                low.append(_half_of(bin_, stay, whole=not move))
                high.append(_half_of(bin_, move, whole=not stay))
            else:
                low.append(stay)
                high.append(move)
        self._bins = low + high


class JavaSet(Generic[K]):
    """A ``HashSet``, as far as its order of iteration goes."""

    def __init__(self, hash_of: Callable[[K], int], capacity: int = _DEFAULT_CAPACITY) -> None:
        self._map: JavaMap[K, bool] = JavaMap(hash_of, capacity)

    @classmethod
    def of(cls, hash_of: Callable[[K], int], keys: Iterable[K]) -> JavaSet[K]:
        """``new HashSet<>(collection)``."""
        listed = list(keys)
        made = cls(hash_of, max(len(listed) * 4 // 3 + 1, _DEFAULT_CAPACITY))
        for key in listed:
            made.add(key)
        return made

    def __len__(self) -> int:
        return len(self._map)

    def __contains__(self, key: object) -> bool:
        return key in self._map

    def __iter__(self) -> Iterator[K]:
        return iter(self._map)

    def add(self, key: K) -> None:
        """Add a key, if it is not there."""
        self._map.put(key, True)

    def remove(self, key: K, by_iterator: bool = False) -> bool:
        """Remove a key, and tell whether it was there."""
        return self._map.remove(key, by_iterator)


def _spread(hash_: int) -> int:
    mixed = hash_ ^ hash_ >> 16
    return mixed - (1 << 32) if mixed >> 31 else mixed  # trees compare hashes as signed numbers


def _power_of_two(capacity: int) -> int:
    return 1 << max(capacity - 1, 0).bit_length()


def _half_of(tree: TreeBin[K], nodes: list[Node[K]], whole: bool) -> list[Node[K]] | TreeBin[K]:
    if len(nodes) <= _UNTREEIFY_THRESHOLD:
        return nodes
    return tree if whole else TreeBin(nodes)
