"""A broker of three is killed or stopped: answers are whole, or say what could not be read."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING

import pytest

from sharelag.wire import GROUP_TOPIC, STATE_TOPIC
from tests.support.command import rows_of, sharelag, sharelag_process
from tests.support.kafka.broker import KafkaBroker, KafkaCluster, frozen
from tests.support.kafka.bystanders import SCRAPE, Exporter, lacks_untold
from tests.support.kafka.describe import parse_topics
from tests.support.kafka.workload import leaders, read_in_part, wait_until
from tests.support.reliability import Inject
from tests.support.stopwatch import timed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.exhaustive
PARTITIONS, STATE_PARTITIONS = 24, 12
SESSION = 10  # seconds until a broker that was killed leads no more
#: Seconds in which the one broker that is left answers on a busy machine, too; less than a session.
TIMEOUT = 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    settings = {"broker.session.timeout.ms": str(SESSION * 1000)}
    settings["share.coordinator.state.topic.num.partitions"] = str(STATE_PARTITIONS)
    with KafkaCluster(properties=settings) as cluster:
        servers = cluster.bootstrap_servers
        all_of_it = 10 * PARTITIONS
        read_in_part(servers, "billing", "orders", partitions=PARTITIONS, read=all_of_it, copies=3)
        yield cluster


def led_by(cluster: KafkaCluster, number: int) -> set[int]:
    """Return the state partitions that a broker leads."""
    led = leaders(cluster.bootstrap_servers, STATE_TOPIC)
    return {partition for partition, leader in led.items() if leader == number}


def lags(answer: CompletedProcess[str]) -> dict[int, int]:
    assert answer.returncode == 0, answer.stderr
    rows = rows_of(answer)
    return {row["partition"]: row["lag"] for row in rows}


def wrong_in(answer: CompletedProcess[str], whole: CompletedProcess[str]) -> int:
    """Count rows that differ from those of the whole answer; an end may be silent, and unknown."""
    told, known = ({row.get("partition"): row for row in rows_of(one)} for one in (answer, whole))
    same = ("group_id", "topic_id", "partition", "start_offset", "lag", "state_epoch", "records")
    return sum(
        row.get(name) not in (known.get(partition, {}).get(name), None)
        for partition, row in told.items()
        for name in same
    )


def told_in_part(
    answer: CompletedProcess[str], silent: set[int], whole: dict[int, int]
) -> dict[int, int | None]:
    """Return lag by partition of an answer that lacks some, once it has said so everywhere.

    On a busy machine it may lack more than what is silent: it has little time for the others.
    """
    assert answer.returncode == 3, answer.stdout + answer.stderr
    rows = rows_of(answer)
    unread = set(rows[0]["unread_state_partitions"])
    assert silent <= unread
    assert not lacks_untold(rows, set(whole), STATE_PARTITIONS)
    assert "this answer is not complete: partition " in answer.stderr
    return {row["partition"]: row.get("lag") for row in rows}


def test_an_answer_in_part_says_so_while_leaders_move(
    cluster: KafkaCluster, injected: Inject, tmp_path: Path
) -> None:
    *_, victim = cluster.brokers
    wait_until(lambda: len(led_by(cluster, 3)) > 0, "the third broker leads state partitions")
    asked = ("lag", "--bootstrap-server", cluster.bootstrap_servers, "-o", "json", "--timeout")
    sharelag(*asked, "20000")  # what is imported and compiled now, once
    undisturbed_answer, undisturbed = timed(lambda: sharelag(*asked, "20000"))
    whole = lags(undisturbed_answer)
    assert whole == dict.fromkeys(range(PARTITIONS), 0)

    victim.kill()
    first, took = timed(lambda: sharelag(*asked, "2000"))
    over = took - 2 - undisturbed
    assert over < 2
    silent = led_by(cluster, 3)
    assert 0 in told_in_part(first, silent, whole).values()
    server = ("--bootstrap-server", cluster.bootstrap_servers, "--timeout", "500")
    for_people = sharelag("lag", *server, code=3)
    assert for_people.stdout, for_people.stderr
    last = for_people.stdout.splitlines()[-1]
    said = re.fullmatch(r"INCOMPLETE: .* state partitions? ([\d, ]+) are missing", last)
    assert said
    assert silent <= set(map(int, said[1].split(",")))
    # A sum, a cause, a rule and a capture of a part would be wrong without saying so.
    given = [sharelag("lag", *server, "--by", "group"), sharelag("explain", *server)]
    given.append(sharelag("capture", *server, str(tmp_path / "capture")))
    refused = [answer for answer in given if answer.returncode]
    # A busy machine may take so long that others lead meanwhile.
    assert len(refused) == len(given) or led_by(cluster, 3) == set()
    for answer in refused:
        assert (answer.returncode, answer.stdout) == (3, ""), answer.stderr
        unread = re.search(rf"partition ([\d, ]+) of {STATE_TOPIC} \(led by ", answer.stderr)
        assert unread, answer.stderr
        assert silent <= set(map(int, unread[1].split(",")))
        assert "broker 3 at " in answer.stderr
        assert "though other brokers did" in answer.stderr
    assert (tmp_path / "capture").exists() == (given[-1].returncode == 0)
    with ThreadPoolExecutor(4) as askers:
        patience = str((3 * SESSION + 20) * 1000)
        answers = [askers.submit(sharelag_process, *asked, patience) for _ in range(4)]
    assert led_by(cluster, 3) == set()
    wrong = wrong_in(first, undisturbed_answer)
    wrong += sum(lags(answer.result()) != whole for answer in answers)
    measured = {"seconds after the timeout": round(max(over, 0), 1)}
    injected(
        "brokers",
        "a broker is killed (kill -9)",
        1,
        {
            "whole answers": len(answers),
            "answers marked as incomplete": 2,
            "refusals with what is missing": len(refused),
        },
        wrong=wrong,
        measured=measured,
    )
    assert wrong == 0


@pytest.mark.parametrize("command", ["lag", "windows", "explain", "progress", "health"])
def test_no_command_outlasts_its_timeout_while_a_leader_is_silent(
    cluster: KafkaCluster, command: str, injected: Inject
) -> None:
    """A leader that keeps its connections and answers nothing: each request to it waits."""
    asked = (command, "--bootstrap-server", cluster.bootstrap_servers, "-o", "json", "--timeout")
    whole, undisturbed = timed(lambda: sharelag(*asked, "20000"))
    assert whole.returncode == 0, whole.stderr
    number = next(number for number in (2, 1) if led_by(cluster, number))
    with frozen(cluster.brokers[number - 1]):
        answer, took = timed(lambda: sharelag(*asked, str(TIMEOUT * 1000)))
    print(f"{command}: exit {answer.returncode} after {took:.1f} s, alone {undisturbed:.1f} s")
    happened, silent = "whole answers", led_by(cluster, number)
    over, wrong = took - TIMEOUT - undisturbed, wrong_in(answer, whole)
    if answer.returncode == 0:
        assert len(answer.stdout.splitlines()) == len(whole.stdout.splitlines())
    else:
        assert answer.returncode == 3, answer.stderr
        assert f"did not answer within {TIMEOUT} s" in answer.stderr
        happened = "refusals with what is missing"
        if command in ("lag", "windows"):
            happened = "answers marked as incomplete"
            told_in_part(answer, silent, dict.fromkeys(range(PARTITIONS), 0))
        else:
            assert answer.stdout == ""
    measured = {"seconds after the timeout": round(max(over, 0), 1)}
    injected(
        "brokers", "a broker is stopped (SIGSTOP)", 1, {happened: 1}, wrong=wrong, measured=measured
    )
    assert wrong == 0
    assert over < 2


def test_spark_answers_in_part_as_one_process_does(
    cluster: KafkaCluster, spark: SparkSession, injected: Inject
) -> None:
    asked = ("--bootstrap-server", cluster.bootstrap_servers, "--engine", "spark", "-o", "json")
    number = next(number for number in (2, 1) if led_by(cluster, number))
    whole = sharelag("lag", *asked, "--timeout", "60000")
    assert set(lags(whole).values()) == {0}
    silent = led_by(cluster, number)  # a client that asks the silent one first waits too long
    with frozen(cluster.brokers[number - 1]):
        answer = sharelag("lag", *asked, "--timeout", "3000")
    told_in_part(answer, silent, dict.fromkeys(range(PARTITIONS), 0))
    told, wrong = {"answers marked as incomplete": 1}, wrong_in(answer, whole)
    injected("brokers", "a broker is stopped (SIGSTOP)", 1, told, wrong=wrong)
    assert wrong == 0


def test_a_silent_partition_of_the_groups_records_refuses_members_alone(
    cluster: KafkaCluster, tmp_path: Path, injected: Inject
) -> None:
    lead(cluster, {STATE_TOPIC: 1, GROUP_TOPIC: 2, "orders": 1}, tmp_path)
    assert not led_by(cluster, 2)
    asked = ("--bootstrap-server", cluster.bootstrap_servers, "-o", "json", "--timeout")
    answers = []
    for command in ("lag", "explain", "members"):
        with frozen(cluster.brokers[1]):  # for one alone: once its session has ended, others lead
            answers.append(sharelag(command, *asked, "2000"))
        assert sharelag("members", *asked, "60000").returncode == 0  # it is back
    whole, *refused = answers
    wrong = int(lags(whole) != dict.fromkeys(range(PARTITIONS), 0))
    for answer in refused:
        assert (answer.returncode, answer.stdout) == (3, "")
        assert f" of {GROUP_TOPIC} (led by broker 2 at " in answer.stderr
    injected(
        "brokers",
        f"the leader of {GROUP_TOPIC} is stopped (SIGSTOP)",
        1,
        {"whole answers": 1, "refusals with what is missing": len(refused)},
        wrong=wrong,
    )
    assert wrong == 0


def lead(cluster: KafkaCluster, topics: dict[str, int], folder: Path) -> None:
    """Let one of the first two brokers lead all partitions of each topic, by Kafka's commands."""
    servers = cluster.bootstrap_servers
    moved = [
        {"topic": topic, "partition": p, "replicas": [leader, 3 - leader]}  # the third may be dead
        for topic, leader in topics.items()
        for p in leaders(servers, topic)
    ]
    plan = folder / "reassign.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moved}))
    ask_tool, preferred = cluster.brokers[0].ask_tool, ("--election-type", "preferred")
    execute = ("--execute", "--reassignment-json-file", str(plan))
    ask_tool("reassign.ReassignPartitionsCommand", *execute)

    def are_in_sync() -> bool:  # a broker that was silent is so again after a while
        described = parse_topics(ask_tool("TopicCommand", "--describe"))
        mine = ((topics[topic], row) for (topic, _), row in described.items() if topic in topics)
        return all(leader in row["in_sync_replicas"] for leader, row in mine)

    wait_until(are_in_sync, "the brokers are in sync that are to lead")
    ask_tool("LeaderElectionCommand", *preferred, "--all-topic-partitions")
    wait_until(
        lambda: all(set(leaders(servers, topic).values()) == {n} for topic, n in topics.items()),
        "the brokers lead what they are to lead",
    )


#: Seconds after which the exporter shows the numbers of a cluster no more that has just hung: those
#: of `gathered`, for a collection every two seconds with a timeout of two, and what a busy machine
#: adds.
OLD = 40.0


def test_the_numbers_of_a_broker_that_hangs_end_and_come_back(
    tmp_path: Path, injected: Inject
) -> None:
    with KafkaBroker() as broker:
        servers = broker.bootstrap_servers
        read_in_part(servers, "still", "still", partitions=2, read=20)
        options = ["--bootstrap-server", servers, "--timeout", "2000"]
        with Exporter(options, tmp_path, {0: 0, 1: 0}) as exporter:

            def has_numbers() -> bool:
                return "kafka_share_group_lag{" in exporter.scrape()

            wait_until(has_numbers, "the exporter has collected", 120)
            with frozen(broker):
                hung = time.monotonic()
                wait_until(lambda: not has_numbers(), "no numbers are shown any more", OLD)
                ended = time.monotonic() - hung
                # Old numbers must not come back while the broker hangs: looked at for 5 s.
                for _ in range(10):
                    assert not has_numbers()
                    time.sleep(0.5)
            wait_until(has_numbers, "numbers are shown again", 120)
    wrong = len(exporter.wrong)
    injected(
        "brokers",
        "the only broker is stopped while the exporter is scraped (SIGSTOP)",
        1,
        exporter.happened,
        wrong=wrong,
        measured={
            "seconds until no numbers are shown": round(ended, 1),
            "seconds for a scrape": exporter.slowest,
        },
    )
    assert (exporter.wrong, exporter.ends) == ([], [])
    assert exporter.slowest < SCRAPE
