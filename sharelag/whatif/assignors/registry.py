"""The assignors by name; users and installed packages add their own functions."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, TypeVar, overload

from sharelag import plugins
from sharelag.errors import InputError, ShareLagError
from sharelag.tables.words import counted
from sharelag.whatif.assignors import contract
from sharelag.whatif.assignors.by_count import all_to_all, balanced, rack_aware, round_robin, sticky
from sharelag.whatif.assignors.by_lag import lag_aware_sticky, lag_proportional, sticky_spread
from sharelag.whatif.assignors.contract import Figures, Finding, ServiceRate, check, figures
from sharelag.whatif.assignors.group import Assignment, AssignorError, Group
from sharelag.whatif.assignors.optimal import optimal
from sharelag.whatif.assignors.simple import simple, simple_4_1

#: A function of a `Group`, and of options by keyword.
Assignor = Callable[..., Assignment]
A = TypeVar("A", bound=Assignor)

#: Ours, those that `register` added, and those of installed packages that were used already.
ASSIGNORS: dict[str, Assignor] = {
    "simple": simple,
    "simple-4.1": simple_4_1,
    "all-to-all": all_to_all,
    "round-robin": round_robin,
    "sticky": sticky,
    "rack-aware": rack_aware,
    "lag-proportional": lag_proportional,
    "balanced": balanced,
    "lag-aware-sticky": lag_aware_sticky,
    "sticky-spread": sticky_spread,
    "optimal": optimal,
}
_OURS = frozenset(ASSIGNORS)
#: Those of this package that were looked for in vain among the assignors of installed packages.
_UNRIVALLED: set[str] = set()


def find_assignor(name: str) -> Assignor:
    """Return an assignor by its name, or refuse it where there is none, or it cannot be used."""
    function = known_assignor(name)
    if function is None:
        raise InputError(
            f"unknown assignor {name!r}: choose one of {', '.join(assignor_names())}, "
            f"or register it"
        )
    return function


def known_assignor(name: str) -> Assignor | None:
    """Return an assignor by its name, or None; that of an installed package is imported now."""
    if name not in ASSIGNORS or (name in _OURS and name not in _UNRIVALLED):
        plugin = plugins.load_plugin("assignor", name, name in _OURS)
        if plugin is not None:
            ASSIGNORS[name] = plugin.function()
        elif name in _OURS:
            _UNRIVALLED.add(name)
    return ASSIGNORS.get(name)


def assignor_names() -> list[str]:
    """Return the names of all assignors: ours, registered ones, and those of installed packages."""
    return list(dict.fromkeys([*ASSIGNORS, *plugins.plugin_names("assignor")]))


def assignor_descriptions() -> dict[str, str]:
    """Return what each assignor does, by its name: the first sentence of its docstring.

    Empty for those of installed packages that were not used yet, since asking would import them.
    """
    told = {name: ASSIGNORS[name].__doc__ if name in ASSIGNORS else "" for name in assignor_names()}
    return {
        name: " ".join((about or "").split("\n\n")[0].replace("`", "").split())
        for name, about in told.items()
    }


def assign(
    name: str,
    members: Iterable[Mapping[str, Any]],
    topics: Mapping[str, Mapping[str, Any]],
    **options: Any,
) -> Assignment:
    """Ask an assignor for the target assignment of a share group.

    Parameters
    ----------
    name : str
        One of `assignor_names`.
    members : iterable of mapping
        A member each: ``id``, ``subscribed`` (names of topics), ``current`` (its target assignment
        so far: partitions by topic; may be left out), ``rack`` (may be left out).
    topics : mapping of str to mapping
        By name: ``partitions`` (their number; None when the topic was deleted), and if known ``id``
        (as Kafka prints it; derived from the name if left out), ``assignable`` (partitions; all if
        left out), ``racks`` (of the replicas, by partition), ``lag`` (records, by partition) and
        ``rate`` (records a second, by partition).
    **options
        Of the assignor.

    Returns
    -------
    dict
        For each member, by topic, a list of partitions: ``{member_id: {topic: [partition, ...]}}``.

    Raises
    ------
    InputError
        The name, a member, a topic or an option is not known or cannot be used.
    AssignorError
        The assignor has no answer, or not one that can be used.
    """
    find_assignor(name)
    return assign_group(name, Group.of(members, topics), **options)


@dataclass(frozen=True)
class AssignorCheck:
    """What an assignor answers for a group, what is wrong with it, and the answer in numbers."""

    assignment: Assignment
    findings: list[Finding]
    figures: Figures


def check_assignor(
    assignor: str | Assignor,
    members: Iterable[Mapping[str, Any]],
    topics: Mapping[str, Mapping[str, Any]],
    *,
    service_rate: ServiceRate | None = None,
    count_spread: int | None = None,
    load_spread: int | None = None,
    moves: int | None = None,
    **options: Any,
) -> AssignorCheck:
    """Ask an assignor, which may be a function of your own, and check its answer.

    Parameters
    ----------
    assignor : str or callable
        One of `assignor_names`, or a function as `register` takes it.
    members, topics
        As for `assign`.
    service_rate : float or mapping of str to float, optional
        Records that a member finishes a second, to predict when each partition is drained.
    count_spread : int, optional
        How many more members one partition may have than another.
    load_spread : int, optional
        How many more partitions one subscriber may have than another.
    moves : int, optional
        How many pairs may be added.
    **options
        Of the assignor.

    Returns
    -------
    AssignorCheck
        Without findings when every rule is kept: each partition that can be assigned has a member,
        and nobody has one that does not exist or is not subscribed to.

    Raises
    ------
    InputError, AssignorError
        As for `assign`; or a member has no service rate above 0.

    Examples
    --------
    >>> to_the_first = lambda group: {group.members[0].id: {"orders": [0]}}
    >>> found = check_assignor(
    ...     to_the_first, [{"id": "a", "subscribed": ["orders"]}], {"orders": {"partitions": 2}}
    ... )
    >>> [finding.text for finding in found.findings]
    ["no member has partition 1 of 'orders'"]
    """
    group = Group.of(members, topics)
    answer = assign_group(assignor, group, **options)
    findings = check(group, answer, count_spread, load_spread, moves)
    return AssignorCheck(answer, findings, figures(group, answer, service_rate))


def assign_group(assignor: str | Assignor, group: Group, **options: Any) -> Assignment:
    """Ask an assignor for the assignment of a group that is read already, as `assign` does."""
    function = find_assignor(assignor) if isinstance(assignor, str) else assignor
    name = assignor if isinstance(assignor, str) else getattr(assignor, "__name__", repr(assignor))
    try:
        inspect.signature(function).bind(group, **options)
    except TypeError as error:
        known = [option for option in inspect.signature(function).parameters if option != "group"]
        raise InputError(
            f"the assignor {name!r} cannot take these options ({error}): "
            f"it knows {', '.join(known) or 'none'}"
        ) from None
    try:
        return _check(name, group, function(group, **options))
    except ShareLagError:
        raise
    except Exception as error:  # anything can go wrong in code of others
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise AssignorError(
            f"the assignor {name!r} failed at {where.filename}:{where.lineno}: "
            f"{type(error).__name__}: {error}"
        ) from error


def require_partitions(name: str, group: Group, answer: Assignment) -> None:
    """Refuse partitions that are not there, which members of Kafka's own assignor may keep."""
    for member, topics in answer.items():
        for topic, partitions in topics.items():
            count = group.topics[topic].partitions or 0
            if beyond := [one for one in partitions if one >= count]:
                raise AssignorError(
                    f"the assignor {name!r} gave {member!r} partition {beyond[0]} of {topic!r}, "
                    f"which has {counted(count, 'partition')}, numbered from 0"
                )


@overload
def register(name: str) -> Callable[[A], A]: ...
@overload
def register(name: str, function: A) -> A: ...
def register(name: str, function: A | None = None) -> A | Callable[[A], A]:
    """Add an assignor, or replace one that was added before. Without a function, a decorator.

    Parameters
    ----------
    name : str
        The name that `assign` then knows it by.
    function : callable
        Takes a `sharelag.whatif.assignors.group.Group` and its own options by keyword, and gives
        partitions by topic for each member, as `assign` does. Members left out get nothing.

    Examples
    --------
    >>> @register("everything-to-the-first")
    ... def everything_to_the_first(group):
    ...     return {group.members[0].id: {"orders": [0, 1]}}
    """
    if name in _OURS:
        raise InputError(f"{name!r} is one of our assignors: choose another name for yours")
    if function is None:
        return lambda decorated: register(name, decorated)
    if not callable(function):
        raise InputError(f"the assignor {name!r} is not a function: give one that takes a group")
    ASSIGNORS[name] = function
    return function


def _check(name: str, group: Group, answer: Any) -> Assignment:
    """Return the answer in plain lists, members without one included."""

    def wrong(what: str, *rule: str) -> AssignorError:
        return AssignorError(f"the assignor {name!r} {what}", *rule)

    known = {member.id for member in group.members}
    if not isinstance(answer, Mapping):
        raise wrong(f"answered {answer!r}: it must return a dict by member id")
    plain: Assignment = {}
    for member, topics in answer.items():
        if member not in known:
            who = f"answered for {member!r}, who is not a member of the group"
            raise wrong(who, contract.UNKNOWN_MEMBER)
        got = f"answered {topics!r} for {member!r}: it must"
        if not isinstance(topics, Mapping):
            raise wrong(f"{got} return a dict by topic for each member")
        if strange := [topic for topic in topics if topic not in group.topics]:
            unknown = f"gave {member!r} partitions of the unknown topic {strange[0]!r}"
            raise wrong(unknown, contract.UNKNOWN_TOPIC)
        try:
            plain[member] = {topic: list(map(index, numbers)) for topic, numbers in topics.items()}
        except TypeError:
            raise wrong(f"{got} give a list of partition numbers by topic") from None
        if negative := [one for numbers in plain[member].values() for one in numbers if one < 0]:
            raise wrong(
                f"gave {member!r} the partition {negative[0]}: partitions are numbered from 0"
            )
    return plain | {member.id: {} for member in group.members if member.id not in plain}
