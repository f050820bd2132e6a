"""The script of a broker, producers and members: a scenario and a seed as plain values.

The draws are the simulator's own: a record takes the same time, and has the same outcome, in both.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from sharelag.whatif.scenario import Behaviour, Member, Scenario, Service
from sharelag.whatif.simulation.logs import Log, logs
from sharelag.whatif.simulation.streams import ACCEPT, CRASH, HOLD, REJECT, RELEASE, Outcomes, Work
from tests.support.kafka.jvm import RigError

#: Groups may have sessions, locks and windows that end within an experiment.
PROPERTIES = {
    "group.share.min.session.timeout.ms": "1000",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.partition.max.record.locks": "100",
    "group.share.max.partition.max.record.locks": "10000",
    "group.share.min.heartbeat.interval.ms": "250",
}
#: Number of attempts with outcomes: Kafka's maximum delivery limit.
_ATTEMPTS = 10
#: Numbers that Kafka does not use: a record that ends its process, or is held, then accepted.
_PLAYED = {CRASH: 8, HOLD: 9}
_POISON = {"release": RELEASE, "reject": REJECT, "crash": CRASH, "hold": HOLD}


def script(scenario: Scenario, seed: int) -> dict[str, Any]:
    """Return the events of a scenario for real consumers.

    Returns
    -------
    dict
        ``topics``: partitions by name. ``group``: its settings. ``appends``: time in ms since the
        start, topic, partition and size of each record batch. ``faults``: time, kind, member, and
        duration. ``members``, ``work``, ``outcomes``, ``holds``: the input of
        ``java/ShareMembers.java``.

    Raises
    ------
    RigError
        The scenario has a feature that is not played here.
    """
    _require_playable(scenario)
    places = [
        (topic.name, number, log)
        for topic, mine in zip(scenario.topics, logs(scenario, seed), strict=True)
        for number, log in enumerate(mine)
    ]
    members = scenario.each_member()
    services = list(dict.fromkeys(member.service for member in members))
    return {
        "topics": {topic.name: topic.partitions for topic in scenario.topics},
        "group": _group(scenario),
        "appends": sorted(append for place in places for append in _appends(*place)),
        "faults": [
            [fault.at_ms, fault.kind, fault.member, fault.for_ms] for fault in scenario.faults
        ],
        "members": [_member(member, services.index(member.service)) for member in members],
        "work": [
            {
                f"{topic}/{number}": _work(scenario, seed, place, topic, number, log, service)
                for place, (topic, number, log) in enumerate(places)
            }
            for service in services
        ],
        "outcomes": _outcomes(scenario, seed, places, members[0].behaviour),
        **_holds(scenario),
        **({"crashes": True} if any(one.how == "crash" for one in scenario.poison) else {}),
    }


def _work(
    scenario: Scenario, seed: int, place: int, topic: str, number: int, log: Log, service: Service
) -> list[int]:
    """Return how many microseconds each record of a log takes a member."""
    factor = dict(service.by_partition).get((topic, number), 1.0)
    work: list[int] = Work(seed, place, service, factor).of(0, log.bases[-1] - 1).tolist()
    for one in scenario.poison:
        if (one.topic, one.partition) == (topic, number) and one.work_ms is not None:
            work[one.offset] = one.work_ms * 1000
    return work


def digest(result: dict[str, Any]) -> str:
    """Of a script."""
    return hashlib.sha256(json.dumps(result, sort_keys=True).encode()).hexdigest()[:16]


def _require_playable(scenario: Scenario) -> None:
    outcomes = {(one.behaviour.release, one.behaviour.reject) for one in scenario.members}
    strange = (
        any(
            one.join_ms or one.leave_ms is not None or one.behaviour.silent
            for one in scenario.members
        )
        or any(one.kind not in ("crash", "hang") for one in scenario.faults)
        or any(start.end_offset for topic in scenario.topics for start in topic.starts)
    )
    if len(outcomes) > 1 or strange:
        raise RigError(
            "members differ in what they release, come or go, or say nothing; "
            "other faults than a crash and a hang; "
            "or records that are there at the begin: nobody plays that with real consumers yet"
        )


def _group(scenario: Scenario) -> dict[str, str]:
    settings, limits = scenario.settings, scenario.settings.limits
    values = {
        "share.auto.offset.reset": settings.auto_offset_reset,
        "share.heartbeat.interval.ms": settings.heartbeat_interval_ms,
        "share.session.timeout.ms": settings.session_timeout_ms,
        "share.assignment.interval.ms": settings.assignment_interval_ms,
        "share.record.lock.duration.ms": limits.lock_duration_ms,
        "share.partition.max.record.locks": limits.max_record_locks,
        "share.delivery.count.limit": limits.delivery_count_limit,
        "share.isolation.level": settings.isolation_level,
    }
    return {name: str(value) for name, value in values.items()}


def _appends(topic: str, number: int, log: Log) -> list[list[Any]]:
    sizes = np.diff(log.bases).tolist()
    return [[at / 1000, topic, number, size] for at, size in zip(log.times, sizes, strict=True)]


def _member(member: Member, work: int) -> dict[str, Any]:
    return {
        "name": member.name,
        "topics": list(member.topics),
        "implicit": member.behaviour.acknowledgement == "implicit",
        "commit": member.behaviour.commit,
        "config": {
            "max.poll.records": str(member.max_poll_records),
            "share.acquire.mode": member.acquire_mode,
            "fetch.max.wait.ms": str(member.fetch_max_wait_ms),
        },
        "pollUs": round(member.service.poll_ms * 1000),
        "work": work,
    }


def _holds(scenario: Scenario) -> dict[str, Any]:
    """Return for how many microseconds records are held, if any are."""
    holds: dict[str, dict[str, int]] = {}
    for one in scenario.poison:
        if one.hold_ms is not None:
            held = holds.setdefault(f"{one.topic}/{one.partition}", {})
            held[str(one.offset)] = one.hold_ms * 1000
    return {"holds": holds} if holds else {}


def _outcomes(
    scenario: Scenario, seed: int, places: list[tuple[str, int, Log]], behaviour: Behaviour
) -> dict[str, dict[str, str]]:
    """Return the acknowledgement types, a digit per record, of each attempt not fully accepted."""
    found: dict[str, dict[str, str]] = {}
    for place, (topic, number, log) in enumerate(places):
        poison = {
            one.offset: (_POISON[one.how], one.attempts, (one.hold_ms or 0) * 1000)
            for one in scenario.poison
            if (one.topic, one.partition) == (topic, number)
        }
        outcomes = Outcomes(seed, place, poison)
        for attempt in range(1, _ATTEMPTS + 1):
            types = outcomes.of(0, log.bases[-1] - 1, attempt, behaviour)
            if types is not None:
                for type_, digit in _PLAYED.items():
                    types[types == type_] = digit
                if not np.isin(types, (ACCEPT, RELEASE, REJECT, *_PLAYED.values())).all():
                    raise RigError(
                        "a consumer that neither ends nor acknowledges cannot poll again"
                    )
                found.setdefault(f"{topic}/{number}", {})[str(attempt)] = "".join(
                    map(str, types.tolist())
                )
    return found
