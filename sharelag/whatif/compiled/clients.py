"""Members of a compiled run: what of them stays in Python."""

from __future__ import annotations

import numpy as np

from sharelag.whatif.compiled import layout as at
from sharelag.whatif.compiled.memory import Core
from sharelag.whatif.scenario import Member
from sharelag.whatif.simulation.clients import Client, World
from sharelag.whatif.simulation.clock import MS
from sharelag.whatif.simulation.streams import WHOLE_BITS, Longs, Work

#: Polls whose accidents are drawn together.
_ACCIDENTS = 64


class CompiledClient(Client):
    """One life of a share consumer whose polls and work are compiled."""

    def __init__(
        self,
        world: World,
        member: Member,
        number: int,
        life: int,
        which: int,
        work: dict[int, Work],
        core: Core,
        work_at: int,
    ) -> None:
        self._core, self._m = core, core.member()
        self._is_counted: tuple[int, int] | None = None
        fields = {
            at.MAX_POLL: member.max_poll_records,
            at.RECORD_LIMIT: int(member.acquire_mode == "record_limit"),
            at.WAIT: member.fetch_max_wait_ms * MS,
            at.POLL: round(member.service.poll_ms * MS),
            at.WORK_AT: work_at,
            at.IS_FIXED: int(work[0].is_fixed),
        }
        for field, value in fields.items():
            core[self._m + field] = value
        core.behave(self._m, member.behaviour)
        super().__init__(world, member, number, life, which, work)

    @property
    def address(self) -> int:
        """Where its memory is."""
        return self._m

    @property
    def places(self) -> list[int]:
        """The places that it has."""
        return self._places

    @places.setter
    def places(self, places: list[int]) -> None:
        core, m = self._core, self._m
        self._places = places
        begin = core[m + at.WANTED_AT]
        core.a[begin : begin + len(places)] = [core.places[place] for place in places]
        core[m + at.WANTED], core[m + at.CHANGED] = len(places), 1

    def leave(self) -> None:
        """Close the consumer when the records at hand are done."""
        self._core[self._m + at.LEAVING] = 1
        super().leave()

    def close(self) -> None:
        """Close the consumer instead of polling again."""
        self._close()

    @property
    def busy(self) -> int:
        """Microseconds of processing records."""
        return self._core[self._m + at.BUSY] if self._is_counted is None else self._is_counted[0]

    @busy.setter
    def busy(self, busy: int) -> None:
        """A life begins with none; the memory has them."""

    @property
    def polls(self) -> int:
        """How many polls brought records."""
        return self._core[self._m + at.POLLS] if self._is_counted is None else self._is_counted[1]

    @polls.setter
    def polls(self, polls: int) -> None:
        """A life begins with none; the memory has them."""

    def hang(self, for_ms: int | None) -> None:
        """Stand still, heartbeats included, with open connections, for a time or indefinitely."""
        super().hang(for_ms)
        self._core[self._m + at.HUNG_UNTIL] = self._hung_until

    def accidents(self) -> Longs:
        """Draw random numbers for the accidents of many polls, as whole numbers."""
        drawn = self._chance.random(3 * _ACCIDENTS)
        return (drawn * 2.0**WHOLE_BITS).astype(np.int64)

    def finish(self) -> None:
        """Count what is going on when the simulation ends."""
        super().finish()
        self._is_counted = self.busy, self.polls

    def _stop_work(self) -> None:
        core, m = self._core, self._m
        since = core[m + at.BUSY_SINCE]
        if since >= 0:
            core[m + at.BUSY] = core[m + at.BUSY] + self._clock.now - since
            core[m + at.BUSY_SINCE] = -1

    def _is_at_work(self) -> bool:
        return bool(self._core[self._m + at.ACTIVE])

    def _poll(self) -> None:
        self._core.call("poll", self._m)

    def _end(self, how: str) -> None:
        super()._end(how)
        self._core[self._m + at.ENDED] = 1

    def _send_last(self) -> bool:
        return bool(self._core.call("close_sessions", self._m))
