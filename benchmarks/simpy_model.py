"""A share group as a lean SimPy model, which only counts completions.

It has one FIFO of available records and one of locks for each partition, and wakes idle consumers
one by one. It has no brokers, windows, sessions or assignors, and no tables except the lag per
second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import simpy

#: The same as in `benchmarks.rows.simulator.scenario`.
PARTITIONS, CONSUMERS, RATE, SERVICE_S, LOCK_S, ATTEMPTS, POLL = 20, 4, 200.0, 0.01, 5.0, 5, 50
SILENT, RELEASE = 0.02, 0.08
#: Records that arrive together every 10 ms, unless they arrive one by one.
BURST = int(RATE * 0.01)


@dataclass
class _Partition:
    available: deque[int] = field(default_factory=deque)
    idle: list[Any] = field(default_factory=list)
    counts: dict[int, int] = field(default_factory=dict)  # deliveries of unfinished records
    held: dict[int, int] = field(default_factory=dict)  # the delivery that a member is processing
    locks: deque[tuple[float, int, int]] = field(default_factory=deque)
    end: int = 0

    def wake(self) -> None:
        if self.idle and self.available:
            self.idle.pop().succeed()


class Model:
    """One run; `lag` has a row per second.

    Parameters
    ----------
    by_record : bool
        Consumers acknowledge each record separately, else a whole poll; and producers append
        records one by one, else those of 10 ms together.
    """

    def __init__(self, by_record: bool, seed: int = 1) -> None:
        self.done = 0
        self._random, self._env = Random(seed), simpy.Environment()
        self.lag: list[int] = []
        partitions = [_Partition() for _ in range(PARTITIONS)]
        self._env.process(self._sample(partitions))
        for at in partitions:
            self._env.process(self._records(at) if by_record else self._bursts(at))
            self._env.process(self._locks(at))
            for _ in range(CONSUMERS):
                self._env.process(self._consume(at, by_record))

    def run(self, seconds: float) -> int:
        """Run for some seconds; return the number of finished records."""
        self._env.run(seconds)
        return self.done

    def _sample(self, partitions: list[_Partition]) -> Iterator[Any]:
        while True:
            self.lag.append(sum(at.end for at in partitions) - self.done)
            yield self._env.timeout(1)

    def _records(self, at: _Partition) -> Iterator[Any]:
        while True:
            yield self._env.timeout(self._random.expovariate(RATE))
            at.available.append(at.end)
            at.end += 1
            at.wake()

    def _bursts(self, at: _Partition) -> Iterator[Any]:
        while True:
            yield self._env.timeout(0.01)
            at.available.extend(range(at.end, at.end + BURST))
            at.end += BURST
            at.wake()

    def _locks(self, at: _Partition) -> Iterator[Any]:
        env = self._env
        while True:
            while at.locks and at.locks[0][0] <= env.now:
                _, offset, delivery = at.locks.popleft()
                if at.held.get(offset) == delivery:
                    self._give_back(at, offset, delivery)
                    at.wake()
            yield env.timeout(max(at.locks[0][0] - env.now, 0) if at.locks else LOCK_S)

    def _consume(self, at: _Partition, by_record: bool) -> Iterator[Any]:
        env, random = self._env, self._random
        while True:
            if not at.available:
                event = env.event()
                at.idle.append(event)
                yield event
                continue
            polled = [at.available.popleft() for _ in range(min(POLL, len(at.available)))]
            for offset in polled:
                delivery = at.counts.get(offset, 0) + 1
                at.counts[offset] = at.held[offset] = delivery
                at.locks.append((env.now + LOCK_S, offset, delivery))
            if not by_record:
                yield env.timeout(random.gammavariate(len(polled), SERVICE_S))
            for offset in polled:
                if by_record:
                    yield env.timeout(random.expovariate(1 / SERVICE_S))
                self._say(at, offset)

    def _say(self, at: _Partition, offset: int) -> None:
        delivery, drawn = at.held.get(offset), self._random.random()
        if delivery is None or drawn < SILENT:
            return
        if drawn < SILENT + RELEASE:
            self._give_back(at, offset, delivery)
        else:
            self._finish(at, offset)

    def _give_back(self, at: _Partition, offset: int, delivery: int) -> None:
        if delivery < ATTEMPTS:
            del at.held[offset]
            at.available.append(offset)
        else:
            self._finish(at, offset)

    def _finish(self, at: _Partition, offset: int) -> None:
        del at.held[offset], at.counts[offset]
        self.done += 1
