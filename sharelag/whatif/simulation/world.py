"""What all members have in common, and what a share session is to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sharelag.model import topic_id_text
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.brokers import Brokers
from sharelag.whatif.simulation.clock import Clock
from sharelag.whatif.simulation.coordinator import Coordinator
from sharelag.whatif.simulation.leaders import Leaders
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.streams import IDS, Outcomes, generator


@dataclass(frozen=True)
class World:
    """What all members have in common."""

    scenario: Scenario
    seed: int
    clock: Clock
    brokers: Brokers
    coordinator: Coordinator
    first: dict[str, int]  # the first place of each topic
    logs: Sequence[Log]
    outcomes: Sequence[Outcomes]
    spawn: Callable[[int, int], None]  # a member of the scenario begins another life
    requests: (
        list[tuple[int, int, int, int, str]] | None
    )  # time, member, broker, session epoch, what


@dataclass(slots=True)
class Session:
    """A share session with one broker: places in their order, and the next request's epoch."""

    places: list[int] = field(default_factory=list)
    epoch: int = 0
    broker_epoch: int = 0  # of the broker when it began


def session_with(broker: int, sessions: dict[int, Session], leaders: Leaders) -> Session:
    """The share session with a broker; a new one when it ended or cannot be reached."""
    epoch = leaders.broker_epochs[broker]
    if broker not in sessions or sessions[broker].broker_epoch != epoch or broker in leaders.dead:
        sessions[broker] = Session(broker_epoch=epoch)
    return sessions[broker]


def member_id(seed: int, which: int, life: int) -> str:
    """A random id that looks like Kafka's, the same for every assignor."""
    return topic_id_text(generator(seed, IDS, which, life).bytes(16))
