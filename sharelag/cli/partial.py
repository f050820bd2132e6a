"""Answers of the state partitions that could be read, while others are silent; they say so.

So do answers of records of which too many could not be decoded: those may belong to anything.

Only tables with a row for each share partition can be answered in part: all records of a share
partition are in one state partition, so its row is as true as ever. Sums, causes, rules, reports
and exports would be wrong without saying so, and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from sharelag.cli.output import plain, print_rows, write
from sharelag.cli.telling import tell
from sharelag.errors import NoLeaderError
from sharelag.inputs import Input
from sharelag.tables.words import in_runs

T = TypeVar("T")

#: How a command ends whose answer is partial; see `sharelag.cli.output.exit_code`.
PARTIAL = 3


def whole_or_partial(source: Input, ask: Callable[[Any], T]) -> tuple[T, Any]:
    """Ask an input; if some state partitions stay silent, ask again without them.

    Returns the answer, and the input that it is of; see `silent_in`. It is a `NoLeaderError` if no
    state partition could be read, or another topic is silent.
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


def write_lacking(
    rows: Any,
    output: str,
    columns: Mapping[str, str] | None,
    lacks: Sequence[str],
    repeated: int = 0,
    source: Any = None,
) -> None:
    """Print rows, each with what the answer lacks and repeats; people read that below them.

    Rows are as for `print_rows`, ``lacks`` are sentences, ``repeated`` counts records that repeat
    another one and were left out, and ``source`` is the input, where it may have been read in part;
    see `silent_in`.
    """
    silent, rows = silent_in(source), plain(rows)
    mark: dict[str, Any] = {"complete": False} if silent or lacks else {}
    if silent:
        mark["unread_state_partitions"] = silent
    if repeated:  # of formats with columns for people this is in a note alone
        mark["repeated_records"] = repeated
    print_rows((row | mark for row in rows) if mark else rows, output, columns)
    write(below_table(source, output, lacks))


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
    """Refuse a sum where something is missing that belongs to it."""
    if lacks:
        raise NoLeaderError(
            f"the sum lacks {' and '.join(lacks)}: give all records of the state topic, or leave "
            "out --by"
        )


def note_partial(
    source: Any, output: str, lacks: Sequence[str], missing: frozenset[str] = frozenset()
) -> int | None:
    """Print on standard error what could not be read; return the exit code, None: it is whole.

    For people `below_table` has said already what else the answer ``lacks``. ``missing`` are groups
    that were chosen, and that no partition has which could be read.
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
