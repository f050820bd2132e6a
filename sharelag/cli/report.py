"""`sharelag report`: make a report, list those made, and schedule one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from sharelag.cli import options as option
from sharelag.cli.ask import PARTIAL
from sharelag.cli.options import Call, Command, Group, flag, properties_of, with_options
from sharelag.cli.output import print_rows, tell, write
from sharelag.durations import spell
from sharelag.tables import views
from sharelag.tables.words import terminal

_OUT = option.path("--out PATH  Folder for the reports.", default=Path("reports"))
_PARAMETER = option.text("-p pairs K V  A parameter; repeatable.", type=(str, str), multiple=True)
_FILE = option.path("-f file FILE  YAML file with parameters; -p overrides them.")
_HOW = [
    option.pick(
        "--overlap  If another run of this report is under way: wait for it, or fail.",
        among=["wait", "fail"],
        default="wait",
    ),
    option.text(
        "--keep N  Remove all but the newest N runs with the same parameters.",
        type=click.IntRange(min=1),
    ),
    option.text(
        "--keep-days DAYS  Remove runs older than this many days.",
        type=click.FloatRange(min=0, min_open=True),
    ),
    option.duration(
        "--cell-timeout  Fail if a cell of the notebook takes longer.",
        least=timedelta(seconds=1),
        default="1h",
    ),
    option.text("--figures/--no-figures  Also write the charts as image files.", default=True),
]
_WHAT = [_PARAMETER, _FILE, _OUT, *option.INPUT, *option.CHOICE_AT_A_TIME]
_RUN_OPTIONS = ("overlap", "keep", "keep_days", "cell_timeout", "figures")
_SCHEDULERS = ("crontab", "systemd", "airflow", "kubernetes", "jupyter-scheduler")


class _Names(Group):
    """`sharelag report daily` is short for `sharelag report make daily`."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            return args[0], self.commands["make"], args
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            why = f"{error.option_name} goes after the name of a report, such as daily"
            raise click.UsageError(why, ctx) from None


class _Make(Command):
    """The command whose usage line is the short form: ``sharelag report daily [OPTIONS]``."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        return pieces if ctx.info_name == self.name else pieces[:1]


@click.group(cls=_Names, subcommand_metavar="NAME|COMMAND [ARGS]...")
def report() -> None:
    """Make the report NAME: daily, incident, capacity, proposal, or your own notebook.

    Writes a self-contained HTML file, the executed notebook, a verdict, images and an e-mail body
    to a new folder below --out, and points OUT/NAME/latest to it. Exits with 0 if the report was
    made, whatever its verdict; with 3 if only part of the input could be read; otherwise with 1,
    and the report shows the error.
    """


@report.command("make", hidden=True, cls=_Make)
@click.argument("name")
@with_options(_WHAT, option.ENGINE, option.VERBOSE, _HOW)
def make(
    name: str,
    out: Path,
    overlap: str,
    keep: int | None,
    keep_days: float | None,
    cell_timeout: timedelta,
    figures: bool,
    **options: Any,
) -> int:
    """Make a report."""
    tell(f"preparing the report {terminal(name)}")  # before imports that take seconds
    from functools import partial

    from sharelag.reports import notebooks
    from sharelag.reports import report as run
    from sharelag.reports.execute import execute

    parameters = _valid_parameters(name, options)
    if "engine" in notebooks.read_parameters(notebooks.notebook(name)):
        parameters.setdefault("engine", options["engine"])
    made = run(
        name,
        parameters,
        out,
        properties=properties_of(options),
        wait=overlap == "wait",
        keep=keep,
        keep_days=keep_days,
        figures=figures,
        run=partial(execute, cell_seconds=int(cell_timeout.total_seconds()), progress=tell),
        tell=tell,
        progress=tell,
    )
    status = Call.will_end(PARTIAL if made.in_part else int(made.run.error is not None))
    message = terminal(made.run.error or made.run.headline)
    write([f"{made.run.level.upper()}: {message}", str(made.html)])
    if figures and made.run.figures and made.run.error is None:
        tell(f"no image files: {made.run.figures}")
    return status


@report.command("list")
@with_options(_OUT, option.OUTPUT)
def list_(out: Path, output: str) -> None:
    """List the available reports, and the runs in OUT, newest first."""
    from dataclasses import asdict

    from sharelag.reports import notebooks, store

    if output == "human":
        known = [
            {"report": name, "about": about, "notebook": str(notebooks.notebook(name))}
            for name, about in notebooks.names().items()
        ]
        print_rows(known, output)
        write([""])
    rows = [asdict(row["run"]) | {"kept": row["address"] is not None} for row in store.rows(out)]
    print_rows(rows, output, views.REPORT_RUNS.columns)


@report.command("index")
@with_options(_OUT)
def index_(out: Path) -> None:
    """Rewrite OUT/index.html, as every run does."""
    from sharelag.errors import InputError
    from sharelag.reports.store import lock_shared, write_index

    if not out.is_dir():
        raise InputError(
            f"there is no folder {out}: make a report first (sharelag report daily --out {out})"
        )
    with lock_shared(out):
        write([str(write_index(out))])


@report.command("schedule")
@click.argument("name")
@option.text("--cron EXPRESSION  The schedule, such as '30 6 * * *'.", required=True)
@option.pick("--as kind  The scheduler.", among=_SCHEDULERS, default="crontab")
@option.text(
    "--timezone zone ZONE  Time zone of the schedule, such as Europe/Berlin.  [default: the "
    "machine's for crontab and systemd, else UTC]"
)
@with_options(_WHAT, option.ENGINE, option.VERBOSE, _HOW)
def schedule_(name: str, cron: str, kind: str, zone: str | None, out: Path, **options: Any) -> None:
    """Print a definition for an existing scheduler that makes the report NAME regularly.

    Put client settings into a file (--command-config): others may read the definition.
    """
    from sharelag.reports import notebooks
    from sharelag.reports.case import PLACES
    from sharelag.reports.schedules import note, schedule

    if options["command_property"]:
        raise click.UsageError(
            "--command-property would be visible in the definition: use --command-config FILE."
        )
    path = notebooks.notebook(name)
    parameters = _parameters(path, options)
    notebooks.require_units(path, parameters)
    # A scheduler lacks the environment of this shell, which may name a cluster.
    declared = notebooks.read_parameters(path)
    if any(name in declared for name in PLACES) and not any(name in parameters for name in PLACES):
        raise click.UsageError(
            "name an input, such as --bootstrap-server: a scheduler does not see this environment."
        )
    how = _run_options(options)
    write(schedule(name, cron, kind, parameters, out, zone=zone, options=how).splitlines())
    if words := note(kind, name):
        tell(words)


def _valid_parameters(name: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters, validated with the input before a kernel and Spark start."""
    from sharelag.errors import ShareLagError
    from sharelag.reports import notebooks
    from sharelag.reports.case import PLACES, require_valid

    try:
        path = notebooks.notebook(name)
        parameters = _parameters(path, options)
        given = notebooks.check_parameters(path, parameters)
        notebooks.require_units(path, parameters)
        declared = notebooks.read_parameters(path)
        known = {name: value for name, value in declared.items() if value is not ...} | given
        if set(known) >= set(PLACES):
            require_valid(known, properties_of(options), flag)
    except ShareLagError as error:
        raise click.UsageError(f"{error}.") from None
    return parameters


def _run_options(options: dict[str, Any]) -> list[str]:
    """Return options of the report, other than parameters, that differ from their defaults."""
    notes = []
    for one in make.params:
        if not isinstance(one, click.Option) or one.name not in _RUN_OPTIONS:
            continue
        value = options[one.name]
        if value is None or _word(value) == str(one.default):
            continue
        if one.is_flag:
            notes.append(one.secondary_opts[0])
        else:
            notes += [one.opts[0], _word(value)]
    return notes


def _word(value: Any) -> str:
    if isinstance(value, timedelta):
        return spell(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _parameters(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a notebook, with absolute paths."""
    from sharelag.reports.notebooks import texts
    from sharelag.reports.schedules import absolute

    given = _read_given(options["file"], options["pairs"], texts(path))
    named = _of_options(options)
    _require_once([*(name for name, _ in options["pairs"]), *named], "as -p or as an option")
    return absolute(given | named)


def _require_once(names: Sequence[Any], where: str) -> None:
    """Reject a parameter that is given twice, because one value would be ignored."""
    from sharelag.errors import InputError

    if twice := sorted({str(name) for name in names if names.count(name) > 1}):
        raise InputError(f"the parameter {twice[0]!r} is given twice: give it once, {where}")


def _read_given(
    file: Path | None, pairs: tuple[tuple[str, str], ...], texts: Collection[str] = ()
) -> dict[str, Any]:
    """Return the parameters from the file and the command line, whose values are parsed as YAML.

    A value for one of ``texts`` stays a string, even if YAML would convert it: NO is a country.
    """
    from sharelag.errors import InputError
    from sharelag.inputs.texts import read_text
    from sharelag.monitoring.checks.rules import parse_yaml
    from sharelag.reports.schedules import from_word

    given: Any = {}
    if file is not None:
        try:
            given, places = parse_yaml(read_text(file), str(file))
        except OSError as error:
            raise InputError(f"cannot read parameters from {file}: {error.strerror}") from None
        except (InputError, UnicodeDecodeError):
            # The parser may quote a secret.
            raise InputError(
                f"{file} is not valid YAML: write one `name: value` per line"
            ) from None
        given = given or {}
        if not isinstance(given, dict):
            raise InputError(f"{file} is not a YAML mapping: write one `name: value` per line")
        _require_once([name[0] for name, _, _ in places if len(name) == 1], f"in {file}")
    typed = {name: (from_word(text), text) for name, text in pairs}
    return {str(name): value for name, value in given.items()} | {
        name: text if name in texts and not isinstance(value, str | list) else value
        for name, (value, text) in typed.items()
    }


def _of_options(options: dict[str, Any]) -> dict[str, Any]:
    from sharelag.reports.case import PLACES

    given = {
        name: str(options[name]) if isinstance(options[name], Path) else options[name]
        for name in (*PLACES, "group", "topic", "as_of")
        if options[name]
    }
    if options["generation"] is not None:  # 0 is one
        given["generation"] = options["generation"]
    given |= {name: list(given[name]) for name in ("group", "topic") if name in given}
    return given | ({"engine": options["engine"]} if options["engine"] != "auto" else {})
