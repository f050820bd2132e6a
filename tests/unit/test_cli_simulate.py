"""Does `simulate` answer people and machines, from a capture and by name?"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from sharelag.cli.what_if import simulate
from sharelag.demo import CAPTURE

SLOW = str(CAPTURE.parent / "scenarios" / "slow")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(simulate, arguments)


def rows(*arguments: str) -> list[dict[str, Any]]:
    answer = run(*arguments, "-o", "json")
    assert answer.exit_code == 0, answer.output
    return [json.loads(line) for line in answer.stdout.splitlines()]


def test_a_row_for_each_assignor_and_number_of_members() -> None:
    lines = rows(
        *("--capture", SLOW, "--assignor", "simple", "--assignor", "lag-aware-sticky", "--members", "2,4"),
        *("--seed", "0", "--seed", "1", "--duration", "30"),
    )
    assert [(line["members"], line["assignor"], line["seed"]) for line in lines] == [
        (members, assignor, seed)
        for members in (2, 4)
        for assignor in ("simple", "lag-aware-sticky")
        for seed in (0, 1)
    ]
    assert {line["duration_ms"] for line in lines} == {30_000}
    assert lines[0]["arrived"] == lines[2]["arrived"] != lines[1]["arrived"]
    answer = run("--capture", SLOW, "--duration", "1")
    assert "sharelag: assumed: " in answer.stderr
    assert "ms of work for each record" in answer.stderr


@pytest.mark.parametrize("output", ["json", "yaml", "csv", "human"])
def test_every_format_says_the_same(output: str) -> None:
    answer = run("--scenario", "delivery-limit", "-o", output)
    assert answer.exit_code == 0, answer.output
    if output == "human":
        heading, line = answer.stdout.splitlines()
        told: Any = dict(zip(heading.split(), line.split(), strict=True))
        assert (told["SCENARIO"], told["ARCHIVED"], told["REDELIVERIES"]) == ("delivery-limit", "1", "4")
        return
    if output == "csv":
        (told,) = csv.DictReader(io.StringIO(answer.stdout))
    else:
        told = json.loads(answer.stdout) if output == "json" else yaml.safe_load(answer.stdout)[0]
    assert (told["scenario"], int(told["archived"]), int(told["redeliveries"])) == ("delivery-limit", 1, 4)


def test_the_timeline_has_a_row_a_step() -> None:
    lines = rows("--scenario", "delivery-limit", "--timeline", "--duration", "2")
    assert [line["time_ms"] for line in lines] == list(range(0, 2001, 100))
    assert lines[0]["lag"] == 1
    assert lines[-1]["lag"] == 0
    assert lines[0]["assignor"] == "simple"


def test_the_scenarios_are_listed() -> None:
    listed = rows("--scenario", "list")
    assert {"scenario", "about"} == set(listed[0])
    assert "window-full" in {line["scenario"] for line in listed}


def test_what_is_wrong_is_said() -> None:
    assert run("--scenario", "gaps", "--members", "few").exit_code == 2
    assert run("--scenario", "gaps", "--members", "-1").exit_code == 2
    assert "window-full" in str(run("--scenario", "nothing").exception)
    assert "lag-aware-sticky" in str(run("--scenario", "gaps", "--assignor", "nothing").exception)
    assert "choose one share group" in str(run("--capture", str(CAPTURE)).exception)
    assert run().exit_code == 2


def test_a_group_is_chosen_among_many() -> None:
    (line,) = rows("--capture", str(CAPTURE), "--group", "billing", "--members", "3", "--duration", "5")
    assert (line["scenario"], line["members"]) == ("billing", 3)
