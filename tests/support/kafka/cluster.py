"""A cluster of several brokers of our own.

>>> with KafkaCluster() as cluster:  # doctest: +SKIP
...     cluster.brokers[1].kill()
"""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.workload import wait_until

#: Internal topics are on three brokers, and writable while one of them is away.
REPLICATED = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}

#: Of the three brokers that tests of `tests/kafka` share.
RACKS = ("east", "west", "north")


class KafkaCluster:
    """Brokers that live as long as the ``with`` block.

    ``count``: number of brokers; their ids are 1, 2, ... ``properties``: server properties of all
    of them that win over the test settings. ``racks``: the rack of each broker; by default none has
    one. ``log_requests``: whether the brokers log requests, each in its `request_log`.
    ``all_control``: every broker is a controller, too, so that each may be away; else the first is
    the only one. ``broker``: further options of every `KafkaBroker`.
    """

    def __init__(
        self,
        count: int = 3,
        properties: Mapping[str, str] | None = None,
        racks: Sequence[str] = (),
        log_requests: bool = False,
        all_control: bool = False,
        **broker: Any,
    ) -> None:
        self._stack = ExitStack()
        settings = {**(REPLICATED if count >= 3 else {}), **(properties or {})}
        each = [settings | ({"broker.rack": racks[n]} if racks else {}) for n in range(count)]
        options = broker | {"log_requests": log_requests}
        first = KafkaBroker(properties=each[0], **options)
        self.brokers = [first]
        for n in range(2, count + 1):
            self.brokers.append(follower(first, n, each[n - 1], all_control, **options))
        if all_control:  # the ports of all are known only now
            voters = (f"{n}@{one.address('CONTROLLER')}" for n, one in enumerate(self.brokers, 1))
            listed = ",".join(voters)
            for one in self.brokers:
                one.settings["controller.quorum.voters"] = listed

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, those that are down as well."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def addresses(self, listener: str) -> str:
        """Return the addresses of another listener of all brokers."""
        return ",".join(broker.address(listener) for broker in self.brokers)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for broker in self.brokers:
                stack.callback(broker.close)
            self.start()
            self._stack = stack.pop_all()
        return self

    def start(self, brokers: Sequence[KafkaBroker] = ()) -> None:
        """Start all brokers, or those that are down, and wait until all are in the cluster.

        They start side by side: controllers answer once most of them are there.
        """
        with ThreadPoolExecutor(len(self.brokers)) as starting:
            list(starting.map(KafkaBroker.start, brokers or self.brokers))
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Wait until every broker is registered."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

        def are_there() -> bool:
            try:
                return len(admin.list_topics(timeout=10).brokers) == len(self.brokers)
            except KafkaException:
                return False

        wait_until(are_there, "all brokers are in the cluster")

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@contextmanager
def frozen(broker: KafkaBroker) -> Iterator[None]:
    """Stop a broker's process, as a long pause does: it keeps its connections and answers none."""
    (number,) = broker.process_ids()
    os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(number, signal.SIGCONT)


def follower(
    first: KafkaBroker,
    number: int,
    properties: Mapping[str, str] | None = None,
    controls: bool = False,
    **options: Any,
) -> KafkaBroker:
    """Return a broker in the cluster of the first, by default no controller."""
    own = {**(properties or {}), "node.id": str(number)}
    broker = KafkaBroker(properties=own, cluster_id=first.cluster_id, **options)
    if not controls:  # only a controller may listen as one
        voters, listeners = "controller.quorum.voters", broker.settings["listeners"].split(",")
        broker.settings |= {"process.roles": "broker", voters: first.settings[voters]}
        broker.settings["listeners"] = ",".join(one for one in listeners if "CONTROLLER" not in one)
    return broker
