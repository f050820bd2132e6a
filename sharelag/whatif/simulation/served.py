"""What a broker keeps of a share partition beside its state, and of a fetch on its way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sharelag.whatif.partition.values import AcquireMode
from sharelag.whatif.share_partition import SharePartition
from sharelag.whatif.simulation.logs import Log


class Delivered(NamedTuple):
    """Records of one share partition that a fetch brings."""

    place: int
    first_offset: int
    last_offset: int
    delivery_count: int


@dataclass(slots=True, eq=False)
class Served:
    """One share partition, and what its leader keeps beside its state."""

    place: int
    log: Log
    share: SharePartition
    leader: int
    leader_epoch: int = 0
    locked_until: int = 0  # by a fetch
    unlock_due: bool = False
    append_due: bool = False
    expiry_due: int | None = None
    waiting: dict[Fetch, None] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        """Unfinished offsets, by what is in memory."""
        return self.log.known_end - self.share.start_offset - self.share.delivery_complete_count

    @property
    def held(self) -> int:
        """Offsets that members have acquired."""
        return self.share.acquired_count


@dataclass(slots=True, eq=False)
class Fetch:
    """One share fetch on its way."""

    number: int  # of the member, for what is counted
    member: str
    places: Sequence[int]  # in the order of this request
    max_records: int
    mode: AcquireMode
    answer: Callable[[list[Delivered]], None]
    answer_from: int = 0  # not before its acknowledgements were written
    done: bool = False
