"""Answers of the state partitions that could be read, while others are silent; they say so.

So do answers of records of which too many could not be decoded: those may belong to anything.

Only tables with a row for each share partition can be answered in part: all records of a share
partition are in one state partition, so its row is as true as ever. Sums, causes, rules, reports
and exports would be wrong without saying so, and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from sharelag.cli.output import write
from sharelag.cli.telling import tell
from sharelag.errors import NoLeaderError
from sharelag.sources.inputs import Input
from sharelag.tables.words import in_runs, terminal

if TYPE_CHECKING:
    from sharelag.workbench.result import Result

T = TypeVar("T")

#: How a command ends whose answer is partial; see `sharelag.cli.output.exit_code`.
PARTIAL = 3


def whole_or_partial(source: Input, ask: Callable[[Any], T]) -> tuple[T, Any]:
    """Ask an input; if some state partitions stay silent, ask again without them.

    Parameters
    ----------
    source : Input
    ask : callable
        Takes an input.

    Returns
    -------
    tuple
        The answer, and the input that it is of; see `silent_in`.

    Raises
    ------
    NoLeaderError
        No state partition could be read, or another topic is silent.
    """
    while True:
        try:
            return ask(source), source
        except NoLeaderError as error:
            without = getattr(source, "without", None)  # a cluster alone has silent leaders
            rest = without(error) if without else None
            if rest is None:
                raise
            source = rest


def silent_in(source: Any) -> list[int]:
    """Return the state partitions that an answer lacks, sorted; none of a whole one."""
    unread: NoLeaderError | None = getattr(source, "unread", None)
    return sorted(unread.silent) if unread else []


def write_rows(
    rows: Iterable[dict[str, Any]],
    output: str,
    columns: Mapping[str, str] | None,
    answer: Any,
    source: Any = None,
) -> None:
    """Print rows, each with what the answer lacks and repeats; people read that below them.

    Parameters
    ----------
    rows : iterable of dict
    output : str
        The format.
    columns : mapping of str to str, optional
        Heading to column, as for `sharelag.tables.lines.lines`.
    answer : Answer or Evidence
        Has ``lacks`` and ``repeated``.
    source : Input, optional
        The input, where it may have been read in part; see `silent_in`.
    """
    write_lacking(rows, output, columns, answer.lacks, answer.repeated, source)


def write_lacking(
    rows: Iterable[dict[str, Any]],
    output: str,
    columns: Mapping[str, str] | None,
    lacks: Sequence[str],
    repeated: int = 0,
    source: Any = None,
) -> None:
    """Print rows as `write_rows` does, with what the answer lacks and repeats given apart."""
    from sharelag.tables.lines import lines

    said = with_repeats(marked(rows, source, lacks), repeated)
    write(lines(said, output, columns))
    write(below_table(source, output, lacks))


def marked(
    rows: Iterable[dict[str, Any]], source: Any, lacks: Sequence[str] = ()
) -> Iterable[dict[str, Any]]:
    """Return rows that say that something is missing, each of them, if something is."""
    silent = silent_in(source)
    if not silent and not lacks:
        return rows
    mark = {"complete": False} | ({"unread_state_partitions": silent} if silent else {})
    return (row | mark for row in rows)


def with_repeats(rows: Iterable[dict[str, Any]], repeated: int) -> Iterable[dict[str, Any]]:
    """Return rows that say, each of them, how many records of the input were left out as repeats.

    Of formats with columns for people this is in a note alone.
    """
    return (row | {"repeated_records": repeated} for row in rows) if repeated else rows


def below_table(source: Any, output: str, lacks: Sequence[str] = ()) -> list[str]:
    """Return the lines that follow a table for people, if something is missing in it."""
    if output != "human":
        return []
    lines = [f"INCOMPLETE: not known: {one}" for one in lacks]
    if silent := silent_in(source):
        where = in_runs(silent, "state partition")
        lines.append(f"INCOMPLETE: share partitions whose state is in {where} are missing")
    return lines


def require_whole(lacks: Sequence[str]) -> None:
    """Refuse a sum where something is missing that belongs to it.

    Raises
    ------
    NoLeaderError
        Something is.
    """
    if lacks:
        raise NoLeaderError(
            f"the sum lacks {' and '.join(lacks)}: give all records of the state topic, or leave "
            "out --by"
        )


def note_partial(
    source: Any, output: str, lacks: Sequence[str], missing: frozenset[str] = frozenset()
) -> int | None:
    """Print on standard error what could not be read; return the exit code, None: it is whole.

    Parameters
    ----------
    source : Input
    output : str
        The format; for people `below_table` has said already what else is missing.
    lacks : sequence of str
        What else is missing.
    missing : frozenset of str
        Groups that were chosen, and that no partition has which could be read.
    """
    unread: NoLeaderError | None = getattr(source, "unread", None)
    for sentence in () if output == "human" else lacks:
        tell(f"this answer is not complete: it lacks {sentence}")
    if unread is None:
        return PARTIAL if lacks else None
    for group in sorted(missing):
        tell(f"what group {group!r} has may be in the state partitions that were not read")
    tell(f"this answer is not complete: {unread}")
    return PARTIAL


def note_result(result: Result, output: str, lacks: Sequence[str]) -> int | None:
    """Print the notes of a result and what is not known; the exit code is that of `note_partial`.

    What the answer lacks has been said below its table, and is not said again.
    """
    unknown = (f"not known: {one}" for one in result.unknown if one not in lacks)
    for note in (*result.notes, *unknown):
        tell(terminal(note))
    return note_partial(None, output, lacks)
