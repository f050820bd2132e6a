"""Answers that are worked out once and kept; asking something else does not wait for them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Any, TypeVar

_T = TypeVar("_T")


class Once:
    """Keep the answer of every question; may be asked from several threads."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}
        self._locks: defaultdict[Hashable, Any] = defaultdict(RLock)  # a lock a question
        self._lock = RLock()

    def __call__(self, question: Hashable, work: Callable[[], _T]) -> _T:
        """Return what is known, or do the work and keep its result; a failure is not kept."""
        with self._lock:
            asked = self._locks[question]
        with asked:
            if question not in self._known:
                self._known[question] = work()
            answer: _T = self._known[question]
            return answer

    def __contains__(self, question: Hashable) -> bool:
        return question in self._known
