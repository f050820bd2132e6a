"""One place turns what people name into an input, for the command line, reports and notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from sharelag.cli import cli
from sharelag.errors import InputError
from sharelag.reports.inputs import read
from sharelag.sources.inputs import CaptureInput, KafkaInput, RawInput, SegmentsInput
from sharelag.sources.open import ChoiceError, is_cluster_named, named_input, open_input
from sharelag.sources.recorded import DEMO, folder_of

_SERVERS = "KAFKA_BOOTSTRAP_SERVERS"
_CHOOSE = "choose one input: bootstrap_server, capture, raw or segments"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(_SERVERS, raising=False)


def test_each_option_names_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    demo = folder_of(DEMO)
    assert named_input(capture=demo) == CaptureInput(demo) == open_input(demo) == open_input(DEMO)
    assert named_input(raw="lake.state") == RawInput("lake.state")
    assert named_input(segments="/var/kafka") == SegmentsInput((Path("/var/kafka"),))
    cluster = named_input(bootstrap_server="broker:9092", timeout=3)
    assert isinstance(cluster, KafkaInput)
    assert (cluster.config.bootstrap_servers, cluster.config.timeout) == ("broker:9092", 3)
    assert not is_cluster_named(None)
    monkeypatch.setenv(_SERVERS, "other:9092")
    assert is_cluster_named(None)
    assert named_input().describe() == "cluster at other:9092"
    assert named_input(capture=demo) == CaptureInput(demo)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, _CHOOSE),
        ({"capture": "a", "raw": "b"}, f"{_CHOOSE}, not capture and raw"),
        (
            {"capture": "a", "properties": {"client.id": "x"}},
            f"{_CHOOSE}, not bootstrap_server and capture",
        ),
    ],
)
def test_none_or_several_are_refused_in_one_wording(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ChoiceError) as raised:
        named_input(**given)
    assert str(raised.value) == message


def test_reports_and_the_command_line_say_it_in_their_own_names() -> None:
    with pytest.raises(InputError, match=f"^{_CHOOSE}$"):
        read()
    with pytest.raises(InputError, match=f"^{_CHOOSE}, not capture and segments$"):
        read(capture="a", segments="b")
    wrong = CliRunner().invoke(cli, ["lag", "--capture", "a", "--raw", "b"])
    assert wrong.exit_code == 2
    flags = "--bootstrap-server, --capture, --raw or --segments, not --capture and --raw."
    assert f"choose one input: {flags}" in wrong.stderr
