"""What a member makes of a poll: how long the records take, and what it acknowledges when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from sharelag.whatif.partition.values import Acknowledgement, AcknowledgeType
from sharelag.whatif.scenario import Behaviour
from sharelag.whatif.simulation.logs import Log
from sharelag.whatif.simulation.streams import ACCEPT, CRASH, SILENT, Longs, Outcomes, Work
from sharelag.whatif.simulation.tables import Delivered

#: A run of one type that is longer is acknowledged apart from its neighbours (``Acknowledgements``
#: of the client).
_SAME_TYPE = 10
Acknowledgements = dict[int, list[Acknowledgement]]


@dataclass(slots=True)
class Part:
    """What is processed before acknowledgements are sent.

    ``crashes`` when the member does not live to send them.
    """

    duration: int  # microseconds
    acknowledgements: Acknowledgements = field(default_factory=dict)
    crashes: bool = False


def parts(
    delivered: Sequence[Delivered],
    behaviour: Behaviour,
    logs: Sequence[Log],
    work: Callable[[int], Work],
    outcomes: Sequence[Outcomes],
) -> list[Part]:
    """Divide the records of a poll, in the response's order, where acknowledgements are sent."""
    answers = [
        outcomes[one.place].of(one.first_offset, one.last_offset, one.delivery_count, behaviour)
        for one in delivered
    ]
    if behaviour.commit != "poll" or any(
        answer is not None and CRASH in answer for answer in answers
    ):
        return _record_by_record(delivered, answers, behaviour, logs, work)
    typed: dict[int, list[_Typed]] = {}
    duration = 0
    for one, answer in zip(delivered, answers, strict=True):
        gaps = logs[one.place].gaps(one.first_offset, one.last_offset)
        here = work(one.place)
        duration += here.total(one.first_offset, one.last_offset) - sum(
            here.total(gap, gap) for gap in gaps
        )
        typed.setdefault(one.place, []).append(
            _Typed(one.first_offset, one.last_offset, _types(one, answer, gaps))
        )
    return [Part(duration, {place: _acknowledged(mine) for place, mine in typed.items()})]


def renewals(todo: Sequence[Part]) -> Acknowledgements:
    """Renew the locks of all that is still to be acknowledged."""
    typed: Acknowledgements = {}
    for part in todo:
        for place, given in part.acknowledgements.items():
            typed.setdefault(place, []).extend(
                one._replace(types=AcknowledgeType.RENEW) for one in given
            )
    return typed


class _Typed(NamedTuple):
    """What is said of records that were delivered together; no types: all are accepted."""

    first: int
    last: int
    types: Longs | None


def _types(one: Delivered, answer: Longs | None, gaps: Sequence[int]) -> Longs | None:
    if answer is None and not gaps:
        return None
    types = _accepted(one.last_offset - one.first_offset + 1) if answer is None else answer.copy()
    types[[gap - one.first_offset for gap in gaps]] = AcknowledgeType.GAP
    return types


def _accepted(size: int) -> Longs:
    return np.full(size, ACCEPT, np.int64)


def _acknowledged(typed: Sequence[_Typed]) -> list[Acknowledgement]:
    """As the client does it: neighbours together, however they were delivered."""
    made: list[Acknowledgement] = []
    joined: list[_Typed] = []
    for one in sorted(typed, key=itemgetter(0)):
        if joined and joined[-1].last + 1 != one.first:
            made += _of_neighbours(joined)
            joined = []
        joined.append(one)
    return made + _of_neighbours(joined)


def _of_neighbours(typed: Sequence[_Typed]) -> list[Acknowledgement]:
    if all(one.types is None for one in typed):
        return [Acknowledgement(typed[0].first, typed[-1].last, AcknowledgeType.ACCEPT)]
    types = [
        _accepted(one.last - one.first + 1) if one.types is None else one.types for one in typed
    ]
    return list(_runs(typed[0].first, np.concatenate(types)))


def _runs(first: int, types: Longs) -> Iterator[Acknowledgement]:
    """Acknowledgements without silent records: long runs of one type, the rest one by one."""
    mixed: list[int] = []
    at = first

    def rest() -> Iterator[Acknowledgement]:
        if mixed:
            begin = at - len(mixed)
            yield Acknowledgement(begin, at - 1, mixed[0] if len(set(mixed)) == 1 else tuple(mixed))

    for one, group in groupby(types.tolist()):
        size = sum(1 for _ in group)
        if one == SILENT or size > _SAME_TYPE:
            yield from rest()
            mixed = []
            if one != SILENT:
                yield Acknowledgement(at, at + size - 1, one)
        else:
            mixed += [one] * size
        at += size
    yield from rest()


def _record_by_record(
    delivered: Sequence[Delivered],
    answers: Sequence[Longs | None],
    behaviour: Behaviour,
    logs: Sequence[Log],
    work: Callable[[int], Work],
) -> list[Part]:
    made = [Part(0)]
    for one, answer in zip(delivered, answers, strict=True):
        gaps = set(logs[one.place].gaps(one.first_offset, one.last_offset))
        times = work(one.place).of(one.first_offset, one.last_offset).tolist()
        types = [ACCEPT] * len(times) if answer is None else answer.tolist()
        for offset, time, type_ in zip(
            range(one.first_offset, one.last_offset + 1), times, types, strict=True
        ):
            part = made[-1]
            if offset in gaps:
                _say(part, one.place, offset, AcknowledgeType.GAP)
                continue
            part.duration += time
            if type_ == CRASH:
                part.crashes = True
                return made
            if type_ != SILENT:
                _say(part, one.place, offset, type_)
            if behaviour.commit == "record" or (
                behaviour.commit == "error" and type_ not in (ACCEPT, SILENT)
            ):
                made.append(Part(0))
    if len(made) > 1 and not made[-1].duration and not made[-1].acknowledgements:
        made.pop()  # the last commit was that of the last record; it goes with the next poll
    return made


def _say(part: Part, place: int, offset: int, type_: int) -> None:
    typed = part.acknowledgements.setdefault(place, [])
    if typed and typed[-1].last_offset == offset - 1 and typed[-1].types == type_:
        typed[-1] = typed[-1]._replace(last_offset=offset)
    else:
        typed.append(Acknowledgement(offset, offset, type_))
