"""An assignment to edit by hand, and to try out.

Edits are applied here as ``editor_math.js`` does in the browser. Each is a mapping with an ``id``,
what it ``do``es (``assign``, ``take``, ``move``, ``add``, ``remove``, ``set``, ``reset``) and to
whom. Partitions are numbers of rows, as ranges (``0-2,7``), so that a thousand of them stay small.
"""

from __future__ import annotations

import pprint
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import traitlets

from sharelag.errors import InputError
from sharelag.tables.words import counted

from .bundle import script, style
from .columns import Column, Rows, column_of, require, table_of
from .run import RunView, words_of
from .selection import Selection, selection_for
from .view import key_names, labels_of

#: Partitions of each topic of each member, as `sharelag.whatif.assign` gives them.
Assignment: TypeAlias = dict[str, dict[str, list[int]]]
#: The row of each topic and partition.
Places: TypeAlias = dict[tuple[str, int], int]
#: Rows by member.
Held: TypeAlias = dict[str, set[int]]
Edit = Mapping[str, Any]


def fold(base: Mapping[str, Iterable[int]], edits: Sequence[Edit], at: int) -> Held:
    """Return the rows of each member once the first ``at`` edits are done.

    Edits that name somebody who is not there (any more) change nothing.
    """
    held = _copy(base)
    for edit in edits[:at]:
        held = _copy(base) if edit["do"] == "reset" else _after(held, edit)
    return held


def held_of(
    assignment: Mapping[str, Mapping[str, Iterable[int]]], places: Places, *, strict: bool = True
) -> Held:
    """Return an assignment by rows; without ``strict``, partitions that have none are left out."""
    held: Held = {}
    for member, topics in assignment.items():
        if not isinstance(member, str) or not member:
            raise InputError(f"{member!r} cannot name a member: give texts that are not empty")
        theirs = [(topic, int(number)) for topic, numbers in topics.items() for number in numbers]
        if strict and (missing := [place for place in theirs if place not in places]):
            topic, number = missing[0]
            raise InputError(
                f"{member!r} has partition {number} of {topic!r}, which is not in the table: "
                "add its row"
            )
        held[member] = {places[place] for place in theirs if place in places}
    return held


def assignment_of(held: Held, places: Places) -> Assignment:
    """Return the same by topics and partitions."""
    names = list(places)
    assigned: Assignment = {}
    for member, rows in held.items():
        assigned[member] = {}
        for topic, number in sorted(names[row] for row in rows):
            assigned[member].setdefault(topic, []).append(number)
    return assigned


def new_edit(do: str, **about: Any) -> dict[str, Any]:
    """Return an edit with a new id."""
    return {"id": uuid.uuid4().hex, "do": do, **about}


def renumber(edits: Sequence[Edit], places: Mapping[int, int]) -> list[dict[str, Any]]:
    """Return the same edits after rows were renumbered; edits of rows that are gone are dropped."""

    def moved(ranges: str) -> str:
        return as_ranges(places[row] for row in numbers_in(ranges) if row in places)

    made = [dict(edit) for edit in edits]
    for edit in made:
        if "rows" in edit:
            edit["rows"] = moved(edit["rows"])
        if "all" in edit:
            edit["all"] = {member: moved(ranges) for member, ranges in edit["all"].items()}
    return made


def as_ranges(numbers: Iterable[int]) -> str:
    """``[0, 1, 2, 7]`` as ``0-2,7``."""
    ascending = sorted(set(numbers))
    if not ascending:
        return ""
    breaks = [(a, b) for a, b in pairwise(ascending) if b > a + 1]
    firsts = [ascending[0], *(b for _, b in breaks)]
    lasts = [*(a for a, _ in breaks), ascending[-1]]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in zip(firsts, lasts, strict=True))


def numbers_in(text: str) -> list[int]:
    """``0-2,7`` as ``[0, 1, 2, 7]``."""
    ends = [part.split("-") for part in text.split(",") if part]
    return [number for part in ends for number in range(int(part[0]), int(part[-1]) + 1)]


def _copy(base: Mapping[str, Iterable[int]]) -> Held:
    return {member: set(rows) for member, rows in base.items()}


def _after(held: Held, edit: Edit) -> Held:
    do, rows = edit["do"], set(numbers_in(edit.get("rows", "")))
    if do == "add":
        held.setdefault(edit["member"], set())
    elif do == "remove":
        held.pop(edit["member"], None)
    elif do == "set":
        return {member: set(numbers_in(edit["all"].get(member, ""))) for member in held}
    elif do != "move" or edit["to"] in held:
        if do in ("take", "move"):
            for member, has in held.items():
                if edit["from"] in (None, member):
                    has -= rows
        if do in ("assign", "move") and edit["to"] in held:
            held[edit["to"]] |= rows
    return held


#: Takes the assignment, `cancelled` and `progress`; gives a `Difference`, or a table with its
#: columns.
OnRun: TypeAlias = Callable[[Assignment, Callable[[], bool], Callable[[int, int], None]], Any]
#: Takes the name of a choice and the assignment as it is; gives the one to load.
OnLoad: TypeAlias = Callable[[str, Assignment], Mapping[str, Mapping[str, Iterable[int]]]]

_EMPTY = (
    "There is no partition to assign: the table has no rows. Is the group's name right, "
    "and has it fetched?"
)


class AssignmentEditor(RunView):
    """Members and their partitions: move them, run the what-if, see the difference.

    Make one with `AssignmentEditor.of`. Edits are a list of which the first ``at`` hold: undo takes
    one back.
    """

    _esm = script("assignment_editor.js")
    _css = style("assignment_editor.css")

    edits = traitlets.List(traitlets.Dict()).tag(sync=True)
    at = traitlets.Int(0).tag(sync=True)
    measure = traitlets.Unicode("").tag(sync=True)  # the column that bars show
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)  # assignments that can be loaded
    member_labels = traitlets.Dict().tag(sync=True)  # what else members are called

    def __init__(
        self,
        rows: pa.Table,
        baseline: Mapping[str, Mapping[str, Iterable[int]]],
        keys: Sequence[str],
        selection: Selection | None,
        on_run: OnRun | None,
        on_load: OnLoad | None,
        **traits: Any,
    ) -> None:
        self._on_load = on_load
        self._places = _places(_sorted(rows))
        self._base = self._held(baseline)
        super().__init__(rows, keys, selection, _EMPTY, on_run=on_run, **traits)

    @classmethod
    def of(
        cls,
        partitions: Rows,
        assignment: Mapping[str, Mapping[str, Iterable[int]]],
        *,
        on_run: OnRun | None = None,
        on_load: OnLoad | None = None,
        choices: Sequence[str] = (),
        measure: str | None = None,
        keys: Sequence[str] | None = None,
        selection: Selection | None = None,
        member_labels: Mapping[str, str] | None = None,
        title: str = "Assignment",
    ) -> AssignmentEditor:
        """Return an assignment to begin with.

        Parameters
        ----------
        partitions : table
            A row a partition: ``topic``, ``partition``, and what else is known of it, such as
            `sharelag.schemas.LAG` of one group.
        assignment : mapping
            For each member, by topic, its partitions: ``{member: {topic: [partition, ...]}}``.
            Members without any are listed, too.
        on_run : callable, optional
            ``on_run(assignment, cancelled, progress)`` tries the assignment out, in a separate
            thread. It calls ``cancelled()`` now and then and returns early if so, calls
            ``progress(done, total)``, and gives a `Difference`. A `ShareLagError` of it is
            shown as it is.
        on_load : callable, optional
            ``on_load(choice, assignment)`` gives the assignment that an assignor would make of the
            members there are.
        choices : sequence of str
            What `on_load` knows.
        measure : str, optional
            A number column to show of each partition; else ``lag``, if there is one.
        keys : sequence of str, optional
            The columns that name a partition to linked views.
        selection : Selection, optional
        member_labels : mapping, optional
            What else people call a member, such as its client: shown beside the name.
        title : str

        Raises
        ------
        InputError
            A column is missing, or the assignment names a partition that is not in the table.
        """
        table = table_of(partitions)
        names = key_names(table, keys)
        shown = measure if measure is not None else ("lag" if "lag" in table.schema.names else "")
        require(table, filter(None, (shown,)))
        if choices and on_load is None:
            raise InputError(
                "the choices cannot be loaded: give on_load=..., which takes the name of one"
            )
        chosen = selection_for(selection, names)
        given = {"title": title, "measure": shown, "choices": list(choices)}
        labels = dict(member_labels or {})
        return cls(table, assignment, names, chosen, on_run, on_load, member_labels=labels, **given)

    @property
    def assignment(self) -> Assignment:
        """Partitions of each topic of each member, as edited; set it to edit it all at once."""
        return self._reported(fold(self._base, self.edits, self.at))

    @assignment.setter
    def assignment(self, assignment: Mapping[str, Mapping[str, Iterable[int]]]) -> None:
        held, now = self._held(assignment), fold(self._base, self.edits, self.at)
        edits = [new_edit("add", member=member) for member in held if member not in now]
        edits += [new_edit("remove", member=member) for member in now if member not in held]
        self._edit(*edits, _set_all(held))

    @property
    def baseline(self) -> Assignment:
        """The assignment that it began with."""
        return self._reported(self._base)

    def renew(
        self,
        partitions: Rows,
        assignment: Mapping[str, Mapping[str, Iterable[int]]],
        *,
        on_run: OnRun | None = None,
        on_load: OnLoad | None = None,
        member_labels: Mapping[str, str] | None = None,
    ) -> None:
        """Begin with what there is now; edits and a run stay while their rows do.

        Parameters
        ----------
        partitions, assignment
            As for `of`.
        on_run, on_load, member_labels : optional
            Instead of those before.

        Raises
        ------
        InputError
            As for `of`; nothing has changed then.
        """
        table = _sorted(table_of(partitions))
        require(table, [*self._key_columns, *filter(None, (self.measure,))])
        places = _places(table)
        with self._lock, self.hold_sync():
            base = held_of(assignment, places)
            if self._reported(self._base) != assignment_of(base, places):
                self._begins_anew()
            if list(self._places) != list(places):
                numbers = {
                    row: places[place] for place, row in self._places.items() if place in places
                }
                self.edits = renumber(self.edits, numbers)
            self._places, self._base = places, base
            self._on_run, self._on_load = on_run or self._on_run, on_load or self._on_load
            if member_labels is not None:
                self.member_labels = dict(member_labels)
            self.rows = table

    def undo(self) -> None:
        """Take the last edit back."""
        self.at = max(0, self.at - 1)

    def redo(self) -> None:
        """Do again what was taken back."""
        self.at = min(len(self.edits), self.at + 1)

    def load(self, choice: str) -> None:
        """Take over the assignment of a choice; an error is shown in the view and raised.

        Raises
        ------
        InputError
            There is no such choice.
        """
        if self._on_load is None or choice not in self.choices:
            raise InputError(
                f"there is no {choice!r} to load: choose one of {', '.join(self.choices) or 'none'}"
            )
        self._edit(_set_all(self._held(self._on_load(choice, self.assignment)), name=choice))

    def summary(self) -> str:
        """Return what is shown, in a sentence."""
        if not len(self.rows):
            return self.note
        held = fold(self._base, self.edits, self.at)
        pairs = {(member, row) for member, rows in held.items() for row in rows}
        before = {(member, row) for member, rows in self._base.items() for row in rows}
        alone = len(self.rows) - len({row for _, row in pairs})
        idle = sum(not rows for rows in held.values())
        return (
            f"{self.title}: {counted(len(held), 'member')}, "
            f"{counted(len(self.rows), 'partition')}, {counted(len(pairs), 'pair')} of them; "
            f"{counted(alone, 'partition')} without a member, "
            f"{counted(idle, 'member')} without a partition; edited: "
            f"{counted(len(pairs - before), 'pair')} added, {len(before - pairs):,} taken away"
        )

    def to_code(self, rows: str = "assignment") -> str:
        """Python that makes a variable of this name the assignment as edited."""
        shown = pprint.pformat(self.assignment, width=100, sort_dicts=False, compact=True)
        return f"{rows} = {shown}\n"

    def _columns(self) -> dict[str, Column]:
        columns = super()._columns()
        columns["_label"] = column_of(labels_of(self.rows, self._row_keys, None), "label")
        columns["_topic"] = column_of(self.rows.column("topic").cast(pa.string()), "topic")
        columns["_partition"] = column_of(self.rows.column("partition"), "partition")
        members = tuple(self._base)
        pairs = [
            (number, row) for number, rows in enumerate(self._base.values()) for row in sorted(rows)
        ]
        of_pairs = np.array(pairs, np.uint32).reshape(-1, 2)
        columns["_member"] = Column(np.arange(len(members), dtype=np.int32), "text", members)
        columns["_pair_member"], columns["_pair_row"] = (Column(numbers) for numbers in of_pairs.T)
        if self.measure:
            columns[self.measure] = column_of(self.rows.column(self.measure), self.measure)
        return columns

    def _take(self, rows: pa.Table) -> None:
        super()._take(_sorted(rows))

    def _publish(self) -> None:
        # Edits name partitions by their rows: other rows begin anew.
        if len(self.rows) != len(self._places) or _places(self.rows) != self._places:
            baseline = self.baseline
            self._places = _places(self.rows)
            self._base = self._held(baseline, strict=False)
            self.edits, self.at, self.result, self.state = [], 0, {}, "idle"
        super()._publish()

    def _held(
        self, assignment: Mapping[str, Mapping[str, Iterable[int]]], *, strict: bool = True
    ) -> Held:
        return held_of(assignment, self._places, strict=strict)

    def _reported(self, held: Held) -> Assignment:
        return assignment_of(held, self._places)

    def _to_run(self) -> Assignment:
        return self.assignment

    def _last_edit(self) -> str:
        return str(self.edits[self.at - 1]["id"]) if self.at else ""

    def _edit(self, *edits: dict[str, Any]) -> None:
        with self.hold_sync():
            self.edits = [*self.edits[: self.at], *edits]
            self.at, self.failure = len(self.edits), ""

    def _answer(self, message: Mapping[str, Any]) -> None:
        super()._answer(message)
        if "edits" in message:  # a message may overtake the traits
            self.edits, self.at = message["edits"], message["at"]
        if "run" in message:
            self.run()
        if "cancel" in message:
            self.cancel()
        if "load" in message:
            self.failure = ""
            try:
                self.load(message["load"])
            except Exception as error:  # whatever an assignor of theirs does, the view goes on
                words = f"{message['load']} cannot be loaded: {words_of(error)}"
                self.error, self.failure = error, words


def _set_all(held: Held, **about: Any) -> dict[str, Any]:
    return new_edit("set", **about, all={member: as_ranges(rows) for member, rows in held.items()})


def _sorted(rows: pa.Table) -> pa.Table:
    require(rows, ("topic", "partition"))
    return rows.sort_by([("topic", "ascending"), ("partition", "ascending")])


def _places(rows: pa.Table) -> Places:
    topics, numbers = (rows.column(name).to_pylist() for name in ("topic", "partition"))
    places = {place: row for row, place in enumerate(zip(topics, numbers, strict=True))}
    if len(places) < len(rows):
        raise InputError(
            "a partition of a topic stands in the table twice: choose the rows of one group"
        )
    if any(topic is None or number is None for topic, number in places):
        raise InputError(
            "a row has no topic or no partition: leave it out, or say what it is called"
        )
    return places
