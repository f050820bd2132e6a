"""`sharelag lint`: what is wrong with a command line of Kafka's tools, before it is run."""

from typing import Any

import pytest

from sharelag.errors import InputError
from sharelag.model.kafka_commands import check_command
from tests.support.command import rows_of, sharelag

_S1 = ("kafka-share-groups.sh", "--bootstrap-server", "localhost:9092", "--group", "S1")
_DATETIME = ("--to-datetime", "1999-12-31T23:57:00.000")


def linted(*words: str) -> tuple[int, dict[str, dict[str, Any]]]:
    done = sharelag("lint", "-o", "json", *words)
    return done.returncode, {row["name"]: row for row in rows_of(done)}


@pytest.mark.row("CLI-01")
def test_a_reset_that_says_neither_dry_run_nor_execute_is_flagged() -> None:
    """GL-19: the commands of the KIP, as they stand there."""
    fine = [
        ("kafka-share-groups.sh", "--bootstrap-server", "localhost:9092", "--list"),
        (*_S1, "--topic", "T1", "--delete-offsets"),
        (*_S1, "--topic", "T1", "--reset-offsets", *_DATETIME, "--execute"),
        (*_S1, "--topic", "T1", "--reset-offsets", "--to-earliest", "-execute"),
    ]
    for words in fine:
        code, rows = linted(*words)
        assert (code, [row["problem"] for row in rows.values()]) == (0, [None] * len(rows)), words
        # In quotes, and with the folder of the tool.
        assert linted(f"/opt/kafka/bin/{' '.join(words)}") == (code, rows)
    code, rows = linted(*_S1, "--topic", "T1", "--reset-offsets", "--to-earliest")
    assert (code, rows["--reset-offsets"]["problem"]) == (1, "it needs --dry-run or --execute")
    assert "--dry-run first" in rows["--reset-offsets"]["hint"]
    assert rows["--group"] == {"name": "--group", "value": "S1", "problem": None, "hint": None}
    assert rows["--timeout"]["value"] == "30000"
    assert rows["--timeout"]["hint"] == "not given: Kafka's default; 5000 in KIP-932"


@pytest.mark.row("CLI-08")
def test_a_console_consumer_without_a_group_has_one_of_kafka() -> None:
    """KIP-932 calls it ``share``; Kafka 4.3.1 has another, by its own class (tests/kafka)."""
    tool = ("kafka-console-share-consumer.sh", "--bootstrap-server", "b:1", "--topic", "T1")
    code, rows = linted(*tool)
    assert code == 0
    assert rows["--group"] == {
        "name": "--group",
        "value": "console-share-consumer",
        "problem": None,
        "hint": "not given: Kafka's default; share in KIP-932",
    }
    assert rows["--formatter"]["value"] == "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
    code, rows = linted(*tool, "--group", "g", "--max-messages", "3", "--timeout-ms", "9")
    assert (code, rows["--group"]["value"], rows["--group"]["hint"]) == (0, "g", None)
    for decides in ("--release", "--reject", "--reject-message-on-error"):
        assert linted(*tool, decides)[0] == 0
    code, rows = linted(*tool, "--release", "--reject")
    assert (code, rows["--reject"]["problem"]) == (1, "it cannot be combined with --release")


def test_what_an_early_release_only_names_is_refused() -> None:
    """KIP-932's actions came one by one: Kafka 4.0 lists and describes, 4.1 deletes, 4.2 resets."""
    first = {"--delete": "4.1", "--delete-offsets": "4.1", "--reset-offsets": "4.2"}
    more = {"--delete-offsets": ("--topic", "T"), "--delete": ()}
    reset = ("--topic", "T", "--to-latest", "--dry-run")
    for action, release in first.items():
        line = (*_S1, action, *more.get(action, reset))
        for version in ("4.0", "4.1", "4.2", "4.4"):
            code, rows = linted("--kafka-version", version, *line)
            assert code == (version < release), (action, version)
            if code:
                assert "not yet implemented" in rows[action]["problem"]
                assert rows[action]["hint"] == f"use the tool of Kafka {release} or newer"
    for version, timeout in (("4.0", "5000"), ("4.1", "30000")):
        _, rows = linted("--kafka-version", version, *_S1, "--describe")
        assert rows["--timeout"]["value"] == timeout


@pytest.mark.parametrize(
    "target", [("--topic", "orders", "--to-offset", "5"), ("--from-file", "plan.csv")]
)
def test_an_option_is_of_the_versions_that_have_it(target: tuple[str, ...]) -> None:
    line = (*_S1, "--reset-offsets", *target, "--dry-run")
    assert (linted(*line)[0], linted("--kafka-version", "4.4.0", *line)[0]) == (0, 0)
    code, rows = linted("--kafka-version", "4.3.1", *line)
    assert code == 1
    name, value = target[-2:]
    assert [row for row in rows.values() if row["problem"]] == [
        {
            "name": name,
            "value": value,
            "problem": "kafka-share-groups.sh has it from Kafka 4.4 on",
            "hint": "use the tool of that release; it works with older brokers",
        }
    ]
    said = sharelag("lint", "--kafka-version", "4.3.1", *line).stderr
    assert said.startswith("sharelag: kafka-share-groups.sh of Kafka 4.3.1 refuses it: ")
    # What a version refuses that earlier ones accept.
    delete = (*_S1, "--delete", "--all-topics")
    assert linted("--kafka-version", "4.3.1", *delete)[0] == 0
    assert linted(*delete)[1]["--all-topics"]["problem"] == "--delete deletes whole groups"
    assert "not a version of Kafka" in sharelag("lint", "--kafka-version", "new", *line).stderr


@pytest.mark.parametrize(
    ("version", "line", "wrong"),
    [
        # One cause, one problem: no rule of the release speaks of an option it does not have.
        ("4.3.1", (*_S1, "--reset-offsets", "--topic", "T", "--to-offset", "5", "--dry-run"),
         {"--to-offset": "5"}),
        ("4.3.1", (*_S1, "--reset-offsets", "--from-file", "p.csv", "--dry-run"),
         {"--from-file": "p.csv"}),
        ("4.3.1", (*_S1, "--reset-offsets", "--topic", "T", "--to-current", "--to-latest",
                   "--dry-run"), {"--to-current": None}),
        ("4.0", (*_S1[:3], "--describe", "--all-groups"), {"--all-groups": None}),
        ("4.0", (*_S1, "--describe", "--all-groups"), {"--all-groups": None}),
        ("4.0", (*_S1[:3], "--list", "--verbose"), {"--verbose": None}),
        ("4.1", ("kafka-console-share-consumer.sh", *_S1[1:3], "--topic", "T", "--property", "a=1",
                 "--formatter-property", "a=1"), {"--formatter-property": "a=1"}),
        # What is given next is the value, as Kafka's parser has it.
        ("4.4", (*_S1, "--reset-offsets", "--topic", "T", "--to-offset", "-5", "--dry-run"), {}),
        ("4.4", (*_S1, "--reset-offsets", "--topic", "--to-latest", "--dry-run"),
         {"--reset-offsets": None}),
        # A value is one that the tool parses when it runs.
        ("4.4", (*_S1[:3], "--list", "--state", "Stable, gone"), {"--state": "Stable, gone"}),
        ("4.4", (*_S1[:3], "--list", "--state", "stable, EMPTY,Dead"), {}),
        ("4.4", (*_S1, "--describe", "--timeout", "5s"), {"--timeout": "5s"}),
        *(("4.4", (*_S1, "--reset-offsets", "--topic", "T", "--to-datetime", time, "--dry-run"),
           {} if is_time else {"--to-datetime": time})
          for time, is_time in {
              "1999-12-31T23:57:00.000+02:00": True, "1999-1-31T3:57:00.1+0200": True,
              "1999-12-31T23:57:00": False, "1999-12-31": False,
              "1999-13-31T23:57:00.000": False, "1999-12-31T23:57:00.1234": False,
          }.items()),
        ("4.4", ("kafka-console-share-consumer.sh", *_S1[1:3], "--topic", "T", "--timeout-ms",
                 "1s"), {"--timeout-ms": "1s"}),
        # What is no option is shown as it was typed.
        ("4.4", (*_S1, "--describe", "-5"), {"-5": None}),
        ("4.4", (*_S1, "--describe", "--verbos=x"), {"--verbos": None}),
    ],
)  # fmt: skip
def test_one_problem(version: str, line: tuple[str, ...], wrong: dict[str, str | None]) -> None:
    code, rows = linted("--kafka-version", version, *line)
    assert {name: row["value"] for name, row in rows.items() if row["problem"]} == wrong
    assert code == bool(wrong)


def test_what_else_is_wrong_is_said_of_the_option() -> None:
    code, rows = linted(*_S1, "--list", "--topci", "t", "--describe", "--state", "Stable")
    assert (code, rows["--group"]["problem"]) == (1, "it cannot be combined with --list")
    assert rows["--topci"]["hint"] == "did you mean --topic?"
    assert rows["--state"]["problem"] == "it takes no value with --describe"
    assert rows["action"]["problem"] == "exactly one is needed"
    said = sharelag("lint", *_S1, "--describe", code=0)
    assumed = "of Kafka 4.4, which is assumed without --kafka-version,"
    assert f"sharelag: kafka-share-groups.sh {assumed} accepts it" in said.stderr
    refused = sharelag("lint", "kafka-share-groups.sh", "--list").stderr
    assert refused == f"sharelag: kafka-share-groups.sh {assumed} refuses it: 1 problem\n"
    with pytest.raises(InputError, match=r"unknown tool 'kafka-topics\.sh': choose one of kafka-"):
        check_command(["kafka-topics.sh", "--list"])
    assert not check_command(["kafka-share-groups.sh", "--help"]).problems
