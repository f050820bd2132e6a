"""Questions about share groups: the tables that each needs, and the module that answers it.

Methods of the workbench, commands, tools for agents, reports and dashboards ask the same question
by name. Its numbers, sentences, levels, unknowns and charts are in one module, which is imported at
the first such question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from sharelag.engine import Reading
    from sharelag.workbench.result import Result

#: The module of `sharelag.workbench.questions` that answers each question.
QUESTIONS = {
    **dict.fromkeys(("lag", "reconcile", "windows", "moments"), "lag"),
    **dict.fromkeys(("overview", "explain", "progress"), "causes"),
    **dict.fromkeys(("history", "diff", "timeline", "events"), "timeline"),
    **dict.fromkeys(
        ("imbalance", "imbalance_trend", "skew", "members", "group_states", "brokers"), "balance"
    ),
    **dict.fromkeys(("health", "snapshots", "designs"), "state_topic"),
    **dict.fromkeys(("settings", "settings_drift"), "settings"),
    **dict.fromkeys(("plan_reset", "plan_delete"), "planned"),
    **dict.fromkeys(("dead_letters", "redrive"), "dead_letters"),
    "forecasts": "forecasts",
}
#: Tables that do not need the state after each record.
WITHOUT_HISTORY = frozenset(
    {
        *("windows", "lag", "offsets", "gaps", "members", "groups"),
        *("leaders", "nodes", "brokers", "settings", "logs"),
    }
)


@dataclass(frozen=True)
class Question:
    """A question about share groups."""

    #: Takes `sharelag.workbench.base.Tables` and the question's options.
    answer: Callable[..., Result]
    needs: frozenset[str]  # tables of the reading that the answer uses
    #: Whether rows are independent: all records of a share partition are in one partition of the
    #: state topic, so rows stay correct if other partitions cannot be read. Sums, causes and
    #: rankings do not.
    stands_alone: bool = False
    sums_with: str | None = None  # an option with which rows are sums
    any_group: bool = False  # whether the group may be one without state
    of_deleted: bool = False  # whether the group may be one whose state was deleted
    #: An option with which it also needs the state after each record.
    history_with: str | None = None

    def sums(self, options: Mapping[str, object]) -> bool:
        """Return whether its rows are sums."""
        return self.sums_with is not None and options.get(self.sums_with) is not None

    def groups_in(self, read: Reading) -> pa.Table:
        """Return rows of the groups that it can be about."""
        there = [read.ever if self.of_deleted else read.table("lag")]
        if "groups" in self.needs and not read.choice.topics:  # members can come before state
            there.append(read.table("groups"))
        return pa.concat_tables([one.select(["group_id"]) for one in there])

    def needs_history(self, options: Mapping[str, object]) -> bool:
        """Return whether it needs the state after each record."""
        is_requested = self.history_with is not None and options.get(self.history_with)
        return bool(is_requested) or not self.needs <= WITHOUT_HISTORY


class LagExtras(NamedTuple):
    """Rows of lag, with information from a request log and brokers' metrics."""

    table: pa.Table
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()  # why the answer is incomplete


def question(*needs: str, **more: Any) -> Callable[[Callable[..., Result]], Question]:
    """Declare a function as a question that it answers from these tables.

    ``more`` are other attributes of a `Question`.
    """
    return lambda answer: Question(answer, frozenset(needs), **more)


def find_question(name: str) -> Question:
    """Return a question by its name."""
    module = import_module(f"sharelag.workbench.questions.{QUESTIONS[name]}")
    found: Question = getattr(module, name)
    return found
