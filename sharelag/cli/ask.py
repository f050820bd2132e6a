"""Ask a question of the workbench and print its answer: what most commands do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sharelag.cli.options import Order, choice_of, metrics_in, moment_of, requests_of, source_of
from sharelag.cli.output import groups_in, plain, require_rows, start, summarize
from sharelag.cli.partial import (
    note_partial,
    require_whole,
    silent_in,
    whole_or_partial,
    write_lacking,
)
from sharelag.cli.progress_bar import reading_bar
from sharelag.cli.telling import tell

if TYPE_CHECKING:
    from sharelag.replay.moment import Choice
    from sharelag.workbench.opened import Opened
    from sharelag.workbench.result import Result


#: Options of commands that take no choice.
_NO_CHOICE: dict[str, Any] = {"group": (), "all_groups": False, "topic": (), "as_of": None}


@dataclass(frozen=True)
class Answered:
    """The answer to a question, the input that it is of, and what was chosen of that."""

    result: Result
    source: Any
    groups: set[str]
    choice: Choice
    as_of: str | None

    def write(self, output: str, rows: Any, columns: Mapping[str, str] | None) -> None:
        """Print rows on standard output, and below a table for people what is missing in it."""
        found = self.result
        write_lacking(rows, output, columns, found.lacks, found.repeated, self.source)

    def note(self, output: str, unit: str = "") -> int | None:
        """Print on standard error where the answer is from and what is unknown.

        Returns the exit code, None where the answer is whole.
        """
        found = self.result
        summarize(found, self.source, self.as_of, unit)
        unknown = (f"not known: {one}" for one in found.unknown if one not in found.lacks)
        tell(*found.notes, *unknown)
        return note_partial(self.source, output, found.lacks, self.choice.groups - self.groups)


def ask(name: str, options: dict[str, Any], **given: Any) -> Answered:
    """Ask one of `sharelag.workbench.ask.QUESTIONS` of what a command's options name.

    ``options`` are those for an input, a choice and an engine; ``given`` the question's own. Sums
    in which something is missing are a `NoLeaderError`.
    """
    from sharelag.workbench.ask import find_question

    asked, is_chosen = find_question(name), "all_groups" in options
    options = _NO_CHOICE | options
    choice, source = choice_of(options), source_of(options)

    def answer(source: Any) -> tuple[Result, set[str]]:
        with open_bench(source, options) as bench:
            result = bench.ask(name, **given)
            if not is_chosen:
                return result, set()
            # Where nothing happened there are no events, and yet there is the group.
            there = result.table if asked.stands_alone else bench.reading.table("lag")
            return result, groups_in(there)

    sums = asked.sums(given)
    if asked.stands_alone and not sums:
        (result, groups), source = whole_or_partial(source, answer)
    else:
        result, groups = answer(source)
    if sums:  # a sum without some of its parts is another number
        require_whole(result.lacks)
    if is_chosen and not silent_in(source):
        require_rows(choice, moment_of(options), groups, source, result.rejected)
    return Answered(result, source, groups, choice, options["as_of"])


def print_answer(
    name: str,
    output: str,
    options: dict[str, Any],
    *,
    order: Order | None = None,
    by_default: bool = True,
    unit: str = "share partition",
    **given: Any,
) -> int | None:
    """Ask a question as `ask` does, and print its rows and its sentences.

    For people the rows are in the order of the answer's own column, unless another was chosen or
    not ``by_default``; ``unit`` is what a row is. Returns the exit code, None where the answer is
    whole.
    """
    answered = ask(name, options, **given)
    rows = plain(answered.result.table)
    if order is not None:
        rows = order.of(rows, answered.result.order if output == "human" and by_default else None)
    answered.write(output, rows, answered.result.columns)
    return answered.note(output, unit)


@contextmanager
def open_bench(source: Any, options: dict[str, Any]) -> Iterator[Opened]:
    """Open a workbench of an input, with a bar while its records are read."""
    engine = start(options["engine"], source)  # before anything is imported that it spares
    from sharelag.engine.tables import OVER
    from sharelag.workbench.opened import Opened

    with reading_bar(source) as read:
        bench = Opened(
            read,
            moment_of(options),
            choice_of(options),
            engine,
            options.get("over", OVER),
            requests=requests_of(options) if "requests" in options else None,
            metrics=metrics_in(options) if "broker_metrics" in options else None,
            asks_once=True,
        )
        with bench:
            yield bench
