"""Settings in force and what Kafka would refuse of them, and of commands of its tools."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sharelag.cli import options as option
from sharelag.cli.ask import note_partial, open_bench, write_lacking
from sharelag.cli.options import (
    Call,
    Command,
    choice_of,
    command,
    flags,
    given_options,
    names_cluster,
    source_of,
    with_options,
)
from sharelag.cli.output import (
    groups_in,
    note,
    note_records,
    plain,
    print_rows,
    start,
    start_local,
    summarize,
    tell,
)
from sharelag.errors import InputError
from sharelag.model.settings.catalogue import FIRST, PROPOSED
from sharelag.model.settings.queues import queues_of
from sharelag.model.versions import NEWEST, Basis, basis
from sharelag.tables import views
from sharelag.tables.gaps import of_settings

if TYPE_CHECKING:
    from sharelag.workbench.result import Result

#: Options that select data of an input.
_INPUT_OPTIONS = ("all_groups", "topic", "engine", "timeout")
#: Placeholder for the group in a command, if none was given.
_ANY_GROUP = "GROUP"


@command(option.INPUT, option.NAMES, option.ANSWER)
@option.repeat(
    "--set given NAME=VALUE  Check this value as if it were set; repeatable. Without an input, "
    "the other settings have Kafka's defaults."
)
@option.text(
    "--kafka-version VERSION  Judge by the settings of this version of Kafka, such as 4.3.1; "
    "draft, without an input: KIP-932 as it was under discussion.  [default: the input's "
    f"version, or {NEWEST}]"
)
@option.path(
    "--consumer-config FILE  Check a consumer's properties file for what share consumers refuse "
    "or ignore; with an input, also against the settings of --group, or of the file's group.id."
)
@option.path("--before DIR  Show only what differs from an earlier capture.")
@option.switch("--problems  Show only settings with a problem.")
def settings(
    output: str,
    engine: str,
    given: tuple[str, ...],
    kafka_version: str | None,
    consumer_config: Path | None,
    before: Path | None,
    problems: bool,
    **options: Any,
) -> int:
    """Show the settings in force for each group, where they come from, and what conflicts.

    With --set, the exit code is 1 if Kafka would refuse a value; with --consumer-config, also if it
    would ignore one. A problem that begins with "Kafka accepts it" means that the value would not
    work. Valid values of --set come with the command that sets them for --group, which is not run.
    """
    from sharelag.metrics.settings import check_given, is_refused

    values = _values(given)
    has_input = any(options[name] for name in ("capture", "raw", "segments"))
    has_input = has_input or names_cluster(options)
    if consumer_config is not None:
        if values or kafka_version is not None or before or problems:
            raise click.UsageError(
                "--consumer-config cannot be used with --set, --kafka-version, --before or "
                "--problems: remove them."
            )
        ignored = given_options(("group", *_INPUT_OPTIONS))
        if has_input:
            ignored = given_options(("all_groups", "topic", "engine"))
        if ignored:
            raise click.UsageError(f"--consumer-config ignores {flags(ignored)}: remove them.")
        return _lint(consumer_config, output, options if has_input else None)
    if before is not None:
        if values or kafka_version is not None or problems:
            raise click.UsageError(
                "--before compares what is in force: remove --set, --kafka-version and --problems."
            )
        return _drift(before, output, engine, options)
    if values and not has_input:
        if ignored := given_options(_INPUT_OPTIONS):
            raise click.UsageError(f"{flags(ignored)} only with an input: add one, or remove them.")
        from sharelag.workbench.result import Result

        is_draft = kafka_version == PROPOSED
        judged = None if is_draft else basis(kafka_version, oldest=FIRST)
        profile = judged.version if judged else PROPOSED
        found = check_given(values, profile)
        status = Call.will_end(int(is_refused(found)))
        _print(Result("", found, {}, None, "", "local"), output, problems)
        if judged:
            _note_version(values, judged, kafka_version)
        _note_commands(found, values, sorted(choice_of(options).groups) or [_ANY_GROUP], profile)
        return status
    if kafka_version == PROPOSED:
        raise click.UsageError("--kafka-version draft is for --set without an input: remove it.")
    return _in_force(values, output, engine, options, problems, kafka_version)


def _in_force(
    given: dict[str, str],
    output: str,
    engine: str,
    options: dict[str, Any],
    problems: bool,
    kafka_version: str | None,
) -> int:
    from sharelag.metrics.settings import choose_basis, is_refused, settings_in_force
    from sharelag.model.versions import given_or_own

    source = source_of(options)
    known, groups, read = _read_settings(source, engine, options, queues_of(given))
    brokers = source.nodes().num_rows or None
    version, whose = given_or_own(kafka_version, source.kafka_version)
    judged = choose_basis(known, version, FIRST, whose)
    found = settings_in_force(known, sorted(groups), given, brokers, version)
    answer = replace(read, table=found)
    refused = Call.will_end(int(bool(given) and is_refused(found)))
    _print(answer, output, problems)
    note(of_settings(known, sorted(groups)))
    summarize(answer, source, None, "setting")
    note_records(answer, answer.lacks)
    if given or kafka_version is not None:
        _note_version(given, judged, version)
    _note_commands(found, given, sorted(groups), judged.version, source)
    partial = note_partial(None, output, answer.lacks)
    return refused or partial or 0


def _note_version(given: dict[str, str], judged: Basis, version: str | None) -> None:
    """Print the version by which values were judged, and differences if none was given."""
    from sharelag.model.settings import differing

    tell(f"checked as Kafka {judged}")
    if not version:
        tell(*differing(given, judged.version))


def _note_commands(
    found: Any, given: dict[str, str], groups: list[str], profile: str, source: Any = None
) -> None:
    """Print Kafka's commands that set the checked values, if Kafka accepts all of them."""
    from sharelag.metrics.settings import setting_commands
    from sharelag.workbench.next_steps import address_of

    for line in setting_commands(found, given, groups, profile, *address_of(source)):
        whose = "as KIP-932 proposed" if profile == PROPOSED else "Kafka's command"
        tell(f"{whose}: {line}")


def _read_settings(
    source: Any, engine: str, options: dict[str, Any], topics: list[str] | None = None
) -> tuple[Any, frozenset[str], Result]:
    """Return settings, their groups, and the answer that lists these groups."""
    from sharelag.schemas import SETTINGS
    from sharelag.workbench.result import Result

    groups = choice_of(options).groups
    # For named groups only the settings are read.
    engine = "local" if groups and engine == "auto" else engine
    answer = Result("", SETTINGS.empty_table(), {}, None, "", start(engine, source))
    if not groups:  # all groups with state
        with open_bench(source, options | {"engine": engine, "as_of": None}) as bench:
            answer = bench.ask("lag")
        groups = frozenset(groups_in(answer.table))
    return source.settings(sorted(groups), topics or []), groups, answer


def _drift(before: Path, output: str, engine: str, options: dict[str, Any]) -> int:
    from sharelag.inputs.open import open_named
    from sharelag.metrics.settings import settings_drift

    earlier, source = open_named(capture=before), source_of(options)
    then, old, before_it = _read_settings(earlier, engine, options)
    now, new, read = _read_settings(source, engine, options)
    found = settings_drift(then, now, old | new)
    answer = replace(read, table=found, lacks=(*before_it.lacks, *read.lacks))
    write_lacking(found, output, views.SETTINGS_DRIFT.columns, answer.lacks)
    for settings in (then, now):
        note(of_settings(settings))
    summarize(answer, source, None, "changed setting")
    note_records(answer, answer.lacks)
    return note_partial(None, output, answer.lacks) or 0


def _lint(path: Path, output: str, options: dict[str, Any] | None) -> int:
    from sharelag.inputs.kafka.config import read_properties
    from sharelag.metrics.settings import lint_rows
    from sharelag.model.settings import unknown_properties

    properties = read_properties(path)
    unknown = unknown_properties(properties)
    if len(unknown) == len(properties):
        raise InputError(
            f"{path} has no property of Kafka's consumers: give a consumer's properties file"
        )
    if options is None:
        found = lint_rows(properties)
    else:
        groups = choice_of(options).groups or {properties.get("group.id", "")} - {""}
        if len(groups) != 1:
            raise click.UsageError(
                "--consumer-config with an input is for one group: name it with --group."
            )
        (group,) = groups
        settings = source_of(options).settings([group], [])
        note(of_settings(settings))
        found = lint_rows(properties, settings, group)
    status = Call.will_end(int(found.num_rows > 0))
    print_rows(found, output, views.LINT.columns)
    if not found.num_rows:
        tell(f"share consumers accept every property of {path}")
    if others := [name for name in unknown if name not in found.column("name").to_pylist()]:
        tell(f"not Kafka's own settings, so for plug-ins or ignored: {', '.join(others)}")
    return status


def _print(answer: Any, output: str, problems: bool) -> None:
    from sharelag.metrics.settings import NO_CONFLICT

    table = answer.table
    if problems:
        table = table.filter(table.column("problem").is_valid())
    has_hints = table.column("hint").null_count < table.num_rows
    view = views.SETTINGS if has_hints else views.SETTINGS.without("hint")
    rows = plain(table)
    if output == "human":  # show problems first
        rows.sort(key=lambda row: row["problem"] is None)
    write_lacking(rows, output, view.columns, answer.lacks, answer.repeated)
    if problems and not rows:
        tell(NO_CONFLICT)


def _values(given: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    if not all(name and equals for name, equals, _ in pairs):
        raise click.UsageError("--set takes NAME=VALUE, such as share.delivery.count.limit=7.")
    names = [name.strip() for name, _, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise click.UsageError(f"--set gives {twice[0]} more than once: remove one of them.")
    return {name: value for name, (_, _, value) in zip(names, pairs, strict=True)}


@click.command(
    cls=Command, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@with_options(option.OUTPUT, option.VERBOSE)
@option.text(f"--kafka-version VERSION  Tool version, such as 4.3.1.  [default: {NEWEST}]")
@click.argument("line", nargs=-1, type=click.UNPROCESSED, required=True, metavar="COMMAND...")
def lint(output: str, kafka_version: str | None, line: tuple[str, ...]) -> int:
    """Check a command of Kafka's tools for share groups, without running it.

    The tools are kafka-share-groups.sh and kafka-console-share-consumer.sh. Write the command after
    lint as it is, or in quotes. Each row is an option with its value, or with Kafka's default; the
    exit code is 1 if Kafka would refuse the command.
    """
    from sharelag.metrics.settings import lint_table
    from sharelag.model.kafka_commands import check_command
    from sharelag.tables.words import pluralize

    start_local()
    words = shlex.split(line[0]) if len(line) == 1 else line
    judged = basis(kafka_version)
    checked = check_command(words, judged.version)
    status = Call.will_end(int(bool(checked.problems)))
    print_rows(lint_table(checked), output, views.LINTED.columns)
    count = len(checked.problems)
    why = f"refuses it: {pluralize(count, 'problem')}" if count else "accepts it"
    tell(f"{checked.tool.name} of Kafka {judged}{',' if judged.why else ''} {why}")
    return status
