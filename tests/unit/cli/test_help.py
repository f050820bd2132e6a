"""The help says what each command is for, by an example that works; a shell completes commands."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sharelag.cli import cli
from sharelag.cli.options import SECTIONS, Command, Group
from sharelag.metrics.rights import NEEDS
from tests.support.command import sharelag

EXAMPLES = {name: text for some in SECTIONS.values() for name, text in some.items()}
#: Examples that need a cluster, a file of somebody's or a standard input, or that take long.
NOT_RUN = {"doctor", "capture", "requests", "check", "report", "export", "mcp", "demo", "simulate"}
NOT_RUN |= {"consumed", "dlq", "lint", "metrics", "peek"}
INSTALL = (Path(__file__).parents[3] / "docs" / "install.md").read_text()


def test_every_command_stands_in_one_section() -> None:
    names = [name for some in SECTIONS.values() for name in some]
    assert sorted(names) == sorted(cli.commands)


def test_the_rights_of_every_command_that_reads_a_cluster_are_known() -> None:
    reading = {
        name
        for name, command in cli.commands.items()
        for one in (command, *getattr(command, "commands", {}).values())
        if any("--bootstrap-server" in option.opts for option in one.params)
    }
    known = {one.split()[0] for need in NEEDS for one in (*need.needed_by, *need.used_by)}
    assert {"lag", "export", "mcp"} <= reading
    assert reading <= known


def test_the_help_has_sections_whole_summaries_and_examples() -> None:
    text = sharelag("--help").stdout
    words = " ".join(text.split())
    told = [line[:-1] for line in text.splitlines() if line[:1].strip() and line.endswith(":")]
    assert told == ["Options", *SECTIONS]
    for name, example in EXAMPLES.items():
        assert cli.commands[name].get_short_help_str(1000) in words
        assert f"$ {example}\n" in text
    assert "..." not in text.replace("[ARGS]...", "")
    assert max(map(len, text.splitlines())) <= 80


def test_the_help_holds_in_a_narrow_terminal() -> None:
    context = click.Context(cli, info_name="sharelag", terminal_width=60)
    assert max(map(len, cli.get_help(context).splitlines())) <= 80


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_understood(name: str) -> None:
    first, *arguments = shlex.split(EXAMPLES[name])
    context = click.Context(cli)
    command: click.Command = cli
    while isinstance(command, click.Group) and arguments:
        called, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        command = found
        context = command.make_context(called, list(arguments), parent=context)
        arguments = [*context._protected_args, *context.args]
    assert (first, context.find_root().command) == ("sharelag", cli)
    assert EXAMPLES[name].split()[1] == name


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in NOT_RUN])
def test_demo_examples_answer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    answer = sharelag(*shlex.split(EXAMPLES[name])[1:], code=0)
    assert len(answer.stdout.splitlines()) > 1


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_line_of_the_documentation_prints_a_script(shell: str) -> None:
    assert f"_SHARELAG_COMPLETE={shell}_source sharelag" in INSTALL
    script = sharelag(env={"_SHARELAG_COMPLETE": f"{shell}_source"}, code=0)
    assert "_SHARELAG_COMPLETE=" in script.stdout
    if found := shutil.which(shell):
        read = subprocess.run([found, "-n"], input=script.stdout, text=True, check=False)
        assert read.returncode == 0


def completed(shell: str, *words: str) -> list[str]:
    """What the shell is offered for the last of these words."""
    env = {"_SHARELAG_COMPLETE": f"{shell}_complete", "COMP_WORDS": " ".join(words)}
    position = words[-1] if shell == "fish" else str(len(words) - 1)
    return sharelag(env=env | {"COMP_CWORD": position}, code=0).stdout.splitlines()


def test_commands_options_and_choices_are_offered() -> None:
    assert completed("bash", "sharelag", "pl") == ["plain,plan-delete", "plain,plan-reset"]
    assert completed("bash", "sharelag", "lag", "--bootstrap") == ["plain,--bootstrap-server"]
    assert completed("bash", "sharelag", "lag", "--engine", "lo") == ["plain,local"]
    zsh = completed("zsh", "sharelag", "mem")
    assert zsh[:2] == ["plain", "members"]
    assert "members" in re.split(r"[,\t\n]", "\n".join(completed("fish", "sharelag", "mem")))


@pytest.mark.skipif(not shutil.which("bash"), reason="there is no bash")
def test_bash_completes(tmp_path: Path) -> None:
    command = tmp_path / "sharelag"
    command.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from sharelag.cli import main; main()' \"$@\"\n"
    )
    command.chmod(0o755)
    asked = """
    eval "$(_SHARELAG_COMPLETE=bash_source sharelag)"
    COMP_WORDS=(sharelag wi); COMP_CWORD=1
    _sharelag_completion sharelag
    echo "${COMPREPLY[@]}"
    """
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    shell = ["bash", "-c", asked]
    answer = subprocess.run(shell, env=env, capture_output=True, text=True, check=True)
    assert answer.stdout == "windows\n"


# ---- an option of one value that is given twice is refused, not taken as the last one silently ---
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


def test_an_option_of_one_value_is_given_once() -> None:
    for name, option in OPTIONS:
        done = sharelag(*name, option, "1", option, "2", code=3 if name == ("check",) else 2)
        assert f"{option} takes one value and is given more than once: " in done.stderr, name
        assert done.stdout == "" or name == ("check",), (name, option)


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
        code=0,
    )
    assert "billing" in done.stdout
    assert "fulfilment" in done.stdout
