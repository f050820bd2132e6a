"""Which settings are read through the client library itself."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import libversion

from sharelag.errors import ConfigError
from sharelag.sources.kafka import native
from sharelag.sources.kafka.config import ClientConfig

_ADDRESS = {"bootstrap.servers": "127.0.0.1:1"}
_LOGGER = logging.getLogger("sharelag.librdkafka")


def test_the_library_is_the_clients_own() -> None:
    assert native.library().rd_kafka_version() == libversion()[1]


@pytest.mark.parametrize(
    ("settings", "usable"),
    [
        ({}, True),
        ({"sasl.mechanism": "SCRAM-SHA-256", "socket.keepalive.enable": True}, True),
        ({"sasl.mechanism": "OAUTHBEARER"}, False),
        ({"oauth_cb": print}, False),
    ],
)
def test_what_only_the_client_can_do_is_left_to_it(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], usable: bool
) -> None:
    monkeypatch.setattr(_LOGGER, "handlers", [logging.NullHandler()])  # pytest adds some
    assert native.is_usable(ClientConfig(_ADDRESS | settings)) is usable


def test_who_wants_to_see_the_log_gets_the_client_that_writes_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_LOGGER, "handlers", [logging.NullHandler()])
    assert native.is_usable(ClientConfig(_ADDRESS))
    _LOGGER.addHandler(logging.NullHandler())
    assert not native.is_usable(ClientConfig(_ADDRESS))


def test_another_version_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "libversion", lambda: ("3.0.0", 0x030000FF))
    native.library.cache_clear()
    try:
        assert native.library() is None
    finally:
        native.library.cache_clear()


def test_wrong_settings_are_named() -> None:
    with pytest.raises(ConfigError, match=r"rejected the settings.*fetch\.wait"):
        native.NativeMessages(ClientConfig(_ADDRESS | {"fetch.wait": "1"}), "topic", [])


#: librdkafka brings a cluster of its own for tests; the kernel is missing when messages are there.
_INTERRUPTED = """
from confluent_kafka import Producer
from sharelag.sources.kafka import fetch, native
from sharelag.sources.kafka.config import ClientConfig

producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "-", "log_level": 0})
broker = next(iter(producer.list_topics(timeout=30).brokers.values()))
for _ in range(20_000):
    producer.produce("topic", key=b"k", value=b"v" * 50, partition=0)
    producer.poll(0)
producer.flush(60)

def interrupt(_):
    raise KeyboardInterrupt

native.compiled = interrupt
config = ClientConfig({"bootstrap.servers": f"{broker.host}:{broker.port}"}, 30.0)
try:
    list(fetch.read_ranges(config, "topic", {0: (0, 20_000)}))
except KeyboardInterrupt:
    print("interrupted")
"""


def test_a_reading_that_is_interrupted_ends() -> None:
    """The library waits for every message that it handed out, so all are given back."""
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, timeout=120
    )
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr
