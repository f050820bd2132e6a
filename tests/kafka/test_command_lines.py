"""Kafka's tools refuse the command lines that we say they refuse, and no others."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from sharelag.model.kafka_commands import CONSOLE, SHARE_GROUPS, Tool, check_command
from sharelag.model.versions import has_reached
from tests.support.cases import few_of
from tests.support.kafka.jars import COMPARED
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.since import since
from tools.releases import RELEASES

#: Files that a command line names have to exist: no random one names any.
FILES = {"command-config", "consumer-config", "formatter-config"}
VALUES = {
    "timeout": "5000",
    "timeout-ms": "100",
    "max-messages": "3",
    "to-offset": "5",
    "from-file": "plan.csv",
    "to-datetime": "1999-12-31T23:57:00.000",
    "formatter": "org.apache.kafka.tools.consumer.DefaultMessageFormatter",
    "bootstrap-server": "localhost:9092",
    "key-deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
    "value-deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
    "property": "print.offset=true",
    "formatter-property": "print.offset=true",
    "consumer-property": "client.id=c",
    "command-property": "client.id=c",
    "state": "Stable",
}

#: In a usual run the two newest.
RELEASED = few_of((one.version for one in RELEASES), COMPARED)
HAS_OPTIONS = since("4.2", "tools of the preview took other options")
#: What people also type.
ODD = ["-execute", "-group=x", "--exec", "-e", "--no-such", "word", "--group"]


@pytest.fixture(scope="module", name="kafka", params=COMPARED)
def command_lines(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle("CommandLines", version=request.param) as oracle:
        yield oracle


@pytest.fixture(scope="module")
def version(kafka: Oracle) -> str:
    return kafka.version


def random_line(random: Random, tool: Tool, version: str) -> list[str]:
    tool = tool.of_version(version)
    names = sorted(tool.options - FILES - {"help", "version"})
    chosen = random.sample(names, random.randint(1, 6))
    if random.random() < 0.8:
        chosen.append("bootstrap-server")
    if tool is CONSOLE and random.random() < 0.7:
        chosen.append("topic")
    words: list[str] = []
    for name in dict.fromkeys(chosen):
        value = VALUES.get(name, "x")
        if name in tool.flags or (name in tool.optional and random.random() < 0.5):
            words.append(f"--{name}")
        else:
            words += [f"--{name}={value}"] if random.random() < 0.3 else [f"--{name}", value]
    if random.random() < 0.1:
        words.append(random.choice(ODD))
    return words


@pytest.mark.parametrize("tool", [SHARE_GROUPS, CONSOLE], ids=lambda tool: tool.name)
@pytest.mark.parametrize("kafka", RELEASED, indirect=True)
def test_random_command_lines(kafka: Oracle, version: str, tool: Tool, cases: Any) -> None:
    random = Random(tool.name)
    lines = [random_line(random, tool, version) for _ in range(cases(50, 20_000))]
    kind = "groups" if tool is SHARE_GROUPS else "console"
    answers = kafka.ask_many([{"tool": kind, "args": line} for line in lines])
    seen, of_values = set(), {why for _, why in tool.forms.values()}
    for line, theirs in zip(lines, answers, strict=True):
        ours = check_command([tool.name, *line], version)
        # Whether there is exactly one action, and one that is implemented, is looked at after this,
        # before a cluster is reached; and so are values.
        refused = any(
            one.name != "action"
            and one.why not in of_values
            and "not yet implemented" not in one.why
            for one in ours.problems
        )
        assert refused == theirs["refused"], (" ".join(line), [str(one) for one in ours.problems])
        seen.add(refused)
    assert seen == {True, False}


@HAS_OPTIONS
def test_options_of_a_later_version(kafka: Oracle, version: str) -> None:
    """KIP-1323; and ``--delete`` takes no topics any more, not even all."""
    begin = ["--bootstrap-server", "b:1", "--group", "pay"]
    reset = [*begin, "--reset-offsets", "--dry-run"]
    lines = {
        (*reset, "--topic", "orders", "--to-offset", "5"): "4.4",
        (*reset, "--topic", "orders:0,1", "--to-current"): "4.4",
        (*reset, "--from-file", "plan.csv"): "4.4",
        (*reset, "--all-topics", "--to-latest", "--export"): "4.4",
        (*reset, "--all-topics", "--from-file", "plan.csv"): "never",
        (*reset, "--topic", "orders", "--to-offset", "-5"): "4.4",
        (*reset, "--topic", "orders", "-5", "--to-latest"): "never",
        (*reset, "--topic", "--to-latest"): "never",
        (*reset, "--topic", "--orders", "--to-latest"): "always",
        (*reset, "--topic", "orders"): "never",
        (*begin, "--delete", "--all-topics"): "until 4.4",
        (*begin, "--delete", "--topic", "orders"): "never",
        (*begin, "--delete"): "always",
    }
    is_later = has_reached(version, "4.4")
    for line, which in lines.items():
        theirs = kafka.ask({"tool": "groups", "args": line})["refused"]
        expected = {"4.4": not is_later, "until 4.4": is_later, "always": False, "never": True}
        assert theirs is expected[which], line
        assert bool(check_command([SHARE_GROUPS.name, *line], version).problems) is theirs, line


def test_a_console_consumer_without_a_group(kafka: Oracle) -> None:
    line = ["--bootstrap-server", "b:1", "--topic", "t"]
    theirs = kafka.ask({"tool": "console", "args": line})
    assert theirs == {"refused": False, "group": CONSOLE.defaults["group"]}
