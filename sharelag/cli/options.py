"""Options that commands share, and the values they name: an input, a choice, a moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import reduce
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import click
from click.core import ParameterSource

from sharelag.durations import parse_duration, spell
from sharelag.errors import InputError, meant

if TYPE_CHECKING:
    from sharelag.inputs import Input
    from sharelag.inputs.kafka.config import ClientConfig
    from sharelag.replay.moment import Choice, Moment
    from sharelag.workbench.side_inputs import BrokerMetrics, Requests


@dataclass
class Call:
    """Options about errors and exit codes, for use after the command has ended.

    ``status`` is the exit code if output is cut off.
    """

    for_tracebacks: bool = False
    status: int = 0

    @classmethod
    def note(cls, context: click.Context, _: click.Parameter, verbose: bool) -> None:
        """Record `-v` for the whole command line."""
        context.ensure_object(cls).for_tracebacks |= verbose

    @classmethod
    def will_end(cls, status: int) -> int:
        """Record and return the exit code before printing; an earlier nonzero one is kept."""
        asked = click.get_current_context().ensure_object(cls)
        asked.status = asked.status or status
        return status


_Command = Callable[..., Any]
Options = dict[str, Any]
_F = TypeVar("_F", bound=_Command)


class Duration(click.ParamType[timedelta]):
    """A duration such as 30s or 5m; with ``bare``, the unit of a number without one."""

    name = "duration"

    def __init__(
        self,
        least: timedelta = timedelta(milliseconds=1),
        most: timedelta = timedelta(days=3650),
        bare: str | None = None,
    ) -> None:
        self.least, self.most, self.bare = least, most, bare

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Parse a duration, and verify that it is within the limits."""
        try:
            span = parse_duration(value, bare=self.bare)
        except InputError as error:
            self.fail(str(error), param, ctx)
        if not self.least <= span <= self.most:
            limits = f"between {spell(self.least)} and {spell(self.most)}"
            self.fail(f"give a duration {limits}, not {value!r}", param, ctx)
        return span


def text(line: str, **look: Any) -> Callable[[_F], _F]:
    """Create an option from its line of the help: names, metavar if any, two spaces, and help.

    A default is shown unless ``look`` says otherwise.
    """
    head, about = line.split("  ", 1)
    words = head.split(" ")
    names = [word for word in words if word.startswith("-") or word.islower()]
    metavar = " ".join(words[len(names) :]) or None
    look = {"metavar": metavar, "show_default": "default" in look} | look
    return click.option(*names, help=about, **look)


def path(line: str, **look: Any) -> Callable[[_F], _F]:
    """Create an option for a path; see `text`."""
    return text(line, type=click.Path(path_type=Path), **look)


def repeat(line: str, **look: Any) -> Callable[[_F], _F]:
    """Create an option that may be repeated; see `text`."""
    return text(line, multiple=True, **look)


def switch(line: str, **look: Any) -> Callable[[_F], _F]:
    """Create a flag; see `text`."""
    return text(line, is_flag=True, **look)


def pick(line: str, among: Iterable[str], **look: Any) -> Callable[[_F], _F]:
    """Create an option with a choice of values; see `text`."""
    return text(line, type=click.Choice(list(among)), **look)


def duration(
    line: str,
    least: timedelta = timedelta(milliseconds=1),
    most: timedelta = timedelta(days=3650),
    **look: Any,
) -> Callable[[_F], _F]:
    """Create an option for a duration with a unit; see `text`."""
    return text(line, metavar="DURATION", type=Duration(least, most), **look)


CLUSTER = [
    text("--bootstrap-server H:P  Broker addresses of a running cluster."),
    path("--command-config FILE  Client properties file, as for Kafka's own commands."),
    repeat("--command-property K=V  A single client property; repeatable."),
]
INPUT = [
    *CLUSTER,
    path(
        "--capture DIR  A folder written by `sharelag capture`, with or without --follow, or the "
        "name of a recorded sample such as demo."
    ),
    text(
        "--raw PATH  Parquet files with the columns of Spark's Kafka source, a Spark table, a "
        "file that Kafka's console consumer or kafka-dump-log.sh printed, or an address that an "
        "installed package opens."
    ),
    repeat(
        "--segments DIR  A broker's log directory, opened read-only; repeat it for each of its "
        "log.dirs.",
        callback=lambda _context, _option, folders: ",".join(folders),
    ),
    text(
        "--generation 0-4  Decode state records in this generation of the format (0 to 3) first, "
        "then in today's; 4: in today's only. By default it is detected record by record, and a "
        "record that may be damaged is a reject. 0 and 1 also read the segments of all user "
        "topics.",
        type=click.IntRange(0, 4),
    ),
]
#: A broker's request log, in addition to the input.
REQUESTS = [
    path(
        "--requests LOG  A log that kafka.request.logger wrote at DEBUG, or a folder of them: "
        "shows who holds which offsets, if it covers the moment."
    ),
    text(
        "--requests-zone ZONE  Time zone of that log, such as Europe/Berlin; log4j's %d does not "
        "write it.  [default: derived from a collector's times beside the log's own, else UTC]"
    ),
]
#: Brokers' own metrics, in addition to the input.
METRICS = repeat(
    "--broker-metrics FILE_OR_URL  Output of Kafka's JmxTool, Prometheus text, or "
    "http://HOST:PORT/metrics: shows what is acquired and which locks expired. Repeatable; "
    "1=FILE_OR_URL says that it is from broker 1."
)
NAMES = [
    repeat("--group GROUP  Limit to this group; repeatable."),
    switch("--all-groups  Include all groups (the default)."),
    repeat("--topic TOPIC[:0,1]  Limit to this topic, or these partitions of it; repeatable."),
]
_A_TIME = "As of this moment: a time with its zone (2026-11-21T03:10:00Z)"
CHOICE = [
    *NAMES,
    text(f"--as-of WHEN  {_A_TIME}, or offsets of state partitions (0:1200,3:88)."),
]
#: Reports take a time only: offsets of state partitions belong to one cluster's topic.
CHOICE_AT_A_TIME = [*NAMES, text(f"--as-of TIME  {_A_TIME}.")]


def output(*formats: str) -> Any:
    """Return the option ``-o`` with these formats; the first is the default."""
    return pick("-o --output  The output format.", among=formats, default=formats[0])


OUTPUT = output("human", "json", "yaml", "csv")
ENGINE = pick(
    "--engine  local: in this process, without a JVM; spark: on Spark; auto: local below "
    "5,000,000 records.",
    among=["auto", "local", "spark"],
    default="auto",
)
VERBOSE = switch(
    "-v --verbose  Show the traceback of an error.", expose_value=False, callback=Call.note
)

TIMEOUT = text(
    "--timeout DURATION  How long to wait for brokers; a number alone is milliseconds, as in "
    "Kafka's commands.",
    type=Duration(bare="ms"),
    default="10s",
)

OVER = duration("--over  How far back to look for rates and trends.", default="1h")


#: Options for the engine and its messages.
HOW = [ENGINE, TIMEOUT, VERBOSE]
ANSWER = [OUTPUT, *HOW]


def command(*options: Any, name: str | None = None) -> Callable[[_Command], Command]:
    """Declare a command with these options, alone or in lists, in this order."""
    return lambda function: click.command(name, cls=Command)(with_options(*options)(function))


def with_options(*options: Any) -> Callable[[_Command], _Command]:
    """Add options to a command, alone or in lists, in this order."""
    flat = [one for item in options for one in (item if isinstance(item, list) else [item])]
    return lambda command: reduce(lambda wrapped, option: option(wrapped), reversed(flat), command)


def source_of(options: Options) -> Input:
    """Open the one input that is named; none or several are a usage error."""
    from sharelag.inputs.open import ChoiceError, open_named

    try:
        return open_named(
            bootstrap_server=options["bootstrap_server"],
            command_config=options["command_config"],
            properties=properties_of(options),
            capture=options["capture"],
            raw=options["raw"],
            segments=options["segments"],
            generation=options.get("generation"),
            timeout=options["timeout"].total_seconds(),
            spelled=flag,
        )
    except ChoiceError as error:
        raise click.UsageError(f"{error}.") from None


def requests_of(options: Options) -> Requests | None:
    """Return the request log that is named; None without one."""
    if options["requests"] is None:
        if options["requests_zone"]:
            raise click.UsageError("--requests-zone needs --requests: add it.")
        return None
    from sharelag.inputs.files.request_log import RequestLog
    from sharelag.workbench.side_inputs import Requests

    return Requests(RequestLog(options["requests"], options["requests_zone"]))


def metrics_in(options: Options) -> BrokerMetrics | None:
    """Return the brokers' metrics that are named; None without any."""
    if not options["broker_metrics"]:
        return None
    from sharelag.workbench.side_inputs import metrics_of

    return metrics_of(options["broker_metrics"], options["timeout"].total_seconds())


def flag(name: str) -> str:
    """Return the option of a parameter: ``--all-groups`` of ``all_groups``."""
    return f"--{name.replace('_', '-')}"


def given_options(among: Collection[str] | None = None) -> list[str]:
    """Return the options given on the command line, all or some, in the order of the help."""
    context = click.get_current_context()
    names = [one.name for one in context.command.params if one.name is not None]
    return [
        name
        for name in names
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        and (among is None or name in among)
    ]


def flags(names: Iterable[str], word: str = "and") -> str:
    """List options by their names on the command line."""
    return f" {word} ".join(map(flag, names))


def names_cluster(options: Options) -> bool:
    """Return whether an option or the environment names a cluster."""
    from sharelag.inputs.open import is_cluster_named

    server, config = options["bootstrap_server"], options["command_config"]
    return is_cluster_named(server, config, properties_of(options))


def config_of(options: Options) -> ClientConfig:
    """Return the settings of the Kafka client; a missing cluster is a usage error."""
    from sharelag.inputs.kafka.config import client_config

    if not names_cluster(options):
        raise click.UsageError("no cluster given: use --bootstrap-server HOST:PORT.")

    return client_config(
        options["bootstrap_server"],
        options["command_config"],
        properties_of(options),
        timeout=options["timeout"].total_seconds(),
    )


def properties_of(options: Options) -> dict[str, str]:
    """Parse single client properties; messages contain at most a property's name."""
    pairs = [item.partition("=") for item in options["command_property"]]
    if not all(equals for _, equals, _ in pairs):
        raise click.UsageError("--command-property takes K=V, and one has no '='.")
    return {key: value for key, _, value in pairs}


def moment_of(options: Options) -> Moment:
    """Return the moment in question; None for now."""
    from sharelag.replay.moment import parse_moment

    return None if options["as_of"] is None else parse_moment(options["as_of"])


def choice_of(options: Options) -> Choice:
    """Return the chosen groups and topics, and the format generation to decode."""
    from sharelag.replay.moment import Choice, parse_topics

    if options["group"] and options["all_groups"]:
        raise click.UsageError("choose --group or --all-groups, not both.")
    try:
        topics = parse_topics(options["topic"])
    except InputError as error:
        raise click.UsageError(f"--topic: {error}.") from None
    return Choice(frozenset(options["group"]), topics, options["generation"])


def in_order(
    rows: Iterable[dict[str, Any]], options: Options, default: str | None
) -> list[dict[str, Any]]:
    """Sort rows by the options of `order`, or else by a column; unknown values come last."""
    rows = list(rows)
    name, _, way = (options["sort"] or default or "").partition(":")
    if rows and name and name not in rows[0]:
        known = [key for key, value in rows[0].items() if not isinstance(value, list)]
        raise click.UsageError(
            f"unknown column {name!r} to sort by: choose one of {', '.join(known)}"
            f"{meant(name, known) or '.'}"
        )
    if way not in ("", "up", "down"):
        raise click.UsageError(f"--sort takes COLUMN, COLUMN:up or COLUMN:down, not {way!r}.")
    if name:
        unknown = [row for row in rows if row[name] is None]
        rows = [row for row in rows if row[name] is not None]
        rows = sorted(rows, key=itemgetter(name), reverse=way != "up") + unknown
    return rows[: options["top"]]


def order(default: str) -> list[Any]:
    """Return options for the order of rows; ``default`` is the column for human output."""
    return [
        text(
            "--sort COLUMN  Sort rows by this column of -o json, largest first; COLUMN:up sorts "
            f"smallest first.  [default: {default} with -o human, names otherwise]"
        ),
        text("--top N  Show only the first N rows.", type=click.IntRange(min=1)),
    ]


#: Sections of the help: commands by purpose, each with an example that the recorded demo or a
#: cluster can answer.
SECTIONS: dict[str, dict[str, str]] = {
    "Get started": {
        "demo": "sharelag demo --no-report",
        "doctor": "sharelag doctor --bootstrap-server broker:9092",
        "capture": "sharelag capture saved --bootstrap-server broker:9092",
    },
    "Look at the lag and what is behind it": {
        "lag": "sharelag lag --capture demo",
        "groups": "sharelag groups --capture demo",
        "members": "sharelag members --capture demo --group fulfilment",
        "windows": "sharelag windows --capture demo --group fulfilment",
        "progress": "sharelag progress --capture demo",
        "history": "sharelag history --capture demo --group fulfilment",
    },
    "Find the cause": {
        "explain": "sharelag explain --capture demo",
        "imbalance": "sharelag imbalance --capture demo --group fulfilment",
        "settings": "sharelag settings --capture demo",
        "brokers": "sharelag brokers --capture demo",
        "health": "sharelag health --capture demo",
        "reconcile": "sharelag reconcile --capture demo",
        "requests": "sharelag requests kafka-request.log",
        "consumed": "sharelag consumed console.txt",
        "metrics": "sharelag metrics http://broker:7071/metrics",
        "peek": "sharelag peek billing orders:0:7 --bootstrap-server b:9092",
        "dlq": "sharelag dlq --bootstrap-server broker:9092 --group billing",
        "decode": "sharelag decode --capture demo --group fulfilment",
    },
    "Decide what to do": {
        "simulate": "sharelag simulate --capture demo --group billing --members 4",
        "plan-reset": "sharelag plan-reset --capture slow --group slow --to-latest",
        "lint": "sharelag lint kafka-share-groups.sh --group billing --delete",
        "plan-delete": "sharelag plan-delete --capture slow --group slow",
    },
    "Keep watch": {
        "check": "sharelag check --rules rules.yaml --capture demo",
        "forecasts": "sharelag forecasts --ledger ledger --capture demo",
        "report": "sharelag report daily --capture demo",
        "export": "sharelag export serve --bootstrap-server broker:9092",
        "mcp": "sharelag mcp --capture demo",
    },
}


class _Once(click.Command):
    """The parsing that commands and groups of commands share."""

    #: Better alternatives to repeating an option.
    _INSTEAD: ClassVar[dict[str, str]] = {
        "raw": "to read several files, put them in one folder and give that"
    }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; a repeated option is a usage error."""
        if not ctx.resilient_parsing:
            given = self.make_parser(ctx).parse_args(list(args))[2]
            seen: set[click.Parameter] = set()
            for one in given:
                is_single = isinstance(one, click.Option) and not (
                    one.multiple or one.is_flag or one.count
                )
                if one in seen and is_single:
                    instead = self._INSTEAD.get(
                        one.name or "", "run the command once for each, or remove all but one"
                    )
                    name = max(one.opts, key=len)
                    raise click.UsageError(
                        f"{name} takes one value and is given more than once: {instead}.", ctx
                    )
                seen.add(one)
        return super().parse_args(ctx, args)


class Command(_Once):
    """A command whose single-valued options may be given only once."""


class Group(_Once, click.Group):
    """A group of such commands."""

    command_class = Command


class Grouped(Group):
    """A group of commands whose help has a section for each purpose."""

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections; all names have the same width."""
        widest = max(len(name) for name in self.commands)
        for heading, examples in SECTIONS.items():
            with formatter.section(heading):
                rows = []
                for name, example in examples.items():
                    about = self.commands[name].get_short_help_str(limit=1000)
                    rows += [(name.ljust(widest), about), ("", f"$ {example}")]
                formatter.write_dl(rows)
