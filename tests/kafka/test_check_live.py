"""Does a check tell what is really the matter on a broker, and does no secret leave with what is exported?"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.command import sharelag
from tests.kafka.broker import USERS, KafkaBroker
from tests.kafka.describe import parse_describe
from tests.kafka.scenarios import healthy, no_members
from tests.kafka.scenarios_of_records import poison
from tests.kafka.stage import Stage
from tests.kafka.workload import accept, create_topics, numbered, produce, set_group_config, share_consume

STORIES: dict[str, Any] = {"check_healthy": healthy, "check_no_members": no_members, "check_poison": poison}
GROUPS = {name: name.replace("_", "-") for name in STORIES}
RULES = """version: 1
rules:
  - {name: lag, measure: lag, groups: [check-*], warn: 100, critical: 200}
  - {name: lag for long, measure: lag, groups: [check-*], warn: 100, for: 1h}
  # The poison record is the 21st of 24 bites, 0.4 s apart: older than a second however quick the check is.
  - {name: age, measure: age, groups: [check-*], warn: 1s}
  - {name: nobody, measure: cause, causes: [no_members], patience: 1s, groups: [check-*], critical: 1}
  - {name: poison, measure: poison, groups: [check-*], warn: 1}
  - {name: window, measure: window, groups: [check-*], warn: 0.8}
  - {name: retention, measure: retention, groups: [check-*], warn: 1h}
  - {name: state topic, measure: state_topic, findings: [undecodable, misplaced], warn: 1}
"""


@pytest.fixture(scope="module")
def stages(broker: KafkaBroker) -> Iterator[dict[str, Stage]]:
    """Stages by scenario, each at the end of its story, its members still there."""
    with ExitStack() as stack, ThreadPoolExecutor(len(STORIES)) as threads:
        opened = {name: stack.enter_context(Stage(broker.bootstrap_servers, name)) for name in STORIES}
        for story in [threads.submit(STORIES[name], stage) for name, stage in opened.items()]:
            story.result()
        yield opened


def rule_file(folder: Path, text: str = RULES) -> str:
    file = folder / "rules.yaml"
    file.write_text(text)
    return str(file)


def test_each_trouble_is_told_of_its_group_and_no_other(
    broker: KafkaBroker, stages: dict[str, Stage], tmp_path: Path
) -> None:
    command = ("check", "--rules", rule_file(tmp_path), "--bootstrap-server", broker.bootstrap_servers)
    answer = sharelag(*command, "-o", "json")
    assert answer.returncode == 2, answer.stderr
    rows = [json.loads(line) for line in answer.stdout.splitlines()]
    found = {(row["rule"], row["group_id"]): row for row in rows}
    assert len(rows) == len(found) == 7 * 3 + 1
    healthy, alone, poisoned = GROUPS.values()
    levels = {place: row["level"] for place, row in found.items() if row["level"] != "ok"}
    assert levels == {
        ("lag", alone): "critical",
        ("age", alone): "warning",
        ("age", poisoned): "warning",
        ("nobody", alone): "critical",
        ("poison", poisoned): "warning",
    }
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
    assert people.stdout.splitlines()[0] == "CRITICAL: 2 critical, 3 warning, 17 ok"
    assert [line.split()[0] for line in people.stdout.splitlines()[2:]] == ["critical"] * 2 + ["warning"] * 3


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("measure: lag, groups: [check-healthy], warn: 1", 0),
        ("measure: lag, groups: [check-no-members], warn: 200, critical: 10000", 1),
        ("measure: lag, groups: [check-no-members], warn: 200, for: 500ms", 1),
        ("measure: lag, groups: [check-no-members], critical: 200", 2),
        ("measure: lag, groups: [check-no-member], critical: 200", 3),
    ],
)
def test_exit_codes(broker: KafkaBroker, stages: dict[str, Stage], tmp_path: Path, line: str, code: int) -> None:
    file = rule_file(tmp_path, f"version: 1\nrules: [{{name: r, {line}}}]")
    answer = sharelag("check", "--rules", file, "--bootstrap-server", broker.bootstrap_servers)
    assert answer.returncode == code, answer.stdout


def test_the_exported_lag_is_kafkas(broker: KafkaBroker, stages: dict[str, Stage], tmp_path: Path) -> None:
    file = tmp_path / "sharelag.prom"
    given = ("--bootstrap-server", broker.bootstrap_servers, "--group", GROUPS["check_no_members"])
    answer = sharelag("export", "prometheus", "--textfile", str(file), *given)
    assert answer.returncode == 0, answer.stderr
    families = {family.name: family.samples for family in text_string_to_metric_families(file.read_text())}
    ours = {(s.labels["topic"], int(s.labels["partition"])): s.value for s in families["kafka_share_group_lag"]}
    described = parse_describe(broker.share_groups_describe(GROUPS["check_no_members"]))
    assert ours == {(row["topic"], row["partition"]): row["lag"] for row in described}
    assert [s.value for s in families["kafka_share_group_members"]] == [0]


# ---- secrets

IN_FILE, AS_PARAMETER, IN_ENVIRONMENT = USERS["admin"], "pa5s-of-a-key", "t0ken-in-the-environment"


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaBroker]:
    with KafkaBroker(secure=True) as running:
        servers = running.bootstrap_servers
        create_topics(servers, {"orders": 1})
        produce(servers, "orders", numbered(20, 1))
        set_group_config(servers, "billing", **{"share.auto.offset.reset": "earliest"})
        share_consume(servers, "billing", ["orders"], accept, until=20)
        yield running


def secrets_given(broker: KafkaBroker, folder: Path) -> list[str]:
    file = folder / "client.properties"
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="admin" password="{IN_FILE}";'
    file.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={login}\n")
    return [
        "--bootstrap-server", broker.secure_bootstrap_servers, "--command-config", str(file),
        "--command-property", f"ssl.key.password={AS_PARAMETER}",
    ]  # fmt: skip


def test_no_secret_is_in_any_output(secured: KafkaBroker, tmp_path: Path) -> None:
    given = secrets_given(secured, tmp_path)
    rules = rule_file(tmp_path, "version: 1\nrules: [{name: r, measure: lag, warn: 1}]")
    out = tmp_path / "out"
    out.mkdir()
    environment = {"SHARELAG_TOKEN": IN_ENVIRONMENT}
    texts: list[str] = []
    for arguments, code in (
        (["check", "--rules", rules], 0),
        (["check", "--rules", rules, "-o", "json", "-v"], 0),
        (["check", "--rules", rules, "--command-property", "sasl.mechanism=SCRAM-SHA-512", "-v"], 3),
        (["export", "prometheus", "--textfile", str(out / "x.prom")], 0),
        (["export", "--to", "parquet", "--out", str(out / "lake")], 0),
        (["export", "prometheus", "--textfile", str(out / "none" / "x.prom"), "-v"], 1),
    ):
        answer = sharelag(*arguments, *given, env=environment)
        assert answer.returncode == code, answer.stdout + answer.stderr
        texts += [answer.stdout, answer.stderr]
    texts += served(given, environment)
    texts += [path.read_bytes().decode("latin-1") for path in out.rglob("*") if path.is_file()]
    assert len(texts) > 16
    assert any("kafka_share_group_lag{" in text for text in texts)
    for secret in (IN_FILE, AS_PARAMETER, IN_ENVIRONMENT):
        assert not [text for text in texts if secret in text]


def served(given: list[str], environment: dict[str, str]) -> list[str]:
    """What a server says and answers, at first with its cluster, then with one that refuses us."""
    texts = []
    for more in ([], ["--command-property", "sasl.mechanism=SCRAM-SHA-512"]):
        command = [sys.executable, "-c", "from sharelag.cli import main; main()", "export", "serve", "--port", "0"]
        with subprocess.Popen(
            [*command, *given, *more],
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
                for path in ("/metrics", "/keda/billing", "/keda/none", "/", "/metrics?debug=1"):
                    texts += [_get(found[0] + path, bearer) for bearer in (IN_ENVIRONMENT, "wrong")]
                process.send_signal(signal.SIGTERM)
                texts += list(process.communicate(timeout=30))
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
