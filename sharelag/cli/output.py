"""Common steps of commands: choose the engine, show progress, print rows and notes."""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import textwrap
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from threading import Event, Thread
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

import click

from sharelag.cli.options import Call, choice_of, moment_of, source_of
from sharelag.errors import (
    InputError,
    NoLeaderError,
    ShareLagError,
    first_line,
    is_of,
    not_found,
    raised_in_worker,
)
from sharelag.model import iso
from sharelag.tables.level import can_redraw
from sharelag.tables.words import pluralize, terminal

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from sharelag.whatif.compare import Progress


def start(engine: str, source: Any) -> str:
    """Choose the engine; for the local one, skip imports that it does not need."""
    from sharelag.engine.engines import choose

    chosen = choose(engine, source)
    if chosen == "local":
        start_local()
    return chosen


def start_local() -> None:
    """Skip imports that the local engine does not need."""
    # pyarrow imports pandas with its first array: a third of a quick command's CPU time (row I7 of
    # the benchmarks), although only Spark needs it. numba imports scipy and cffi for functions that
    # no kernel calls, a fifth of the CPU time for compiling kernels, and yaml for a settings file.
    without = Without({"pandas": None} | dict.fromkeys(("scipy", "cffi", "yaml"), "numba"))
    sys.meta_path.insert(0, without)
    click.get_current_context().call_on_close(lambda: sys.meta_path.remove(without))


class Without:
    """An import hook that hides optional packages from packages that import them eagerly.

    ``hidden`` maps each package to the one that must not find it; None: any.
    """

    def __init__(self, hidden: Mapping[str, str | None]) -> None:
        self._hidden = hidden

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raise for a hidden package; leave others to the other finders."""
        if fullname not in self._hidden:
            return
        if self._hidden[fullname] in (None, _importer().partition(".")[0]):
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


class Later:
    """An import hook that loads packages on first use instead of on import.

    The Kafka client imports asyncio for another kind of client: a twentieth of `sharelag lag`.
    """

    #: Packages to load late, with the package that imports them eagerly.
    _LATER: ClassVar[dict[str, str]] = {"asyncio": "confluent_kafka"}

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        """Find a late package if the package that does not use it imports it."""
        if fullname not in self._LATER:
            return None
        if self._LATER[fullname] != _importer().partition(".")[0]:
            return None
        spec = PathFinder.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


class NoDocstrings(ModuleType):
    """Any parser of docstrings, which finds nothing.

    pyarrow parses a hundred docstrings while it is imported: a twentieth of `sharelag lag`.
    """

    def __getattr__(self, name: str) -> Callable[..., Mapping[str, tuple[()]]]:
        """Return a class of parsers, but nothing that modules have themselves, such as a file."""
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *_: defaultdict(tuple)


def _importer() -> str:
    """Return the name of the module that is importing something."""
    frame: FrameType | None = sys._getframe(2)
    while frame and frame.f_globals.get("__name__", "").startswith("importlib."):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", "")) if frame else ""


def write(lines: Iterable[str], output: str = "human") -> None:
    """Print lines to standard output, JSON and YAML in UTF-8 whatever the locale."""
    if output in ("json", "yaml"):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")  # type: ignore[union-attr]
    # click.echo would remove escape characters from the data.
    try:
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe; without this, Python would report it again when it closes
        # the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        leave(click.get_current_context().ensure_object(Call).status)


def print_rows(
    rows: Any,
    output: str,
    columns: Mapping[str, str] | None = None,
    for_people: Callable[[Any], Any] | None = None,
    best: Collection[tuple[int, str]] = (),
) -> None:
    """Print a table of Arrow or plain rows; ``for_people`` converts rows for human output.

    On a terminal the cells in ``best``, by row number and column, are bold.
    """
    from sharelag.tables.lines import lines

    rows = plain(rows)
    if output == "human" and for_people is not None:
        rows = map(for_people, rows)
    write(lines(rows, output, columns, best), output)


def plain(rows: Any) -> Any:
    """Convert an Arrow table to plain rows; return other rows unchanged."""
    from sharelag.tables.lines import plain_rows

    return plain_rows(rows) if hasattr(rows, "schema") else rows


def require_rows(
    choice: Any, moment: Any, groups: set[str], source: Any, rejected: int, needed: bool = False
) -> None:
    """Report chosen groups and topics that were not found; without current rows, raise.

    With ``needed``, raise without rows of an earlier moment, too.
    """
    from sharelag.engine import engines

    missing = sorted(choice.groups - groups)
    is_read = missing or (rejected and not groups)
    known = engines.group_names(source, choice.generation) if is_read else []
    kinds = engines.other_groups(source) if missing else {}
    problems = [engines.without_group(name, choice, known, kinds=kinds) for name in missing]
    is_empty = not (groups or known or kinds) and engines.choose("auto", source) == "local"
    if is_empty and rejected:  # regardless of the choice
        raise InputError(engines.only_rejects(rejected, choice.generation))
    if not groups and (needed or moment is None):
        if not problems and choice.topics and moment is None:
            raise InputError(not_found(choice.topic_names()))
        if is_empty or not problems:
            problems.append(engines.without_records(source, moment))
        raise InputError("; ".join(problems))
    tell(*problems)


def groups_in(table: Any) -> set[str]:
    """Return the groups in a table."""
    return set(table.column("group_id").unique().to_pylist())


def note(unknown: Iterable[str]) -> None:
    """Print sentences about unknown values on standard error."""
    tell(*(f"not known: {sentence}" for sentence in unknown))


def summarize(answer: Any, source: Any, as_of: str | None, unit: str) -> None:
    """Print on standard error the number of rows of an answer, their lag, and the source.

    ``as_of`` is the moment as given; ``unit`` is what a row is; without it, rows are not counted.
    """
    import pyarrow.compute as pc

    from sharelag.tables.words import lag_sum

    table, notes = answer.table, []

    def of_column(name: str, total: Any) -> Any:
        return total(table.column(name)).as_py() if name in table.column_names else None

    if unit and (table.num_rows or not answer.unknown):  # do not report unknown rows as 0
        count = table.num_rows
        if unit == "share partition" and "record_partition" in table.column_names:  # has states
            from sharelag.workbench.base import count_share_partitions

            count = count_share_partitions(table)
        notes.append(pluralize(count, unit))
        # Rows of several moments have no meaningful sum.
        if "lag" in table.column_names and table.num_rows and unit != "row":
            unknown = of_column("unknown_lags", pc.sum)
            unknown = table.column("lag").null_count if unknown is None else unknown
            notes.append(f"lag {lag_sum(of_column('lag', pc.sum), unknown)}")
    noted = getattr(answer, "as_of", None) or of_column("as_of", pc.max)
    if as_of or noted:
        notes.append(f"as of {as_of or iso(noted)}")
    tell(", ".join([*notes, source_words(source, answer.engine)]))
    if refused := of_column("rejected_records", pc.sum):
        records = pluralize(refused, "record")
        tell(f"{records} could not be replayed; -o json shows of which share partitions")


def source_words(source: Any, engine: str) -> str:
    """Return the source of an answer, in words that fit a line of 80 columns.

    A capture has the name that the user gave: its cluster id and moment would only repeat "as of".
    The local engine is usual, so only Spark is mentioned.
    """
    from sharelag.workbench.next_steps import input_name, input_options

    where = input_name(source) if input_options(source).startswith("--capture") else ""
    return f"{terminal(where) or source.describe()}{', on Spark' * (engine == 'spark')}"


def note_records(read: Any, lacks: Iterable[str]) -> None:
    """Print how many records were left out as repeated, or could not be decoded.

    Records that the answer reports as lacking are not counted.
    """
    from sharelag.tables.gaps import of_rejected, of_repeated

    tell(*of_repeated(read.repeated))
    generation = click.get_current_context().params.get("generation")
    note(one for one in of_rejected(read.rejected, generation) if one not in lacks)


def read_by(evidence: Any, source: Any, past: bool = False, lacks: Iterable[str] = ()) -> None:
    """Print the same for gathered evidence, and unknown values; ``lacks`` is printed elsewhere."""
    from sharelag.engine.engines import past_by_records
    from sharelag.tables.gaps import of_repeated

    tell(f"as of {iso(evidence.as_of)}, {source_words(source, evidence.engine)}")
    tell(*of_repeated(evidence.repeated), *(past_by_records(source, evidence.lag) if past else ()))
    generation = click.get_current_context().params.get("generation")
    note(one for one in evidence.unknown(past, generation) if one not in lacks)


@contextmanager
def reading_of(
    engine: str,
    over: timedelta,
    options: dict[str, Any],
    is_spared: bool = True,
    needed: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Open a reading of the chosen groups and topics; yield it with its input.

    With ``is_spared``, a local engine skips unneeded imports; see `start`. With ``needed``, a
    moment without state is an error.
    """
    from sharelag.engine import engines

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    with reading_bar(source) as read:
        engine = start(engine, source) if is_spared else engine
        with engines.read(read, engine, moment, choice, over) as reading:
            groups = groups_in(reading.evidence.lag)
            rejected = reading.record_counts.rejected
            require_rows(choice, moment, groups, source, rejected, needed)
            if not groups:
                tell(engines.without_records(source, moment))
            yield reading, source


#: Remedies for errors of the machine rather than of sharelag.
_REMEDIES = {
    errno.ENOSPC: "free some space there, or write elsewhere",
    errno.EDQUOT: "free some space there, or write elsewhere",
    errno.EACCES: "get permission for it, or choose another place",
    errno.EROFS: "write elsewhere",
    errno.EMFILE: "let a process open more files (ulimit -n)",
    errno.EIO: "the disk failed to read or write: check the system log",
}


def one_line(error: Exception) -> str:
    """Return an error as one line for people."""
    if isinstance(error, ShareLagError):
        return str(error)
    if ours := raised_in_worker(error):
        return str(ours)
    # Spark reads some files itself, and rejects values that no cluster has.
    if unread := re.search(r"reading file (?:file:/*(?=/))?(\S+\.parquet)", str(error)):
        return (
            f"{unread[1]} is damaged, or has values that no cluster has: restore it from a copy, "
            "capture it again, or read what is left with --engine local"
        )
    if isinstance(error, OSError) and error.errno in _REMEDIES:
        where = f" ({error.filename})" if error.filename else ""
        return f"{error.strerror}{where}: {_REMEDIES[error.errno]}"
    if isinstance(error, UnicodeEncodeError) and "surrogates" in str(error):
        return (
            "Python reads arguments and names of files here as "
            f"{sys.getfilesystemencoding()}, which one of them is not: set PYTHONUTF8=1"
        )
    return (
        f"unexpected {type(error).__name__}: {first_line(error)} (-v shows the traceback; please "
        "report it)"
    )


def exit_code(error: Exception) -> int:
    """Return the exit code: 3 if only a part of the cluster could be read, otherwise 1.

    `check` uses 3 for unknown, too.
    """
    return 3 if is_of(NoLeaderError, error) else 1


def leave(status: int) -> None:
    """End the process immediately."""
    if "pyspark" not in sys.modules:
        # Python would unload modules one by one, a sixth of a quick command's CPU time (row I6 of
        # the benchmarks), and wait for the threads of the Kafka client.
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


#: Seconds after which a progress line appears; and where it would stay, as in a log.
_QUIET, _UNHEARD = 2.0, 15.0
#: Return to the beginning of the line, and erase its rest.
_LINE, _REST = "\r", "\x1b[K"
#: Fewer records are read before anybody could look at a bar.
_SHOWN_FROM = 200_000


@contextmanager
def simulation_bar() -> Iterator[Progress]:
    """Show how many simulations are done; yield a callback for the numbers of done and all runs.

    Where no line can be replaced, such as in a pipe, lines say so when they take long.
    """
    if not can_redraw():
        runs = [0, 0]

        def note(done: int, all_: int) -> None:
            runs[:] = done, all_

        with _beside(_tell_runs, runs):
            yield note
        return
    with _bar("simulating") as bar:
        task = bar.add_task("", total=None)
        yield lambda done, runs: bar.update(task, completed=done, total=runs)


@contextmanager
def reading_bar(source: Any) -> Iterator[Any]:
    """Yield the input, with a progress bar while many of its records are read in this process.

    For few records, a line shows after some seconds how long the answer is taking: brokers may be
    slow, or Spark busy.
    """
    if not can_redraw():
        yield source
    elif source.size() < _SHOWN_FROM:
        with _beside(_show_seconds, "working on the answer"):
            yield source
    else:
        with _bar("reading records") as bar:
            yield _Counting(source, bar, bar.add_task("", total=source.size()))


@contextmanager
def _beside(show: Callable[[Any, Event], None], what: Any) -> Iterator[None]:
    """Call a function in a separate thread, with an event that is set at the end."""
    done = Event()
    telling = Thread(target=show, args=(what, done), daemon=True)
    telling.start()
    try:
        yield
    finally:
        done.set()
        telling.join()


def _tell_runs(runs: list[int], done: Event) -> None:
    """Say how many runs are done: after some seconds, and each time after twice as many."""
    started, wait = time.monotonic(), _UNHEARD
    while not done.wait(wait):
        wait, most = time.monotonic() - started, max(runs)
        count = f": {runs[0]:,} of {pluralize(most, 'run')}" if most else ""
        tell(f"simulating for {wait:.0f} s{count}")


def _show_seconds(words: str, done: Event) -> None:
    """Show the elapsed time after some seconds, and remove the line at the end."""
    from sharelag.inputs.spark.sessions import is_shown

    started, is_drawn = time.monotonic(), False
    if done.wait(_QUIET):
        return
    while not done.is_set():
        if not is_shown():  # otherwise Spark's own line shows the reason
            seconds = time.monotonic() - started
            sys.stderr.write(f"{_LINE}{words}, {seconds:.0f} s{_REST}")
            sys.stderr.flush()
            is_drawn = True
        done.wait(1)
    if is_drawn:
        sys.stderr.write(f"{_LINE}{_REST}")
        sys.stderr.flush()


def _bar(what: str) -> Bar:
    from rich import progress
    from rich.console import Console

    columns = progress.TextColumn(what), progress.BarColumn(), progress.MofNCompleteColumn()
    ends = progress.TimeRemainingColumn()
    return progress.Progress(*columns, ends, console=Console(stderr=True), transient=True)


class _Counting:
    """An input that reports the number of records read to a progress bar."""

    def __init__(self, source: Any, bar: Any, task: Any) -> None:
        self._source, self._bar, self._task = source, bar, task

    def batches(self, topic: str) -> Iterator[Any]:
        for batch in self._source.batches(topic):
            yield batch
            self._bar.advance(self._task, batch.num_rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)


#: A Kafka command at the end of a sentence, to be copied.
_COMMAND = re.compile(r"(?<=: )kafka-[a-z-]+\.sh --bootstrap-server .+\Z")


def tell(*sentences: str) -> None:
    """Print sentences about an answer on standard error, wrapped on a terminal.

    A command at the end of a sentence stays on one line, because a shell would run each line of a
    copied text. Terminal control characters are escaped.
    """
    for words in sentences:
        _tell(f"sharelag: {terminal(words)}")


def _tell(message: str) -> None:
    if sys.stderr.isatty():
        command = _COMMAND.search(message)
        # Do not break names and times, which may be copied; a file or a pipe gets one line.
        lines = textwrap.wrap(
            message[: command.start()] if command else message,
            _width(),
            subsequent_indent="  ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        message = "\n".join([*lines, *([command[0]] if command else [])])
    click.echo(message, err=True)


def _width() -> int:
    """Return the width of the terminal of standard error; standard output may be a file."""
    if not os.environ.get("COLUMNS"):
        try:
            return os.get_terminal_size(sys.stderr.fileno()).columns or 80
        except OSError:  # a pseudo-terminal of Python, such as a test's
            return 80
    return shutil.get_terminal_size().columns
