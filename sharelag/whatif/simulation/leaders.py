"""The brokers of a simulation, and who leads next when one of them is down."""

from __future__ import annotations

from collections.abc import Callable

from sharelag.errors import InputError
from sharelag.whatif.simulation.clock import MS, Clock

#: After which time a client tries again (``reconnect.backoff.ms``), in microseconds.
RECONNECT = 50 * MS


class Leaders:
    """The brokers of a cluster, by number.

    Parameters
    ----------
    count : int
    clock : Clock
    failover : int
        Microseconds until others lead what a dead broker led.

    Attributes
    ----------
    dead
        Who is down now.
    broker_epochs
        Of each, one more whenever it goes down or comes back.
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
