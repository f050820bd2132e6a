"""An editor for assignments, which can run a what-if on them.

Edits are applied here as in the browser by ``editor_math.js``. Each is a mapping with an ``id``,
its action ``do`` (``assign``, ``take``, ``move``, ``add``, ``remove``, ``set``, ``reset``) and its
objects. Partitions are row numbers as ranges (``0-2,7``), so that a thousand of them stay small.
"""

from __future__ import annotations

import math
import pprint
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import traitlets

from sharelag.errors import InputError, ShareLagError, first_line
from sharelag.tables.words import pluralize

from .bundle import script, style
from .columns import Column, Rows, column_of, require, table_of
from .run import STATES, Run
from .view import RowsView, Selection, key_names, labels_of, selection_for

#: Partitions by topic of each member, as from `sharelag.whatif.assign`.
Assignment: TypeAlias = dict[str, dict[str, list[int]]]
#: The row of each topic and partition.
Places: TypeAlias = dict[tuple[str, int], int]
#: Rows by member.
Held: TypeAlias = dict[str, set[int]]
Edit = Mapping[str, Any]


def fold(base: Mapping[str, Iterable[int]], edits: Sequence[Edit], at: int) -> Held:
    """Return the rows of each member after the first ``at`` edits.

    Edits of missing members have no effect.
    """
    held = _copy(base)
    for edit in edits[:at]:
        held = _copy(base) if edit["do"] == "reset" else _after(held, edit)
    return held


def held_of(
    assignment: Mapping[str, Mapping[str, Iterable[int]]], places: Places, *, strict: bool = True
) -> Held:
    """Return an assignment by rows; without ``strict``, partitions without a row are left out."""
    held: Held = {}
    for member, topics in assignment.items():
        if not isinstance(member, str) or not member:
            raise InputError(f"{member!r} cannot name a member: give non-empty strings")
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
    """Return an assignment by topics and partitions."""
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
    """Renumber the rows of edits; edits of missing rows are dropped."""

    def move(ranges: str) -> str:
        return as_ranges(places[row] for row in numbers_in(ranges) if row in places)

    made = [dict(edit) for edit in edits]
    for edit in made:
        if "rows" in edit:
            edit["rows"] = move(edit["rows"])
        if "all" in edit:
            edit["all"] = {member: move(ranges) for member, ranges in edit["all"].items()}
    return made


def as_ranges(numbers: Iterable[int]) -> str:
    """Format ``[0, 1, 2, 7]`` as ``0-2,7``."""
    runs = groupby(enumerate(sorted(set(numbers))), lambda one: one[1] - one[0])
    ends = [(run[0][1], run[-1][1]) for run in (list(run) for _, run in runs)]
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ends)


def numbers_in(text: str) -> list[int]:
    """Parse ``0-2,7`` as ``[0, 1, 2, 7]``."""
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


_NEEDED = ("measure", "baseline", "edited")
_WORDS = ("unit", "better", "unknown", "verdict")
_RANGE = ("low", "high")


@dataclass(frozen=True)
class Difference:
    """The result of an ``on_run``.

    Attributes
    ----------
    rows
        A row per measure: ``measure`` (its label), ``baseline`` and ``edited`` (numbers or null),
        and optionally ``unit`` (``ms`` is shown as a duration), ``better`` (``less`` or ``more``;
        by default neither), ``low`` and ``high`` (interval of the change, edited - baseline),
        ``unknown`` (the meaning of null, such as ``not drained``; worse than any number),
        ``verdict`` (``better``, ``worse``, ``same``, ``unclear``; by default derived).
    seeds
        Random seeds, equal for both sides.
    assumed
        Assumptions, as sentences.
    range
        Name of ``low`` and ``high``, such as ``95 % interval``.
    about
        The initial state of both sides, as a sentence.
    """

    rows: Rows
    seeds: tuple[int, ...] = ()
    assumed: tuple[str, ...] = ()
    range: str = "Over the seeds"
    about: str = ""


def difference_of(given: Any) -> Difference:
    """Return the result of an ``on_run``, or its bare table, as a `Difference`."""
    found = given if isinstance(given, Difference) else Difference(given)
    require(table_of(found.rows), _NEEDED, "what on_run gave")
    return found


def difference_state(difference: Difference, of: str) -> dict[str, Any]:
    """Return a difference for the browser; ``of`` is the last edit that it includes."""
    table = table_of(difference.rows)
    rows = [
        {name: str(row.get(name) or "") for name in ("measure", *_WORDS)}
        | {name: _number(row.get(name)) for name in ("baseline", "edited", *_RANGE)}
        for row in table.to_pylist()
    ]
    parts = {name: list(getattr(difference, name)) for name in ("seeds", "assumed")}
    about = {"range": difference.range, "about": difference.about}
    return {"of": of, "rows": rows} | about | parts


def _number(value: Any) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


#: No edit has this id.
_ANOTHER = "another"
#: Takes the assignment, `cancelled` and `progress`; returns a `Difference` or its table.
OnRun: TypeAlias = Callable[[Assignment, Callable[[], bool], Callable[[int, int], None]], Any]
#: Takes the name of a choice and the current assignment; returns the one to load.
OnLoad: TypeAlias = Callable[[str, Assignment], Mapping[str, Mapping[str, Iterable[int]]]]

_EMPTY = (
    "There is no partition to assign: the table has no rows. Is the group's name right, "
    "and has it fetched?"
)


class AssignmentEditor(RowsView):
    """Members and their partitions, to move them, run a what-if and see the difference.

    Make one with `AssignmentEditor.of`. The first ``at`` edits of the list apply; undo decrements
    ``at``.

    Attributes
    ----------
    difference
        The result of the last run that was neither cancelled nor failed.
    error
        The exception of the last failed run.
    """

    _esm = script("assignment_editor.js")
    _css = style("assignment_editor.css")

    edits = traitlets.List(traitlets.Dict()).tag(sync=True)
    at = traitlets.Int(0).tag(sync=True)
    measure = traitlets.Unicode("").tag(sync=True)  # the column of the bars
    choices = traitlets.List(traitlets.Unicode()).tag(sync=True)  # names of loadable assignments
    member_labels = traitlets.Dict().tag(sync=True)  # further names of members
    runs = traitlets.Bool(False).tag(sync=True)  # whether there is an `on_run`
    state = traitlets.Enum(STATES, "idle").tag(sync=True)
    progress = traitlets.List(traitlets.Int()).tag(sync=True)  # done and total, or empty
    result = traitlets.Dict().tag(sync=True)  # `difference`, for the browser
    failure = traitlets.Unicode("").tag(sync=True)

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
        self._on_run, self._on_load, self._lock = on_run, on_load, threading.RLock()
        self._run: Run | None = None
        self._turn = 0  # number of renewals
        self._to_tell: list[dict[str, Any]] | None = None  # picks of the current message
        self.difference: Difference | None = None
        self.error: BaseException | None = None
        self._places = _places(_sort(rows))
        self._base = held_of(baseline, self._places)
        super().__init__(rows, keys, selection, _EMPTY, runs=on_run is not None, **traits)

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
        """Return an editor that starts with an assignment.

        Parameters
        ----------
        partitions : table
            A row per partition: ``topic``, ``partition``, and other columns, such as
            `sharelag.schemas.LAG` of one group.
        assignment : mapping
            Partitions by topic of each member, including members without any:
            ``{member: {topic: [partition, ...]}}``.
        on_run : callable, optional
            ``on_run(assignment, cancelled, progress)`` simulates the assignment in a separate
            thread. It calls ``cancelled()`` regularly and returns early if true, calls
            ``progress(done, total)``, and returns a `Difference`. The message of a
            `ShareLagError` is shown.
        on_load : callable, optional
            ``on_load(choice, assignment)`` returns an assignor's assignment for the current
            members.
        choices : sequence of str
            Choices for ``on_load``.
        measure : str, optional
            A numeric column to show for each partition. Default: ``lag``, if there is one.
        keys : sequence of str, optional
            The columns that identify a partition in linked views.
        selection : Selection, optional
        member_labels : mapping, optional
            Further names of members, such as clients, shown beside the name.
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
        """The edited assignment; set it to replace it in one edit."""
        return assignment_of(fold(self._base, self.edits, self.at), self._places)

    @assignment.setter
    def assignment(self, assignment: Mapping[str, Mapping[str, Iterable[int]]]) -> None:
        held, now = held_of(assignment, self._places), fold(self._base, self.edits, self.at)
        edits = [new_edit("add", member=member) for member in held if member not in now]
        edits += [new_edit("remove", member=member) for member in now if member not in held]
        self._edit(*edits, _set_all(held))

    @property
    def baseline(self) -> Assignment:
        """The initial assignment."""
        return assignment_of(self._base, self._places)

    def renew(
        self,
        partitions: Rows,
        assignment: Mapping[str, Mapping[str, Iterable[int]]],
        *,
        on_run: OnRun | None = None,
        on_load: OnLoad | None = None,
        member_labels: Mapping[str, str] | None = None,
    ) -> None:
        """Replace table and assignment; edits and a run stay as long as their rows do.

        Parameters
        ----------
        partitions, assignment
            As for `of`.
        on_run, on_load, member_labels : optional
            Replacements.

        Raises
        ------
        InputError
            As for `of`; nothing changes then.
        """
        table = _sort(table_of(partitions))
        require(table, [*self._key_columns, *filter(None, (self.measure,))])
        places = _places(table)
        with self._lock, self.hold_sync():
            base = held_of(assignment, places)
            if assignment_of(self._base, self._places) != assignment_of(base, places):
                self._restart()
            if list(self._places) != list(places):
                numbers = {row: places[at] for at, row in self._places.items() if at in places}
                self.edits = renumber(self.edits, numbers)
            self._places, self._base = places, base
            self._on_run, self._on_load = on_run or self._on_run, on_load or self._on_load
            if member_labels is not None:
                self.member_labels = dict(member_labels)
            self.rows = table

    def undo(self) -> None:
        """Undo the last edit."""
        self.at = max(0, self.at - 1)

    def redo(self) -> None:
        """Redo the last undone edit."""
        self.at = min(len(self.edits), self.at + 1)

    def load(self, choice: str) -> None:
        """Load the assignment of a choice; an error is shown in the view and raised.

        Raises
        ------
        InputError
            There is no such choice.
        """
        if self._on_load is None or choice not in self.choices:
            raise InputError(
                f"there is no {choice!r} to load: choose one of {', '.join(self.choices) or 'none'}"
            )
        held = held_of(self._on_load(choice, self.assignment), self._places)
        self._edit(_set_all(held, name=choice))

    def run(self) -> None:
        """Start the what-if in a separate thread; a previous run is cancelled.

        Raises
        ------
        InputError
            There is no ``on_run``.
        """
        if self._on_run is None:
            raise InputError("there is no what-if to run: give on_run=...")
        with self._lock:
            self.cancel()
            act, given, turn = self._on_run, self.assignment, self._turn
            of = str(self.edits[self.at - 1]["id"]) if self.at else ""
            run = Run(
                lambda cancelled, progress: difference_of(act(given, cancelled, progress)),
                lambda run, found, error: self._ended(run, found, error, of, turn),
                self._progressed,
            )
            with self.hold_sync():
                self._run, self.error = run, None
                self.state, self.progress, self.failure = "running", [], ""
        run.start()

    def cancel(self) -> None:
        """Cancel the run, which ends when it next asks; the previous result stays."""
        with self._lock:
            if self.state == "running" and self._run is not None:
                self._run.cancel()
                self.state = "cancelled"

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the last run ends; return whether it did within ``timeout`` seconds."""
        return self._run is None or self._run.join(timeout)

    def close(self) -> None:
        """Detach from the selection, and cancel the run."""
        if self.comm is not None:
            self.cancel()
        super().close()

    def summary(self) -> str:
        """Return a summary of the assignment in a sentence."""
        if not len(self.rows):
            return self.note
        held = fold(self._base, self.edits, self.at)
        pairs = {(member, row) for member, rows in held.items() for row in rows}
        before = {(member, row) for member, rows in self._base.items() for row in rows}
        alone = len(self.rows) - len({row for _, row in pairs})
        idle = sum(not rows for rows in held.values())
        return (
            f"{self.title}: {pluralize(len(held), 'member')}, "
            f"{pluralize(len(self.rows), 'partition')}, {pluralize(len(pairs), 'pair')} of them; "
            f"{pluralize(alone, 'partition')} without a member, "
            f"{pluralize(idle, 'member')} without a partition; edited: "
            f"{pluralize(len(pairs - before), 'pair')} added, {len(before - pairs):,} removed"
        )

    def to_code(self, rows: str = "assignment") -> str:
        """Return the Python that assigns the edited assignment to a variable."""
        shown = pprint.pformat(self.assignment, width=100, sort_dicts=False, compact=True)
        return f"{rows} = {shown}\n"

    def _columns(self) -> dict[str, Column]:
        columns = super()._columns()
        columns["_label"] = column_of(labels_of(self.rows, self._row_keys, None))
        columns["_topic"] = column_of(self.rows.column("topic").cast(pa.string()))
        columns["_partition"] = column_of(self.rows.column("partition"))
        members = tuple(self._base)
        pairs = [(n, row) for n, rows in enumerate(self._base.values()) for row in sorted(rows)]
        of_pairs = np.array(pairs, np.uint32).reshape(-1, 2)
        columns["_member"] = Column(np.arange(len(members), dtype=np.int32), "text", members)
        columns["_pair_member"], columns["_pair_row"] = (Column(numbers) for numbers in of_pairs.T)
        if self.measure:
            columns[self.measure] = column_of(self.rows.column(self.measure), is_exact=False)
        return columns

    def _take(self, rows: pa.Table) -> None:
        super()._take(_sort(rows))

    def _publish(self) -> None:
        # Edits refer to rows, so other rows need new edits.
        if len(self.rows) != len(self._places) or _places(self.rows) != self._places:
            baseline = self.baseline
            self._places = _places(self.rows)
            self._base = held_of(baseline, self._places, strict=False)
            self.edits, self.at, self.result, self.state = [], 0, {}, "idle"
        super()._publish()

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
            except Exception as error:  # a user's assignor must not break the view
                words = f"{message['load']} cannot be loaded: {words_of(error)}"
                self.error, self.failure = error, words

    def _handle_msg(self, msg: Any) -> None:
        # A run's thread must not change traits while a message holds their notifications.
        with self._lock:
            self._to_tell = []
            try:
                super()._handle_msg(msg)
            finally:
                picks, self._to_tell = self._to_tell, None
        # A listener of a pick may wait for a dashboard's refreshing thread, which waits for this
        # view.
        for picked in picks:
            with self._selection.hold_trait_notifications():
                for name, value in picked.items():
                    setattr(self._selection, name, value)

    def _tell(self, change: Any) -> None:
        if self._to_tell is None:
            super()._tell(change)
        elif not self._hearing:
            self._to_tell.append(self._picked(change["name"]))

    def _restart(self) -> None:
        """Mark earlier results as stale, because something other than an edit changed."""
        with self._lock:
            self._turn += 1
            if self.result:
                self.result = {**self.result, "of": _ANOTHER}

    # ---- called in the thread of a run, and ignored once it is cancelled ----

    def _progressed(self, run: Run, done: int, total: int) -> None:
        with self._lock:
            if run is self._run and self.state == "running":
                self.progress = [done, total]

    def _ended(
        self, run: Run, found: Difference | None, error: BaseException | None, of: str, turn: int
    ) -> None:
        with self._lock:
            if run is not self._run or self.state != "running":
                return
            with self.hold_sync():
                if found is not None:
                    of = of if turn == self._turn else _ANOTHER
                    self.difference, self.result = found, difference_state(found, of)
                    self.state = "done"
                elif error is not None:
                    self.error, self.failure, self.state = error, words_of(error), "failed"


def words_of(error: BaseException) -> str:
    """Return an exception, possibly of a user's assignor, as one line."""
    if isinstance(error, ShareLagError):
        return str(error)
    return f"{type(error).__name__}: {first_line(error)}" if str(error) else first_line(error)


def _set_all(held: Held, **about: Any) -> dict[str, Any]:
    return new_edit("set", **about, all={member: as_ranges(rows) for member, rows in held.items()})


def _sort(rows: pa.Table) -> pa.Table:
    require(rows, ("topic", "partition"))
    return rows.sort_by([("topic", "ascending"), ("partition", "ascending")])


def _places(rows: pa.Table) -> Places:
    topics, numbers = (rows.column(name).to_pylist() for name in ("topic", "partition"))
    places = {place: row for row, place in enumerate(zip(topics, numbers, strict=True))}
    if len(places) < len(rows):
        raise InputError(
            "a partition of a topic is in the table twice: choose the rows of one group"
        )
    if any(topic is None or number is None for topic, number in places):
        raise InputError(
            "a row has no topic or no partition: leave it out, or say what it is called"
        )
    return places
