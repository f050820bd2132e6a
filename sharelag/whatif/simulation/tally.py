"""Counters of a run: deliveries, what became of them, and when records were finished."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sharelag.model import DeliveryState
from sharelag.whatif.partition.values import Acknowledgement, AcknowledgeType, Write
from sharelag.whatif.simulation.served import Delivered
from sharelag.whatif.simulation.streams import Longs

#: The number of no member.
NOBODY = -1
#: What is counted of a share partition and a member, in records.
COUNTS = ("deliveries", "redeliveries", "acknowledged", "released", "rejected", "refused")
_DELIVERIES, _REDELIVERIES, _ACKNOWLEDGED, _RELEASED, _REJECTED, _REFUSED = range(len(COUNTS))
_AVAILABLE, _ACKED, _ARCHIVED = (
    DeliveryState.AVAILABLE,
    DeliveryState.ACKNOWLEDGED,
    DeliveryState.ARCHIVED,
)


class Tally:
    """Counters of one run.

    Attributes
    ----------
    counts
        By share partition and member, as `COUNTS`.
    archived, expired, lost
        By share partition: offsets archived, given back since their locks expired, deleted before
        they were finished.
    finished
        Share partition, first and last offset, and the time (microseconds) of all that was
        finished.
    given_back
        Records that members released themselves; what closed sessions and ended locks release is
        not in it.
    drained_at
        Times (microseconds) at which nothing was left, at most one in each step of the timeline.
    """

    def __init__(self, places: int, step: int) -> None:
        self.counts: dict[tuple[int, int], list[int]] = {}
        self.archived, self.expired, self.lost = [0] * places, [0] * places, [0] * places
        self.finished: list[tuple[int, int, int, int]] = []
        self.given_back = 0
        self.drained_at: list[int] = []
        self._step = step
        self._cause, self._number = "", NOBODY

    def because(self, cause: str, number: int) -> None:
        """What the writes to come are about, and of which member."""
        self._cause, self._number = cause, number

    def delivered(self, number: int, delivered: Sequence[Delivered]) -> None:
        """Records went to a member."""
        for place, first, last, count in delivered:
            counts = self._of(place, number)
            counts[_DELIVERIES] += last - first + 1
            if count > 1:
                counts[_REDELIVERIES] += last - first + 1

    def written(self, place: int, write: Write, now: int) -> None:
        """States were written."""
        counts = self._of(place, self._number) if self._number != NOBODY else None
        for first, last, state, _, _ in write.runs:
            size = last - first + 1
            if state == _AVAILABLE:
                if self._cause == "expired":
                    self.expired[place] += size
                elif counts:
                    counts[_RELEASED] += size
                    self.given_back += size if self._cause == "acknowledged" else 0
                continue
            self.finished.append((place, first, last, now))
            if state == _ARCHIVED:
                self.archived[place] += size
                if self._cause == "expired":
                    self.expired[place] += size
                elif counts:
                    counts[_REJECTED if self._cause == "acknowledged" else _RELEASED] += size
            elif state == _ACKED and counts:
                counts[_ACKNOWLEDGED] += size

    def finished_rows(self) -> Longs:
        """What was finished, as rows of `finished`."""
        return np.array(self.finished, np.int64).reshape(-1, 4)

    def refused(self, place: int, number: int, given: Sequence[Acknowledgement]) -> None:
        """Acknowledgements came too late, and the work was wasted; renewals do not count."""
        lost = [one for one in given if one.types != AcknowledgeType.RENEW]
        self._of(place, number)[_REFUSED] += sum(
            one.last_offset - one.first_offset + 1 for one in lost
        )

    def drained(self, now: int) -> None:
        """Nothing is left at this time."""
        if not self.drained_at or self.drained_at[-1] // self._step < now // self._step:
            self.drained_at.append(now)

    def _of(self, place: int, number: int) -> list[int]:
        counts = self.counts.get((place, number))
        if counts is None:
            counts = self.counts[place, number] = [0] * len(COUNTS)
        return counts
