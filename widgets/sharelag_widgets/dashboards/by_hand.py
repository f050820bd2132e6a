"""The assignment that editing by hand begins with, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import ipywidgets as W  # noqa: N812
import pyarrow as pa
import pyarrow.compute as pc

from sharelag.charts import text
from sharelag.whatif import Scenario, assignor_names, what_if
from sharelag.whatif.compiled.coordinator import by_topic
from sharelag.whatif.fixed import with_assignment

from ..assignment_editor import Assignment, AssignmentEditor, OnLoad, OnRun
from ..run import Difference
from ..selection import Selection
from .parts import Part, put
from .trials import assignment_of, shorter

_COLUMNS = ["group_id", "topic_id", "topic", "partition", "lag"]


class State(NamedTuple):
    """What a simulation goes on from."""

    group: str
    as_of: datetime | None

    def words(self) -> str:
        """Return in words what a simulation begins with."""
        return f"Simulated from the state of {text.moment(self.as_of)}."


class Chance(NamedTuple):
    """For how long, and with which seeds."""

    seconds: float
    seeds: tuple[int, ...]


class ByHand(Part):
    """An assignment to edit; a refresh keeps its edits and its run, another group has its own."""

    def __init__(self, selection: Selection) -> None:
        self._selection = selection
        self._group: str | None = None
        self._slot = W.VBox([], layout=W.Layout(width="100%"))
        words = "move partitions between members by mouse or keys, and run it against "
        help_ = {"edit": f"{words}the group as it is"}
        super().__init__("An assignment by hand", help_, self._slot)

    def fill(
        self,
        state: State,
        scenario: Scenario,
        lag: pa.Table,
        members: pa.Table,
        chance: Callable[[], Chance],
    ) -> None:
        """Begin with the members and partitions of a moment, of which the scenario was made."""
        partitions = partitions_of(lag, scenario)
        held, words = begun(scenario, members, partitions)
        can = acts(scenario, state, chance) | {"member_labels": clients_of(state.group, members)}
        if self._group == state.group:
            self._slot.children[0].renew(partitions, held, **can)
        else:
            choices, of = assignor_names(), self._selection
            editor = AssignmentEditor.of(
                partitions, held, choices=choices, selection=of, title="", **can
            )
            put(self._slot, editor)
        self._group = state.group
        self.header.tell(None, notes=(words,))


def partitions_of(lag: pa.Table, scenario: Scenario) -> pa.Table:
    """Return the rows of a lag table whose partitions are simulated, as an editor shows them."""
    places = {
        (topic.name, number) for topic in scenario.topics for number in range(topic.partitions)
    }
    chosen = pa.array([place in places for place in _places(lag)], pa.bool_())
    return lag.filter(chosen).select(_COLUMNS)


def _places(rows: pa.Table) -> Iterator[tuple[str, int]]:
    return zip(*(rows.column(name).to_pylist() for name in ("topic", "partition")), strict=True)


def begun(scenario: Scenario, members: pa.Table, partitions: pa.Table) -> tuple[Assignment, str]:
    """Return the current assignment, or that of the scenario's assignor where it is not known.

    Members of the scenario are called by their ids; partitions that are not in ``partitions`` (as
    of `partitions_of`) are left out. Beside it stands where it comes from, in words.
    """
    each = scenario.each_member()
    is_known = pc.and_(
        pc.equal(members.column("group_id"), scenario.group_id),
        members.column("assigned_partitions").is_valid(),
    )
    known = set(members.filter(is_known).column("member_id").to_pylist())
    unknown = [member.name for member in each if member.name not in known]
    if not each:
        return {}, "The group has no members: add members, and give them partitions."
    if len(unknown) == len(each):
        held = assignment_of(scenario, scenario.assignor)
        words = (
            "Which partitions the members have is not known: it begins with what "
            f"{scenario.assignor} gives them."
        )
    else:
        held = {member.name: by_topic(member.assigned) for member in each}
        words = "It begins with the partitions that the members have."
        if unknown:
            who = text.counted(len(unknown), "member")
            words += f" Of {who} that is not known: without any here."
    there = set(_places(partitions))
    kept = {
        member: {
            topic: [n for n in numbers if (topic, n) in there] for topic, numbers in topics.items()
        }
        for member, topics in held.items()
    }
    return kept, words


def clients_of(group: str, members: pa.Table) -> dict[str, str]:
    """Return the client of each member of a group and where it runs, where that is known."""
    rows = members.filter(pc.equal(members.column("group_id"), group)).to_pylist()
    clients = {
        row["member_id"]: " at ".join(filter(None, (row["client_id"], row["client_host"])))
        for row in rows
    }
    return {member: words for member, words in clients.items() if words}


def acts(scenario: Scenario, state: State, chance: Callable[[], Chance]) -> dict[str, Any]:
    """``on_run`` and ``on_load`` of an `AssignmentEditor` for a scenario, made of a state.

    ``chance`` is called at the begin of each run.
    """

    def tried_out(
        assignment: Assignment, cancelled: Callable[[], bool], progress: Callable[[int, int], None]
    ) -> Difference | None:
        seconds, seeds = chance()
        base = shorter(scenario, seconds)
        assumed = with_assignment(base, assignment).assumed
        rows = what_if(base, assignment, seeds=seeds, cancelled=cancelled, progress=progress)
        if rows is None:
            return None
        return Difference(rows, seeds, assumed, "95 % interval", state.words())

    def loaded(name: str, held: Assignment) -> Assignment:
        return assignment_of(with_assignment(scenario, held), name)

    on_run: OnRun = tried_out
    on_load: OnLoad = loaded
    return {"on_run": on_run, "on_load": on_load}
