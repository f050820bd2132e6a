"""Connections to brokers, with errors that say what to do, and messages as columns."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from sharelag import schemas
from sharelag.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerUnreachableError,
    ClusterError,
    ConfigError,
    NoLeaderError,
    TopicMissingError,
)
from sharelag.inputs.kafka.config import LEAST, ClientConfig
from sharelag.inputs.kafka.failures import (
    UNREACHABLE,
    explain_distrust,
    first_refusal,
    is_refusal,
    latest_reason,
    silence_error,
    translate_error,
    unreachable_error,
)
from sharelag.schemas import WITH_HEADERS
from sharelag.tables.arrow import batch_of

# Receives what librdkafka would print to standard error; add a handler to see it.
_LOG = logging.getLogger("sharelag.librdkafka")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False

# Five times as fast as the client's defaults, which pause for a second whenever 100,000 records are
# queued. The user's settings take precedence.
_PACE = {
    "fetch.message.max.bytes": 4 << 20,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 50,
    "queued.min.messages": 200_000,
}
#: Time within which a connection must be set up before the client reports a failure.
_SETUP = "socket.connection.setup.timeout.ms"


class _Log:
    """A logger that also detects an unanswered request, which the client library only logs."""

    def __init__(self, errors: list[KafkaError]) -> None:
        self._errors = errors

    def log(self, level: int, text: str, *args: object) -> None:
        """Log a line; its last part begins with the name of librdkafka's thread."""
        message = str(args[-1]).partition("]: ")[2] if args else ""
        if "Connection setup timed out" in message:
            self._errors.append(KafkaError(KafkaError._TRANSPORT, message))
        _LOG.log(level, text, *args)


class Admin:
    """An admin client, its errors from the background, and whether a broker has answered it."""

    def __init__(self, config: ClientConfig) -> None:
        self.errors: list[KafkaError] = []
        self.is_answered = False
        settings: dict[str, Any] = {"error_cb": self.errors.append, "logger": _Log(self.errors)}
        if _SETUP not in config.settings:
            # Report a silent address, such as one behind a firewall, within the timeout.
            settings[_SETUP] = int(min(max(config.timeout * 600, 1_000), 30_000))
        self.admin: AdminClient = _make(AdminClient, config, settings)


def consumer(config: ClientConfig, **settings: Any) -> Consumer:
    """Create a consumer for assigned partitions that leaves no trace on the cluster."""
    return _make(Consumer, config, consumer_settings(config) | settings)


def consumer_settings(config: ClientConfig) -> dict[str, Any]:
    """Return the settings of `consumer`, including secrets."""
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
    return {**_PACE, **config.settings, **reading}


def is_logged() -> bool:
    """Return whether a handler wants the messages that the client library would print."""
    return _LOG.propagate or len(_LOG.handlers) > 1


def is_of_group(error: KafkaError) -> bool:
    """Return whether an error in place of a record concerns the client's group alone.

    The client keeps looking for the coordinator of its group, although it never joins it. Such an
    error says nothing about the partitions that it reads.
    """
    return bool(error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED)


def _make(kind: Any, config: ClientConfig, settings: Mapping[str, Any]) -> Any:
    try:
        return kind({"logger": _LOG, **config.settings, **settings})
    except KafkaException as error:
        raise ConfigError(
            f"the Kafka client rejected the settings: {error.args[0].str()}"
        ) from error


T = TypeVar("T")

#: Seconds of the first of several attempts; each further one lasts twice as long.
_FIRST_ATTEMPT = 2.0
#: Minimum seconds of an attempt, and the pause between two.
_LEAST, _BETWEEN = 0.5, 0.1
#: Seconds after which a waiting client refreshes its metadata; the pause grows by a factor, up to a
#: maximum.
_LOOK_AGAIN, _SLOWER, _MOST_PAUSE = 0.1, 1.25, 1.0
#: How often to request metadata until it names another controller: each answer names any broker.
_TRIES = 5
#: After these errors another attempt may find the new leader.
_MOVING = (NoLeaderError, BrokerUnreachableError)


class Connection:
    """An admin client that records errors from the background.

    librdkafka retries a refused password or a dead address forever and reports it only to a
    callback, so requests merely time out. This class polls the callback while it waits and stops at
    the first permanent error.

    ``within`` is the time in seconds for all answers, by default the rest of the timeout; without
    it, a client that some brokers have answered is reused while others are silent. ``shared`` is
    the client to use, by default a new one.
    """

    def __init__(
        self, config: ClientConfig, within: float | None = None, shared: Admin | None = None
    ) -> None:
        self.config = config
        self._ends = None if within is None else time.monotonic() + within
        self._looked_at: KafkaError | None = None
        self._together: float | None = None
        self._controller: int | None = None
        known = config.patience.known if within is None else shared
        self.shared: Admin = known or Admin(config)
        self._errors, self.admin = self.shared.errors, self.shared.admin

    @property
    def within(self) -> float:
        """Seconds that remain for an answer."""
        left = self.config.patience.left()
        return left if self._ends is None else max(min(left, self._ends - time.monotonic()), LEAST)

    def note_requests(self) -> None:
        """Note that many answers were just requested, which the client returns together.

        A single silent leader delays all of them, so the time spent on the others is lost, too.
        """
        self._together = time.monotonic()

    def _lose(self, started: float) -> None:
        since = started if self._together is None else min(started, self._together)
        self._together = None  # waits for other silent leaders overlapped with this one
        self.config.patience.lose(time.monotonic() - since)

    def _reach(self) -> None:
        self.shared.is_answered = True
        self.config.patience.answered_client = self.shared

    def _silence(self, what: str, why: KafkaError | None = None) -> ClusterError:
        return silence_error(self.config, what, latest_reason(self._errors) or why)

    def result(self, future: Future[T], what: str) -> T:
        """Wait for one answer of the admin client about ``what``, or raise a ClusterError."""
        # The client itself gives up in time, and then knows which brokers answered.
        started = time.monotonic()
        deadline = started + self.within + _LEAST
        pause = _LOOK_AGAIN
        looks_again = started + pause
        while not future.done():
            # poll(0.05) would sleep on after the answer has arrived.
            wait([future], timeout=0.05)
            self.admin.poll(0)
            self._raise_if_refused(what)
            if looks_again < time.monotonic() < deadline and not future.done():
                self._look_again()
                pause = min(pause * _SLOWER, _MOST_PAUSE)
                looks_again = time.monotonic() + pause
            if time.monotonic() > deadline:
                self._lose(started)
                raise self._silence(what)
        try:
            answer = future.result()
            # The client's own placeholder for the answer of a silent leader.
            if getattr(answer, "offset", None) == OFFSET_INVALID:
                self._lose(started)
            else:
                self._reach()
                self.config.patience.note_answer(time.monotonic() - started)
            return answer
        except KafkaException as error:
            # The answer keeps it, and it would keep the frames that have the answer and the client.
            error.__traceback__ = None
            found = error.args[0]
            if found.code() in UNREACHABLE:
                self._lose(started)
            errors = [e for e in self._errors if is_refusal(e) or e.code() == KafkaError._RESOLVE]
            if not errors and found.code() in UNREACHABLE:  # else an error gives the cause
                raise self._silence(what, found) from error
            why = first_refusal(errors) or latest_reason(errors) or found
            raise translate_error(why, what, self.config) from error

    def describe_cluster(self, with_rights: bool = False) -> Any:
        """Return confluent-kafka's description of the cluster."""
        future = self.admin.describe_cluster(
            include_authorized_operations=with_rights, request_timeout=self.within
        )
        return self.result(future, "the cluster")

    def describe_configs(
        self, kind: ResourceType, names: Sequence[str], what: str = "{}", at_once: int = 100
    ) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Yield names and settings of existing resources; None if they may not be read.

        ``what`` is for messages. librdkafka accepts one broker per request.
        """
        for begin in range(0, len(names), at_once):
            some = [ConfigResource(kind, name) for name in names[begin : begin + at_once]]
            answers = self.admin.describe_configs(some, request_timeout=self.within)
            for resource, future in answers.items():
                try:
                    yield resource.name, self.result(future, what.format(resource.name))
                except AuthorizationError:
                    yield resource.name, None
                except TopicMissingError:  # deleted since it was listed
                    continue

    def topic_names(self) -> list[str]:
        """Return all topics that we may describe, sorted."""
        # Only a metadata request without names can never create a topic. The client looks for a
        # connection only every 50 ms before it requests metadata, but sends other requests at once.
        # So open the connection with describe_cluster, which needs no rights. It goes to the
        # controller that metadata names; metadata comes from any broker.
        if not self.shared.is_answered:
            opened = self.admin.describe_cluster(request_timeout=self.within / 2)
            with suppress(*_MOVING):
                self.result(opened, "the list of topics")
        return sorted(self._metadata().topics)

    def _metadata(self) -> Any:
        """Return the metadata of topics and brokers from any broker, without naming a topic."""
        started = time.monotonic()
        deadline = started + self.within
        while True:
            try:
                # In slices, because a refused password is reported only to a callback.
                return self._list_topics(max(0.1, min(1.0, deadline - time.monotonic())))
            except KafkaException as error:
                self.admin.poll(0.05)  # do not repeat at once what failed at once
                self._raise_if_refused("the list of topics")
                if error.args[0].code() not in UNREACHABLE:
                    raise translate_error(
                        error.args[0], "the list of topics", self.config
                    ) from error
                if time.monotonic() > deadline:
                    self._lose(started)
                    raise self._silence("the list of topics", error.args[0]) from error

    def _list_topics(self, timeout: float) -> Any:
        # A KafkaError that this raises never releases the exception that is being handled, and so
        # all clients of its frames. A separate thread handles none.
        with ThreadPoolExecutor(1) as alone:
            found = alone.submit(self.admin.list_topics, timeout=timeout).result()
        self._reach()
        self._controller = found.controller_id
        return found

    def leaders(self, topic: str) -> dict[int, Any]:
        """Return the leader of each partition as any broker knows it; None without a leader.

        A topic's description comes only from the controller; this comes from any broker that
        answers, but gives no reason for a missing topic: that is a BrokerUnreachableError, too.
        """
        found = self._metadata()
        if topic not in found.topics:
            raise unreachable_error(self.config, latest_reason(self._errors))
        if (error := found.topics[topic].error) is not None:
            raise translate_error(error, topic, self.config)
        partitions = found.topics[topic].partitions.values()
        return {one.id: found.brokers.get(one.leader) for one in partitions}

    def _look_again(self) -> None:
        """Refresh the client's metadata: another broker may be named as controller."""
        # KRaft brokers name any broker as controller, each time another one, even a silent one.
        # Errors are reported by the answer that is awaited.
        with suppress(KafkaException):
            self._list_topics(LEAST)

    def leave_controller(self) -> None:
        """Let the client find another controller if the current one is silent."""
        before = self._controller  # a request that it has received is not sent to another
        for _ in range(_TRIES):
            self._look_again()
            if before is None or self._controller != before:
                return

    def _raise_if_refused(self, what: str) -> None:
        if wrong := first_refusal(self._errors):
            raise translate_error(wrong, what, self.config)
        # If another broker can be asked, a rejected certificate concerns only that broker.
        if any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in self._errors):
            why = latest_reason(self._errors)
            # The client library does not report this as permanent; one check suffices.
            if why and why is not self._looked_at:
                self._looked_at = why
                if reason := explain_distrust(self.config, why):
                    raise AuthenticationError(reason)


def until_answered(config: ClientConfig, ask: Callable[[Connection], T]) -> T:
    """Ask again while leaders move, until the timeout.

    A killed broker leads its partitions until its session ends, and requests to it would time out.
    So the first attempts are short, and each opens a new connection, which finds the current
    leader, unless the previous one is still waiting for its first answer. The error is that of the
    last attempt that reached a broker.
    """
    ends = time.monotonic() + config.patience.left()
    reached: NoLeaderError | None = None
    connecting: Admin | None = None
    number = 0
    while True:
        left, first = ends - time.monotonic(), _FIRST_ATTEMPT * 2**number
        within = max(left if left < first + _LEAST else first, _LEAST)
        connection = Connection(config, within, connecting)
        try:
            return ask(connection)
        except _MOVING as error:
            reached = error if isinstance(error, NoLeaderError) else reached
            if number and time.monotonic() + _LEAST >= ends:
                if reached is None or reached is error:
                    raise
                raise reached from None
        # On a busy machine or broker, logging in may take longer than an attempt.
        connecting = None if connection.shared.is_answered else connection.shared
        number += 1
        time.sleep(_BETWEEN)


_NO_ERROR = frozenset([type(None)])


class Failed(NamedTuple):
    """An error in place of a record, such as the end of a partition."""

    error: KafkaError
    partition: int
    offset: int


class Taken(NamedTuple):
    """Messages that arrived: records as `sharelag.schemas.RAW` (None without any), and errors."""

    records: pa.RecordBatch | None
    failed: Sequence[Failed] = ()

    @property
    def is_of_leaders(self) -> bool:
        """Whether a leader has answered, with records or with an error."""
        return self.records is not None or not all(is_of_group(one.error) for one in self.failed)


class PlainMessages:
    """Messages of confluent-kafka's consumer: no start-up cost, but slow for large numbers."""

    #: Best number of messages per call: larger batches exceed the CPU caches.
    at_once = 2_000

    def __init__(self, config: ClientConfig, topic: str, errors: list[KafkaError]) -> None:
        self._topic = topic
        self._client = consumer(config, error_cb=errors.append)

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on."""
        self._client.assign([Partition(self._topic, p, at) for p, at in offsets.items()])

    def leave(self, partition: int) -> None:
        self._client.incremental_unassign([Partition(self._topic, partition)])

    def rewind(self, partition: int) -> None:
        """Read a partition from its first remaining offset."""
        self.leave(partition)
        again = Partition(self._topic, partition, OFFSET_BEGINNING)
        self._client.incremental_assign([again])

    def take(self, most: int, timeout: float) -> Taken:
        """Wait for at most ``most`` messages, or for ``timeout`` seconds."""
        messages = self._client.consume(most, timeout=timeout)
        # Calls into the client dominate the cost: each accessor is mapped once over all messages.
        errors = list(map(Message.error, messages))
        records, failed = messages, list[Failed]()
        # Compare types: the client's errors cannot be compared with None.
        if not _NO_ERROR.issuperset(map(type, errors)):
            both = list(zip(errors, messages, strict=True))
            records = [message for error, message in both if error is None]
            failed = [Failed(e, m.partition(), m.offset()) for e, m in both if e is not None]
        return Taken(self._columns(records) if records else None, failed)

    def close(self) -> None:
        self._client.close()

    def _columns(self, records: Sequence[Message]) -> pa.RecordBatch:
        pairs = chain.from_iterable(map(Message.timestamp, records))  # kind, milliseconds
        times = np.fromiter(pairs, np.int64, 2 * len(records)).reshape(-1, 2)
        return raw_batch(
            self._topic,
            pa.array(list(map(Message.key, records)), pa.binary()),
            pa.array(list(map(Message.value, records)), pa.binary()),
            np.fromiter(map(Message.partition, records), np.int32, len(records)),
            np.fromiter(map(Message.offset, records), np.int64, len(records)),
            times[:, 1],
            times[:, 0],
        )


class MessagesWithHeaders(PlainMessages):
    """The same with headers, as `sharelag.schemas.WITH_HEADERS`."""

    def _columns(self, records: Sequence[Message]) -> pa.RecordBatch:
        batch = super()._columns(records)
        headers = [headers or [] for headers in map(Message.headers, records)]
        column = pa.array(headers, WITH_HEADERS.field("headers").type)
        return pa.RecordBatch.from_arrays([*batch.columns, column], schema=WITH_HEADERS)


def raw_batch(
    topic: str, keys: pa.Array, values: pa.Array, partitions: Any, offsets: Any, times: Any,
    kinds: Any,
) -> pa.RecordBatch:  # fmt: skip
    """Return `sharelag.schemas.RAW` of columns with librdkafka's numbers of timestamp types."""
    columns = {
        "key": keys,
        "value": values,
        "topic": topic,
        "partition": pa.array(partitions),
        "offset": pa.array(offsets),
        "timestamp": pa.array(times, pa.int64(), mask=kinds == 0).view(schemas.TIMESTAMP),
        # Spark's numbers are one less than librdkafka's: none, create, append.
        "timestampType": pa.array(kinds - 1),
    }
    return batch_of(columns, schemas.RAW)
