"""A secured cluster of three brokers for trouble: its groups, who works on it, and who asks it.

The group ``still`` has stopped reading, so that its lag is known whatever happens to brokers; the
group ``busy`` reads what arrives all the time, so that state records are always being written.
"""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, Self

from confluent_kafka import AcknowledgeType, KafkaException, Producer

from tests.support.command import rows_of, sharelag
from tests.support.kafka.access import rule, set_rules, settings_file
from tests.support.kafka.broker import USERS, KafkaCluster
from tests.support.kafka.bystanders import lacks_untold
from tests.support.kafka.certificates import make_authority, make_certificate
from tests.support.kafka.jars import KAFKA_VERSION
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    share_consumer,
)
from tests.support.stopwatch import timed

#: Partitions of each topic, and of the state topic.
PARTITIONS, STATE_PARTITIONS = 6, 6
#: Seconds until a broker that was killed leads no more.
SESSION = 6
#: What `still` has not read of each partition.
KNOWN = {p: 3 + p for p in range(PARTITIONS)}
_LISTENER = "CLIENTS"
#: The rights of docs/how-to/permissions.md.
RIGHTS = (
    *("TOPIC __share_group_state READ", "TOPIC __share_group_state DESCRIBE"),
    *("TOPIC __consumer_offsets READ", "TOPIC __consumer_offsets DESCRIBE"),
    *("TOPIC * READ", "TOPIC * DESCRIBE", "TOPIC * DESCRIBE_CONFIGS"),
    *("GROUP * DESCRIBE_CONFIGS", "BROKER kafka-cluster DESCRIBE_CONFIGS"),
)
_RULES = """\
version: 1
rules: [{name: lag of still, measure: lag, per: partition, groups: [still], warn: 1000}]
"""
_PROPERTIES = {
    "share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS),
    "offsets.topic.num.partitions": "3",
    "broker.session.timeout.ms": str(SESSION * 1000),
    # Nothing is pruned, so that whoever reads afterwards reads it all.
    "share.coordinator.state.topic.prune.interval.ms": "86400000",
    # Leaders move when a test says so.
    "auto.leader.rebalance.enable": "false",
}


@contextmanager
def troubled(folder: Path, version: str = KAFKA_VERSION) -> Iterator[KafkaCluster]:
    """Three brokers that are all controllers, behind SASL_SSL with SCRAM and an authorizer.

    ``folder``: for certificates, client settings and rules. ``version``: of Kafka.
    """
    make_authority(folder)
    make_certificate(folder, "broker")
    name = f"listener.name.{_LISTENER.lower()}"
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule"
    tls = {
        f"{name}.ssl.keystore.type": "PEM",
        f"{name}.ssl.keystore.location": str(folder / "broker.pem"),
        f"{name}.sasl.enabled.mechanisms": "SCRAM-SHA-256",
        f"{name}.scram-sha-256.sasl.jaas.config": f"{scram} required;",
    }
    with KafkaCluster(
        properties=_PROPERTIES | tls,
        log_requests=True,
        all_control=True,
        secure=True,
        extra_listeners={_LISTENER: "SASL_SSL"},
        heap="400m",
        version=version,
    ) as cluster:
        set_rules(cluster.brokers[0], [rule(text) for text in RIGHTS])
        login = f'{scram} required username="alice" password="{USERS["alice"]}";'
        settings = {"security.protocol": "SASL_SSL", "ssl.truststore.type": "PEM"}
        settings |= {"ssl.truststore.location": str(folder / "ca.pem")}
        settings |= {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": login}
        settings_file(folder, settings)
        (folder / "rules.yaml").write_text(_RULES)
        servers = cluster.bootstrap_servers
        create_topics(servers, {"still": PARTITIONS, "busy": PARTITIONS}, copies=3)
        for group in ("still", "busy"):
            set_group_config(servers, group, share_auto_offset_reset="earliest")
        produce(servers, "still", numbered(10 * PARTITIONS, PARTITIONS))
        share_consume(servers, "still", ["still"], accept, until=10 * PARTITIONS)
        left = [(p, b"left", b"%d" % n) for p, count in KNOWN.items() for n in range(count)]
        produce(servers, "still", left)
        yield cluster


class Busy:
    """Two members of `busy` and a producer at work, as long as the ``with`` block.

    Errors of a cluster in trouble are theirs to survive: a member begins again.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._ended, self._paused = threading.Event(), threading.Event()
        works = (self._produce, self._consume, self._consume)
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]
        self.finished = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(120)
            assert not thread.is_alive()

    def pause(self) -> None:
        """Let nothing arrive any more; members finish what is there."""
        self._paused.set()

    def _produce(self) -> None:
        settings = {"bootstrap.servers": self._servers, "acks": "all", "log_level": 0}
        producer = Producer(settings)
        number = 0
        while not self._ended.wait(0.1):
            if not self._paused.is_set():
                for partition in range(PARTITIONS):
                    producer.produce("busy", b"%d" % number, None, partition)
                    number += 1
            producer.poll(0)
        producer.flush(30)

    def _consume(self) -> None:
        while not self._ended.is_set():
            consumer = share_consumer(self._servers, "busy", ["busy"], log_level=0)
            with suppress(KafkaException):
                while not self._ended.is_set():
                    for message in consumer.poll(0.3):
                        if message.error() is None:
                            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
                            self.finished += 1
                    consumer.commit_sync(10.0)
                    self._ended.wait(0.2)
            with suppress(KafkaException):
                consumer.close()


@dataclass
class Asker:
    """Asks a cluster by commands and judges each answer by what is known of `still`.

    ``cluster``, ``folder``: as of `troubled`. ``timeout``: seconds that commands are given; more
    where they take long with nothing wrong, too.

    ``over`` has the seconds by which each command outlasted its timeout and what it takes
    ``alone``.
    """

    cluster: KafkaCluster
    folder: Path
    timeout: float = 4.0
    happened: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    over: list[float] = field(default_factory=list)
    alone: dict[str, float] = field(default_factory=dict)

    @property
    def options(self) -> list[str]:
        """How commands reach the cluster, by its secured listener."""
        servers = self.cluster.addresses(_LISTENER)
        config = str(self.folder / "client.properties")
        return ["--bootstrap-server", servers, "--command-config", config]

    def begin(self) -> None:
        """Ask each command with nothing wrong: that it is whole, and how long it takes.

        The first time is left out of the seconds: much is imported and compiled then.
        """
        for _ in range(2):
            for command in self._commands():
                answer, seconds = self._run(*command, timeout=30)
                assert answer.returncode == 0, answer.stderr
                self.alone[command[0]] = seconds
                self._judge(command[0], answer)
        assert not self.wrong, self.wrong
        assert self.happened == {"whole answers": 2 * len(self._commands())}
        self.happened.clear()
        # On a busy machine a broker's login takes long: nobody could answer within the least time.
        self.timeout = max(self.timeout, 3 * max(self.alone.values()))

    def ask(self) -> None:
        """Ask each command once."""
        for command in self._commands():
            answer, seconds = self._run(*command, timeout=self.timeout)
            self._judge(command[0], answer)
            over = seconds - self.timeout - self.alone[command[0]]
            self.over.append(round(over, 1))
            if over > 1:
                print(f"{over:.1f} s late: {command[0]} {answer.returncode} {answer.stderr[-900:]}")

    def ask_one(self) -> str:
        """Ask for the lag with time enough for whatever moves; return what came of it."""
        before = self.happened.copy()
        answer, _ = self._run("lag", "-o", "json", timeout=20)
        self._judge("lag", answer)
        (kind,) = self.happened - before
        return kind

    def requests(self) -> Counter[str]:
        """Return how many requests of ours brokers have answered, by kind."""
        counted: Counter[str] = Counter()
        for broker in self.cluster.brokers:
            if broker.request_log.exists():
                text = broker.request_log.read_text(errors="replace")
                counted.update(
                    re.findall(r'"clientId":"sharelag".{0,60}?"requestApiKeyName":"(\w+)"', text)
                )
        return counted

    def _commands(self) -> list[tuple[str, ...]]:
        rules = str(self.folder / "rules.yaml")
        return [
            ("lag", "-o", "json"),
            ("windows", "--group", "still", "-o", "json"),
            ("check", "--rules", rules, "--group", "still"),
            ("capture", str(self._captured), "--overwrite"),
        ]

    @property
    def _captured(self) -> Path:
        return self.folder / "capture"

    def _run(self, command: str, *more: str, timeout: float) -> tuple[CompletedProcess[str], float]:
        limit = ("--timeout", str(int(timeout * 1000)))
        return timed(lambda: sharelag(command, *self.options, *limit, *more))

    def _judge(self, command: str, answer: CompletedProcess[str]) -> None:
        said = f"{command}: {answer.returncode} {answer.stdout[-600:]} {answer.stderr[-600:]}"
        if "unexpected" in answer.stderr or "Traceback" in answer.stderr:
            self.wrong.append(said)
        if command == "check":
            kind = {0: "whole answers", 3: "checks with an unknown result"}.get(answer.returncode)
            self.happened[kind or "wrong"] += 1
            if kind is None:
                self.wrong.append(said)
            return
        if command == "capture" and answer.returncode == 0:
            # What it has captured is judged as what it would have said itself.
            answer = sharelag("lag", "--capture", str(self._captured), "-o", "json")
            command = "lag"
        rows = rows_of(answer)
        rows = [row for row in rows if row["group_id"] == "still"]
        self.happened[self._kind(command, answer.returncode, rows, said)] += 1

    def _kind(self, command: str, code: int, rows: list[dict[str, Any]], said: str) -> str:
        """Judge rows of `still`; only an answer that says so lacks some."""
        there = {row["partition"]: row for row in rows}
        if command == "windows":
            wrong = [p for p, row in there.items() if row["effective_start_offset"] != 10]
        else:
            known = {p: row["lag"] for p, row in there.items() if row["lag"] is not None}
            wrong = [p for p, lag in known.items() if lag != KNOWN[p]]
        is_untold = bool(rows) and lacks_untold(rows, set(KNOWN), STATE_PARTITIONS)
        if wrong or is_untold or code not in (0, 1, 3):
            self.wrong.append(said)
            return "wrong answers"
        if code == 0:
            if there.keys() != KNOWN.keys():
                self.wrong.append(said)
                return "wrong answers"
            is_unknown = command == "lag" and len(known) < len(KNOWN)
            return "whole answers with ends unknown" if is_unknown else "whole answers"
        if rows:
            if code != 3:
                self.wrong.append(said)
            return "answers marked as incomplete"
        if code == 1 and "no broker answered" in said:
            print(f"not answered: {said}")
            return "errors that no broker answered"
        if code != 3:
            self.wrong.append(said)
            return "wrong answers"
        return "refusals with what is missing"
