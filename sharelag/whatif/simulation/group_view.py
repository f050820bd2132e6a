"""The group of a simulation as assignors see it.

What a scenario says of its topics is read and checked once; each rebalance adds what changes: lag,
rates, and which partitions may be assigned.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sharelag.whatif.assignors.group import Group, Member, Topic
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.brokers import Brokers
from sharelag.whatif.simulation.clock import MS

#: Microseconds over which arrivals are counted for assignors.
_RATE_OVER = 30_000 * MS


def topics_of(scenario: Scenario) -> dict[str, Topic]:
    """The topics of a scenario by name, all partitions assignable, lag and rates unknown.

    Raises
    ------
    InputError
        A topic id or the racks of a topic cannot be used.
    """
    given = {
        topic.name: {
            "id": topic.id,
            "partitions": topic.partitions,
            "racks": dict(enumerate(topic.racks)),
        }
        for topic in scenario.topics
    }
    return dict(Group.of([], given).topics)


class GroupView:
    """Topics of a scenario with what the brokers know of them now.

    Parameters
    ----------
    scenario : Scenario
    brokers : Brokers
    first : mapping of str to int
        The first place of each topic.
    """

    def __init__(self, scenario: Scenario, brokers: Brokers, first: Mapping[str, int]) -> None:
        self._served, self._first = brokers.served, first
        self._topics = topics_of(scenario)

    def at(self, now: int, members: tuple[Member, ...], there: Collection[int]) -> Group:
        """The group at a moment, with the places whose share state is initialised."""
        topics = {name: self._topic(topic, now, there) for name, topic in self._topics.items()}
        return Group(members, topics)

    def _topic(self, topic: Topic, now: int, there: Collection[int]) -> Topic:
        over, first = min(now, _RATE_OVER), self._first[topic.name]
        lag: dict[int, float] = {}
        rate: dict[int, float] = {}
        for partition in range(topic.partitions or 0):
            served = self._served[first + partition]
            end = served.log.end(now)
            lag[partition] = max(served.lag, 0)
            if over:
                rate[partition] = (end - served.log.end_then(now - over)) * 1000 * MS / over
        assignable = tuple(one for one in range(topic.partitions or 0) if first + one in there)
        return replace(topic, assignable=assignable, lag=lag, rate=rate)
