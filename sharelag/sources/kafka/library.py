"""The client library as we use it: what it logs, and how its clients are made."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from sharelag.errors import ConfigError
from sharelag.sources.kafka.config import ClientConfig

# Receives what librdkafka would print to standard error; add a handler to see it.
_LOG = logging.getLogger("sharelag.librdkafka")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False

# Five times as fast as the client's defaults, which wait a second whenever 100,000 records are
# queued. The user's settings take precedence.
_PACE = {
    "fetch.message.max.bytes": 4 << 20,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 50,
    "queued.min.messages": 200_000,
}
#: How long a connection may take until the client says that it failed.
_SETUP = "socket.connection.setup.timeout.ms"


class _Log:
    """A logger that also notes whose silence is an error, which the client library only logs."""

    def __init__(self, heard: list[KafkaError]) -> None:
        self._heard = heard

    def log(self, level: int, text: str, *args: object) -> None:
        """Log a line; its last part begins with the thread that says it."""
        said = str(args[-1]).partition("]: ")[2] if args else ""
        if "Connection setup timed out" in said:
            self._heard.append(KafkaError(KafkaError._TRANSPORT, said))
        _LOG.log(level, text, *args)


class Asked:
    """An admin client with what it has heard from the background, and whether anybody answered."""

    def __init__(self, config: ClientConfig) -> None:
        self.heard: list[KafkaError] = []
        self.is_answered = False
        settings: dict[str, Any] = {"error_cb": self.heard.append, "logger": _Log(self.heard)}
        if _SETUP not in config.settings:
            # So that what is silent, as behind a firewall, is heard of within the timeout.
            settings[_SETUP] = int(min(max(config.timeout * 600, 1_000), 30_000))
        self.admin: AdminClient = _make(AdminClient, config, settings)


def consumer(config: ClientConfig, **settings: Any) -> Consumer:
    """Make a consumer for assigned partitions that leaves no trace on the cluster."""
    return _make(Consumer, config, consumer_settings(config) | settings)


def consumer_settings(config: ClientConfig) -> dict[str, Any]:
    """Return the settings of that consumer, with secrets."""
    reading: dict[str, Any] = {
        # Required by the client but never sent: partitions are assigned manually and nothing is
        # committed.
        "group.id": "sharelag",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
        # A position that was pruned must not move silently.
        "auto.offset.reset": "error",
        "isolation.level": "read_uncommitted",
    }
    pace: dict[str, Any] = {
        name: value for name, value in _PACE.items() if name not in config.settings
    }
    return config.librdkafka() | pace | reading


def is_logged() -> bool:
    """Whether somebody wants to see what the client library would print."""
    return _LOG.propagate or len(_LOG.handlers) > 1


def is_of_group(error: KafkaError) -> bool:
    """Whether an error in place of a record is about the client's group alone.

    The client looks for the coordinator of its group although it never joins it, again and again,
    and needs no permission for what we do. So this says nothing of the partitions that it reads.
    """
    return bool(error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED)


def _make(kind: Any, config: ClientConfig, settings: Mapping[str, Any]) -> Any:
    try:
        return kind({"logger": _LOG, **config.librdkafka(), **settings})
    except KafkaException as error:
        raise ConfigError(
            f"the Kafka client rejected the settings: {error.args[0].str()}"
        ) from error
