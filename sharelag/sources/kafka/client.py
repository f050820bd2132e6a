"""Connections to brokers, with errors that say what to do."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from sharelag.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnreachableError,
    ClusterError,
    ConfigError,
    NoLeaderError,
    TopicMissingError,
)
from sharelag.sources.kafka.config import ClientConfig
from sharelag.wire.fields import GROUP_TOPIC, STATE_TOPIC

T = TypeVar("T")

# Receives what librdkafka would print to standard error; add a handler to see it.
_LOG = logging.getLogger("sharelag.librdkafka")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False

_UNREACHABLE = {
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError._TIMED_OUT_QUEUE,
}
_NO_LEADER = {KafkaError.LEADER_NOT_AVAILABLE, KafkaError.NOT_LEADER_FOR_PARTITION}
_WRONG_PASSWORD = {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED}
# Five times as fast as the client's defaults, which wait a second whenever 100,000 records are
# queued. The user's settings take precedence.
_PACE = {
    "fetch.message.max.bytes": 4 << 20,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 50,
    "queued.min.messages": 200_000,
}


class Connection:
    """An admin client that records errors from the background.

    librdkafka retries a refused password or a dead address forever and reports it only to a
    callback, so requests merely time out. This class polls the callback while it waits and stops at
    the first permanent error.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self._heard: list[KafkaError] = []
        self.admin = _make(AdminClient, config, {"error_cb": self._heard.append})

    def result(self, future: Future[T], what: str) -> T:
        """Wait for one answer of the admin client.

        Parameters
        ----------
        future : concurrent.futures.Future
        what : str
            What was requested, for error messages: usually a topic.

        Raises
        ------
        ClusterError
            One of its children.
        """
        deadline = time.monotonic() + self.config.timeout
        while not future.done():
            # Not poll(0.05): it would sleep although the answer has arrived.
            wait([future], timeout=0.05)
            self.admin.poll(0)
            self._raise_if_refused(what)
            if time.monotonic() > deadline:
                raise unreachable(self.config, self._heard[-1] if self._heard else None)
        try:
            return future.result()
        except KafkaException as error:
            heard = [e for e in self._heard if e.code() in _WRONG_PASSWORD | {KafkaError._RESOLVE}]
            raise explain((heard or [error.args[0]])[0], what, self.config) from error

    def topic_names(self) -> list[str]:
        """Return all topics that we are authorized to describe, sorted.

        Only a metadata request without names can never create a topic.
        """
        deadline = time.monotonic() + self.config.timeout
        while True:
            try:
                # In slices: a refused password is reported only to a callback.
                return sorted(
                    self.admin.list_topics(
                        timeout=max(0.1, min(1.0, deadline - time.monotonic()))
                    ).topics
                )
            except KafkaException as error:
                self.admin.poll(0)
                self._raise_if_refused("the list of topics")
                if error.args[0].code() not in _UNREACHABLE:
                    raise explain(error.args[0], "the list of topics", self.config) from error
                if time.monotonic() > deadline:
                    raise unreachable(self.config, (self._heard or [error.args[0]])[-1]) from error

    def _raise_if_refused(self, what: str) -> None:
        if wrong := refused(self._heard):
            raise explain(wrong, what, self.config)

    def results(self, futures: Mapping[Any, Future[T]], what: str) -> dict[Any, T]:
        """Wait for all answers; raise the first failure."""
        return {key: self.result(future, what) for key, future in futures.items()}


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


def refused(heard: Iterable[KafkaError]) -> KafkaError | None:
    """Return the first permanent error: our credentials were refused."""
    return next((error for error in heard if error.code() in _WRONG_PASSWORD), None)


def explain(error: KafkaError, what: str, config: ClientConfig) -> ClusterError:
    """Convert a client error into a `ClusterError` that says what to do."""
    code = error.code()
    if code in _WRONG_PASSWORD:
        return AuthenticationError(
            f"{config.bootstrap_servers} refused our credentials ({error.str()}): "
            "check user, password and sasl.mechanism in --command-config"
        )
    if code in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED):
        return AuthorizationError(
            f"not authorized to read {what}: grant READ and DESCRIBE on it, for example "
            "kafka-acls.sh --add --allow-principal User:YOU --operation Read "
            f"--operation Describe --topic {what}"
        )
    if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
        return AuthorizationError(
            f"not authorized to ask the cluster for {what}: grant DESCRIBE on the cluster"
        )
    if code in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    ):
        return missing(what)
    if code in _NO_LEADER:
        return NoLeaderError(
            f"{what} has a partition without a leader ({error.name()}): check it with "
            "kafka-topics.sh --describe --unavailable-partitions, and try again"
        )
    if code in _UNREACHABLE:
        return unreachable(config, error)
    return ClusterError(f"the request for {what} failed: {error.str()} ({error.name()})")


def missing(topic: str) -> TopicMissingError:
    """Return the error for a missing topic, with what that means."""
    if topic == STATE_TOPIC:
        return TopicMissingError(
            f"the cluster has no topic {STATE_TOPIC}: no share group was ever used on it. "
            "Consume with one (kafka-console-share-consumer.sh), or check that this is the "
            "right cluster"
        )
    if topic == GROUP_TOPIC:
        return TopicMissingError(
            f"the cluster has no topic {GROUP_TOPIC}: no group of any type was ever used on it"
        )
    return TopicMissingError(
        f"the cluster has no topic {topic!r}: check the spelling and the cluster"
    )


def unreachable(config: ClientConfig, error: KafkaError | None = None) -> BrokerUnreachableError:
    """Return the error for brokers that do not answer."""
    why = f" ({error.str()})" if error else ""
    return BrokerUnreachableError(
        f"no broker answered at {config.bootstrap_servers} within {config.timeout:g} s{why}: "
        "check the address, that the broker is running, and security.protocol in "
        "--command-config; --timeout waits longer"
    )


def _make(kind: Any, config: ClientConfig, settings: Mapping[str, Any]) -> Any:
    try:
        return kind({**config.librdkafka(), **settings, "logger": _LOG})
    except KafkaException as error:
        raise ConfigError(
            f"the Kafka client rejected the settings: {error.args[0].str()}"
        ) from error
