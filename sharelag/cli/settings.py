"""`sharelag settings`: what is in force, where it comes from, and what Kafka would refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from sharelag.cli.options import (
    ENGINE,
    INPUT,
    NAMES,
    OUTPUT,
    TIMEOUT,
    VERBOSE,
    choice_of,
    names_cluster,
    source_of,
    with_options,
)
from sharelag.cli.output import groups_in, note_settings, start, summarise, write
from sharelag.cli.progress_bar import reading_bar
from sharelag.cli.validate import flags, given_options
from sharelag.model.settings.catalogue import PROFILES
from sharelag.tables import views
from sharelag.tables.words import terminal

#: Options that say what to read of an input.
_OF_INPUT = ("group", "all_groups", "topic", "engine", "timeout")


@click.command()
@with_options(INPUT, NAMES, OUTPUT, ENGINE, TIMEOUT, VERBOSE)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="Check this value as if it were set; repeatable. Without an input, the other settings "
    "have Kafka's defaults.",
)
@click.option(
    "--kafka-version",
    type=click.Choice(PROFILES),
    help="Settings of this version, for --set without an input; draft: KIP-932 while under "
    "discussion.  [default: 4.3.1]",
)
@click.option(
    "--consumer-config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Check a consumer's properties file: what share consumers refuse or ignore.",
)
def settings(
    output: str,
    engine: str,
    given: tuple[str, ...],
    kafka_version: str | None,
    consumer_config: Path | None,
    **options: Any,
) -> int:
    """Show the settings in force for each group, where they come from, and what conflicts.

    With --set or --consumer-config, the exit code is 1 when Kafka would refuse or ignore a value.
    """
    from sharelag.metrics.settings_in_force import check_given

    values = _values(given)
    has_input = any(options[name] for name in ("capture", "raw", "segments")) or names_cluster(
        options
    )
    if consumer_config is not None:
        if values or has_input or kafka_version:
            raise click.UsageError("--consumer-config is checked alone: remove the other options.")
        return _lint(consumer_config, output)
    if values and not has_input:
        if ignored := given_options(_OF_INPUT):
            raise click.UsageError(f"{flags(ignored)} without an input: add one, or remove them.")
        found = check_given(values, kafka_version or "4.3.1")
        _print(found, output)
        return _status(found)
    if kafka_version:
        raise click.UsageError("--kafka-version is for --set without an input: remove it.")
    found = _in_force(values, output, engine, options)
    return _status(found) if values else 0


def _status(found: Any) -> int:
    return int(found.column("problem").null_count < found.num_rows)


def _in_force(given: dict[str, str], output: str, engine: str, options: dict[str, Any]) -> Any:
    from sharelag.metrics.settings_in_force import settings_in_force
    from sharelag.workbench.engine import Answer, reading

    source, choice = source_of(options), choice_of(options)
    groups, rejected = choice.groups, 0
    # Of groups that are named nothing is read but their settings.
    engine = start("local" if groups and engine == "auto" else engine, source)
    with reading_bar(source) as read:
        if not groups:  # those that have any state
            with reading(read, engine, None, choice, history=False) as begun:
                groups, rejected = frozenset(groups_in(begun.table("lag"))), begun.counted.rejected
        known = read.settings(sorted(groups), [])
    answer = Answer(settings_in_force(known, sorted(groups), given), rejected, engine)
    _print(answer.table, output)
    note_settings(known)
    for group in sorted(groups - set(known.column("entity").to_pylist())):
        note = f"sharelag: no settings of share group {group!r} are known: a new group has these"
        click.echo(terminal(note), err=True)
    summarise(answer, source, None, "setting")
    return answer.table


def _lint(path: Path, output: str) -> int:
    import javaproperties

    from sharelag.errors import InputError
    from sharelag.metrics.settings_in_force import lint_rows
    from sharelag.tables.lines import lines, plain_rows

    try:
        with path.open("rb") as file:
            found = lint_rows(javaproperties.load(file))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is not a properties file: {error}") from error
    write(lines(plain_rows(found), output, views.LINT.columns))
    if not found.num_rows:
        click.echo(f"sharelag: share consumers accept every property of {path}", err=True)
    return int(found.num_rows > 0)


def _print(table: Any, output: str) -> None:
    from sharelag.tables.lines import lines, plain_rows

    has_hints = table.column("hint").null_count < table.num_rows
    view = views.SETTINGS if has_hints else views.SETTINGS.without("hint")
    write(lines(plain_rows(table), output, view.columns))


def _values(given: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    if not all(name and equals for name, equals, _ in pairs):
        raise click.UsageError("--set takes NAME=VALUE, such as share.delivery.count.limit=7.")
    names = [name.strip() for name, _, _ in pairs]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise click.UsageError(f"--set gives {twice[0]} more than once: leave one of them out.")
    return {name: value for name, (_, _, value) in zip(names, pairs, strict=True)}
