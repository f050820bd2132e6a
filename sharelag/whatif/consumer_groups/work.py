"""Work of a consumer on the records of one poll: one after the other, with retries in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sharelag.whatif.consumer_groups.partition import Partition
from sharelag.whatif.scenario import Behaviour
from sharelag.whatif.simulation.streams import ACCEPT, CRASH, REJECT, RELEASE, Outcomes, Work


class Returned(NamedTuple):
    """Records of one partition that a poll returned: ``first..last``."""

    partition: Partition
    first: int
    last: int


@dataclass(slots=True)
class Batch:
    """All that a poll returned, and how it goes.

    Attributes
    ----------
    duration
        Microseconds until it is done, or until the member does not live on.
    archived
        By partition (place), offsets that were given up: rejected, or after the last attempt.
    retries
        By partition, how often a record was tried again in place.
    """

    returned: Sequence[Returned]
    duration: int = 0
    crashes: bool = False
    archived: dict[int, list[int]] = field(default_factory=dict)
    retries: dict[int, int] = field(default_factory=dict)


def process(
    returned: Sequence[Returned],
    behaviour: Behaviour,
    attempts: int,
    work: Callable[[int], Work],
    outcomes: Sequence[Outcomes],
) -> Batch:
    """How long the records of a poll take, and what becomes of them.

    Parameters
    ----------
    returned : sequence of Returned
    behaviour : Behaviour
        A record that it releases is tried again at once, up to ``attempts`` times in all its
        deliveries, and then given up, as a rejected one; a silent one counts as done, since nobody
        says that it is not.
    attempts : int
    work : callable
        Gives the work in a partition.
    outcomes : sequence
        By partition.
    """
    batch = Batch(returned)
    for partition, first, last in returned:
        here, place = work(partition.place), partition.place
        idle = partition.idle(first, last)
        fresh = max(first, partition.delivered)
        odd = {
            offset: partition.tries.get(offset, 1) + 1
            for offset in range(first, min(fresh, last + 1))
        }
        partition.tries.update(odd)
        answers = outcomes[place].of(fresh, last, 1, behaviour) if fresh <= last else None
        if answers is not None:
            odd |= {fresh + at: 1 for at, answer in enumerate(answers.tolist()) if answer != ACCEPT}
        no_work = frozenset(idle)
        done = first
        for offset in sorted(odd.keys() - no_work):
            batch.duration += _time(here, done, offset - 1, idle)
            done = offset + 1
            if _process_record(
                batch, partition, offset, odd[offset], behaviour, attempts, here, outcomes[place]
            ):
                batch.crashes = True
                return batch
        batch.duration += _time(here, done, last, idle)
    return batch


def _process_record(
    batch: Batch,
    partition: Partition,
    offset: int,
    attempt: int,
    behaviour: Behaviour,
    attempts: int,
    here: Work,
    outcomes: Outcomes,
) -> bool:
    """Work on one record until it is done or given up; whether that was the end of the member."""
    place, each = partition.place, here.total(offset, offset)
    while True:
        batch.duration += each
        answers = outcomes.of(offset, offset, attempt, behaviour)
        answer = ACCEPT if answers is None else int(answers[0])
        if answer == CRASH:
            return True
        if answer == REJECT or (answer == RELEASE and attempt >= attempts):
            batch.archived.setdefault(place, []).append(offset)
        if answer != RELEASE or attempt >= attempts:
            return False
        attempt += 1
        partition.tries[offset] = attempt
        batch.retries[place] = batch.retries.get(place, 0) + 1


def _time(here: Work, first: int, last: int, idle: Sequence[int]) -> int:
    if last < first:
        return 0
    return here.total(first, last) - sum(
        here.total(one, one) for one in idle if first <= one <= last
    )
