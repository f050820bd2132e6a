"""The command line. Thin: it reads options, calls one public function, and prints.

Results go to standard output, everything else to standard error. Exit codes: 0 fine, 1 an error with one
line that says what to do, 2 wrong usage.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import click

from sharelag.errors import InputError, ShareLagError
from sharelag.version import __version__

_Command = Callable[..., Any]


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


# ---- options that several commands share ----------------------------------------------------------------

_CLUSTER = [
    click.option("--bootstrap-server", metavar="H:P", help="A cluster to read from."),
    click.option(
        "--command-config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Client properties, as for Kafka's own commands.",
    ),
    click.option("--command-property", multiple=True, metavar="K=V", help="One client property; repeatable."),
]
_INPUT = [
    *_CLUSTER,
    click.option(
        "--capture",
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="A folder that `sharelag capture` wrote.",
    ),
    click.option(
        "--raw",
        metavar="PATH",
        help="Parquet files with the columns of Spark's Kafka source, or a Spark table.",
    ),
    click.option(
        "--segments", type=click.Path(path_type=Path), metavar="DIR", help="A broker's log directory (read only)."
    ),
]
_CHOICE = [
    click.option("--group", multiple=True, metavar="GROUP", help="Only this group; repeatable."),
    click.option("--all-groups", is_flag=True, help="All groups (the default)."),
    click.option("--topic", multiple=True, metavar="TOPIC[:0,1]", help="Only this topic, or these partitions."),
    click.option(
        "--as-of",
        metavar="WHEN",
        help="A time with its zone (2026-11-21T03:10:00Z), or offsets of state partitions (0:1200,3:88).",
    ),
]
_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["human", "json", "yaml", "csv"]), default="human", show_default=True
)
_ENGINE = click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="local needs no JVM; auto takes spark for large inputs.",
)
_VERBOSE = click.option("-v", "--verbose", is_flag=True, expose_value=False, help="Show the traceback of an error.")
_TIMEOUT = click.option(
    "--timeout",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    metavar="MS",
    help="To wait for brokers.",
)


def _with(*options: Any) -> Callable[[_Command], _Command]:
    flat = [one for item in options for one in (item if isinstance(item, list) else [item])]
    return lambda command: reduce(lambda wrapped, option: option(wrapped), reversed(flat), command)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="sharelag")
def cli() -> None:
    """Where is the backlog of a Kafka share group, and why is it there?"""


# ---- commands -------------------------------------------------------------------------------------------


@cli.command()
@_with(_INPUT, _CHOICE, _OUTPUT, _ENGINE, _TIMEOUT, _VERBOSE)
@click.option("--by", type=click.Choice(["partition", "group", "topic"]), default="partition", show_default=True)
def lag(output: str, engine: str, by: str, **options: Any) -> None:
    """Share-partition lag, and what it consists of.

    LAG is Kafka's: end offset - start offset - delivery complete count, `-` where Kafka does not know it.
    UNREAD was never persisted, AVAILABLE waits for another delivery, UNKNOWN is acquired or was never
    persisted, COMPLETE is finished but not yet passed by the start offset.
    """
    from sharelag import engine as engines
    from sharelag import show

    source, moment, choice = _source(options), _moment(options), _choice(options)
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
@_with(_INPUT, _CHOICE, _OUTPUT, _ENGINE, _TIMEOUT, _VERBOSE)
def windows(output: str, engine: str, **options: Any) -> None:
    """What the share coordinator holds of each share partition: epochs, offsets, state batches.

    With -o json, yaml and csv the fields of a window are raw, as Kafka holds them: -1 is Kafka's unknown.
    """
    from sharelag import engine as engines
    from sharelag import show

    source, moment, choice = _source(options), _moment(options), _choice(options)
    engine = _start(engine, source)
    answer = engines.windows(source, engine, moment, choice)
    rows = show.window_rows(answer.table)
    _require_rows(choice, moment, rows)
    _print(show.lines(rows, output, show.WINDOW_COLUMNS))
    _summary(answer, source, options["as_of"], "share partition")


@cli.command()
@_with(_INPUT, _CHOICE, _OUTPUT, _TIMEOUT, _VERBOSE)
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

    source, moment, choice = _source(options), _moment(options), _choice(options)
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
@_with(_CLUSTER, _TIMEOUT, _VERBOSE)
@click.option("--overwrite", is_flag=True, help="Replace a capture that is there.")
def capture(folder: Path, overwrite: bool, **options: Any) -> None:
    """Save everything an investigation needs from a cluster into FOLDER, as Parquet."""
    from sharelag.sources.captures import capture_kafka

    info = capture_kafka(_config(options), folder, overwrite=overwrite)
    click.echo(f"captured {info.cluster_id} as of {info.as_of} into {folder}", err=True)


@cli.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("out/demo"), show_default=True)
@_with(_ENGINE, _VERBOSE)
def demo(out: Path, engine: str) -> None:
    """Show the lag of a cluster that was recorded: a table here, and OUT/lag.html."""
    from sharelag.demo import run_demo

    for line in run_demo(out, "spark" if engine == "auto" else engine):
        click.echo(line)


@cli.command()
@_with(_CLUSTER, _TIMEOUT, _VERBOSE)
def doctor(**options: Any) -> int:
    """Check this machine, and the cluster if one is given, and say what to do."""
    from sharelag.doctor import checks

    config = _config(options) if _names_cluster(options) else None
    worst = 0
    for check in checks(config):
        click.echo(
            f"{check.verdict:<5} {check.what}: {check.found}" + (f"\n      -> {check.advice}" if check.advice else "")
        )
        worst = max(worst, check.verdict == "fail")
    return int(worst)


# ---- from options to values -----------------------------------------------------------------------------


def _source(options: dict[str, Any]) -> Any:
    from sharelag.sources.inputs import CaptureInput, KafkaInput, RawInput, SegmentsInput

    given = [name for name in ("capture", "raw", "segments") if options[name]]
    if any(options[name] for name in _CLUSTER_NAMES) or (not given and _names_cluster(options)):
        given.append("bootstrap-server")
    if len(given) != 1:
        what = "none was given" if not given else "got --" + " and --".join(given)
        raise click.UsageError(f"choose one input: --bootstrap-server, --capture, --raw or --segments ({what}).")
    if options["capture"]:
        return CaptureInput(options["capture"])
    if options["segments"]:
        return SegmentsInput(options["segments"])
    return RawInput(options["raw"]) if options["raw"] else KafkaInput(_config(options))


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


_CLUSTER_NAMES = ("bootstrap_server", "command_config", "command_property")


def _names_cluster(options: dict[str, Any]) -> bool:
    return any(options[name] for name in _CLUSTER_NAMES) or bool(os.environ.get("KAFKA_BOOTSTRAP_SERVERS"))


def _config(options: dict[str, Any]) -> Any:
    from sharelag.sources.config import client_config

    pairs = [item.partition("=") for item in options["command_property"]]
    for key, equals, _ in pairs:
        if not equals:
            raise click.UsageError(f"--command-property takes key=value, {key!r} has no '='.")
    properties = {key: value for key, _, value in pairs}
    return client_config(
        options["bootstrap_server"], options["command_config"], properties, timeout=options["timeout"] / 1000
    )


def _moment(options: dict[str, Any]) -> Any:
    from sharelag.replay.moment import parse_moment

    return None if options["as_of"] is None else parse_moment(options["as_of"])


def _choice(options: dict[str, Any]) -> Any:
    from sharelag.engine import Choice

    if options["group"] and options["all_groups"]:
        raise click.UsageError("choose --group or --all-groups, not both.")
    topics: dict[str, frozenset[int]] = {}
    for text in options["topic"]:
        name, _, numbers = text.partition(":")
        if not name or (numbers and not re.fullmatch(r"\d+(,\d+)*", numbers)):
            raise click.UsageError(f"--topic takes TOPIC or TOPIC:0,1,2, not {text!r}.")
        topics[name] = topics.get(name, frozenset()) | {int(n) for n in numbers.split(",") if n}
    return Choice(frozenset(options["group"]), topics)


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
    from sharelag import show

    count = answer.table.num_rows
    noted = [t for t in answer.table.column("as_of").to_pylist() if t] if "as_of" in answer.table.column_names else []
    when = f"as of {as_of or show.iso(max(noted))}, " if as_of or noted else ""
    click.echo(
        f"sharelag: {count} {unit}{'s' * (count != 1)}, {when}{source.describe()}, {answer.engine} engine", err=True
    )
    if answer.rejected:
        click.echo(
            f"sharelag: {answer.rejected} records could not be decoded and are missing above; "
            "`sharelag decode` shows them",
            err=True,
        )
    import pyarrow.compute as pc

    refused = answer.table.column("rejected_records") if "rejected_records" in answer.table.column_names else None
    if refused is not None and (total := pc.sum(refused).as_py()):
        click.echo(f"sharelag: {total} records could not be replayed; -o json says of which share partition", err=True)
