"""Commands that cards offer: each is one that the command line takes, of the same input."""

import shlex
from pathlib import Path

import pytest

from sharelag.cli import cli
from sharelag.inputs import CaptureInput, KafkaInput, RawInput
from sharelag.inputs.kafka.config import ClientConfig
from sharelag.inputs.recorded import folder_of
from sharelag.metrics.causes import CAUSES
from sharelag.workbench.next_steps import input_options, next_command
from tests.support.command import rows_of
from tests.support.command import sharelag as run
from tests.support.readings import open_once

ROW = {"group_id": "billing", "topic": "orders", "partition": 0, "evidence": []}


@pytest.mark.parametrize("cause", [cause.name for cause in CAUSES])
def test_a_command_of_each_cause_answers(cause: str) -> None:
    bench = open_once("demo")
    command = next_command(ROW | {"cause": cause}, input_options(bench.source), 2)
    name, *words = shlex.split(command)
    assert name == "sharelag"
    if words[0] == "simulate":  # as much as shows that it begins
        words += ["--duration", "1s", "--seeds", "2"]
    answer = run(*words, code=0)
    assert answer.stdout + answer.stderr


def test_names_are_quoted_for_a_shell_and_samples_go_by_their_names(tmp_path: Path) -> None:
    hostile = ROW | {"group_id": "a b; rm -rf $HOME", "topic": "it's", "partition": None}
    command = next_command(hostile | {"cause": "head_of_line"}, "")
    assert shlex.split(command)[-4:] == ["--group", "a b; rm -rf $HOME", "--topic", "it's"]
    assert input_options(CaptureInput(folder_of("demo"))) == "--capture demo"
    elsewhere = tmp_path / "a b" / "demo"
    assert shlex.split(input_options(CaptureInput(elsewhere))) == ["--capture", str(elsewhere)]
    cluster = KafkaInput(ClientConfig({"bootstrap.servers": "a:1,b:2"}))
    assert input_options(cluster) == "--bootstrap-server a:1,b:2"
    assert shlex.split(input_options(RawInput("x y.parquet"))) == ["--raw", "x y.parquet"]
    assert input_options(object()) == ""


def test_a_stuck_record_of_a_cluster_is_shown_and_of_a_capture_its_window() -> None:
    row = ROW | {"cause": "head_of_line", "evidence": [{"name": "offset", "value": "4142"}]}
    live = next_command(row, "--bootstrap-server a:1")
    assert live == "sharelag peek --bootstrap-server a:1 billing orders:0:4142"
    assert next_command(row, "--capture demo").startswith("sharelag windows --picture")
    dashed = next_command(row | {"group_id": "--help"}, "--bootstrap-server a:1")
    context = cli.commands["peek"].make_context("peek", shlex.split(dashed)[2:])
    assert (context.params["group"], context.params["place"]) == ("--help", "orders:0:4142")


def test_a_reset_is_planned_of_the_share_partition_that_needs_it_alone() -> None:
    """Others of the group may have a backlog, which a reset to the end would skip."""
    row = ROW | {"cause": "start_beyond_end"}
    words = shlex.split(next_command(row, "--capture demo"))[1:]
    answer = run(*words, "-o", "json")
    (one,) = rows_of(answer)
    assert (one["topic"], one["partition"]) == ("orders", 0)
    assert "--group billing --topic orders:0 --reset-offsets --to-latest" in answer.stderr


def test_the_command_of_an_open_transaction_shows_the_transaction() -> None:
    row = ROW | {"group_id": "invoicing", "topic": "invoices", "cause": "open_transaction"}
    recorded = next_command(row, "--capture demo")
    shown = run(*shlex.split(recorded)[1:]).stdout
    assert "open transaction  invoices:0, holds 636, since 2026-11-23 12:23:08 UTC" in shown
    assert "last stable offset 2978" in shown
    # Of a running cluster Kafka says which producer it is.
    assert next_command(row | {"topic": "a b"}, "--bootstrap-server a:1") == (
        "kafka-transactions.sh --bootstrap-server a:1 describe-producers "
        "--topic 'a b' --partition 0"
    )


def test_the_command_of_slow_consumers_compares_with_the_group_as_it_is() -> None:
    row = ROW | {"group_id": "analytics", "cause": "slow_consumers"}
    words = shlex.split(next_command(row, "--capture demo", 2))[1:]
    answer = run(*words, "--duration", "20s", "--seeds", "3", "-o", "json")
    found = {(one["variant"], one["baseline"]) for one in rows_of(answer)}
    assert found == {("as it is", "as it is"), ("4 members", "as it is")}
    assert "2 variants, 3 seeds, compared seed by seed with as it is" in answer.stderr
