"""The exceptions that sharelag raises; each message says what happened and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence


class ShareLagError(Exception):
    """The base class: the command line prints it without a traceback and exits with 1 or 3."""

    def _render_traceback_(self) -> list[str]:
        """Return the text that IPython shows instead of a traceback: the message."""
        return [f"{type(self).__name__}: {self}"]


# ---- input and configuration ---------------------------------------------------------------------


class InputError(ShareLagError):
    """A file, a folder, a table or an option cannot be used as it is."""


class ConfigError(ShareLagError):
    """A client setting is unknown, contradictory or in a form that the client cannot read."""


class SetupError(ShareLagError):
    """Something on this machine is missing or too old: Java, Spark, a package."""


# ---- answers of the cluster ----------------------------------------------------------------------


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

    #: The topic with partitions that did not answer, and their numbers, if known.
    topic: str | None = None
    silent: frozenset[int] = frozenset()
    #: First and end offset of the partitions that did answer, where offsets were requested.
    answered: Mapping[int, tuple[int, int]] | None = None


class DataLossError(ClusterError):
    """Requested records have been deleted from the topic."""


# ---- content of records --------------------------------------------------------------------------


class ReplayError(ShareLagError):
    """Kafka's own coordinator would fail to load these records (raised only by ``strict=True``)."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the name of its type without one."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def are_away(error: BaseException) -> bool:
    """Return whether the only problem is that brokers do not answer, which may be temporary."""
    return is_of(NoLeaderError, error) or is_of(BrokerUnreachableError, error)


def raised_in_worker(error: BaseException) -> ShareLagError | None:
    """Parse the `ShareLagError` that a Spark task raised from the text of Spark's own error.

    Spark wraps it into pages of text. If a worker lacks this package, or Spark itself raises the
    error for a row, its text begins with the class name alone.
    """
    pairs = re.findall(r"(?:sharelag\.errors\.|\b(?=InputError|SetupError))(\w+): (.+)", str(error))
    ours = [kind(text) for name, text in pairs if (kind := globals().get(name)) is not None]
    return ours[-1] if ours else None


def is_of(kind: type[ShareLagError], error: BaseException) -> bool:
    """Return whether an error has a type, or is Spark's and wraps one that a worker raised."""
    return isinstance(error, kind) or f"errors.{kind.__name__}: " in str(error)


#: Maximum number of groups that a message names.
_NAMED = 10


#: Advice if no share group has state.
NO_STATE = (
    "no share group has state: none has consumed anything yet, or its state was deleted with its "
    "topics or the group"
)


def unknown_group(
    group: str, known: Iterable[str], where: str = "", kinds: Mapping[str, str] | None = None
) -> str:
    """Return the message for a share group without state.

    Parameters
    ----------
    group : str
        The given name.
    known : iterable of str
        The groups with state; empty if unknown.
    where : str
        Where it was searched, such as ``"in capture of c1 at 2026-11-21T03:10:00Z"``.
    kinds : mapping of str to str, optional
        Types of groups that are not share groups, as far as known.
    """
    if kinds and group in kinds:
        return (
            f"group {group!r} is of type {kinds[group]}, not Share (Kafka's share commands answer "
            "GROUP_ID_NOT_FOUND): its lag is that of kafka-consumer-groups.sh --describe"
        )
    names = sorted(set(known))
    message = f"there is no state of share group {group!r}{where and ' '}{where}"
    if not names:
        return (
            f"{message}: check the spelling, and that the group has consumed "
            "(kafka-share-groups.sh --list)"
        )
    return f"{message}: its groups are {list_names(names)}{meant(group, names)}"


#: Advice where names of topics may be hidden.
RIGHTS = ", and your right to DESCRIBE the topics"


def not_found(topics: Iterable[str]) -> str:
    """Return the sentence on selected topics, or partitions of them, without share partitions."""
    return (
        f"no share partition of {list_names(list(topics))} was found: check the names of topics "
        f"and the partitions{RIGHTS}"
    )


def unknown_column(column: object, known: Iterable[str], where: str) -> str:
    """Return the message for a missing column, with a similar name if there is one."""
    names = list(known)
    message = f"unknown column {column!r} of {where!r}: its columns are {', '.join(names)}"
    return message + meant(column, names)


def unknown_topic(topic: object, known: Iterable[str | None], group: str, where: str = "") -> str:
    """Return the message for a topic without state of a share group, with a similar name.

    ``known`` are the topics of the group or, with ``where``, those found there.
    """
    distinct = set(known)
    names = sorted(filter(None, distinct))
    there = f": its topics are {list_names(names)}" if names else ""
    if None in distinct:
        there += ", and others without a name here: deleted, or DESCRIBE on them is missing"
    if where:
        message = f"there is no topic {topic!r} {where}, or DESCRIBE on it is missing"
        return f"{message}{meant(topic, names)}"
    return f"share group {group!r} has no state of topic {topic!r}{there}{meant(topic, names)}"


def list_names(names: Sequence[str], most: int = _NAMED) -> str:
    """List the first names, and how many more there are; names are untrusted.

    Terminal control characters, and characters that separate names, are escaped.
    """
    shown = ", ".join(name if name.isprintable() else repr(name)[1:-1] for name in names[:most])
    return shown + (f" and {len(names) - most:,} more" if len(names) > most else "")


def unknown_name(name: str, known: Iterable[str], where: str) -> str:
    """Return the message for a missing name in a module or an object, with a similar name."""
    offered = [one for one in known if name.startswith("_") or not one.startswith("_")]
    return f"{where} has no attribute {name!r}{meant(name, offered)}"


def meant(given: object, known: Sequence[str]) -> str:
    """Ask whether a similar known name was meant; empty if there is none."""
    from difflib import get_close_matches

    near = get_close_matches(str(given), known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
