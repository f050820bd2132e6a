"""An option of one value that is given twice is refused, not taken as the last one silently."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from sharelag.cli import cli
from sharelag.cli.once import Command, Group
from tests.support.command import sharelag


def commands(
    found: click.Command = cli, name: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command and group of commands, with its name as people type it."""
    yield name, found
    if isinstance(found, click.Group):
        for one, below in found.commands.items():
            yield from commands(below, (*name, one))


#: Every option of one value of every command; a group's own stand before its commands.
OPTIONS = [
    (name, max(option.opts, key=len))
    for name, found in commands()
    for option in found.params
    if isinstance(option, click.Option) and not (option.is_flag or option.multiple or option.count)
]


def test_every_command_is_of_the_kind_that_refuses() -> None:
    assert all(isinstance(found, Command | Group) for _, found in commands())
    named = {(name[0], option) for name, option in OPTIONS if name}
    assert {("windows", "--raw"), ("lag", "--capture"), ("dlq", "--group")} <= named


@pytest.mark.parametrize(("name", "option"), OPTIONS, ids=lambda one: str(one))
def test_an_option_of_one_value_is_given_once(name: tuple[str, ...], option: str) -> None:
    done = sharelag(*name, option, "1", option, "2")
    assert done.returncode == (3 if name == ("check",) else 2)
    assert f"{option} takes one value and is given more than once: " in done.stderr
    assert done.stdout == "" or name == ("check",)


@pytest.mark.parametrize(
    ("command", "instead"),
    [
        (["windows", "--raw", "a.parquet", "--raw", "b.parquet"], "put them in one folder"),
        (["dlq", "--raw", "state", "--raw", "groups"], "put them in one folder"),
        (["windows", "--capture", "demo", "--capture", "slow"], "run the command once for each"),
        (["report", "daily", "--capture", "demo", "--capture=demo"], "run the command once"),
    ],
)
def test_what_to_do_instead_is_said(command: list[str], instead: str) -> None:
    assert instead in sharelag(*command).stderr


def test_what_may_be_repeated_still_is() -> None:
    done = sharelag(
        *("lag", "--capture", "demo", "--group", "billing", "--group", "fulfilment"),
        *("-o", "json", "-v", "-v"),
    )
    assert done.returncode == 0
    assert "billing" in done.stdout
    assert "fulfilment" in done.stdout
