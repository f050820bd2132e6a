"""The assignors by name; users and installed packages can add functions."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import index
from typing import Any, TypeVar, overload

from sharelag import plugins
from sharelag.errors import InputError, ShareLagError
from sharelag.tables.words import pluralize
from sharelag.whatif.assignors import contract
from sharelag.whatif.assignors.by_count import all_to_all, balanced, rack_aware, round_robin, sticky
from sharelag.whatif.assignors.by_lag import lag_aware_sticky, lag_proportional, sticky_spread
from sharelag.whatif.assignors.contract import Figures, Finding, ServiceRate, check, figures
from sharelag.whatif.assignors.group import Assignment, AssignorError, Group
from sharelag.whatif.assignors.optimal import optimal
from sharelag.whatif.assignors.simple import simple, simple_4_1

#: A function of a `Group`, with options as keywords.
Assignor = Callable[..., Assignment]
A = TypeVar("A", bound=Assignor)

#: Built-in and registered assignors, and those of installed packages that were used.
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
#: Built-in names for which no installed package has an assignor.
_UNRIVALLED: set[str] = set()


def find_assignor(name: str) -> Assignor:
    """Return an assignor by name, or refuse an unknown or invalid one."""
    function = known_assignor(name)
    if function is None:
        raise InputError(
            f"unknown assignor {name!r}: choose one of {', '.join(assignor_names())}, "
            f"or register it"
        )
    return function


def known_assignor(name: str) -> Assignor | None:
    """Return an assignor by name, or None; one of an installed package is imported now."""
    if name not in ASSIGNORS or (name in _OURS and name not in _UNRIVALLED):
        plugin = plugins.load_plugin("assignor", name, name in _OURS)
        if plugin is not None:
            ASSIGNORS[name] = plugin.function()
        elif name in _OURS:
            _UNRIVALLED.add(name)
    return ASSIGNORS.get(name)


def assignor_names() -> list[str]:
    """Return the names of all assignors: built in, registered, and of installed packages."""
    return list(dict.fromkeys([*ASSIGNORS, *plugins.plugin_names("assignor")]))


def assignor_descriptions() -> dict[str, str]:
    """Return a description of each assignor by name: the first sentence of its docstring.

    Empty for assignors of installed packages that were not used yet, to avoid importing them.
    """
    docs = {name: ASSIGNORS[name].__doc__ if name in ASSIGNORS else "" for name in assignor_names()}
    return {
        name: " ".join((about or "").split("\n\n")[0].replace("`", "").split())
        for name, about in docs.items()
    }


def assign(
    name: str,
    members: Iterable[Mapping[str, Any]],
    topics: Mapping[str, Mapping[str, Any]],
    **options: Any,
) -> Assignment:
    """Return an assignor's target assignment for a share group.

    Parameters
    ----------
    name : str
        One of `assignor_names`.
    members : iterable of mapping
        One per member: ``id``, ``subscribed`` (names of topics), and optionally ``current`` (its
        previous target assignment: partitions by topic) and ``rack``.
    topics : mapping of str to mapping
        By name: ``partitions`` (their number; None if the topic was deleted), and optionally ``id``
        (as Kafka prints it; by default derived from the name), ``assignable`` (partitions; by
        default all), ``racks`` (of the replicas, by partition), ``lag`` (records, by partition) and
        ``rate`` (records per second, by partition).
    **options
        Options of the assignor.

    Returns
    -------
    dict
        For each member, by topic, a list of partitions: ``{member_id: {topic: [partition, ...]}}``.

    Raises
    ------
    InputError
        The name, a member, a topic or an option is unknown or invalid.
    AssignorError
        The assignor fails, or its answer is invalid.
    """
    find_assignor(name)
    return assign_group(name, Group.of(members, topics), **options)


@dataclass(frozen=True)
class AssignorCheck:
    """An assignor's assignment of a group, the rules it breaks, and its figures."""

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
    """Call an assignor, built in or a function of your own, and check its answer.

    Parameters
    ----------
    assignor : str or callable
        One of `assignor_names`, or a function that `register` accepts.
    members, topics
        As for `assign`.
    service_rate : float or mapping of str to float, optional
        Records that a member finishes per second, to predict when each partition is drained.
    count_spread : int, optional
        The largest allowed difference between the members of two partitions.
    load_spread : int, optional
        The largest allowed difference between the partitions of two subscribers.
    moves : int, optional
        The number of pairs that may be added.
    **options
        Options of the assignor.

    Returns
    -------
    AssignorCheck
        Without findings if no rule is broken: each assignable partition has a member, and no member
        has a partition that does not exist or is not subscribed.

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
    """Return an assignor's assignment for a `Group`, as `assign` does for dicts."""
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
    except Exception as error:  # code of others may raise anything
        where = traceback.extract_tb(error.__traceback__)[-1]
        raise AssignorError(
            f"the assignor {name!r} failed at {where.filename}:{where.lineno}: "
            f"{type(error).__name__}: {error}"
        ) from error


def require_partitions(name: str, group: Group, answer: Assignment) -> None:
    """Refuse partitions that do not exist, which members of Kafka's own assignor may keep."""
    for member, topics in answer.items():
        for topic, partitions in topics.items():
            count = group.topics[topic].partitions or 0
            if beyond := [one for one in partitions if one >= count]:
                raise AssignorError(
                    f"the assignor {name!r} gave {member!r} partition {beyond[0]} of {topic!r}, "
                    f"which has {pluralize(count, 'partition')}, numbered from 0"
                )


@overload
def register(name: str) -> Callable[[A], A]: ...
@overload
def register(name: str, function: A) -> A: ...
def register(name: str, function: A | None = None) -> A | Callable[[A], A]:
    """Add an assignor, or replace a registered one. Without a function, return a decorator.

    Parameters
    ----------
    name : str
        The name for `assign`.
    function : callable
        Takes a `sharelag.whatif.assignors.group.Group`, and options as keywords, and returns
        partitions by topic for each member, like `assign`. Omitted members get no partitions.

    Examples
    --------
    >>> @register("everything-to-the-first")
    ... def everything_to_the_first(group):
    ...     return {group.members[0].id: {"orders": [0, 1]}}
    """
    if name in _OURS:
        raise InputError(f"{name!r} is a built-in assignor: choose another name for yours")
    if function is None:
        return lambda decorated: register(name, decorated)
    if not callable(function):
        raise InputError(f"the assignor {name!r} is not a function: give one that takes a group")
    ASSIGNORS[name] = function
    return function


def _check(name: str, group: Group, answer: Any) -> Assignment:
    """Return the answer as plain lists, with members that it omits."""

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
        if below := [one for numbers in plain[member].values() for one in numbers if one < 0]:
            raise wrong(f"gave {member!r} the partition {below[0]}: partitions are numbered from 0")
    return plain | {member.id: {} for member in group.members if member.id not in plain}
