"""What a plan of a reset says is what kafka-share-groups.sh then does, on three brokers."""

import subprocess
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import sharelag
from sharelag.errors import InputError
from sharelag.inputs import KafkaInput
from sharelag.inputs.files.printed import read_printed_offsets
from sharelag.inputs.kafka.described import parse_offsets
from sharelag.model import milliseconds
from sharelag.model.kafka_commands import check_command
from sharelag.model.versions import has_reached
from tests.support.cases import Cases, few_of
from tests.support.command import ask, refused
from tests.support.command import sharelag as command
from tests.support.kafka.broker import SHARE_GROUPS, KafkaBroker
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.kafka.since import SHARE_CONSUMERS, since
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    produce,
    read_in_part,
    release_at_first,
    set_group_config,
    share_consume,
    share_consumer,
    some_of_each,
)

pytestmark = SHARE_CONSUMERS
KNOWS_LAG = since("4.3", "Kafka prints no lag right after a reset (KAFKA-20034)")
GROUP, TOPIC = "reset-plans", "reset-plan-orders"


@pytest.fixture(scope="module", name="worked")
def group_at_work(first: KafkaBroker) -> KafkaBroker:
    """A group that finished some records, gave some back, and has no members any more."""
    servers = first.bootstrap_servers
    create_topics(servers, {TOPIC: 3}, copies=3)
    set_group_config(servers, GROUP, share_auto_offset_reset="earliest")
    produce(servers, TOPIC, numbered(90, 3), batch=5)
    work(first, some_of_each(40, 3), release_at_first)
    return first


def work(broker: KafkaBroker, until: Any, how: Any = accept) -> None:
    share_consume(broker.bootstrap_servers, GROUP, [TOPIC], how, until=until)


def find_line(notes: Iterable[str], ends: str = "--execute") -> str:
    """Return the command line in the notes of a plan that ends so."""
    (line,) = [note.partition(": ")[2] for note in notes if note.endswith(ends)]
    return line


@KNOWS_LAG
def test_many_resets_do_what_their_plans_say(worked: KafkaBroker, cases: Cases) -> None:
    servers, random = worked.bootstrap_servers, Random("resets")
    times = [datetime.now(UTC)]
    moved, resets = 0, cases(4, 20)
    for number in range(resets):
        if number % 3 == 2:
            produce(servers, TOPIC, numbered(random.randrange(3, 30), 3), batch=3)
            times.append(datetime.now(UTC))
        kind = random.choice(["earliest", "latest", "datetime"])
        to: Any = kind
        if kind == "datetime":
            to = random.choice(times) + timedelta(milliseconds=random.randrange(-500, 500))
            to = to.replace(microsecond=to.microsecond // 1000 * 1000)
        bench = sharelag.open(servers, engine="local", groups=GROUP)
        plan = bench.plan_reset(GROUP, to, topic=TOPIC)
        rows = plan.table.to_pylist()
        worked.run_line(find_line(plan.notes))
        described = parse_offsets(worked.share_groups_describe(GROUP)).to_pylist()
        found = {row["partition"]: (row["start_offset"], row["lag"]) for row in described}
        planned = {row["partition"]: (row["new_start_offset"], row["new_lag"]) for row in rows}
        assert found == planned, (number, to)
        moved += sum(row["new_start_offset"] != row["start_offset"] for row in rows)
        if number % 4 == 0 and any(lag for _, lag in found.values()):
            work(worked, 5)
    assert moved > resets


@KNOWS_LAG
def test_a_reset_to_a_time_begins_with_the_record_of_that_time(first: KafkaBroker) -> None:
    """Of records a second before it, at it and a second after it the second is the first."""
    servers, group, topic = first.bootstrap_servers, "time-plans", "time-plan-orders"
    create_topics(servers, {topic: 1}, copies=3)
    set_group_config(servers, group, share_auto_offset_reset="earliest")
    to = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1)
    times = [milliseconds(to + timedelta(seconds=seconds)) for seconds in (-1, 0, 1)]
    produce(servers, topic, numbered(3, 1), batch=1, times=times)
    share_consume(servers, group, [topic], accept, until=3)
    plan = sharelag.open(servers, engine="local", groups=group).plan_reset(group, to)
    (row,) = plan.table.to_pylist()
    assert (row["new_start_offset"], row["again"]) == (1, 2)
    first.run_line(find_line(plan.notes))
    (found,) = parse_offsets(first.share_groups_describe(group)).to_pylist()
    assert (found["start_offset"], found["lag"]) == (1, row["new_lag"])
    seen = share_consume(servers, group, [topic], accept, until=2)
    assert [one.offset for one in seen] == [1, 2]


def test_what_is_planned_to_come_again_comes_again(worked: KafkaBroker) -> None:
    servers = worked.bootstrap_servers
    reset = ("--group", GROUP, "--topic", TOPIC, "--reset-offsets", "--to-earliest", "--execute")
    worked.share_groups(*reset)
    work(worked, some_of_each(30, 3), release_at_first)
    bench = sharelag.open(servers, engine="local", groups=GROUP)
    rows = bench.plan_reset(GROUP, "earliest").table.to_pylist()
    lag = bench.lag(GROUP).table.to_pylist()
    again = sum(row["again"] for row in rows)
    assert again == sum(row["end_offset"] for row in lag) - sum(row["lag"] for row in lag) > 0
    worked.share_groups(*reset)
    count = sum(row["end_offset"] for row in lag)
    seen = share_consume(servers, GROUP, [TOPIC], accept, until=count)
    expected = {(row["partition"], offset) for row in lag for offset in range(row["end_offset"])}
    assert {(one.partition, one.offset) for one in seen} >= expected


def test_what_kafka_prints_of_local_offsets_is_read(worked: KafkaBroker, tmp_path: Path) -> None:
    printed = worked.ask_tool("GetOffsetShell", "--topic", TOPIC, "--time", "earliest-local")
    (tmp_path / "local.txt").write_text(printed)
    found = read_printed_offsets(tmp_path / "local.txt").to_pylist()
    assert [(row["topic"], row["partition"]) for row in found] == [(TOPIC, n) for n in range(3)]
    # Without remote storage all of a log is on the broker's own disk.
    bench = sharelag.open(worked.bootstrap_servers, engine="local")
    plan = bench.plan_reset(GROUP, "earliest", local_offsets=tmp_path / "local.txt")
    assert plan.table.column("remote").to_pylist() == [0, 0, 0]


@KNOWS_LAG
@pytest.mark.exhaustive
def test_an_offset_that_is_set_by_hand_is_planned_as_kafka_then_has_it(first: KafkaBroker) -> None:
    """At the end of the log, beyond it, of which Kafka prints no lag and nor do we, and within."""
    servers, group, topic = first.bootstrap_servers, "set-plans", "set-plan-orders"
    read_in_part(servers, group, topic, read=60, copies=3, batch=5)
    for offset in (60, 5000, 20):
        plan = sharelag.open(servers, engine="local", groups=group).plan_reset(group, offset)
        (row,) = plan.table.to_pylist()
        said = any("is beyond the end of 1 of 1 log." in note for note in plan.notes)
        assert said == (offset > 60)
        reset_by(first, plan.notes[-1], group, topic, offset, end=60)
        (found,) = parse_offsets(first.share_groups_describe(group)).to_pylist()
        assert (found["start_offset"], found["lag"]) == (row["new_start_offset"], row["new_lag"])
        (lag,) = sharelag.open(servers, engine="local").lag(group).table.to_pylist()
        assert (lag["start_offset"], lag["lag"]) == (found["start_offset"], found["lag"])
        assert lag["lag_reason"] == ("negative_lag" if offset > 60 else None)
        if offset > 60:
            nothing_is_delivered_and_it_is_explained(servers, group, topic)
    assert (row["again"], row["skipped"]) == (50, 0)  # back from beyond the end of the log


def reset_by(broker: KafkaBroker, note: str, group: str, topic: str, offset: int, end: int) -> None:
    """Run the command that a plan names; its tool takes offsets since 4.4, and within the log."""
    if has_reached(KAFKA_VERSION, "4.4"):
        broker.run_line(find_line([note]))
        (found,) = parse_offsets(broker.share_groups_describe(group)).to_pylist()
        assert found["start_offset"] == min(offset, end)
    else:
        release = KAFKA_VERSION.rpartition(".")[0]
        said = f"kafka-share-groups.sh of Kafka {release}, of the input, refuses the command: "
        assert note.startswith(f"{said}--to-offset: kafka-share-groups.sh has it from Kafka 4.4 on")
    if offset > end or not has_reached(KAFKA_VERSION, "4.4"):
        broker.alter_share_group_offsets(group, topic, {0: offset})


def nothing_is_delivered_and_it_is_explained(servers: str, group: str, topic: str) -> None:
    """Ten more records, which lie before the start offset, reach no member."""
    produce(servers, topic, numbered(10, 1))
    with closing(share_consumer(servers, group, [topic])) as member:
        assert not [message for _ in range(6) for message in member.poll(0.5)]
    (row,) = ask("explain --patience 1ms --group", group, at=servers)
    assert (row["cause"], row["severity"], row["topic"]) == ("start_beyond_end", "critical", topic)
    evidence = {one["name"]: one["value"] for one in row["evidence"]}
    assert (evidence["start offset"], evidence["end offset"]) == ("5000", "70")
    assert row["since"]


def test_a_shift_begins_at_the_first_unfinished_offset(first: KafkaBroker) -> None:
    """Kafka writes the start offset of what is finished late: it still says 0."""
    servers, group, topic = first.bootstrap_servers, "shift-plans", "shift-plan-orders"
    read_in_part(servers, group, topic, read=40, copies=3, batch=5)
    bench = sharelag.open(servers, engine="local")
    (window,) = bench.windows(group).table.to_pylist()
    assert window["effective_start_offset"] == 40
    (row,) = bench.plan_reset(group, shift_by=-10).table.to_pylist()
    assert (row["new_start_offset"], row["again"]) == (30, 10)
    first.alter_share_group_offsets(group, topic, {0: row["new_start_offset"]})
    again = share_consume(servers, group, [topic], accept, until=10)
    assert {one.offset for one in again} == set(range(30, 40))


def test_without_state_and_by_partition_it_is_planned_as_kafka_resets(worked: KafkaBroker) -> None:
    servers, topic = worked.bootstrap_servers, "reset-plan-never-read"
    create_topics(servers, {topic: 2}, copies=3)
    produce(servers, topic, numbered(20, 2))
    bench = sharelag.open(servers, engine="local")
    for chosen, places in (
        (topic, [(topic, 0), (topic, 1)]),
        (f"{TOPIC}:0,2", [(TOPIC, 0), (TOPIC, 2)]),
    ):
        plan = bench.plan_reset(GROUP, "earliest", topic=chosen)
        rows = plan.table.to_pylist()
        assert [(row["topic"], row["partition"]) for row in rows] == places
        printed = worked.run_line(find_line(plan.notes, "--dry-run"))
        lines = [line.split() for line in printed.splitlines() if line.strip()]
        found = sorted((line[-3], int(line[-2]), int(line[-1])) for line in lines[1:])
        assert found == sorted(
            (row["topic"], row["partition"], row["new_start_offset"]) for row in rows
        ), printed
    with pytest.raises(InputError, match="there is no topic 'reset-plan-never-raed' on the clu"):
        bench.plan_reset(GROUP, "earliest", topic="reset-plan-never-raed")


@pytest.mark.parametrize("group", few_of(["line\nbreak", "\x1b[31mred\x1b[0m"], ["line\nbreak"]))
def test_the_command_of_any_name_means_that_group(first: KafkaBroker, group: str) -> None:
    servers, topic = first.bootstrap_servers, f"reset-plan-names-{len(group)}"
    read_in_part(servers, group, topic, read=5, copies=3)
    done = command(
        "plan-reset", "--bootstrap-server", servers, "--group", group, "--to-earliest", code=0
    )
    lines = [line for line in done.stderr.splitlines() if line.endswith("--dry-run")]
    words = lines[0].partition("Kafka's command: ")[2]
    script = f"kafka-share-groups.sh() {{ printf '%s\\0' \"$@\"; }}; {words}"
    said = subprocess.run(["bash", "-c", script], capture_output=True, check=True)
    _, address, *arguments = said.stdout.decode().split("\0")[:-1]
    assert address == servers
    assert topic in first.share_groups(*arguments)
    missing = refused("lag", "--bootstrap-server", servers, "--group", "nope")
    assert all(letter.isprintable() or letter == "\n" for letter in missing)
    assert missing.count("\n") == 1
    # Others read what Kafka's command prints of all groups of this cluster.
    first.share_groups("--delete", "--group", group)


def test_a_plan_and_a_record_of_one_group_ask_nothing_of_others(
    worked: KafkaBroker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for name in ("settings", "times", "logs", "past_offsets"):
        monkeypatch.setattr(KafkaInput, name, lambda *_, name=name, **__: asked.append(name))
    servers = worked.bootstrap_servers
    plan = ("plan-reset", "--bootstrap-server", servers, "--group", GROUP, "--to-earliest")
    peek = ("peek", "--bootstrap-server", servers, GROUP, f"{TOPIC}:0:0")
    for arguments in (plan, peek):
        command(*arguments, code=0)
    assert not asked
    assert not caplog.records


def test_values_that_kafkas_command_fails_to_parse_are_refused(worked: KafkaBroker) -> None:
    times = ["1999-12-31T23:57:00.000", "1999-1-31T3:57:00.1+0200", "1999-12-31T23:57:00"]
    times += ["1999-12-31", "1999-13-31T23:57:00.000", "1999-12-31T23:57:00.1234"]
    reset = f"--group {GROUP} --topic {TOPIC} --reset-offsets --dry-run --to-datetime"
    lines = [f"{reset} {time}" for time in times]
    lines += ["--list --state stable,EMPTY", "--list --state gone", "--list --timeout 5s"]
    seen = []
    for line in lines:
        words = ["--bootstrap-server", worked.bootstrap_servers, *line.split()]
        done = worked.run_tool(SHARE_GROUPS, *words)
        seen.append(bool(done.returncode) or done.stdout.lstrip().startswith("Error"))
        ours = check_command(["kafka-share-groups.sh", *words], KAFKA_VERSION).problems
        assert bool(ours) is seen[-1], line
    assert seen == [False, False, True, True, True, True, False, True, True]
