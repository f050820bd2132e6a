"""The command line. Thin: it reads options, calls one public function, and prints.

Results go to standard output, everything else to standard error. Exit codes: 0 fine, 1 an error with one
line that says what to do, 2 wrong usage.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import click

from sharelag.errors import InputError, ShareLagError
from sharelag.model import iso
from sharelag.options import (
    CHOICE,
    CLUSTER,
    ENGINE,
    INPUT,
    OUTPUT,
    TIMEOUT,
    VERBOSE,
    choice_of,
    config_of,
    moment_of,
    names_cluster,
    source_of,
    with_options,
)
from sharelag.version import __version__


def main() -> None:
    """Run the command line (the ``sharelag`` script)."""
    # A terminal that lacks a character of a name shows its number instead of nothing at all.
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        status = cli(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)
    except Exception as error:  # the last line of defence: one line for people, the traceback on request
        if {"-v", "--verbose"} & set(sys.argv):
            traceback.print_exc()
        click.echo(f"sharelag: {_one_line(error)}", err=True)
        sys.exit(1)
    _exit(status if isinstance(status, int) else 0)


def _exit(status: int) -> None:
    if "pyspark" not in sys.modules:
        # Python would wait a quarter of a second for the threads of the Kafka client, which the system ends at once.
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _one_line(error: Exception) -> str:
    if isinstance(error, ShareLagError):
        return str(error)
    # Spark wraps what its workers raise into pages of text; our own line is among them.
    ours = re.findall(r"sharelag\.errors\.\w+: (.+)", str(error))
    if ours:
        return str(ours[-1])
    first = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return f"unexpected {type(error).__name__}: {first} (-v shows the traceback; please report it)"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sharelag")
def cli() -> None:
    """Where is the backlog of a Kafka share group, and why is it there?"""


# ---- commands -------------------------------------------------------------------------------------------


@cli.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option("--by", type=click.Choice(["partition", "group", "topic"]), default="partition", show_default=True)
def lag(output: str, engine: str, by: str, **options: Any) -> None:
    """Share-partition lag, and what it consists of.

    LAG is Kafka's: end offset - start offset - delivery complete count, `-` where Kafka does not know it.
    UNREAD was never persisted, AVAILABLE waits for another delivery, UNKNOWN is acquired or was never
    persisted, COMPLETE is finished but not yet passed by the start offset.
    """
    from sharelag import engine as engines
    from sharelag import show

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    engine = _start(engine, source)
    answer = engines.lag(source, engine, moment, choice, None if by == "partition" else by)
    columns = show.LAG_COLUMNS if by == "partition" else show.ROLLUP_COLUMNS
    if by == "group":
        columns = {heading: name for heading, name in columns.items() if name != "topic"}
    rows = show.lag_rows(answer.table)
    _require_rows(choice, moment, rows)
    _print(show.lines(rows, output, columns))
    _summary(answer, source, options["as_of"], "share partition" if by == "partition" else by)


@cli.command()
@with_options(INPUT, CHOICE, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
def windows(output: str, engine: str, **options: Any) -> None:
    """What the share coordinator holds of each share partition: epochs, offsets, state batches.

    With -o json, yaml and csv the fields of a window are raw, as Kafka holds them: -1 is Kafka's unknown.
    """
    from sharelag import engine as engines
    from sharelag import show

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    engine = _start(engine, source)
    answer = engines.windows(source, engine, moment, choice)
    rows = show.window_rows(answer.table)
    _require_rows(choice, moment, rows)
    _print(show.lines(rows, output, show.WINDOW_COLUMNS))
    _summary(answer, source, options["as_of"], "share partition")


@cli.command()
@with_options(INPUT, CHOICE, OUTPUT, TIMEOUT, VERBOSE)
@click.option(
    "--records",
    type=click.Choice(["state", "group", "all"]),
    default="all",
    show_default=True,
    help="Those of __share_group_state, the share groups' in __consumer_offsets, or both.",
)
def decode(output: str, records: str, **options: Any) -> None:
    """Every record, in the JSON of Kafka's own formatters; what cannot be decoded is printed as a reject.

    Records know topics by their ids: --topic takes those here, and applies to state records.
    """
    from sharelag import engine as engines
    from sharelag import show
    from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

    source, moment, choice = source_of(options), moment_of(options), choice_of(options)
    _start("local", source)
    topics = {"state": [STATE_TOPIC], "group": [GROUP_TOPIC], "all": [STATE_TOPIC, GROUP_TOPIC]}[records]
    skipped = 0

    def rows() -> Iterator[dict[str, Any]]:
        nonlocal skipped
        for topic in topics:
            for batch in engines.decoded(source, topic, moment, choice):
                skipped += batch.skipped
                yield from show.decoded_rows(batch, columns=output == "csv")

    _print(show.lines(rows(), "json" if output == "human" else output))
    click.echo(f"sharelag: {skipped} records of other kinds skipped", err=True)


@cli.command()
@click.argument("folder", type=click.Path(path_type=Path))
@with_options(CLUSTER, TIMEOUT, VERBOSE)
@click.option("--overwrite", is_flag=True, help="Replace a capture that is there.")
def capture(folder: Path, overwrite: bool, **options: Any) -> None:
    """Save everything an investigation needs from a cluster into FOLDER, as Parquet."""
    from sharelag.sources.captures import capture_kafka

    info = capture_kafka(config_of(options), folder, overwrite=overwrite)
    click.echo(f"captured {info.cluster_id} as of {info.as_of} into {folder}", err=True)


@cli.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/demo"), show_default=True)
@with_options(ENGINE, VERBOSE)
def demo(out: Path, engine: str) -> None:
    """Show the lag of a cluster that was recorded: a table here, and OUT/lag.html."""
    from sharelag.demo import run_demo

    for line in run_demo(out, "spark" if engine == "auto" else engine):
        click.echo(line)


@cli.command()
@with_options(CLUSTER, TIMEOUT, VERBOSE)
def doctor(**options: Any) -> int:
    """Check this machine, and the cluster if one is given, and say what to do."""
    from sharelag.doctor import checks

    config = config_of(options) if names_cluster(options) else None
    worst = 0
    for check in checks(config):
        click.echo(
            f"{check.verdict:<5} {check.what}: {check.found}" + (f"\n      -> {check.advice}" if check.advice else "")
        )
        worst = max(worst, check.verdict == "fail")
    return int(worst)


# ---- starting ----------------------------------------------------------------------------------------


def _start(engine: str, source: Any) -> str:
    """Choose the engine, and spare the local one what it does not need."""
    from sharelag.engine import choose

    chosen = choose(engine, source)
    if chosen == "local":
        without = _WithoutPandas()
        sys.meta_path.insert(0, without)
        click.get_current_context().call_on_close(lambda: sys.meta_path.remove(without))
    return chosen


class _WithoutPandas(MetaPathFinder):
    """Lets pandas seem not installed.

    pyarrow imports it for the first array it makes, which is a fifth of the whole quick look, and does without
    where there is none. Spark does need it.
    """

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name=fullname)


# ---- printing -------------------------------------------------------------------------------------------


def _print(lines: Iterable[str]) -> None:
    # Not click.echo, which would take escape characters out of the data.
    try:
        for line in lines:
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # Who reads our output has seen enough; Python would complain once more when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _exit(0)


def _require_rows(choice: Any, moment: Any, rows: list[dict[str, Any]]) -> None:
    """Say what was asked for and is not there; nothing at all is an error, unless it is a view of the past."""
    missing = sorted(choice.groups - {row["group_id"] for row in rows})
    where = f" in topic {', '.join(map(repr, sorted(choice.topics)))}" if choice.topics else ""
    if not rows and moment is None:
        if missing:
            what = f"no state of share group {', '.join(map(repr, missing))}{where} is there: check the spelling, and "
            raise InputError(what + "that the group has consumed (kafka-share-groups.sh --list)")
        raise InputError(
            f"no share partition{where} is there: check the spelling of topics"
            if choice.topics
            else "there are no share-group state records: nothing was ever consumed by a share group there"
        )
    for group in missing:
        click.echo(f"sharelag: no state of share group {group!r}{where} is there", err=True)


def _summary(answer: Any, source: Any, as_of: str | None, unit: str) -> None:
    import pyarrow.compute as pc

    def of_column(name: str, total: Any) -> Any:
        return total(answer.table.column(name)).as_py() if name in answer.table.column_names else None

    count, noted, refused = answer.table.num_rows, of_column("as_of", pc.max), of_column("rejected_records", pc.sum)
    when = f"as of {as_of or iso(noted)}, " if as_of or noted else ""
    click.echo(
        f"sharelag: {count} {unit}{'s' * (count != 1)}, {when}{source.describe()}, {answer.engine} engine", err=True
    )
    if answer.rejected:
        click.echo(
            f"sharelag: {answer.rejected} records could not be decoded and are missing above; "
            "`sharelag decode` shows them",
            err=True,
        )
    if refused:
        click.echo(
            f"sharelag: {refused} records could not be replayed; -o json says of which share partition", err=True
        )
