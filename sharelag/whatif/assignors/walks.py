"""The contract of assignors, tested on randomly drawn groups that evolve.

A walk starts with a group in which members may have partitions from another assignor. Then the
answer becomes their assignment, a member joins or leaves, a subscription changes, or a topic gets
partitions, and the assignor is called again. Groups grow from walk to walk, so the first ones are
small enough to read.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sharelag.errors import InputError
from sharelag.whatif.assignors.contract import BY_ORDER, NOT_REPEATED, RULES, check
from sharelag.whatif.assignors.group import Assignment, AssignorError, Group, pairs_of
from sharelag.whatif.assignors.registry import Assignor, assign_group
from sharelag.whatif.simulation.streams import generator

#: Separates these random numbers from those of simulations with the same seed.
_STREAM = 2035
#: Assignments per walk, walks of each size, and the largest size.
_STEPS, _WALKS_A_SIZE, _LARGEST = 4, 10, 8
_RACKS = ("a", "b", "c")


@dataclass(frozen=True)
class Breach:
    """A rule that an assignor breaks, and the smallest drawn group that shows it.

    Attributes
    ----------
    rule
        A key of `sharelag.whatif.assignors.contract.RULES`.
    text
        The error; for an exception, also where it was raised.
    members, topics
        The group, as `sharelag.whatif.check_assignor` takes it.
    """

    rule: str
    text: str
    members: list[dict[str, Any]]
    topics: dict[str, dict[str, Any]]


def check_contract(
    assignor: str | Assignor,
    *,
    walks: int = 200,
    seed: int = 0,
    count_spread: int | None = None,
    load_spread: int | None = None,
    moves: int | None = None,
    **options: Any,
) -> list[Breach]:
    """Test an assignor, built in or a function of your own, on randomly drawn groups.

    Besides the rules of `check_assignor`, its answer must be the same in a second call, and for the
    same members in another order.

    Parameters
    ----------
    assignor : str or callable
        One of `assignor_names`, or a function that `register` accepts.
    walks : int
        Number of groups; each is assigned four times, with a change in between.
    seed : int
        Random seed: the same groups for the same seed.
    count_spread, load_spread, moves : int, optional
        As for `check_assignor`.
    **options
        Options of the assignor.

    Returns
    -------
    list of Breach
        One for each broken rule, smallest group first; empty if none is broken.

    Raises
    ------
    InputError
        The assignor is unknown, or does not take these options; or ``walks`` is 0.

    Examples
    --------
    >>> to_the_first = lambda group: {group.members[0].id: {"t": [0]}}
    >>> for breach in check_contract(to_the_first):
    ...     print(breach.rule, breach.text)
    """
    if walks < 1:
        raise InputError(f"{walks} groups show nothing: give at least 1 walk")
    limits = {"count_spread": count_spread, "load_spread": load_spread, "moves": moves}
    found: dict[str, tuple[int, Breach]] = {}
    for number in range(walks):
        walk = _Walk(generator(seed, _STREAM, number), min(1 + number // _WALKS_A_SIZE, _LARGEST))
        for _ in range(_STEPS):
            group = Group.of(walk.members, walk.topics)
            answer, broken = _ask(assignor, group, limits, options)
            for rule, text in broken:
                if rule not in found or walk.size < found[rule][0]:
                    breach = Breach(rule, text, deepcopy(walk.members), deepcopy(walk.topics))
                    found[rule] = walk.size, breach
            if answer is None:
                break
            walk.go_on(answer)
    return [breach for _, breach in sorted(found.values(), key=lambda one: one[0])]


def _ask(
    assignor: str | Assignor,
    group: Group,
    limits: Mapping[str, int | None],
    options: Mapping[str, Any],
) -> tuple[Assignment | None, list[tuple[str, str]]]:
    """Return the answer, or None, and the broken rules with a sentence each."""
    try:
        answer = assign_group(assignor, group, **options)
    except AssignorError as error:
        return None, [(error.rule, str(error))]
    broken = [(one.rule, one.text) for one in check(group, answer, **limits)]
    turned = replace(group, members=group.members[::-1])
    for rule, one in ((NOT_REPEATED, group), (BY_ORDER, turned)):
        text = RULES[rule]
        try:
            if pairs_of(assign_group(assignor, one, **options)) == pairs_of(answer):
                continue
        except AssignorError as error:
            text = str(error)
        return answer, [*broken, (rule, text)]  # an unstable answer differs in any order
    return answer, broken


class _Walk:
    """An evolving group; ``members`` and ``topics`` are as `Group.of` takes them."""

    def __init__(self, chance: np.random.Generator, size: int) -> None:
        self._chance = chance
        self._alike = chance.random() < 0.5
        self._joined, self.members = 0, list[dict[str, Any]]()
        self.topics: dict[str, dict[str, Any]] = {}
        for name in "tuv"[: self._up_to(min(size, 3))]:
            self.topics[name] = {"partitions": self._up_to(size)}
            self._describe(self.topics[name])
        for _ in range(self._up_to(size)):
            self._join()
        if chance.random() < 0.5:
            for member in self.members:  # partitions that another assignor may have given
                member["current"] = {
                    name: self._some(range(topic["partitions"] + 1), 0.3)
                    for name, topic in self.topics.items()
                }

    @property
    def size(self) -> int:
        """The members, partitions, and pairs of them to read."""
        pairs = pairs_of({one["id"]: one["current"] for one in self.members})
        partitions: int = sum(one["partitions"] for one in self.topics.values())
        return len(self.members) + len(pairs) + partitions

    def go_on(self, answer: Assignment) -> None:
        """Apply an answer, and change one thing and the lag."""
        for member in self.members:
            member["current"] = answer[member["id"]]
        member = self.members[self._chance.integers(len(self.members))]
        topic = self.topics[list(self.topics)[self._chance.integers(len(self.topics))]]
        change = self._chance.integers(4)
        if change == 0:
            self._join()
        elif change == 1 and len(self.members) > 1:
            self.members.remove(member)
        elif change == 2:
            member["subscribed"] = self._draw_topics()
        else:
            topic["partitions"] += self._up_to(3)
        for one in self.topics.values():
            self._describe(one)

    def _join(self) -> None:
        name, rack = f"m{self._joined}", (None, *_RACKS)[self._chance.integers(4)]
        self._joined += 1
        one: dict[str, Any] = {"id": name, "subscribed": self._draw_topics(), "current": {}}
        one["rack"] = rack
        self.members.insert(int(self._chance.integers(len(self.members) + 1)), one)

    def _draw_topics(self) -> list[str]:
        share = 1.0 if self._alike else 0.6
        return [name for name in self.topics if self._chance.random() < share]

    def _describe(self, topic: dict[str, Any]) -> None:
        every = range(topic["partitions"])
        topic["lag"] = {p: int(self._chance.integers(1000)) for p in self._some(every, 0.8)}
        topic["rate"] = {p: float(self._chance.integers(50)) for p in self._some(every, 0.8)}
        topic["racks"] = {p: [_RACKS[self._chance.integers(3)]] for p in every}
        topic["assignable"] = list(every)
        if self._chance.random() < 0.2:
            topic["assignable"] = self._some(every, 0.7)

    def _some(self, numbers: range, share: float) -> list[int]:
        return [one for one in numbers if self._chance.random() < share]

    def _up_to(self, most: int) -> int:
        return int(self._chance.integers(1, most + 1))
