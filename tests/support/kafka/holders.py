"""Eight share consumers that accept, release, reject, renew and hang, and what they know of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.kafka.jvm import RigError
from tests.support.kafka.oracles import Oracle, share_holders
from tests.support.kafka.workload import wait_until

#: What each member does with what it was given.
MEMBERS = {
    "accepts-1": "ACCEPT",
    "accepts-2": "ACCEPT",
    "releases-1": "RELEASE",
    "releases-2": "RELEASE",
    "rejects": "REJECT",
    "renews-1": "RENEW",
    "renews-2": "RENEW",
    "hangs": None,
}
#: One record at one member: its partition, offset and delivery count.
Given = tuple[int, int, int]
#: Microseconds before and after the end of a lock in which a member cannot say whether it still has
#: it: the broker's timer is late on a busy machine.
_BEFORE, _AFTER = 300_000, 2_500_000


@dataclass
class Moment:
    """Who holds what, as the members know it: microseconds since the epoch, records by member."""

    at: int
    held: dict[str, set[Given]]


@dataclass
class Ledger:
    """What the members of a run wrote down."""

    given: dict[str, list[Given]] = field(default_factory=dict)
    moments: list[Moment] = field(default_factory=list)


@dataclass
class _Member:
    name: str
    does: str | None
    has: set[Given] = field(default_factory=set)
    renewed: bool = False
    lost: bool = False
    #: When its last poll was called, if it returned nothing: its fetch may have been under way.
    asked: int | None = None
    #: When its lock ends at the earliest and at the latest, in microseconds.
    lock: tuple[int, int] = (0, 0)


def run(
    bootstrap: str,
    group: str,
    topic: str,
    *,
    rounds: int,
    lock_ms: int,
    produce: Callable[[], object],
    seed: int = 1,
) -> Ledger:
    """Let the members of `MEMBERS` work for some rounds at least, and write down who has what.

    Parameters
    ----------
    produce
        Called when all members have joined, so that none takes everything.
    """
    ledger, chance = Ledger(), random.Random(seed)
    with share_holders() as clients:
        members = [_Member(name, does) for name, does in MEMBERS.items()]
        config = {
            "max.poll.records": "10",
            "share.acquire.mode": "record_limit",
            "fetch.max.wait.ms": "100",
        }
        where = {"bootstrap": bootstrap, "group": group, "topic": topic, "config": config}
        for one in members:
            _ask(clients, one, "open", **where)
        joined: set[str] = set()

        def all_joined() -> bool:
            # Groups are assigned with heartbeats, which polls begin.
            joined.update(one.name for one in members if not _poll(clients, one, 300)[0])
            return len(joined) == len(members)

        wait_until(all_joined, "all members have joined")
        produce()
        end, lost = time.monotonic() + 150, False
        # So long that the one who hangs has lost its records at least once.
        while len(ledger.moments) < rounds or not lost:
            lost = lost or any(one.lost for one in members)
            if time.monotonic() > end:
                raise RigError("no lock was seen to end within 150 s")
            for one in members:
                _take(clients, one, ledger, lock_ms * 1000)
            moment = _moment(members, chance)
            if moment is not None:
                ledger.moments.append(moment)
            for one in members:
                _settle(clients, one, ledger, lock_ms * 1000)
        for one in members:
            _ask(clients, one, "close")
    return ledger


def _take(clients: Oracle, one: _Member, ledger: Ledger, lock: int) -> None:
    """Poll, unless the member hangs on what it has; renewed records come once more."""
    if one.does is None and one.has:
        return
    before = time.monotonic()
    while True:
        polled, (first, last) = _poll(clients, one, 2_000)
        records = {(int(p), int(o), int(c)) for p, o, c in polled}
        if records:
            break
        if time.monotonic() - before > 60:
            raise RigError(f"{one.name} got no records within a minute")
    if one.renewed:
        if records != one.has:
            raise RigError(f"{one.name} renewed {one.has} and was given {records}")
        return
    one.has = records
    one.lock = (first + lock, last + lock)
    ledger.given.setdefault(one.name, []).extend(sorted(records))


def _moment(members: list[_Member], chance: random.Random) -> Moment | None:
    """Choose a moment at random while nobody does anything, if all can say what they have.

    A busy broker writes the line of a request some time after the client has its answer, and the
    line's time is that of writing.
    """
    time.sleep(0.5 + 0.2 * chance.random())
    at = _now()
    if any(_is_unsure(one, at) for one in members):
        time.sleep(0.3)
        return None
    time.sleep(0.02)
    held = {one.name: set(one.has) for one in members if one.has and at < one.lock[0]}
    return Moment(at, held)


def _is_unsure(one: _Member, now: int) -> bool:
    return bool(one.has) and one.lock[0] - _BEFORE <= now <= one.lock[1] + _AFTER


def _settle(clients: Oracle, one: _Member, ledger: Ledger, lock: int) -> None:
    if one.does is None:
        if _now() > one.lock[1] + _AFTER:
            # The broker has taken the records back. Where the client does not report that, the member
            # cannot say what it had since.
            if not _ask(clients, one, "acknowledge", type="ACCEPT")["refused"]:
                _forget(one, ledger)
            one.has, one.lost = set(), True
        return
    lock_before = one.lock
    if one.does == "RENEW" and not one.renewed:
        answer = _ask(clients, one, "acknowledge", type="RENEW")
        one.renewed, one.lock = True, (answer["called"] + lock, answer["returned"] + lock)
    else:
        one.renewed = False
        answer = _ask(
            clients, one, "acknowledge", type="ACCEPT" if one.does == "RENEW" else one.does
        )
        one.has = set()
    if answer["refused"]:
        one.lock = lock_before
        if answer["called"] < one.lock[0] - _BEFORE:
            raise RigError(f"{one.name}: {one.does} was refused")
        # On a machine so busy that a round takes longer than a lock.
        _forget(one, ledger)
        one.has, one.renewed = set(), False


def _forget(one: _Member, ledger: Ledger) -> None:
    """Drop the moments at which a member may have lost what it thought it had."""
    ledger.moments = [moment for moment in ledger.moments if moment.at < one.lock[0] - _BEFORE]


def _poll(clients: Oracle, one: _Member, ms: int) -> tuple[list[Any], tuple[int, int]]:
    """Poll; return records, and when the broker gave them at the earliest and at the latest."""
    answer = _ask(clients, one, "poll", ms=ms)
    called, returned = answer["called"], answer["returned"]
    earliest = one.asked or called
    one.asked = None if answer["records"] else called
    return answer["records"], (earliest, returned)


def _ask(clients: Oracle, one: _Member, do: str, **more: Any) -> dict[str, Any]:
    answer = clients.ask({"do": do, "member": one.name, **more})
    if "error" in answer:
        raise RigError(f"{one.name} could not {do}: {answer['error']}")
    return answer


def _now() -> int:
    return time.time_ns() // 1000
