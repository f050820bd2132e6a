"""A check reports what is really wrong on a broker, and no export contains a secret."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from sharelag.wire import STATE_TOPIC
from tests.support.chapters import CAPTURE
from tests.support.command import rows_of, sharelag
from tests.support.kafka.access import java_settings, settings_file
from tests.support.kafka.broker import USERS, KafkaBroker, follower
from tests.support.kafka.bystanders import Exporter
from tests.support.kafka.workload import (
    OF_KAFKA,
    accept,
    create_placed,
    numbered,
    produce,
    read_in_part,
    share_consume,
    wait_until,
)

PATHS = ("/metrics", "/keda/billing", "/keda/none", "/", "/metrics?debug=1")


def rule_file(folder: Path, text: str, name: str = "rules") -> str:
    file = folder / f"{name}.yaml"
    file.write_text(text)
    return str(file)


@pytest.fixture(scope="module")
def two_brokers() -> Iterator[tuple[KafkaBroker, KafkaBroker]]:
    """The first has all internal topics and half of ``orders``; the second has the rest."""
    with KafkaBroker() as first, ExitStack() as stack:
        servers = first.bootstrap_servers
        read_in_part(servers, "billing", "before", read=10)
        second = stack.enter_context(follower(first, 2))
        admin = AdminClient({"bootstrap.servers": servers})
        wait_until(
            lambda: len(admin.list_topics(timeout=10).brokers) == 2,
            "both brokers are in the cluster",
        )
        create_placed(servers, "orders", [[1], [2], [1], [2]])
        produce(servers, "orders", numbered(40, 4))
        share_consume(servers, "billing", ["orders"], accept, until=40)
        yield first, second


@pytest.mark.row("ADM-11")
@pytest.mark.exhaustive
def test_fails_piece_by_piece(two_brokers: tuple[KafkaBroker, KafkaBroker], tmp_path: Path) -> None:
    first, second = two_brokers
    to_it = ("--bootstrap-server", first.bootstrap_servers, "--timeout", "5000")
    rule = "{name: s, measure: state_topic, findings: [undecodable], warn: 1}"
    of_state = rule_file(tmp_path, f"version: 1\nrules: [{rule}]")
    whole = sharelag("check", "--rules", of_state, *to_it)
    assert (whole.returncode, whole.stdout) == (0, "OK: 1 ok\n")
    line = "version: 1\nrules: [{name: lag, measure: lag, per: partition, warn: 1000}]"
    lags = rule_file(tmp_path, line, "lags")
    assert sharelag("check", "--rules", lags, *to_it).returncode == 0
    wrong = (0, b"\x00\x00 no key either", b"no value of Kafka's")
    produce(first.bootstrap_servers, STATE_TOPIC, [wrong], client=OF_KAFKA)
    broken = sharelag("check", "--rules", of_state, *to_it, code=1)
    assert "1 finding: " in broken.stdout
    assert broken.stdout.startswith("WARNING: 1 warning, 1 unknown\n")

    example = str(CAPTURE.parents[1] / "examples" / "rules.yaml")
    second.stop()
    begun = time.monotonic()
    of_half = sharelag("lag", *to_it, "--group", "billing", "--topic", "orders", "-o", "json")
    assert time.monotonic() - begun < 30  # who does not answer is waited for once
    known = rows_of(of_half)
    assert {r["partition"]: (r["lag"], r["end_offset"], r["lag_reason"]) for r in known} == {
        0: (0, 10, None),
        1: (None, None, "no_end_offset"),
        2: (0, 10, None),
        3: (None, None, "no_end_offset"),
    }
    half = sharelag("check", "--rules", lags, *to_it, "-o", "json")
    rows = {one["rule"]: one for one in rows_of(half)}
    assert rows.keys() == {"lag", "completeness"}  # one record of few could not be decoded
    row = rows["lag"]
    assert (half.returncode, row["level"], row["at_this_level"]) == (3, "unknown", 2)
    assert row["summary"] == "the end offset could not be read from the partition's leader"
    shipped = Path(example).read_text().replace("findings: [undecodable, ", "findings: [")
    done = sharelag("check", "--rules", rule_file(tmp_path, shipped), *to_it, "--group", "billing")
    assert "the end offset could not be read from the partition's leader" in done.stdout
    assert done.returncode == 3, done.stdout

    first.kill()
    to_nobody = ("--bootstrap-server", first.bootstrap_servers, "--timeout", "1000")
    for more in ((), ("-o", "json")):
        none = sharelag("check", "--rules", lags, *to_nobody, *more, code=3)
        assert "no broker answered" in none.stdout
    paths = ["/metrics", "/keda/billing"]
    metrics, keda, _ = served(list(to_nobody), tmp_path / "served", paths=paths)
    assert 'kafka_share_group_collect_errors_total{kind="BrokerUnreachableError"} ' in metrics
    assert "Retry-After: 5" in keda
    assert "could not be read" in keda


# ---- secrets
IN_FILE, AS_PARAMETER, IN_ENVIRONMENT = USERS["admin"], "pa5s-of-a-key", "t0ken-in-the-environment"


@pytest.mark.exhaustive  # what commands print: `test_secured.py`
def test_no_secret_is_in_any_output(
    secured: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = settings_file(tmp_path, java_settings(secured, "admin", mechanism="SCRAM-SHA-256"))
    more = ["--command-property", f"ssl.key.password={AS_PARAMETER}"]
    given = ["--command-config", config, *more]
    rules = rule_file(tmp_path, "version: 1\nrules: [{name: r, measure: lag, warn: 100}]")
    out = tmp_path / "out"
    out.mkdir()
    monkeypatch.setenv("SHARELAG_TOKEN", IN_ENVIRONMENT)
    texts: list[str] = []
    wrong = ["--command-property", "sasl.mechanism=SCRAM-SHA-512"]  # which refuses us
    for arguments, code in (
        (["check", "--rules", rules], 0),
        (["check", "--rules", rules, "-o", "json", "-v"], 0),
        (["check", "--rules", rules, *wrong, "-v"], 3),
        (["export", "prometheus", "--textfile", str(out / "x.prom")], 0),
        (["export", "--to", "parquet", "--out", str(out / "lake")], 0),
        (["export", "prometheus", "--textfile", str(out / "none" / "x.prom"), "-v"], 1),
    ):
        answer = sharelag(*arguments, *given, code=code)
        texts += [answer.stdout, answer.stderr]
    texts += served(given, tmp_path / "served", IN_ENVIRONMENT)
    texts += served([*given, *wrong], tmp_path / "refused", IN_ENVIRONMENT)
    texts += [path.read_bytes().decode("latin-1") for path in out.rglob("*") if path.is_file()]
    assert len(texts) > 2 * 6 + 2 * 11
    # In the text file, and of the first server.
    assert sum("kafka_share_group_lag{" in text for text in texts) >= 2
    for secret in (IN_FILE, AS_PARAMETER, IN_ENVIRONMENT):
        assert not [text for text in texts if secret in text]


def served(
    given: list[str], folder: Path, token: str = "", paths: Sequence[str] = PATHS
) -> list[str]:
    """What a server answers, once it has gathered or tried to, and what it says."""
    folder.mkdir()

    def has_gathered() -> bool:
        text = server.get("/metrics", token)
        return bool(text) and "collect_attempts_total 0.0" not in text

    with Exporter(given, folder, {}) as server:
        wait_until(has_gathered, "it has gathered")
        who = (token, "wrong") if token else ("",)
        texts = [server.get(path, one) for path in paths for one in who]
    assert server.slowest < 8  # however long the cluster takes to answer, or not to
    return [*texts, server.text()]
