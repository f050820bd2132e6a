"""A user whose rights or login are taken away while commands run: one sentence, no numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.support.kafka.access import rule, set_rules, settings_file
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.bystanders import Bystander, Exporter
from tests.support.kafka.workload import wait_until
from tests.support.reliability import Inject

USER, PASSWORD = "dave", "dave-secret-51c"
RIGHTS = ("TOPIC * READ", "TOPIC * DESCRIBE")
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def _rules() -> list[AclBinding]:
    given = [rule(text) for text in RIGHTS]
    for one in given:
        one.principal = f"User:{USER}"
    return given


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
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{_SCRAM} required username="{USER}" password="{PASSWORD}";',
    }
    file = settings_file(tmp_path, settings)
    yield ["--bootstrap-server", secured.secure_bootstrap_servers, "--command-config", file]
    set_rules(secured, [])


@pytest.mark.parametrize(
    ("taken", "words", "kind"),
    [
        (
            "the rights of a user are revoked",
            "not authorized to read __share_group_state",
            "AuthorizationError",
        ),
        ("the login of a user is deleted", "check user, password", "AuthenticationError"),
    ],
)
def test_what_runs_says_so_and_shows_no_numbers(
    secured: KafkaBroker,
    options: list[str],
    tmp_path: Path,
    injected: Inject,
    taken: str,
    words: str,
    kind: str,
) -> None:
    watch = ["lag", "--watch", "1s", "-o", "json", *options]
    with (
        Bystander(watch, tmp_path / "watch.txt") as watcher,
        Exporter(options, tmp_path, {0: 25}) as exporter,
    ):

        def scraped() -> str:
            return exporter.scrape()

        wait_until(lambda: '"lag": 25' in watcher.text(), "the lag is watched")
        wait_until(lambda: "kafka_share_group_lag{" in scraped(), "it is exported")
        if kind == "AuthorizationError":
            set_rules(secured, [])
        else:
            _credentials(secured, False)
        wait_until(lambda: not watcher.is_running(), "the command has ended")
        wait_until(lambda: f'collect_errors_total{{kind="{kind}"}}' in scraped(), "it is counted")
        assert "kafka_share_group_lag{" not in scraped()
        text = watcher.text() + exporter.text() + scraped()
    *_, last = watcher.text().splitlines()
    assert last.startswith("sharelag: ")
    assert words in last
    rows = [json.loads(line) for line in watcher.text().splitlines() if line.startswith("{")]
    # The end alone is unknown where the rights went between the state and the end offsets.
    assert {25} <= {row["lag"] for row in rows if row["partition"] == 0} <= {25, None}
    assert PASSWORD not in text
    assert not re.search("Traceback|unexpected", text)
    injected("rights", f"{taken} while it is used", 1, {"refused, with the reason": 2})
