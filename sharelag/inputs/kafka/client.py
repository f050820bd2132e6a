"""Connections to brokers, with errors that say what to do, and messages as columns."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
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
    return {**_PACE, **config.settings, **reading}


def is_logged() -> bool:
    """Whether somebody wants to see what the client library would print."""
    return _LOG.propagate or len(_LOG.handlers) > 1


def is_of_group(error: KafkaError) -> bool:
    """Whether an error in place of a record is about the client's group alone.

    The client looks for the coordinator of its group, again and again, although it never joins it.
    So this says nothing of the partitions that it reads.
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

#: Seconds that the first of several attempts lasts; each further one lasts twice as long.
_FIRST_ATTEMPT = 2.0
#: Seconds that an attempt lasts at least, and between two of them.
_LEAST, _BETWEEN = 0.5, 0.1
#: Seconds after which a client that waits for an answer looks again at who may give it; each time
#: the pause grows, up to the most.
_LOOK_AGAIN, _SLOWER, _MOST_PAUSE = 0.1, 1.25, 1.0
#: How often metadata is requested until it names another controller: each answer names any broker.
_TRIES = 5
#: After these errors another attempt may find the new leader.
_MOVING = (NoLeaderError, BrokerUnreachableError)


class Connection:
    """An admin client that records errors from the background.

    librdkafka retries a refused password or a dead address forever and reports it only to a
    callback, so requests merely time out. This class polls the callback while it waits and stops at
    the first permanent error.

    ``within`` are the seconds until all answers must be there, by default what is left of the
    timeout; without it, a client that some brokers have answered is used again while others are
    silent. ``asked`` is the client to use, by default a new one.
    """

    def __init__(
        self, config: ClientConfig, within: float | None = None, asked: Asked | None = None
    ) -> None:
        self.config = config
        self._ends = None if within is None else time.monotonic() + within
        self._looked_at: KafkaError | None = None
        self._together: float | None = None
        self._controller: int | None = None
        known = config.patience.known if within is None else asked
        self.asked: Asked = known or Asked(config)
        self._heard, self.admin = self.asked.heard, self.asked.admin

    @property
    def within(self) -> float:
        """Seconds that an answer may take from now on."""
        left = self.config.patience.left()
        return left if self._ends is None else max(min(left, self._ends - time.monotonic()), LEAST)

    def note_requests(self) -> None:
        """Note that many answers were just requested, which the client gives all at once.

        One leader that is silent holds them all up, and the others were waited for in vain, too.
        """
        self._together = time.monotonic()

    def _lose(self, begun: float) -> None:
        since = begun if self._together is None else min(begun, self._together)
        self._together = None  # the others that are silent were waited for at the same time
        self.config.patience.lose(time.monotonic() - since)

    def _reach(self) -> None:
        self.asked.is_answered = True
        self.config.patience.answered_client = self.asked

    def _unanswered(self, what: str, why: KafkaError | None = None) -> ClusterError:
        return silence_error(self.config, what, latest_reason(self._heard) or why)

    def result(self, future: Future[T], what: str) -> T:
        """Wait for one answer of the admin client about ``what``, or raise a ClusterError."""
        # The client itself gives up in time, and then knows who of several brokers answered.
        begun = time.monotonic()
        deadline = begun + self.within + _LEAST
        pause = _LOOK_AGAIN
        looks_again = begun + pause
        while not future.done():
            # Not poll(0.05): it would sleep although the answer has arrived.
            wait([future], timeout=0.05)
            self.admin.poll(0)
            self._raise_if_refused(what)
            if looks_again < time.monotonic() < deadline and not future.done():
                self._look_again()
                pause = min(pause * _SLOWER, _MOST_PAUSE)
                looks_again = time.monotonic() + pause
            if time.monotonic() > deadline:
                self._lose(begun)
                raise self._unanswered(what)
        try:
            answer = future.result()
            # So the client answers for a leader that was silent.
            if getattr(answer, "offset", None) == OFFSET_INVALID:
                self._lose(begun)
            else:
                self._reach()
                self.config.patience.note_answer(time.monotonic() - begun)
            return answer
        except KafkaException as error:
            found = error.args[0]
            if found.code() in UNREACHABLE:
                self._lose(begun)
            heard = [e for e in self._heard if is_refusal(e) or e.code() == KafkaError._RESOLVE]
            if not heard and found.code() in UNREACHABLE:  # what was heard says why
                raise self._unanswered(what, found) from error
            why = first_refusal(heard) or latest_reason(heard) or found
            raise translate_error(why, what, self.config) from error

    def describe_cluster(self, with_rights: bool = False) -> Any:
        """Return confluent-kafka's description of the cluster."""
        asked = self.admin.describe_cluster(
            include_authorized_operations=with_rights, request_timeout=self.within
        )
        return self.result(asked, "the cluster")

    def describe_configs(
        self, kind: ResourceType, names: Sequence[str], what: str = "{}", at_once: int = 100
    ) -> Iterator[tuple[str, dict[str, Any] | None]]:
        """Yield names of what exists with their settings: None where they may not be read.

        ``what`` is for messages. Of brokers librdkafka accepts one per request.
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
        """Return all topics that we are authorized to describe, sorted."""
        # Only a metadata request without names can never create a topic.
        # The client looks only every 50 ms for a connection to ask for metadata, but gives a
        # request the connection at once. So this one, which anybody may send, opens it. It is for
        # the broker that is named as controller, and metadata come from any.
        if not self.asked.is_answered:
            opened = self.admin.describe_cluster(request_timeout=self.within / 2)
            with suppress(*_MOVING):
                self.result(opened, "the list of topics")
        return sorted(self._metadata().topics)

    def _metadata(self) -> Any:
        """Return what any broker knows of topics and brokers; the request names no topic."""
        begun = time.monotonic()
        deadline = begun + self.within
        while True:
            try:
                # In slices: a refused password is reported only to a callback.
                found = self.admin.list_topics(
                    timeout=max(0.1, min(1.0, deadline - time.monotonic()))
                )
                self._reach()
                self._controller = found.controller_id
                return found
            except KafkaException as error:
                self.admin.poll(0.05)  # what failed at once is not asked again at once
                self._raise_if_refused("the list of topics")
                if error.args[0].code() not in UNREACHABLE:
                    raise translate_error(
                        error.args[0], "the list of topics", self.config
                    ) from error
                if time.monotonic() > deadline:
                    self._lose(begun)
                    raise self._unanswered("the list of topics", error.args[0]) from error

    def leaders(self, topic: str) -> dict[int, Any]:
        """Return the leader of each partition as any broker knows it, None: there is none.

        Its description comes from the controller alone; this comes from whichever broker answers,
        and does not say why a topic is missing: it is a BrokerUnreachableError, too.
        """
        found = self._metadata()
        if topic not in found.topics:
            raise unreachable_error(self.config, latest_reason(self._heard))
        if (error := found.topics[topic].error) is not None:
            raise translate_error(error, topic, self.config)
        partitions = found.topics[topic].partitions.values()
        return {one.id: found.brokers.get(one.leader) for one in partitions}

    def _look_again(self) -> None:
        """Let the client learn again who may be asked: which broker is named as controller."""
        # Brokers in KRaft name any broker of theirs, each time another: one that is silent, too.
        # The answer that is waited for says what is wrong with the brokers.
        with suppress(KafkaException):
            self._controller = self.admin.list_topics(timeout=LEAST).controller_id
            self._reach()

    def leave_controller(self) -> None:
        """Let the client learn of another controller when the one it asked is silent."""
        before = self._controller  # a request that it received is not repeated elsewhere
        for _ in range(_TRIES):
            self._look_again()
            if before is None or self._controller != before:
                return

    def _raise_if_refused(self, what: str) -> None:
        if wrong := first_refusal(self._heard):
            raise translate_error(wrong, what, self.config)
        # Where another broker can be asked, a certificate that is refused is that broker's matter.
        if any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in self._heard):
            why = latest_reason(self._heard)
            # The client library has no way to say that it will not get better; once is enough.
            if why and why is not self._looked_at:
                self._looked_at = why
                if reason := explain_distrust(self.config, why):
                    raise AuthenticationError(reason)


def until_answered(config: ClientConfig, ask: Callable[[Connection], T]) -> T:
    """Ask again while leaders move, until the timeout.

    A broker that was killed leads its partitions until its session ends, and a request to it would
    wait in vain. So the first attempts are short, and each opens a connection, which learns who
    leads now, unless nobody has answered the one before yet. The error is that of the last attempt
    that reached anybody.
    """
    ends = time.monotonic() + config.patience.left()
    reached: NoLeaderError | None = None
    connecting: Asked | None = None
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
        # Logging in may take longer than an attempt, where brokers or this machine are busy.
        connecting = None if connection.asked.is_answered else connection.asked
        number += 1
        time.sleep(_BETWEEN)


_NO_ERROR = frozenset([type(None)])


class Failed(NamedTuple):
    """An error in place of a record, such as the end of a partition."""

    error: KafkaError
    partition: int
    offset: int


class Taken(NamedTuple):
    """What arrived: the records as `sharelag.schemas.RAW`, None without any, and the errors."""

    records: pa.RecordBatch | None
    failed: Sequence[Failed] = ()

    @property
    def is_of_leaders(self) -> bool:
        """Whether a leader has answered, with records or with an error."""
        return self.records is not None or not all(is_of_group(one.error) for one in self.failed)


class PlainMessages:
    """Messages by confluent-kafka's consumer: without a start-up cost, slow where they are many."""

    #: How many messages are best taken at a time: more are slower, as they exceed the CPU caches.
    at_once = 2_000

    def __init__(self, config: ClientConfig, topic: str, heard: list[KafkaError]) -> None:
        self._topic = topic
        self._client = consumer(config, error_cb=heard.append)

    def assign(self, offsets: Mapping[int, int]) -> None:
        """Read these partitions, from these offsets on."""
        self._client.assign([Partition(self._topic, p, at) for p, at in offsets.items()])

    def leave(self, partition: int) -> None:
        self._client.incremental_unassign([Partition(self._topic, partition)])

    def rewind(self, partition: int) -> None:
        """Read a partition from the first offset that is still there."""
        self.leave(partition)
        again = Partition(self._topic, partition, OFFSET_BEGINNING)
        self._client.incremental_assign([again])

    def take(self, most: int, timeout: float) -> Taken:
        """Wait for so many messages, or so many seconds."""
        messages = self._client.consume(most, timeout=timeout)
        # Calls into the client dominate the cost: each accessor is mapped once over all messages.
        errors = list(map(Message.error, messages))
        records, failed = messages, list[Failed]()
        # By their types: the client's errors refuse to be compared with None.
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
