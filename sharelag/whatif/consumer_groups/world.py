"""What all members of a consumer group have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sharelag.whatif.consumer_groups.coordinator import Coordinator
from sharelag.whatif.consumer_groups.partition import Partition
from sharelag.whatif.consumer_groups.settings import ConsumerSettings
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.simulation.clock import Clock
from sharelag.whatif.simulation.streams import Outcomes
from sharelag.whatif.simulation.tally import Tally


@dataclass(frozen=True)
class World:
    """What all members have in common."""

    scenario: Scenario
    settings: ConsumerSettings
    seed: int
    clock: Clock
    coordinator: Coordinator
    partitions: Sequence[Partition]
    topics: dict[
        str, list[tuple[int, int]]
    ]  # the partitions of each, and from when on they are there
    outcomes: Sequence[Outcomes]
    tally: Tally
    note_drained: Callable[[], None]
    spawn: Callable[[int, int], None]  # a member of the scenario begins another life
