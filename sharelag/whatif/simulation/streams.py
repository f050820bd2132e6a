"""Named streams of random numbers that are independent of each other.

Each stream is identified by its subject, not by the order of use: the work of a record is the same
whichever member gets it. So two runs differ only by what was changed (common random numbers).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sharelag.model import topic_id_text
from sharelag.whatif.scenario import Behaviour, Service, Topic

Longs: TypeAlias = NDArray[np.int64]
#: Subjects of streams. They are part of the seed, so never renumber them.
ARRIVALS, SERVICE, SLOW, OUTCOME, ACCIDENT, IDS, TOPIC_IDS = range(7)
#: Records drawn in one go.
CHUNK = 4096
#: Cached ids: each is needed when a member joins and lives, in all runs of a seed.
_IDS = 1 << 14
#: Bits of a random whole number: divided by their power of two it equals numpy's ``random``.
WHOLE_BITS = 53
#: Outcomes of deliveries: acknowledgement types, and outcomes without an acknowledgement.
ACCEPT, RELEASE, REJECT, HOLD, CRASH, SILENT = 1, 2, 3, 97, 98, 99


def generator(seed: int, *about: int) -> np.random.Generator:
    """Return the random stream of a subject."""
    return np.random.Generator(_bits(seed, *about))


def _bits(seed: int, *about: int) -> np.random.PCG64:
    return np.random.PCG64(np.random.SeedSequence(seed, spawn_key=about))


@lru_cache(_IDS)
def member_id(seed: int, which: int, life: int) -> str:
    """Return a random id in Kafka's format, the same for every assignor."""
    return topic_id_text(generator(seed, IDS, which, life).bytes(16))


def topic_ids(seed: int, topics: Iterable[Topic]) -> dict[str, str]:
    """Return the ids of topics by name, random ones where only the name is given."""
    return {
        one.name: topic_id_text(generator(seed, TOPIC_IDS, which).bytes(16))
        if one.is_named_only
        else one.id
        for which, one in enumerate(topics)
    }


class Work:
    """Processing times of a partition's records, in whole microseconds on all machines.

    ``lasting`` are microseconds of single offsets; None if no partition of the scenario has any.
    If ``is_fixed``, all records take the time ``fixed``.
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
        """Return the microseconds of each of the records ``first..last``."""
        if self.is_fixed:
            return np.full(last - first + 1, self.fixed, np.int64)
        return _slice(self._chunks, self.draw, first, last)

    def total(self, first: int, last: int) -> int:
        """Return the microseconds of these records together."""
        if self.is_fixed:
            return self.fixed * (last - first + 1)
        return int(self.of(first, last).sum())

    def draw(self, chunk: int, count: int = CHUNK) -> Longs:
        """Draw the microseconds of each record of a chunk, or of the first ``count``."""
        service = self._service
        chance = generator(self._seed, SERVICE, self._place, chunk)
        if service.kind == "exponential":
            times = chance.standard_exponential(count) * service.mean_ms
        elif service.kind == "lognormal":
            # The mean of a log-normal value is above the exponential of its mean logarithm.
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
    """Outcomes of each delivery of a partition's records, for a member's behaviour.

    ``poison`` has by offset the outcome regardless of the behaviour, the number of deliveries with
    it, and the microseconds for which the record is held.
    """

    def __init__(self, seed: int, place: int, poison: Mapping[int, tuple[int, int, int]]) -> None:
        self._seed, self._place, self.poison = seed, place, poison
        self._chunks: dict[int, dict[int, Longs]] = {}

    def of(self, first: int, last: int, attempt: int, behaviour: Behaviour) -> Longs | None:
        """Return an outcome per record; None if all are accepted."""
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
        """Draw whole numbers for a delivery of each record of a chunk, or the first ``count``."""
        bits = _bits(self._seed, OUTCOME, self._place, attempt, chunk)
        return (bits.random_raw(count) >> np.uint64(64 - WHOLE_BITS)).view(np.int64)


def shares_below(behaviour: Behaviour) -> Longs:
    """Return the upper bounds of the whole numbers for accepted, released and rejected records."""
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
