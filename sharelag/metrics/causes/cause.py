"""A cause of lag as one declaration, and the conditions that several causes share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from sharelag.metrics.causes.inputs import Bools, CauseInputs, Floats
from sharelag.model.defects import BY_CAUSE

#: Where commands in an advice name the group.
OF_GROUP = "--group GROUP"
#: What explains that nothing is finished explains these in the same share partition.
NOTHING_FINISHED = frozenset(
    {"head_of_line", "members_idle", "slow_consumers", "burst", "hot_partition"}
)
#: Changes that can be tried by one click: more members, an assignor that looks at the lag, no stuck
#: records at the head.
MEMBERS, LAG_AWARE, HEADS = WHAT_IFS = ("members", "lag-aware", "heads")


@dataclass(frozen=True)
class Found:
    """Where a cause applies, with its evidence: one value per share partition."""

    where: Bools
    held: Floats  # offsets of lag that it accounts for
    since: Floats  # milliseconds
    evidence: Mapping[str, Floats] = field(default_factory=dict)
    texts: Mapping[str, Sequence[str]] = field(default_factory=dict)  # evidence that is text


Finder: TypeAlias = Callable[[CauseInputs], Found]


@dataclass(frozen=True)
class Cause:
    """A cause of lag: its texts and the function that finds it."""

    name: str
    severity: str
    summary: str
    advice: str
    find: Finder
    #: Causes that this one explains in the same share partition.
    includes: AbstractSet[str] = frozenset()
    #: What follows ``sharelag`` in the command that shows more; ``{more}``: two members more.
    command: str = "history --events"
    #: Which of `WHAT_IFS` fits; empty: none does. `HEADS` says that one record holds the others.
    what_if: str = MEMBERS
    #: Whether more members finish what it holds.
    members_help: bool = True
    #: Whether only the group's own records, which say who its members are, show it.
    needs_members: bool = False


def cause(severity: str, summary: str, advice: str, **more: Any) -> Callable[[Finder], Cause]:
    """Declare the cause that a function finds, under the function's name.

    Parameters
    ----------
    severity : {"critical", "warning", "note"}
    summary, advice : str
        What is wrong, and what to do; `OF_GROUP` in an advice becomes the option of the group.
    **more
        Other fields of `Cause`.
    """
    return lambda find: Cause(find.__name__, severity, summary, advice, find, **more)


def waits(given: CauseInputs) -> Bools:
    """Whether the oldest unfinished record is older than patience; markers do not count."""
    return np.asarray(given.progress("age_ms") > given.patience, bool)


def nothing_happens(given: CauseInputs) -> Bools:
    """Whether nothing was finished or released for longer than patience; unknown is False."""
    last = np.fmax(given.observed("last_finished"), given.observed("last_released"))
    last = np.where(np.isnan(last), given.observed("begin"), last)
    return np.asarray(given.now - last > given.patience, bool)


def is_stuck(given: CauseInputs) -> Bools:
    """Whether the effective start offset has not moved for longer than patience."""
    return np.asarray(given.now - given.observed("head_since") > given.patience, bool)


def has_lately_released(given: CauseInputs, within: Floats) -> Bools:
    """Whether records were released within so many milliseconds, or within patience."""
    ago = given.now - given.observed("last_released")
    return np.asarray(ago <= np.maximum(within, given.patience), bool)


def head(given: CauseInputs) -> dict[str, Floats]:
    """Return what is known of the record at the effective start offset, as evidence."""
    is_older = np.where(given.observed("head_is_older") == 1, 1, np.nan)
    return {
        "offset": given.lag("effective_start_offset"),
        "stuck for ms": given.now - given.observed("head_since"),
        "deliveries": given.observed("head_delivery_count"),
        "since before the first record seen": is_older,
    }


def or_earlier(given: CauseInputs) -> dict[str, list[str]]:
    """Say where the lag may have begun before what was observed."""
    words = "the beginning of what was observed, or earlier"
    return {"since": [words if is_older else "" for is_older in given.lag_began[1]]}


def defect(given: CauseInputs, cause_name: str, record: str) -> dict[str, list[str]]:
    """Name the defect of Kafka that a cause shows, and the last record that shows it."""
    found = BY_CAUSE[cause_name]
    said = f"{found.issue}, fixed in {found.fixed_in}"
    return {"record": given.observed_text(record), "defect": [said] * len(given.groups)}
