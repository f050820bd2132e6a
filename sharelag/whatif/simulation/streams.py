"""Named streams of random numbers that do not disturb each other.

Each question has its own stream, numbered by what it is about and not by when it comes up: the
work in a record is the same whichever member gets it. So two runs differ by what was changed and
by nothing else (common random numbers).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sharelag.model import topic_id_text
from sharelag.whatif.scenario import Behaviour, Service

Longs: TypeAlias = NDArray[np.int64]
#: Which question; part of what makes the numbers, so never renumber.
ARRIVALS, SERVICE, SLOW, OUTCOME, ACCIDENT, IDS = range(6)
#: Records drawn together.
CHUNK = 4096
#: Ids that are kept: each is needed as a member joins and lives, in all runs of a seed.
_IDS = 1 << 14
#: Bits of a whole random number: divided by their power of two it is numpy's ``random``.
WHOLE_BITS = 53
#: What `Outcomes` answers: types of acknowledgements, and what has none.
ACCEPT, RELEASE, REJECT, HOLD, CRASH, SILENT = 1, 2, 3, 97, 98, 99


def generator(seed: int, *about: int) -> np.random.Generator:
    """Return a separate stream for each question."""
    return np.random.Generator(_bits(seed, *about))


def _bits(seed: int, *about: int) -> np.random.PCG64:
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=about))


@lru_cache(_IDS)
def member_id(seed: int, which: int, life: int) -> str:
    """Return a random id that looks like Kafka's, the same for every assignor."""
    return topic_id_text(generator(seed, IDS, which, life).bytes(16))


class Work:
    """Times that the records of a partition take, in whole microseconds on all machines.

    ``lasting`` are microseconds of single offsets; None where no partition of the scenario has any.
    Where ``is_fixed``, all records take the time ``fixed``.
    """

    def __init__(
        self,
        seed: int,
        place: int,
        service: Service,
        factor: float,
        lasting: Mapping[int, int] | None = None,
    ) -> None:
        self._seed, self._place, self._service, self._factor = seed, place, service, factor
        self._lasting = lasting or {}
        self.fixed = round(service.mean_ms * factor * 1000)
        self.is_fixed = service.kind == "fixed" and not service.slow_share and lasting is None
        self._chunks: dict[int, Longs] = {}

    def of(self, first: int, last: int) -> Longs:
        """Microseconds for each of the records ``first..last``."""
        if self.is_fixed:
            return np.full(last - first + 1, self.fixed, np.int64)
        return _slice(self._chunks, self.draw, first, last)

    def total(self, first: int, last: int) -> int:
        """Microseconds for all of them."""
        if self.is_fixed:
            return self.fixed * (last - first + 1)
        return int(self.of(first, last).sum())

    def draw(self, chunk: int, count: int = CHUNK) -> Longs:
        """Microseconds for each record of a chunk, or for the first ``count`` alone."""
        service = self._service
        chance = generator(self._seed, SERVICE, self._place, chunk)
        if service.kind == "exponential":
            times = chance.standard_exponential(count) * service.mean_ms
        elif service.kind == "lognormal":
            # The mean of a log-normal value lies above the one at the mean logarithm.
            middle = service.mean_ms / np.exp(service.sigma**2 / 2)
            times = np.exp(chance.standard_normal(count) * service.sigma) * middle
        elif service.kind == "measured":
            samples = np.array(service.samples_ms)
            times = samples[chance.integers(len(samples), size=count)]
        else:
            times = np.full(count, service.mean_ms)
        if service.slow_share:
            drawn_slow = generator(self._seed, SLOW, self._place, chunk).random(count)
            slow = drawn_slow < service.slow_share
            times = np.where(slow, times * service.slow_factor, times)
        drawn = np.rint(times * self._factor * 1000).astype(np.int64)
        for offset, microseconds in self._lasting.items():
            if 0 <= offset - chunk * CHUNK < count:
                drawn[offset - chunk * CHUNK] = microseconds
        return drawn


class Outcomes:
    """What becomes of each delivery of a partition's records, for a member's behaviour.

    ``poison`` has by offset what becomes of a record whatever the behaviour, in how many
    deliveries, and for how many microseconds it is held.
    """

    def __init__(self, seed: int, place: int, poison: Mapping[int, tuple[int, int, int]]) -> None:
        self._seed, self._place, self.poison = seed, place, poison
        self._chunks: dict[int, dict[int, Longs]] = {}

    def of(self, first: int, last: int, attempt: int, behaviour: Behaviour) -> Longs | None:
        """One answer a record; None where all are accepted."""
        known = ((one, most) for one, (_, most, _) in self.poison.items() if first <= one <= last)
        bad = [one for one, most in known if attempt <= most]
        if behaviour.accept == 1 and not bad:
            return None
        outcome = np.full(last - first + 1, ACCEPT, np.int64)
        if behaviour.accept < 1:
            chunks = self._chunks.setdefault(attempt, {})
            chance = _slice(chunks, lambda chunk: self.draw(attempt, chunk), first, last)
            bounds = shares_below(behaviour)
            which = np.searchsorted(bounds, chance, side="right")
            outcome = np.array([ACCEPT, RELEASE, REJECT, SILENT])[which]
        for offset in bad:
            outcome[offset - first] = self.poison[offset][0]
        return outcome

    def draw(self, attempt: int, chunk: int, count: int = CHUNK) -> Longs:
        """Whole numbers for that delivery of each record of a chunk, or of the first ``count``."""
        bits = _bits(self._seed, OUTCOME, self._place, attempt, chunk)
        return (bits.random_raw(count) >> np.uint64(64 - WHOLE_BITS)).view(np.int64)


def shares_below(behaviour: Behaviour) -> Longs:
    """Return below which whole number of `Outcomes` a record is accepted, released, rejected."""
    shares = np.cumsum([behaviour.accept, behaviour.release, behaviour.reject])
    return np.ceil(shares * 2.0**WHOLE_BITS).astype(np.int64)


def _slice(chunks: dict[int, Longs], draw: Callable[[int], Longs], first: int, last: int) -> Longs:
    parts = []
    for chunk in range(first // CHUNK, last // CHUNK + 1):
        if chunk not in chunks:
            chunks[chunk] = draw(chunk)
        begin = chunk * CHUNK
        parts.append(chunks[chunk][max(first - begin, 0) : last - begin + 1])
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
