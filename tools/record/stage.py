"""The stage of a scenario: a topic, a group, and members that stay while it is inspected.

>>> with Stage(broker.bootstrap_servers, "healthy") as stage:  # doctest: +SKIP
...     SCENARIOS["healthy"].play(stage)
...     print(broker.share_groups_describe(stage.group))
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import AcknowledgeType, KafkaException, Message, Producer, ShareConsumer

from tests.support.kafka.jvm import RigError
from tests.support.kafka.workload import (
    Decide,
    Delivery,
    accept,
    create_topics,
    delivery_of,
    produce,
    set_group_config,
    share_consumer,
    start_transaction,
    wait_until,
)

_FINISHED = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT)


class Member(threading.Thread):
    """A share consumer in a separate thread, which works until it has to rest or to leave."""

    def __init__(
        self,
        stage: Stage,
        topics: Sequence[str],
        decide: Decide,
        seconds: float,
        at_once: int,
        too_late: bool,
    ) -> None:
        super().__init__(name=f"a member of {stage.group}")
        self.error: BaseException | None = None
        #: Set while it does not poll: because it has to rest, or holds undecided records.
        self.resting = threading.Event()
        self._stage, self._topics, self._decide = stage, topics, decide
        self._seconds, self._at_once, self._too_late = seconds, at_once, too_late
        self._rest, self._leave = threading.Event(), threading.Event()

    def run(self) -> None:
        """Work, and store errors for callers in other threads."""
        try:
            config: dict[str, str | int] = {"max.poll.records": self._at_once}
            consumer = share_consumer(
                self._stage.bootstrap, self._stage.group, self._topics, **config
            )
            try:
                while not (self._leave.is_set() or self._rest.is_set()) and self._work(consumer):
                    pass
                self.resting.set()
                self._leave.wait()
            finally:
                consumer.close()
        except BaseException as error:
            self.error = error
            self.resting.set()

    def rest(self) -> None:
        """Stop polling, but stay in the group: heartbeats continue."""
        self._rest.set()

    def leave(self) -> None:
        """Leave the group; held records are released."""
        self._leave.set()

    def _work(self, consumer: ShareConsumer) -> bool:
        """Poll once, process each record, decide; return whether it can poll again."""
        messages = [_sound(message) for message in consumer.poll(0.2)]
        time.sleep(self._seconds * len(messages))
        decisions = [(message, self._decide(message)) for message in messages]
        for message, decision in decisions:
            if decision is not None:
                consumer.acknowledge(message, decision)
        answers = consumer.commit_sync(30.0)
        refused = {
            (place.topic, place.partition) for place, error in answers.items() if error is not None
        }
        if refused and not self._too_late:
            raise RigError(f"acknowledgements of {refused} were refused")
        self._stage.deliveries += [
            delivery_of(
                message, None if (message.topic(), message.partition()) in refused else decision
            )
            for message, decision in decisions
        ]
        return all(decision is not None for _, decision in decisions)


class Stage:
    """Topic, group and members of one scenario. The members leave at the end of the ``with`` block.

    Parameters
    ----------
    bootstrap
        Address of the broker, which scenarios can share.
    name
        Name of the scenario, and prefix of group and topic.
    """

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.group = name.replace("_", "-")
        self.topic = f"{self.group}-orders"
        self.partitions = 0
        self.deliveries: list[Delivery] = []
        self._members: list[Member] = []
        self._at_end: list[Callable[[], None]] = []
        self._transactions = 0
        self._produced = 0

    def open(self, partitions: int, group: Mapping[str, str] | None = None, **topic: str) -> None:
        """Create the topic (settings with underscores for dots); its group begins at the start."""
        self.partitions = partitions
        create_topics(
            self.bootstrap,
            {self.topic: partitions},
            {k.replace("_", "."): v for k, v in topic.items()},
        )
        set_group_config(
            self.bootstrap, self.group, **{"share.auto.offset.reset": "earliest", **(group or {})}
        )

    def produce(
        self, count: int, partition: int | None = None, batch: int = 5, key: str | None = None
    ) -> None:
        """Append records in small log batches, to the partitions in turn if none is given."""
        numbers = range(self._produced, self._produced + count)
        self._produced += count
        records = [
            (
                n % self.partitions if partition is None else partition,
                (key or str(n)).encode(),
                b"order %d" % n,
            )
            for n in numbers
        ]
        produce(self.bootstrap, self.topic, records, batch=batch)

    def transaction(self, count: int, partition: int) -> Producer:
        """Append records in a transaction; the caller commits or aborts it, see `at_end`."""
        self._transactions += 1
        self._produced += count
        name = f"{self.group}-{self._transactions}"
        records = [(partition, None, b"order in a transaction")] * count
        return start_transaction(self.bootstrap, name, self.topic, records)

    def at_end(self, do: Callable[[], None]) -> None:
        """Call a function when the members have left."""
        self._at_end.append(do)

    def join(
        self,
        members: int = 1,
        decide: Decide = accept,
        *,
        topics: Sequence[str] | None = None,
        seconds: float = 0,
        at_once: int = 10,
        too_late: bool = False,
        rests: bool = False,
    ) -> None:
        """Let members join and work.

        The first ones finish a record of each partition before this returns, so that recorded time
        begins with a working group, not with a broker that creates its internal topics.

        Parameters
        ----------
        decide
            ``None`` keeps a record, and the member waits with it until it has to leave.
        topics
            Topics to subscribe to; by default this stage's topic.
        seconds
            Processing time of a record.
        at_once
            ``max.poll.records``.
        too_late
            Whether acknowledgements after the end of their locks are part of the story.
        rests
            Whether they never poll.
        """
        for _ in range(members):
            member = Member(self, topics or [self.topic], decide, seconds, at_once, too_late)
            if rests:
                member.rest()
            member.start()
            self._members.append(member)
        if not (rests or self._produced):
            self.produce(self.partitions)
            self.wait_finished()

    def rest(self) -> None:
        """Have all members rest, and wait until they do."""
        for member in self._members:
            member.rest()
        self.wait(
            lambda: all(member.resting.is_set() for member in self._members), "everybody rests"
        )

    def leave(self) -> None:
        """Have all members leave, and wait until they have."""
        for member in self._members:
            member.leave()
        self.wait(
            lambda: not any(member.is_alive() for member in self._members), "everybody has left"
        )
        self._members.clear()

    def finished(self, topic: str | None = None) -> set[tuple[int, int]]:
        """Return partition and offset of a topic's accepted or rejected records."""
        done = [it for it in tuple(self.deliveries) if it.decision in _FINISHED]
        return {(it.partition, it.offset) for it in done if it.topic == (topic or self.topic)}

    def wait_finished(self, but: int = 0) -> None:
        """Wait until all but this number of records have been accepted or rejected."""
        self.wait(
            lambda: len(self.finished()) >= self._produced - but,
            f"all records but {but} are finished",
        )

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until the condition holds, or a member fails."""

        def holds() -> bool:
            for member in self._members:
                if member.error is not None:
                    raise RigError(f"{member.name} failed") from member.error
            return condition()

        try:
            wait_until(holds, what)
        except RigError as error:
            done = f"group {self.group}, {len(self.finished())} of {self._produced} finished"
            raise RigError(f"{error} ({done})") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self._members:
            member.leave()
        for member in self._members:
            member.join(timeout=60)
        while self._at_end:
            self._at_end.pop()()


def steps(count: int, every: float = 0.4) -> Iterator[int]:
    """Count at an even pace, which includes the time of the work between two steps."""
    begun = time.monotonic()
    for step in range(count):
        yield step
        time.sleep(max(0.0, begun + (step + 1) * every - time.monotonic()))


def _sound(message: Message) -> Message:
    if message.error() is not None:
        raise KafkaException(message.error())
    return message
