"""Try out an assignment made by hand: what happens if the members have just these partitions.

    what_if(scenario, {"member-0": {"orders": [0, 1]}, "member-1": {}}, seeds=range(5))
    edited = with_assignment(scenario, {"member-0": {"orders": [0, 1]}, "member-1": {}})
    simulate(edited)

The assignment holds from the first heartbeat to the end: a member that is not named gets nothing,
one that crashes and comes back gets its partitions again, and what a member has that is away is
served by the other members that have it, if any.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, TypeAlias
from weakref import WeakValueDictionary, finalize

import pyarrow as pa

from sharelag.errors import InputError
from sharelag.whatif.assignors.group import Assignment, AssignorError, Group
from sharelag.whatif.assignors.registry import ASSIGNORS, register
from sharelag.whatif.compare import Comparison, compare
from sharelag.whatif.comparison.tables import MEASURED
from sharelag.whatif.scenario import Member, Scenario
from sharelag.whatif.simulation.clock import interruptible
from sharelag.whatif.simulation.streams import member_id

#: For each member by its name in the scenario, by topic, its partitions.
ByName: TypeAlias = Mapping[str, Mapping[str, Iterable[int]]]

#: Lives in a row that may end before the coordinator computes an assignment.
_UNSEEN_LIVES = 50
_PLACES = 12  # digits of the name


def with_assignment(
    scenario: Scenario, assignment: ByName, seeds: Iterable[int] = (0,)
) -> Scenario:
    """The scenario with the members that an assignment names, who have just those partitions.

    Parameters
    ----------
    scenario : Scenario
    assignment : mapping
        For each member, by topic, its partitions. Members that the scenario does not have are
        added, like those that it has, in turn, and are there from the begin to the end; members not
        named are left out, with their faults.
    seeds : iterable of int
        With which it will be run (see `fixed`).

    Returns
    -------
    Scenario
        ``assumed`` says which members the new ones are like.

    Raises
    ------
    InputError
        A topic or a partition is not in the scenario.
    """
    each = {member.name: member for member in scenario.each_member()}
    like = list(each.values()) or [Member(topics=tuple(topic.name for topic in scenario.topics))]
    new = [name for name in assignment if name not in each]
    models = {name: like[number % len(like)] for number, name in enumerate(new)}
    kept = [member for name, member in each.items() if name in assignment]
    added = [replace(model, name=name, join_ms=0, leave_ms=None) for name, model in models.items()]
    peopled = replace(
        scenario,
        members=(*kept, *added),
        faults=tuple(
            fault for fault in scenario.faults if not fault.member or fault.member in assignment
        ),
        assumed=(
            *scenario.assumed,
            *(f"{name} is like {model.name}" for name, model in models.items()),
        ),
    )
    return replace(peopled, assignor=fixed(peopled, assignment, seeds))


def fixed(scenario: Scenario, assignment: ByName, seeds: Iterable[int] = (0,)) -> str:
    """Make an assignor that always answers this assignment; members not named get nothing.

    Member ids come from the seed, and an assignor sees nothing but ids: so it needs the seeds.

    Returns
    -------
    str
        Its name, for ``replace(scenario, assignor=...)``. `sharelag.whatif.ASSIGNORS` knows it as
        long as this very text (or a scenario or a result with it) is there; the same assignment has
        the same name.

    Raises
    ------
    InputError
        A member, a topic or a partition is not in the scenario.
    """
    names = tuple(member.name for member in scenario.each_member())
    plain = _plain(scenario, assignment)
    if unknown := [name for name in plain if name not in names]:
        raise InputError(
            f"{unknown[0]!r} is not a member of the scenario: with_assignment adds new members"
        )
    chosen = tuple(dict.fromkeys(seeds))
    if not chosen:
        raise InputError("no seed to run with: give at least one")
    digest = sha256(json.dumps([plain, names, sorted(chosen)], sort_keys=True).encode()).hexdigest()
    name = f"edited-{digest[:_PLACES]}"
    known = _HELD.get(name)
    if known is not None:
        return known
    made = _Name(name)
    made.again = (scenario, plain, chosen)
    function = partial(_answer, _Ids(names, chosen), plain)
    register(name, function)
    finalize(made, _forget, name, function).atexit = False
    _HELD[name] = made
    return made


class _Name(str):
    """A name whose assignor is forgotten with it; in another process it is made again."""

    again: tuple[Any, ...]

    def __reduce__(self) -> tuple[Callable[..., str], tuple[Any, ...]]:
        return fixed, self.again


_HELD: WeakValueDictionary[str, _Name] = WeakValueDictionary()


def _forget(name: str, function: object) -> None:
    if ASSIGNORS.get(name) is function:
        del ASSIGNORS[name]


class _Ids:
    """The names behind member ids, over all lives and seeds."""

    def __init__(self, names: tuple[str, ...], seeds: tuple[int, ...]) -> None:
        self._names, self._seeds = names, seeds
        self._known: dict[str, str] = {}
        self._lives = 0

    def name(self, id_: str) -> str:
        """Who that is."""
        for _ in range(_UNSEEN_LIVES):
            if id_ in self._known:
                return self._known[id_]
            for seed in self._seeds:
                ids = {
                    member_id(seed, which, self._lives): name
                    for which, name in enumerate(self._names)
                }
                self._known.update(ids)
            self._lives += 1
        raise AssignorError(
            f"the edited assignment does not know the member id {id_!r}: it was made for the seeds "
            f"{', '.join(map(str, self._seeds))}, so run it with one of these"
        )


def _answer(ids: _Ids, assignment: Assignment, group: Group) -> Assignment:
    return {member.id: assignment.get(ids.name(member.id), {}) for member in group.members}


def _plain(scenario: Scenario, assignment: ByName) -> Assignment:
    counts = {topic.name: topic.partitions for topic in scenario.topics}
    plain: Assignment = {}
    for member, topics in assignment.items():
        plain[member] = {
            topic: sorted({int(number) for number in numbers}) for topic, numbers in topics.items()
        }
        for topic, numbers in plain[member].items():
            if wrong := [number for number in numbers if not 0 <= number < counts.get(topic, 0)]:
                raise InputError(
                    f"{member!r} has partition {wrong[0]} of {topic!r}, "
                    f"which the scenario does not have"
                )
    return plain


#: What `what_if` says about each measure: what people call it, and what it means when it is not
#: known.
_TOLD = {
    "drain_ms": ("Time until drained", "not drained in every run"),
    "age_p95_ms": ("Age of the oldest record, p95", ""),
    "lag_max": ("Lag, largest", ""),
    "redeliveries": ("Redeliveries", ""),
    "moves": ("Partitions taken from members that stay", ""),
    "idle_members": ("Members without a delivery", ""),
}
_DIFFERENCE = pa.schema(
    [(name, pa.string()) for name in ("measure", "unit", "better", "unknown", "verdict")]
    + [(name, pa.float64()) for name in ("baseline", "edited", "low", "high")]
)


def what_if(
    scenario: Scenario,
    assignment: ByName,
    *,
    seeds: Iterable[int] = range(5),
    cancelled: Callable[[], bool] | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> pa.Table | None:
    """Compare a scenario with the same under an assignment made by hand.

    Parameters
    ----------
    scenario : Scenario
        The baseline, with its own assignor.
    assignment : mapping
        As for `sharelag.whatif.fixed.with_assignment`.
    seeds : iterable of int
        Both sides meet the same luck in each.
    cancelled : callable, optional
        Called before each run and now and then within it: whether to give up.
    progress : callable, optional
        Called with ``(done, all)``, in runs.

    Returns
    -------
    pyarrow.Table or None
        One row per measure: ``baseline`` and ``edited`` (means over the seeds), ``low`` and
        ``high`` of their difference (95 %), ``verdict`` (``better``, ``worse``, ``same``,
        ``unclear``), ``unit``; None when cancelled.
    """
    chosen = list(seeds)

    def check() -> None:
        if cancelled is not None and cancelled():
            raise _CancelledError

    def report(done: int, total: int) -> None:
        check()
        if progress is not None:
            progress(done, total)

    try:
        with interruptible(check):
            sides = {"baseline": scenario, "edited": with_assignment(scenario, assignment, chosen)}
            comparison = compare(sides, seeds=chosen, baseline="baseline", progress=report)
    except _CancelledError:
        return None
    return pa.Table.from_pylist(
        [_row(comparison, measure) for measure in _TOLD], schema=_DIFFERENCE
    )


class _CancelledError(Exception):
    """Nobody waits any more."""


def _row(comparison: Comparison, measure: str) -> dict[str, Any]:
    words, unknown = _TOLD[measure]
    usual, found = (comparison.cells[name, measure] for name in ("baseline", "edited"))
    about = MEASURED[measure]
    return {
        "measure": words,
        "unit": about.unit,
        "better": {"lower": "less", "higher": "more"}.get(about.better or ""),
        "unknown": unknown,
        "verdict": _verdict(found),
        "baseline": usual["mean"],
        "edited": found["mean"],
        "low": found["difference_low"],
        "high": found["difference_high"],
    }


def _verdict(found: Mapping[str, Any]) -> str:
    if found["better"] is not None:
        return "better" if found["better"] else "worse"
    is_same = found["difference"] == 0 and found["difference_low"] == found["difference_high"]
    return "same" if is_same else "unclear"
