"""Members and topics as assignors take them."""

import struct
from base64 import urlsafe_b64decode
from typing import Any

from hypothesis import strategies as st

from sharelag.whatif import ASSIGNORS, Group
from sharelag.whatif.assignors import contract
from sharelag.whatif.assignors.contract import Figures, Finding

Members = list[dict[str, Any]]
Topics = dict[str, dict[str, Any]]
Drawn = tuple[Members, Topics]


def named_in_order(topics: Topics) -> Topics:
    """Name topics in the order of their ids, which is all that a broker lets an assignor see."""
    ordered = sorted(  # as Java compares ids
        topics.values(),
        key=lambda topic: struct.unpack(">qq", urlsafe_b64decode(topic["id"] + "==")),
    )
    return {f"topic-{number}": topic for number, topic in enumerate(ordered)}


def members(count: int, *topics: str) -> Members:
    return [{"id": f"m{number}", "subscribed": list(topics or ("t",))} for number in range(count)]


def counts(assignment: dict[str, dict[str, list[int]]], topic: str = "t") -> list[int]:
    held = [partition for topics in assignment.values() for partition in topics.get(topic, [])]
    return [held.count(partition) for partition in range(max(held) + 1)]


def pairs(assignment: dict[str, dict[str, list[int]]]) -> set[tuple[str, str, int]]:
    return {(who, t, p) for who, ts in assignment.items() for t, ps in ts.items() for p in ps}


def going_on(group: Members, assignment: dict[str, dict[str, list[int]]]) -> Members:
    return [member | {"current": assignment.get(member["id"], {})} for member in group]


def check(group: Members, topics: Topics, answer: Any, **limits: int) -> list[Finding]:
    return contract.check(Group.of(group, topics), answer, **limits)


def figures(
    group: Members, topics: Topics, answer: Any, service_rate: float | None = None
) -> Figures:
    return contract.figures(Group.of(group, topics), answer, service_rate)


def slowest(numbers: Figures) -> float:
    """Seconds until everything whose lag is known is drained."""
    return max(seconds for seconds in (numbers.drain or {}).values() if seconds is not None)


@st.composite
def groups(draw: st.DrawFn, alike: bool | None = None) -> Drawn:
    topics: Topics = {}
    for name in "tuv"[: draw(st.integers(1, 3))]:
        count = draw(st.integers(1, 6))
        topics[name] = {
            "partitions": count,
            "lag": draw(st.dictionaries(st.integers(0, count - 1), st.integers(0, 1000))),
            "rate": draw(st.dictionaries(st.integers(0, count - 1), st.floats(0, 2))),
            "racks": {p: [draw(st.sampled_from("abc"))] for p in range(count)},
        }
        if draw(st.booleans()):
            topics[name]["assignable"] = draw(st.lists(st.integers(0, count - 1), unique=True))
    same = draw(st.booleans()) if alike is None else alike
    ids = draw(st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=7, unique=True))
    group = []
    for id_ in ids:
        names = (
            list(topics) if same else draw(st.lists(st.sampled_from(sorted(topics)), unique=True))
        )
        current = {
            name: draw(st.lists(st.integers(0, topic["partitions"] + 1), unique=True, max_size=4))
            for name, topic in topics.items()
        }
        rack = draw(st.sampled_from([None, "a", "b"]))
        group.append({"id": id_, "subscribed": names, "current": current, "rack": rack})
    return group, topics


OURS = [name for name in ASSIGNORS if not name.startswith("simple")]
