"""Memoize results per key; computing one key does not block the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, TypeVar

_T = TypeVar("_T")


class Once:
    """A thread-safe memo: computes the result of each key once."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._locks: defaultdict[Hashable, Any] = defaultdict(RLock)  # one lock per key
        self._lock = RLock()

    def __call__(self, question: Hashable, work: Callable[[], _T]) -> _T:
        """Return the stored result, or compute and store it; a failure is not stored."""
        with self._lock:
            requested = self._locks[question]
        with requested:
            if question not in self._known:
                self._known[question] = work()
            answer: _T = self._known[question]
            return answer

    def __contains__(self, question: Hashable) -> bool:
        return question in self._known
