"""The exceptions that sharelag raises; each message says what happened and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence


class ShareLagError(Exception):
    """The base class: the command line prints it without a traceback and exits with 1 or 3."""

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows in place of a traceback: the message alone."""
        return [f"{type(self).__name__}: {self}"]


# ---- input and configuration ---------------------------------------------------------------------


class InputError(ShareLagError):
    """A file, a folder, a table or an option cannot be used as it is."""


class ConfigError(ShareLagError):
    """A client setting is unknown, contradictory or in a form that the client cannot read."""


class SetupError(ShareLagError):
    """Something on this machine is missing or too old: Java, Spark, a package."""


# ---- what the cluster answered -------------------------------------------------------------------


class ClusterError(ShareLagError):
    """A broker answered with an error, or not at all."""


class BrokerUnreachableError(ClusterError):
    """No broker answered within the time allowed."""


class AuthenticationError(ClusterError):
    """The broker rejected our credentials."""


class AuthorizationError(ClusterError):
    """The broker authenticated us but does not authorize the operation."""


class TopicMissingError(ClusterError):
    """The topic does not exist on this cluster."""


class NoLeaderError(ClusterError):
    """A partition currently has no leader: it is new, or its broker is down; the exit code is 3."""

    #: The topic with partitions that did not answer, and which those are, where that is known.
    topic: str | None = None
    silent: frozenset[int] = frozenset()
    #: First and end offset of the partitions that did answer, where offsets were requested.
    answered: Mapping[int, tuple[int, int]] | None = None


class DataLossError(ClusterError):
    """Requested records have been deleted from the topic."""


# ---- what the records say ------------------------------------------------------------------------


class ReplayError(ShareLagError):
    """Kafka's own coordinator would fail to load these records (raised only by ``strict=True``)."""


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or the name of its kind if it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def are_away(error: BaseException) -> bool:
    """Whether all that is wrong is that brokers do not answer, which may pass."""
    return is_of(NoLeaderError, error) or is_of(BrokerUnreachableError, error)


def raised_in_worker(error: BaseException) -> ShareLagError | None:
    """Return the `ShareLagError` that a Spark task raised, out of the text of Spark's own error.

    Spark wraps it into pages of text. Where a worker lacks this package, or Spark itself raises the
    error for a row, its text begins with the name of the class alone.
    """
    said = re.findall(r"(?:sharelag\.errors\.|\b(?=InputError|SetupError))(\w+): (.+)", str(error))
    ours = [kind(text) for name, text in said if (kind := globals().get(name)) is not None]
    return ours[-1] if ours else None


def is_of(kind: type[ShareLagError], error: BaseException) -> bool:
    """Whether an error belongs to a kind, or is Spark's and wraps one that a worker raised."""
    return isinstance(error, kind) or f"errors.{kind.__name__}: " in str(error)


#: Names of groups that a message lists.
_NAMED = 10


#: What it means that no share group has state.
NO_STATE = (
    "no share group has state: none has consumed anything yet, or its state was deleted with its "
    "topics or the group"
)


def unknown_group(
    group: str, known: Iterable[str], where: str = "", kinds: Mapping[str, str] | None = None
) -> str:
    """Say that a share group has no state; the one wording of it.

    Parameters
    ----------
    group : str
        The name that was given.
    known : iterable of str
        The groups that have state there; empty if that is not known.
    where : str
        Where it was looked for, such as ``"in capture of c1 at 2026-11-21T03:10:00Z"``.
    kinds : mapping of str to str, optional
        Types of groups that are not share groups, as far as known.
    """
    if kinds and group in kinds:
        return (
            f"group {group!r} is of type {kinds[group]}, not Share (Kafka's share commands answer "
            "GROUP_ID_NOT_FOUND): its lag is that of kafka-consumer-groups.sh --describe"
        )
    names = sorted(set(known))
    said = f"there is no state of share group {group!r}{where and ' '}{where}"
    if not names:
        return (
            f"{said}: check the spelling, and that the group has consumed "
            "(kafka-share-groups.sh --list)"
        )
    return f"{said}: its groups are {list_names(names)}{meant(group, names)}"


def unknown_column(column: object, known: Iterable[str], where: str) -> str:
    """Say that a table has no such column, and which one may have been meant."""
    names = list(known)
    said = f"unknown column {column!r} of {where!r}: its columns are {', '.join(names)}"
    return said + meant(column, names)


def unknown_topic(topic: object, known: Iterable[str | None], group: str, where: str = "") -> str:
    """Say that a share group has no state of a topic, and which one may have been meant.

    ``known`` are the topics of the group, or with ``where`` those that are there.
    """
    distinct = set(known)
    names = sorted(filter(None, distinct))
    there = f": its topics are {list_names(names)}" if names else ""
    if None in distinct:
        there += ", and others without a name here: deleted, or DESCRIBE on them is missing"
    if where:
        said = f"there is no topic {topic!r} {where}, or DESCRIBE on it is missing"
        return f"{said}{meant(topic, names)}"
    return f"share group {group!r} has no state of topic {topic!r}{there}{meant(topic, names)}"


def list_names(names: Sequence[str], most: int = _NAMED) -> str:
    """Return the first names, and how many more there are; they can be anything.

    What would act on a terminal, or could be read as several names, is escaped.
    """
    shown = ", ".join(name if name.isprintable() else repr(name)[1:-1] for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def unknown_name(name: str, known: Iterable[str], where: str) -> str:
    """Say that a module or an object has no such name, and which one may have been meant."""
    offered = [one for one in known if name.startswith("_") or not one.startswith("_")]
    return f"{where} has no attribute {name!r}{meant(name, offered)}"


def meant(given: object, known: Sequence[str]) -> str:
    """Ask whether a known name was meant that is near to the given one; empty if none is."""
    from difflib import get_close_matches

    near = get_close_matches(str(given), known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
