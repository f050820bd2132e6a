"""Ask a question of the workbench and print its answer: the main step of most commands.

If state partitions do not answer, or many records cannot be decoded, an answer is marked as
partial. Only tables with one row per share partition can be partial: all records of a share
partition are in one state partition, so its row is as valid as before. Sums, causes, rules, reports
and exports would be silently wrong, and are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from sharelag.cli import options as option
from sharelag.cli.output import (
    groups_in,
    plain,
    print_rows,
    reading_bar,
    require_rows,
    start,
    summarize,
    tell,
    write,
)
from sharelag.errors import NoLeaderError
from sharelag.inputs import Input
from sharelag.tables.words import in_runs

if TYPE_CHECKING:
    from sharelag.replay.moment import Choice
    from sharelag.workbench.base import Opened
    from sharelag.workbench.result import Result

T = TypeVar("T")

#: Exit code of a partial answer; see `sharelag.cli.output.exit_code`.
PARTIAL = 3


#: Options of commands without a choice of groups and topics.
_NO_CHOICE: dict[str, Any] = {"group": (), "all_groups": False, "topic": (), "as_of": None}


@dataclass(frozen=True)
class Answered:
    """The answer to a question, its input, and the chosen groups and topics."""

    result: Result
    source: Any
    groups: set[str]
    choice: Choice
    as_of: str | None

    def write(self, output: str, rows: Any, columns: Mapping[str, str] | None) -> None:
        """Print rows on standard output and, for people, what the table lacks below it."""
        found = self.result
        write_lacking(rows, output, columns, found.lacks, found.repeated, self.source)

    def note(self, output: str, unit: str = "") -> int | None:
        """Print the source of the answer and unknown values on standard error.

        Return the exit code, None for a complete answer.
        """
        found = self.result
        summarize(found, self.source, self.as_of, unit)
        unknown = (f"not known: {one}" for one in found.unknown if one not in found.lacks)
        tell(*found.notes, *unknown)
        return note_partial(self.source, output, found.lacks, self.choice.groups - self.groups)


def ask(name: str, options: dict[str, Any], **given: Any) -> Answered:
    """Ask one of `sharelag.workbench.ask.QUESTIONS` of the input that options name.

    ``options`` are those for an input, a choice and an engine; ``given`` are the question's own.
    Incomplete sums are a `NoLeaderError`.
    """
    from sharelag.workbench.ask import find_question

    asked, is_chosen = find_question(name), "all_groups" in options
    options = _NO_CHOICE | options
    choice, source = option.choice_of(options), option.source_of(options)

    def answer(source: Any) -> tuple[Result, set[str]]:
        with open_bench(source, options) as bench:
            result = bench.ask(name, **given)
            if not is_chosen:
                return result, set()
            # Without changes there are no events, but the group exists.
            there = result.table if asked.stands_alone else asked.groups_in(bench.reading)
            return result, groups_in(there)

    sums = asked.sums(given)
    if asked.stands_alone and not sums:
        (result, groups), source = whole_or_partial(source, answer)
    else:
        result, groups = answer(source)
    if sums and result.lacks:  # an incomplete sum would be wrong
        raise NoLeaderError(
            f"the sum lacks {' and '.join(result.lacks)}: give all records of the state topic, or "
            "leave out --by"
        )
    if is_chosen and not silent_partitions(source):
        require_rows(choice, option.moment_of(options), groups, source, result.rejected)
    return Answered(result, source, groups, choice, options["as_of"])


def print_answer(
    name: str, output: str, options: dict[str, Any], *, unit: str = "share partition", **given: Any
) -> int | None:
    """Ask a question as `ask` does, and print its rows and its sentences.

    For people, rows are sorted by the answer's own column, or by another if options have one;
    ``unit`` is what a row is. Rows of several moments keep their order. Return the exit code, None
    for a complete answer.
    """
    answered = ask(name, options, **given)
    rows = plain(answered.result.table)
    if "sort" in options:
        is_ordered = output == "human" and unit != "row"
        rows = option.in_order(rows, options, answered.result.order if is_ordered else None)
    answered.write(output, rows, answered.result.columns)
    return answered.note(output, unit)


@contextmanager
def open_bench(source: Any, options: dict[str, Any]) -> Iterator[Opened]:
    """Open a workbench of an input, with a progress bar while its records are read."""
    engine = start(options["engine"], source)  # before the imports that it skips
    from sharelag.engine import OVER
    from sharelag.workbench.base import Opened

    with reading_bar(source) as read:
        bench = Opened(
            read,
            option.moment_of(options),
            option.choice_of(options),
            engine,
            options.get("over", OVER),
            requests=option.requests_of(options) if "requests" in options else None,
            metrics=option.metrics_in(options) if "broker_metrics" in options else None,
            asks_once=True,
        )
        with bench:
            yield bench


def whole_or_partial(source: Input, ask: Callable[[Any], T]) -> tuple[T, Any]:
    """Ask an input; if some state partitions do not answer, ask again without them.

    Return the answer and its input; see `silent_partitions`. It is a `NoLeaderError` if no state
    partition could be read, or another topic does not answer.
    """
    while True:
        try:
            return ask(source), source
        except NoLeaderError as error:
            without = getattr(source, "without", None)  # only clusters have silent leaders
            rest = without(error) if without else None
            if rest is None:
                raise
            source = rest


def silent_partitions(source: Any) -> list[int]:
    """Return the state partitions that an answer lacks, sorted; none if it is complete."""
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
    """Print rows with what the answer lacks and repeats, for people below the table.

    Rows are as for `print_rows`, ``lacks`` are sentences, ``repeated`` is the number of duplicate
    records left out, and ``source`` is the input, if it may have been read in part; see
    `silent_partitions`.
    """
    silent, rows = silent_partitions(source), plain(rows)
    mark: dict[str, Any] = {"complete": False} if silent or lacks else {}
    if mark:
        option.Call.will_end(PARTIAL)
    if silent:
        mark["unread_state_partitions"] = silent
    if repeated:  # formats with human columns have this only in a note
        mark["repeated_records"] = repeated
    print_rows((row | mark for row in rows) if mark else rows, output, columns)
    write(footer_lines(source, output, lacks))


def footer_lines(source: Any, output: str, lacks: Sequence[str] = ()) -> list[str]:
    """Return the lines to print below a table for people, if it lacks something."""
    if output != "human":
        return []
    lines = [f"INCOMPLETE: not known: {one}" for one in lacks]
    if silent := silent_partitions(source):
        where = in_runs(silent, "state partition")
        lines.append(f"INCOMPLETE: share partitions whose state is in {where} are missing")
    return lines


def note_partial(
    source: Any, output: str, lacks: Sequence[str], missing: frozenset[str] = frozenset()
) -> int | None:
    """Print what could not be read on standard error; return the exit code, None if complete.

    For people, `footer_lines` has already printed what else the answer ``lacks``. ``missing`` are
    chosen groups that no readable partition has.
    """
    unread: NoLeaderError | None = getattr(source, "unread", None)
    for sentence in () if output == "human" else lacks:
        tell(f"this answer is not complete: it lacks {sentence}")
    if unread is None:
        return PARTIAL if lacks else None
    for group in sorted(missing):
        tell(f"the state of group {group!r} may be in the state partitions that were not read")
    tell(f"this answer is not complete: {unread}")
    return PARTIAL
