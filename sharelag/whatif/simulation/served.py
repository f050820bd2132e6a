"""Share partitions as brokers serve them: who leads them, and what a leader loads and keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sharelag.errors import InputError
from sharelag.model import UNINITIALIZED_START_OFFSET, Window
from sharelag.whatif.partition.values import AcquireMode, Persist, Write
from sharelag.whatif.records import StateLog
from sharelag.whatif.scenario import Scenario
from sharelag.whatif.share_partition import SharePartition
from sharelag.whatif.simulation.clock import MS, Clock
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.tables import Delivered, Tally


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
    def start_offset(self) -> int:
        """The first offset that may still be delivered."""
        return self.share.start_offset

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


#: After which time a client tries again (``reconnect.backoff.ms``), in microseconds.
RECONNECT = 50 * MS


class Leaders:
    """The brokers of a cluster by number: who is ``dead``, and after how long others lead.

    ``broker_epochs`` are one more whenever a broker goes down or comes back.
    """

    def __init__(self, count: int, clock: Clock, failover: int) -> None:
        self.count, self._clock, self._failover = count, clock, failover
        self.dead: set[int] = set()
        self.broker_epochs = [0] * count

    def after(self, broker: int) -> int:
        """Who leads after a broker.

        Raises
        ------
        InputError
            No broker is left.
        """
        for one in range(broker + 1, broker + 1 + self.count):
            if one % self.count not in self.dead:
                return one % self.count
        raise InputError(
            "all brokers of the scenario are down at once: give it more brokers, or fewer faults"
        )

    def stop(self, broker: int, for_ms: int | None, fail_over: Callable[[int], None]) -> bool:
        """A broker goes down, for a time or indefinitely; False: it already is."""
        if broker in self.dead:
            return False
        self.dead.add(broker)
        self.broker_epochs[broker] += 1
        self._clock.after(self._failover, fail_over, broker)
        if for_ms is not None:
            self._clock.after(for_ms * MS, self._start, broker)
        return True

    def _start(self, broker: int) -> None:
        self.dead.discard(broker)
        self.broker_epochs[broker] += 1


class Loader:
    """Makes share partitions from their states."""

    def __init__(self, scenario: Scenario, clock: Clock, states: StateLog, tally: Tally) -> None:
        self._clock, self._states, self._tally = clock, states, tally
        self._limits, self._reset = scenario.settings.limits, scenario.settings.auto_offset_reset
        self._brokers = scenario.brokers
        self._starts = [start.window for topic in scenario.topics for start in topic.starts]
        self._there = [at == 0 for topic in scenario.topics for at in topic.there_from()]

    def all(self, logs: Sequence[Log]) -> list[Served]:
        """The share partitions at the begin; of one that is added later nothing is written yet."""
        return [
            self.started(place, log)
            if self._there[place]
            else Served(place, log, SharePartition(0), 0)
            for place, log in enumerate(logs)
        ]

    def started(self, place: int, log: Log) -> Served:
        """A share partition as the scenario finds it, or a new one."""
        now, window = self._clock.now_ms, self._starts[place]
        if window is None:
            # Since Kafka 4.4 a partition that a known topic gets is read from its begin.
            start, count = (UNINITIALIZED_START_OFFSET, -1) if self._there[place] else (0, 0)
            window = Window(0, 0, 0, start, count, now, now)
            self._states.initialize(place, start, now)
        else:
            self._states.adopt(place, window, now)
        share = self.loaded(place, log, window, 0)
        return Served(place, log, share, place % self._brokers)

    def loaded(self, place: int, log: Log, window: Window, epoch: int) -> SharePartition:
        """What a leader of that epoch makes of a state."""
        reset = log.start if self._reset == "earliest" else log.end(self._clock.now)
        epoch = max(epoch, window.leader_epoch)
        return SharePartition.load(
            window, self._clock.now_ms, self._limits, epoch, self._persist(place), reset_to=reset
        )

    def _persist(self, place: int) -> Persist:
        def accept(write: Write) -> bool:
            self._states.write(place, write)
            self._tally.written(place, write, self._clock.now)
            return True

        return accept
