"""A user whose rights or login are taken away while commands run: one sentence, no numbers."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from sharelag.inputs.files import archive as views
from tests.support.command import ask
from tests.support.kafka.access import java_settings, rule, set_rules, settings_file
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.bystanders import Bystander, Exporter
from tests.support.kafka.followed import in_archive
from tests.support.kafka.workload import wait_until
from tests.support.process_list import ProcessList
from tests.support.reliability import Inject

USER, PASSWORD = "dave", "dave-secret-51c"
RIGHTS = ("TOPIC * READ", "TOPIC * DESCRIBE")
#: What is taken away, what who uses it is told, and the kind of error that is counted.
TAKEN = [
    (
        "the rights of a user are revoked",
        "not authorized to read __",  # whichever of the two topics is read next
        "AuthorizationError",
    ),
    ("the login of a user is deleted", "check user, password", "AuthenticationError"),
]


def _rules() -> list[AclBinding]:
    return [rule(text, principal=f"User:{USER}") for text in RIGHTS]


def _credentials(broker: KafkaBroker, is_there: bool) -> None:
    admin = AdminClient(broker.client_config())
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = (
        UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        if is_there
        else UserScramCredentialDeletion(USER, ScramMechanism.SCRAM_SHA_256)
    )
    for done in admin.alter_user_scram_credentials([change]).values():
        done.result(timeout=30)


@pytest.fixture
def options(secured: KafkaBroker, tmp_path: Path) -> Iterator[list[str]]:
    """How commands of a user reach the broker, who may read everything."""
    _credentials(secured, True)
    set_rules(secured, _rules())
    file = settings_file(tmp_path, java_settings(secured, USER, PASSWORD, "SCRAM-SHA-256"))
    yield ["--bootstrap-server", secured.secure_bootstrap_servers, "--command-config", file]
    set_rules(secured, [])


def _take(broker: KafkaBroker, kind: str) -> None:
    if kind == "AuthorizationError":
        set_rules(broker, [])
    else:
        _credentials(broker, False)


def _lags_of(archive: Path) -> list[tuple[int, str]]:
    """The lag that an archive tells of the first partition of orders, and as of when."""
    rows = ask("lag --engine local --capture", str(archive))
    return [(row["lag"], row["as_of"]) for row in rows if _is_mine(row)]


def _is_mine(row: dict[str, Any]) -> bool:
    """Return whether a row is of the first partition, as other tests have groups there, too."""
    return (row["group_id"], row["topic"], row["partition"]) == ("billing", "orders", 0)


@pytest.mark.exhaustive
@pytest.mark.parametrize(("taken", "words", "kind"), TAKEN)
def test_what_runs_says_so_and_shows_no_numbers(
    secured: KafkaBroker,
    options: list[str],
    tmp_path: Path,
    injected: Inject,
    taken: str,
    words: str,
    kind: str,
) -> None:
    """Who follows goes on once it may again: nothing is lost, and nothing is there twice."""
    archive = tmp_path / "archive"
    watch = ["lag", "--watch", "1s", "-o", "json", *options]
    follow = ["capture", "--follow", "--every", "1s", *options, str(archive)]
    with (
        ProcessList() as seen,
        Bystander(watch, tmp_path / "watch.txt") as watcher,
        Bystander(follow, tmp_path / "follow.txt") as follower,
        Exporter(options, tmp_path, {0: 25}) as exporter,
    ):
        scraped = exporter.scrape
        wait_until(lambda: '"lag": 25' in watcher.text(), "the lag is watched")
        wait_until(lambda: "kafka_share_group_lag{" in scraped(), "it is exported")
        wait_until(lambda: views.current(archive).batch >= 0, "a micro-batch is archived")
        wait_until(lambda: bool(_lags_of(archive)), "one has the records of orders", every=1)
        records = in_archive(archive)
        _take(secured, kind)
        for one in (watcher, follower):
            wait_until(lambda one=one: not one.is_running(), "the command has ended")  # type: ignore[misc]
        wait_until(lambda: f'collect_errors_total{{kind="{kind}"}}' in scraped(), "it is counted")
        assert "kafka_share_group_lag{" not in scraped()
        *_, last_of_watcher = watcher.text().splitlines()
        *_, last = follower.text().splitlines()
        ((lag, as_of),) = _lags_of(archive)
        _credentials(secured, True)
        set_rules(secured, _rules())
        follower.look()
        wait_until(lambda: _lags_of(archive)[0][1] > as_of, "it goes on", every=1)
        assert _lags_of(archive)[0][0] == lag == 25
        assert follower.ends == [1]
        text = watcher.text() + exporter.text() + scraped() + follower.text()
    assert last_of_watcher.startswith("sharelag: ")
    assert last.startswith("sharelag: archiving stopped (")
    assert words in last_of_watcher
    assert words in last
    assert last.endswith("it continues where it stopped, or says why it cannot")
    rows = [json.loads(line) for line in watcher.text().splitlines() if line.startswith("{")]
    # The end alone is unknown where the rights went between the state and the end offsets.
    assert {25} <= {row["lag"] for row in rows if _is_mine(row)} <= {25, None}
    assert not re.search("Traceback|unexpected", text)
    # Other tests' groups may be written meanwhile.
    kept = in_archive(archive)
    assert records
    assert set(records) <= set(kept)
    assert len(kept) == len(set(kept))
    assert_no_secret(text, archive, seen)
    injected("rights", f"{taken} while it is used", 1, {"refused, with the reason": 2})
    injected("rights", f"{taken} while it is followed", 1, {"ended, with the reason": 1})


def assert_no_secret(said: str, archive: Path, seen: ProcessList) -> None:
    """Neither what it says, nor its archive and checkpoint, nor the command line of a process."""
    files = [path for path in archive.rglob("*") if path.is_file()]
    assert {"capture.json", "checkpoint"} <= {path.name for path in archive.iterdir()}
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []
    for process in ("--command-config", "org.apache.spark.deploy.SparkSubmit", "pyspark.worker"):
        assert seen.has(process), process
    assert PASSWORD not in said
    assert not seen.has(PASSWORD)
