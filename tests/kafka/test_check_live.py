"""A check reports what is really wrong on a broker, and no export contains a secret."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from prometheus_client.parser import text_string_to_metric_families

from sharelag.wire.fields import STATE_TOPIC
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag
from tests.support.kafka.broker import USERS, KafkaBroker
from tests.support.kafka.cluster import follower
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.scenarios import healthy, hot_partition, no_members, slow
from tests.support.kafka.scenarios_of_records import poison, window_full
from tests.support.kafka.stage import Stage
from tests.support.kafka.workload import (
    accept,
    create_topics,
    numbered,
    produce,
    set_group_config,
    share_consume,
    wait_until,
)


def short_retention(stage: Stage) -> None:
    """The only member leaves; what arrives then is kept for half an hour, as the topic is set."""
    stage.open(2, retention_ms="1800000")
    stage.join()
    stage.wait_finished()
    stage.leave()
    stage.produce(20)


STORIES: dict[str, Any] = {
    "check_healthy": healthy,
    "check_no_members": no_members,
    # Its last attempt is under way until all is looked at: the broker allows no longer lock.
    "check_poison": partial(poison, lock_ms=60_000),
    "check_window_full": window_full,
    "check_hot_partition": hot_partition,
    # Far more than they finish until this is asked about, however long the other stories take.
    "check_slow": partial(slow, arriving=320),
    "check_short_retention": short_retention,
}
GROUPS = {name: name.replace("_", "-") for name in STORIES}
PATHS = ("/metrics", "/keda/billing", "/keda/none", "/", "/metrics?debug=1")
RULES = """version: 1
rules:
  - {name: lag, measure: lag, groups: [check-healthy, check-no-members, check-poison], warn: 100, critical: 200}
  - {name: lag for long, measure: lag, groups: [check-*], warn: 100, for: 1h}
  # The poison record is the 21st of 24, 0.4 s apart: older than a second in any check.
  - {name: age, measure: age, groups: [check-healthy, check-no-members, check-poison], warn: 1s}
  - {name: nobody, measure: cause, causes: [no_members], patience: 1s, groups: [check-*], critical: 1}
  - {name: poison, measure: poison, groups: [check-*], warn: 1}
  - {name: window, measure: window, groups: [check-*], warn: 0.8, critical: 1}
  - {name: drain, measure: drain, groups: [check-healthy, check-no-members, check-slow], warn: 10m, critical: 1h}
  - {name: uneven, measure: imbalance, groups: [check-healthy, check-slow, check-hot-partition], min_lag: 50, warn: 3}
  - {name: retention, measure: retention, groups: [check-*], warn: 1h, critical: 10m}
  - {name: state topic, measure: state_topic, findings: [undecodable, misplaced], warn: 1}
"""


@pytest.fixture(scope="module")
def stages(broker: KafkaBroker) -> Iterator[dict[str, Stage]]:
    """Stages by scenario, each at the end of its story, its members still there."""
    with ExitStack() as stack, ThreadPoolExecutor(len(STORIES)) as threads:
        opened = {
            name: stack.enter_context(Stage(broker.bootstrap_servers, name)) for name in STORIES
        }
        for story in [threads.submit(STORIES[name], stage) for name, stage in opened.items()]:
            story.result()
        yield opened


def rule_file(folder: Path, text: str = RULES, name: str = "rules") -> str:
    file = folder / f"{name}.yaml"
    file.write_text(text)
    return str(file)


@pytest.mark.exhaustive
def test_each_trouble_is_reported_for_its_group_and_no_other(
    broker: KafkaBroker, stages: dict[str, Stage], tmp_path: Path
) -> None:
    command = (
        "check",
        "--rules",
        rule_file(tmp_path),
        "--bootstrap-server",
        broker.bootstrap_servers,
    )
    answer = sharelag(*command, "-o", "json")
    assert answer.returncode == 2, answer.stderr
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    found = {(row["rule"], row["group_id"]): row for row in rows}
    assert len(rows) == len(found) == 5 * 7 + 4 * 3 + 1
    healthy, alone, poisoned, full, hot, slowly, short = GROUPS.values()
    levels = {place: row["level"] for place, row in found.items() if row["level"] != "ok"}
    # It finishes a whole poll at a time, and nothing arrives any more: its rates are what a span of
    # a few seconds happens to hold.
    assert levels.pop(("drain", slowly)) in ("critical", "warning", "unknown")
    assert levels == {
        ("lag", alone): "critical",
        ("age", alone): "warning",
        ("age", poisoned): "warning",
        ("nobody", alone): "critical",
        ("nobody", short): "critical",
        ("poison", poisoned): "warning",
        ("window", full): "critical",
        ("drain", alone): "critical",
        ("uneven", hot): "warning",
        ("retention", short): "warning",
    }
    # Its lock is held: the window is as wide as the group's own limit.
    assert 1 <= found["window", full]["value"] < 1.2
    assert 3 < found["uneven", hot]["value"] <= 6  # of six partitions
    assert 1_500_000 < found["retention", short]["value"] < 1_800_000
    assert found["state topic", None]["value"] == 0
    # As much as Kafka's own command says.
    described = parse_describe(broker.share_groups_describe(alone))
    assert found["lag", alone]["value"] == sum(row["lag"] or 0 for row in described) == 240
    place = found["poison", poisoned]
    assert (place["topic"], place["partition"]) == (stages["check_poison"].topic, 1)
    assert found["lag", healthy]["value"] == 0
    # What was made a moment ago has not lagged for an hour.
    assert found["lag for long", alone]["level"] == "ok"
    people = sharelag(*command)
    assert people.returncode == 2
    first, _, *lines = people.stdout.splitlines()
    (drain,) = [line for line in lines if line.split()[1:3] == ["drain", slowly]]
    lines.remove(drain)
    counts = Counter({level: int(n) for n, level in re.findall(r"(\d+) (\w+)", first)})
    counts[drain.split()[0]] -= 1
    assert first.startswith("CRITICAL: ")
    assert +counts == {"critical": 5, "warning": 5, "ok": 37}
    assert [line.split()[0] for line in lines[:10]] == ["critical"] * 5 + ["warning"] * 5
    # What is fine so far is there only if it would be worse after a while.
    assert all(line.startswith("ok ") and "would be " in line for line in lines[10:])


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("measure: lag, groups: [check-no-members], warn: 200, for: 500ms", 1),
        ("measure: lag, groups: [check-no-member], critical: 200", 3),
    ],
)
def test_exit_codes(
    broker: KafkaBroker, stages: dict[str, Stage], tmp_path: Path, line: str, code: int
) -> None:
    file = rule_file(tmp_path, f"version: 1\nrules: [{{name: r, {line}}}]")
    answer = sharelag("check", "--rules", file, "--bootstrap-server", broker.bootstrap_servers)
    assert answer.returncode == code, answer.stdout


def test_the_exported_lag_is_kafkas(
    broker: KafkaBroker, stages: dict[str, Stage], tmp_path: Path
) -> None:
    file = tmp_path / "sharelag.prom"
    given = ("--bootstrap-server", broker.bootstrap_servers, "--group", GROUPS["check_no_members"])
    answer = sharelag("export", "prometheus", "--textfile", str(file), *given)
    assert answer.returncode == 0, answer.stderr
    families = {
        family.name: family.samples for family in text_string_to_metric_families(file.read_text())
    }
    ours = {
        (s.labels["topic"], int(s.labels["partition"])): s.value
        for s in families["kafka_share_group_lag"]
    }
    described = parse_describe(broker.share_groups_describe(GROUPS["check_no_members"]))
    assert ours == {(row["topic"], row["partition"]): row["lag"] for row in described}
    assert [s.value for s in families["kafka_share_group_members"]] == [0]


# ---- a cluster that fails piece by piece


@pytest.fixture(scope="module")
def two_brokers() -> Iterator[tuple[KafkaBroker, KafkaBroker]]:
    """The first has all internal topics and half of ``orders``; the second has the rest."""
    with KafkaBroker() as first, ExitStack() as stack:
        servers = first.bootstrap_servers
        set_group_config(servers, "billing", **{"share.auto.offset.reset": "earliest"})
        create_topics(servers, {"before": 1})
        produce(servers, "before", numbered(10, 1))
        share_consume(servers, "billing", ["before"], accept, until=10)
        second = stack.enter_context(follower(first, 2))
        admin = AdminClient({"bootstrap.servers": servers})
        wait_until(
            lambda: len(admin.list_topics(timeout=10).brokers) == 2,
            "both brokers are in the cluster",
        )
        topic = NewTopic("orders", 4, replica_assignment=[[1], [2], [1], [2]])
        admin.create_topics([topic])["orders"].result(timeout=30)
        wait_until(lambda: leaders(admin) == [1, 2, 1, 2], "all partitions have leaders")
        produce(servers, "orders", numbered(40, 4))
        share_consume(servers, "billing", ["orders"], accept, until=40)
        yield first, second


def leaders(admin: AdminClient) -> list[int]:
    return [
        part.leader
        for _, part in sorted(
            admin.list_topics("orders", timeout=10).topics["orders"].partitions.items()
        )
    ]


@pytest.mark.row("ADM-11")
def test_a_cluster_fails_piece_by_piece(
    two_brokers: tuple[KafkaBroker, KafkaBroker], tmp_path: Path
) -> None:
    first, second = two_brokers
    to_it = ("--bootstrap-server", first.bootstrap_servers, "--timeout", "5000")
    of_state = rule_file(
        tmp_path,
        "version: 1\nrules: [{name: s, measure: state_topic, findings: [undecodable], warn: 1}]",
    )
    whole = sharelag("check", "--rules", of_state, *to_it)
    assert (whole.returncode, whole.stdout) == (0, "OK: 1 ok\n")
    line = "version: 1\nrules: [{name: lag, measure: lag, per: partition, warn: 1000}]"
    lags = rule_file(tmp_path, line, "lags")
    assert sharelag("check", "--rules", lags, *to_it).returncode == 0
    # Brokers take records for their own topics from this client alone.
    writer = Producer({"bootstrap.servers": first.bootstrap_servers, "client.id": "__admin_client"})
    writer.produce(STATE_TOPIC, b"no value of Kafka's", b"\x00\x00 no key either", 0)
    assert writer.flush(30) == 0
    writer.close()  # it would look for its broker, and complain, for as long as it is there
    broken = sharelag("check", "--rules", of_state, *to_it)
    assert broken.returncode == 1, broken.stdout
    assert "1 finding: " in broken.stdout
    assert broken.stdout.startswith("WARNING: 1 warning, 1 unknown\n")

    example = str(CAPTURE.parents[1] / "examples" / "rules.yaml")
    second.stop()
    begun = time.monotonic()
    of_half = sharelag("lag", *to_it, "--group", "billing", "--topic", "orders", "-o", "json")
    assert time.monotonic() - begun < 30  # who does not answer is waited for once
    known = [json.loads(one) for one in of_half.stdout.splitlines()]
    assert {
        row["partition"]: (row["lag"], row["end_offset"], row["lag_reason"]) for row in known
    } == {
        0: (0, 10, None),
        1: (None, None, "no_end_offset"),
        2: (0, 10, None),
        3: (None, None, "no_end_offset"),
    }
    half = sharelag("check", "--rules", lags, *to_it, "-o", "json")
    rows = {one["rule"]: one for one in map(json.loads, half.stdout.splitlines())}
    assert rows.keys() == {"lag", "completeness"}  # one record of few could not be decoded
    row = rows["lag"]
    assert (half.returncode, row["level"], row["at_this_level"]) == (3, "unknown", 2)
    assert row["summary"] == "the end offset could not be read from the partition's leader"
    shipped = Path(example).read_text().replace("findings: [undecodable, ", "findings: [")
    answer = sharelag(
        "check", "--rules", rule_file(tmp_path, shipped), *to_it, "--group", "billing"
    )
    assert "the end offset could not be read from the partition's leader" in answer.stdout
    assert answer.returncode == 3, answer.stdout

    first.kill()
    to_nobody = ("--bootstrap-server", first.bootstrap_servers, "--timeout", "1000")
    for more in ((), ("-o", "json")):
        none = sharelag("check", "--rules", lags, *to_nobody, *more)
        assert none.returncode == 3
        assert "no broker answered" in none.stdout
    text = served(list(to_nobody), {}, paths=["/metrics", "/keda/billing"])
    assert len(text) == 4  # what it says, two answers, and the rest of what it says
    assert 'kafka_share_group_collect_errors_total{kind="BrokerUnreachableError"} 1.0' in text[1]
    assert "Retry-After: 5" in text[2]
    assert "could not be read" in text[2]


# ---- secrets

IN_FILE, AS_PARAMETER, IN_ENVIRONMENT = USERS["admin"], "pa5s-of-a-key", "t0ken-in-the-environment"


def secrets_given(broker: KafkaBroker, folder: Path) -> list[str]:
    file = folder / "client.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'{module} required username="admin" password="{IN_FILE}";'
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={login}\n"
    )
    return [
        "--bootstrap-server",
        broker.secure_bootstrap_servers,
        "--command-config",
        str(file),
        "--command-property",
        f"ssl.key.password={AS_PARAMETER}",
    ]


def test_no_secret_is_in_any_output(secured: KafkaBroker, tmp_path: Path) -> None:
    given = secrets_given(secured, tmp_path)
    rules = rule_file(tmp_path, "version: 1\nrules: [{name: r, measure: lag, warn: 100}]")
    out = tmp_path / "out"
    out.mkdir()
    environment = {"SHARELAG_TOKEN": IN_ENVIRONMENT}
    texts: list[str] = []
    for arguments, code in (
        (["check", "--rules", rules], 0),
        (["check", "--rules", rules, "-o", "json", "-v"], 0),
        (
            ["check", "--rules", rules, "--command-property", "sasl.mechanism=SCRAM-SHA-512", "-v"],
            3,
        ),
        (["export", "prometheus", "--textfile", str(out / "x.prom")], 0),
        (["export", "--to", "parquet", "--out", str(out / "lake")], 0),
        (["export", "prometheus", "--textfile", str(out / "none" / "x.prom"), "-v"], 1),
    ):
        answer = sharelag(*arguments, *given, env=environment)
        assert answer.returncode == code, answer.stdout + answer.stderr
        texts += [answer.stdout, answer.stderr]
    for more in ([], ["--command-property", "sasl.mechanism=SCRAM-SHA-512"]):  # which refuses us
        texts += served([*given, *more], environment)
    texts += [path.read_bytes().decode("latin-1") for path in out.rglob("*") if path.is_file()]
    assert len(texts) > 2 * 6 + 2 * 12
    assert (
        sum("kafka_share_group_lag{" in text for text in texts) >= 2
    )  # in the text file, and of the first server
    for secret in (IN_FILE, AS_PARAMETER, IN_ENVIRONMENT):
        assert not [text for text in texts if secret in text]


def served(
    given: list[str], environment: dict[str, str], paths: Sequence[str] = PATHS
) -> list[str]:
    """What a server says and answers, once it has gathered, or tried to."""
    texts = []
    command = [
        sys.executable,
        "-c",
        "from sharelag.cli import main; main()",
        "export",
        "serve",
        "--port",
        "0",
    ]
    with subprocess.Popen(
        [*command, *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    ) as process:
        try:
            assert process.stderr is not None
            first = process.stderr.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", first)
            assert found, first
            texts.append(first)
            bearer = environment.get("SHARELAG_TOKEN", "")
            begun = time.monotonic()
            _get(f"{found[0]}/metrics", bearer)
            assert (
                time.monotonic() - begun < 8
            )  # however long the cluster takes to answer, or not to
            wait_until(
                lambda: "collect_attempts_total 0.0" not in _get(f"{found[0]}/metrics", bearer),
                "it has gathered",
            )
            for path in paths:
                texts += [
                    _get(found[0] + path, one) for one in ((bearer, "wrong") if bearer else ("",))
                ]
            process.send_signal(signal.SIGTERM)
            texts += ["".join(process.communicate(timeout=30))]
            assert process.returncode == 0
        finally:
            process.kill()
    return texts


def _get(url: str, token: str) -> str:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return f"{answer.headers}{answer.read().decode()}"
    except urllib.error.HTTPError as error:
        with error:
            return f"{error.headers}{error.read().decode()}"
