"""An error in a notebook is the sentence that says what to do, and nothing else."""

import subprocess
import sys
from functools import partial

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import sharelag
from sharelag.errors import InputError, unknown_group, unknown_topic
from sharelag.inputs import CaptureInput
from sharelag.monitoring.checks.judge import check
from sharelag.monitoring.checks.rules import parse_rules
from sharelag.whatif.from_cluster import scenario_from
from tests.support.chapters import CAPTURE
from tests.support.command import refused


def test_a_cell_that_fails_shows_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    run = shell.run_cell("import sharelag; sharelag.open('chapters', engine='local').lag('nobody')")
    said = "".join(capsys.readouterr())
    assert said.strip() == f"InputError: {run.error_in_exec}"
    assert "there is no state of share group 'nobody'" in said
    assert shell.user_ns["sharelag"] is not None
    shell.run_cell("1 / 0")
    assert "Traceback" in "".join(capsys.readouterr())  # of what is no error of ours, all is shown


def test_an_unknown_group_is_worded_once() -> None:
    assert unknown_group("biling", ["billing", "analytics"], "in a capture") == (
        "there is no state of share group 'biling' in a capture: its groups are analytics, "
        "billing; did you mean 'billing'?"
    )
    assert unknown_group("x", [f"group-{n:02}" for n in range(12)]).endswith(
        "group-08, group-09 and 2 more"
    )
    assert unknown_group("x", []).endswith(
        ": check the spelling, and that the group has consumed (kafka-share-groups.sh --list)"
    )


def test_every_way_to_ask_for_an_unknown_group_says_what_was_meant() -> None:
    meant = "; did you mean 'billing'?"
    for command in ("lag", "windows", "explain", "imbalance", "simulate"):
        assert meant in refused(command, "--capture", str(CAPTURE), "--group", "biling")
    bench = sharelag.open(str(CAPTURE), engine="local")
    for ask in (
        sharelag.open(str(CAPTURE), groups="biling", engine="local").explain,
        partial(bench.lag, "biling"),
        partial(bench.progress, "biling"),
        partial(bench.moments, "biling"),
        lambda: bench.scenario("biling"),
        lambda: scenario_from(bench.evidence(), "biling"),
    ):
        with pytest.raises(InputError, match=meant.replace("?", r"\?")):
            ask()
    rules = parse_rules("version: 1\nrules: [{name: a, measure: lag, groups: [biling], warn: 1}]")
    (row,) = check(CaptureInput(CAPTURE), rules, "local").table.to_pylist()
    assert meant in row["summary"]


def test_names_in_messages_cannot_act_on_a_terminal() -> None:
    names = ["\x1b[31mred", "line\nbreak", "plain"]
    for said in (
        unknown_group("x", names),
        unknown_group("\x1b[32mgreen", names, "in a capture"),
        unknown_topic("t\r", names, "g\n"),
    ):
        assert said.isprintable()
        assert "\\x1b[31mred, line\\nbreak, plain" in said


def test_warnings_of_a_command_have_its_prefix_and_one_line() -> None:
    code = (
        "import logging, sys; from sharelag.cli import main; import sharelag.cli as c\n"
        "c.cli = lambda **_: logging.getLogger('sharelag.x').warning('of %s', 'a\\nb') or 0\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "sharelag: of a\\nb\n"
