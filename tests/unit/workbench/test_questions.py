"""A question has one answer: a method and a command say the same, and read no more than it needs."""

import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

import sharelag
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput
from sharelag.tables.lines import plain_rows
from sharelag.tables.words import terminal
from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from sharelag.workbench import Workbench
from sharelag.workbench.ask import QUESTIONS, find_question
from tests.support.command import rows_of
from tests.support.command import sharelag as command
from tests.support.readings import open_once
from tests.support.written_input import Write, WrittenInput

#: A command and the question that it asks.
COMMANDS = {
    "lag": "lag",
    "lag --by group": "lag",
    "lag --brief": "lag",
    "explain": "explain",
    "progress": "progress",
    "brokers": "brokers",
    "groups": "group_states",
    "members": "members",
    "imbalance": "imbalance",
    "reconcile": "reconcile",
    "settings": "settings",
    "settings --group nobody": "settings",
    "health": "health",
    "health --snapshots": "snapshots",
    "plan-delete --group billing": "plan_delete",
    "plan-reset --group billing --to-latest": "plan_reset",
    "plan-reset --group billing --to-latest --simulate --members=2": "plan_reset",
}
OPTIONS: dict[str, dict[str, object]] = {
    "lag --by group": {"by": "group"},
    "lag --brief": {"brief": True},
    "settings --group nobody": {"group": "nobody"},
    "health --snapshots": {},
    "plan-delete --group billing": {"group": "billing"},
    "plan-reset --group billing --to-latest": {"group": "billing", "to": "latest"},
    "plan-reset --group billing --to-latest --simulate --members=2": {
        "group": "billing",
        "to": "latest",
        "simulate": True,
        "members": 2,
    },
}


#: In the other sample no group has members, and some share partitions were never fetched.
ASKED = [("demo", line) for line in COMMANDS]
ASKED += [("chapters", line) for line in ("lag", "members", "progress")]


@pytest.mark.parametrize(("sample", "line"), ASKED)
def test_a_command_and_a_method_say_the_same(line: str, sample: str) -> None:
    result = getattr(open_once(sample), COMMANDS[line])(**OPTIONS.get(line, {}))
    done = command(*line.split(), "--capture", sample, "--engine", "local", "-o", "json")
    said = done.stderr.splitlines()
    rows = rows_of(done)
    assert rows == json.loads(json.dumps(plain_rows(result.table)))
    for sentence in (*result.notes, *(f"not known: {one}" for one in result.unknown)):
        assert f"sharelag: {terminal(sentence)}" in said
    assert done.returncode == (3 if result.lacks else 0)


@pytest.mark.parametrize(
    ("name", "topics"),
    [
        *(("lag", [STATE_TOPIC]), ("windows", [STATE_TOPIC]), ("history", [STATE_TOPIC])),
        *(("reconcile", [STATE_TOPIC]), ("group_states", [STATE_TOPIC, GROUP_TOPIC])),
        ("explain", [STATE_TOPIC, GROUP_TOPIC]),
    ],
)
def test_a_question_reads_no_topic_that_it_does_not_need(name: str, topics: list[str]) -> None:
    source = WrittenInput([Write(5, 10), Write(3, 12)])
    getattr(Workbench(source, engine="local"), name)()
    assert source.asked == topics


def test_options_that_differ_have_answers_that_differ() -> None:
    """Also mappings that come to lie where another one lay in memory."""
    bench, name = open_once("poison"), "share.record.lock.duration.ms"
    for value in ("20000", "30000", "40000"):
        rows = bench.settings(given={name: value}).table.to_pylist()
        assert {row["value"] for row in rows if row["name"] == name} == {value}


def test_the_state_topic_is_read_once_for_its_health(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[str] = []
    batches = CaptureInput.batches

    def note(source: CaptureInput, topic: str) -> Iterator[pa.RecordBatch]:
        reads.append(topic)
        return batches(source, topic)

    monkeypatch.setattr(CaptureInput, "batches", note)
    assert command("health", "--capture", "poison", "--engine", "local").returncode == 0
    assert reads == [STATE_TOPIC]


def test_every_question_is_a_method_and_names_tables_that_there_are() -> None:
    within = {"skew", "imbalance_trend"}  # asked by `imbalance`, with --verdict and --every
    assert {name for name in QUESTIONS if not hasattr(Workbench, name)} <= within
    bench = open_once("poison")
    for name in QUESTIONS:
        for table in find_question(name).needs - {"evidence", "records", "history", "health"}:
            bench.reading.table(table)


def test_a_group_that_was_chosen_and_is_not_there_is_an_error_of_every_question() -> None:
    bench = sharelag.open("poison", groups="poisen", engine="local")
    for name in ("lag", "windows", "explain", "progress", "brokers", "imbalance"):
        with pytest.raises(InputError, match="did you mean 'poison'"):
            getattr(bench, name)()
