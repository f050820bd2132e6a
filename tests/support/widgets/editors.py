"""An assignment to edit, with hostile names, and a what-if that waits to be released."""

import threading
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow as pa

from sharelag.errors import InputError
from sharelag_widgets import AssignmentEditor, Difference
from sharelag_widgets.assignment_editor import as_ranges, new_edit
from tests.support.widgets.samples import HOSTILE

BASE = {
    "member-0": {"orders": [0, 1, 2], "refunds": [0]},
    "member-1": {"orders": [3], "refunds": [1, 2]},
    "member-2": {"refunds": [2]},
    "member-3": {},
}
ASSUMED = ("4.2 ms of work per record", f"of {HOSTILE}: nothing")


def partitions(topics: tuple[str, ...] = ("orders", "refunds"), each: int = 5) -> pa.Table:
    rows = [(topic, number) for topic in topics for number in range(each)]
    lags = [None if place == 3 else 1000 * place for place in range(len(rows))]
    return pa.table(
        {
            "group_id": ["payments"] * len(rows),
            "topic_id": [f"{topics.index(topic):022d}" for topic, _ in rows],
            "topic": [topic for topic, _ in rows],
            "partition": pa.array([number for _, number in rows], pa.int32()),
            "lag": pa.array(lags, pa.int64()),
        }
    )


def differs(assignment: dict[str, dict[str, list[int]]]) -> Difference:
    """A difference that depends on the assignment and on nothing else."""
    pairs = sum(len(numbers) for topics in assignment.values() for numbers in topics.values())
    idle = sum(not topics for topics in assignment.values())
    rows = {
        "measure": [
            "Time until drained",
            "Age of the oldest record, p95",
            "Lag, largest",
            "Members without a delivery",
        ],
        "baseline": [None, 61_000.0, 41_234.0, 1.0],
        "edited": [600_000.0 / pairs, 1000.0 * pairs, 41_234.0, float(idle)],
        "low": [None, 1000.0 * pairs - 63_000, -4.0, idle - 1.0],
        "high": [None, 1000.0 * pairs - 60_000, 9.0, idle - 1.0],
        "unit": ["ms", "ms", "offsets", "members"],
        "better": ["less"] * 4,
        "unknown": ["not drained", "", "", ""],
    }
    return Difference(pa.table(rows), seeds=(0, 1, 2, 7), assumed=ASSUMED)


class Gate:
    """An `on_run` of four steps, each of which waits for the test."""

    def __init__(self) -> None:
        self._go, self._there = threading.Semaphore(0), threading.Semaphore(0)
        self.given: list[Any] = []
        self.saw_cancelled = threading.Event()

    def __call__(
        self, assignment: Any, cancelled: Callable[[], bool], progress: Callable[[int, int], None]
    ) -> Difference | None:
        self.given.append(assignment)
        for step in range(1, 5):
            self._go.acquire()
            if cancelled():
                self.saw_cancelled.set()
                return None
            progress(step, 4)
            self._there.release()
        return differs(assignment)

    def let_go(self, steps: int = 1) -> None:
        """Let it do so many steps, and wait until it has."""
        for _ in range(steps):
            self._go.release()
            if not self._there.acquire(timeout=120):
                raise AssertionError("the run does not go on")

    def release(self) -> None:
        """Let it go on without waiting."""
        self._go.release()


def fails(*_: Any) -> Difference:
    raise InputError("there is no such topic: <b>add</b> it")


def load(
    choice: str, assignment: dict[str, dict[str, list[int]]]
) -> dict[str, dict[str, list[int]]]:
    """All to the first, or nothing at all."""
    if choice == "broken":
        raise ValueError(f"no answer of {choice}")
    first, *rest = assignment
    return {first: {"orders": list(range(5)), "refunds": list(range(5))}} | {m: {} for m in rest}


def editor(**changes: Any) -> AssignmentEditor:
    given: dict[str, Any] = {
        "on_run": lambda assignment, *_: differs(assignment),
        "on_load": load,
        "choices": ["to-the-first", "broken"],
    }
    given |= {"title": "Assignment of payments"} | changes
    base, table = given.pop("assignment", BASE), given.pop("partitions", partitions())
    return AssignmentEditor.of(table, base, **given)


def random_edits(seed: int, count: int = 60) -> list[dict[str, Any]]:
    """Edits of all kinds, of members and partitions that are there and that are not."""
    random = Random(seed)
    names = [*BASE, "new", "nobody"]
    edits = []
    for _ in range(count):
        do = random.choice(["assign", "take", "move", "move", "add", "remove", "set", "reset"])
        rows, who = as_ranges(random.sample(range(10), random.randrange(4))), random.choice(names)
        about: dict[str, Any] = {"rows": rows, "to": who, "member": who}
        about |= {"from": random.choice([None, *names])}
        about["all"] = {random.choice(names): as_ranges(random.sample(range(10), 3))}
        edits.append(new_edit(do, **about))
    return edits
