"""Work in a separate thread: a run, the view that shows one, and what it finds."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import traitlets

from sharelag.errors import InputError, ShareLagError, first_line

from .columns import Rows, require, table_of
from .still import is_of_voila
from .view import RowsView

#: Seconds between two words of progress; the last one is always said.
_PAUSE = 0.05


class Run:
    """A call that is going on in a thread: ``act(cancelled, progress)``.

    ``act`` asks ``cancelled()`` now and then and gives up if so, and says ``progress(done,
    total)``, which ``progressed`` takes after the run. ``ended`` takes the run, what ``act`` gave,
    and the exception that it raised instead.
    """

    def __init__(
        self,
        act: Callable[[Callable[[], bool], Callable[[int, int], None]], Any],
        progressed: Callable[[Run, int, int], None],
        ended: Callable[[Run, Any, BaseException | None], None],
    ) -> None:
        self._act, self._progressed, self._ended = act, progressed, ended
        self._cancelled = threading.Event()
        self._said = -_PAUSE
        # Who closes the notebook does not wait for a simulation.
        self._thread = threading.Thread(target=self._go, name="sharelag-what-if", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def cancel(self) -> None:
        """Ask it to give up."""
        self._cancelled.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait until it ends; return whether it did."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _go(self) -> None:
        try:
            given = self._act(self._cancelled.is_set, self._progress)
        except BaseException as error:  # an exit must not leave the view waiting
            self._ended(self, None, error)
        else:
            self._ended(self, given, None)

    def _progress(self, done: int, total: int) -> None:
        now = time.monotonic()
        if done >= total or now - self._said >= _PAUSE:
            self._said = now
            self._progressed(self, int(done), int(total))


def is_watched() -> bool:
    """Whether a person runs the cell, and can be shown a part first; else all has to be there.

    Who runs notebooks without people (nbconvert, papermill) allows no questions to them; neither
    does Voila.
    """
    if is_of_voila():
        return True
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    kernel = getattr(get_ipython(), "kernel", None)
    return bool(getattr(kernel, "_allow_stdin", False))


_NEEDED = ("measure", "baseline", "edited")
_WORDS = ("unit", "better", "unknown", "verdict")
_RANGE = ("low", "high")


@dataclass(frozen=True)
class Difference:
    """What an ``on_run`` gives back.

    Attributes
    ----------
    rows
        A row per measure: ``measure`` (its name for people), ``baseline`` and ``edited``
        (numbers, null where there is none), and if wanted ``unit`` (``ms`` is shown as a duration),
        ``better`` (``less`` or ``more``; else neither is), ``low`` and ``high`` (the change, edited
        less baseline, over the seeds), ``unknown`` (what null means, such as ``not drained``; it is
        worse than any number), ``verdict`` (``better``, ``worse``, ``same``, ``unclear``; else it
        follows from the others).
    seeds
        Random seeds, the same for both sides.
    assumed
        Sentences for people.
    range
        What ``low`` and ``high`` are, such as ``95 % interval``.
    about
        What both sides begin with, as a sentence.
    """

    rows: Rows
    seeds: tuple[int, ...] = ()
    assumed: tuple[str, ...] = ()
    range: str = "Over the seeds"
    about: str = ""


def difference_of(given: Any) -> Difference:
    """Return what an ``on_run`` gave back, a bare table included."""
    found = given if isinstance(given, Difference) else Difference(given)
    require(table_of(found.rows), _NEEDED, "what on_run gave")
    return found


def difference_state(difference: Difference, of: str) -> dict[str, Any]:
    """Return the same as the browser takes it; ``of`` is the last edit that it is of."""
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


#: How a run can be.
STATES = ("idle", "running", "done", "cancelled", "failed")
#: No edit has this id.
_ANOTHER = "another"


class RunView(RowsView):
    """Rows, and a function of their edits; a subclass says what is run.

    Attributes
    ----------
    difference
        What the last run gave that was neither cancelled nor failed.
    error
        What the last one raised that failed.
    """

    runs = traitlets.Bool(False).tag(sync=True)  # is there something to run?
    state = traitlets.Enum(STATES, "idle").tag(sync=True)
    progress = traitlets.List(traitlets.Int()).tag(sync=True)  # done and total, or nothing
    result = traitlets.Dict().tag(sync=True)  # `difference`, for the browser
    failure = traitlets.Unicode("").tag(sync=True)

    def __init__(self, *args: Any, on_run: Callable[..., Any] | None, **traits: Any) -> None:
        self._on_run, self._lock = on_run, threading.RLock()
        self._run: Run | None = None
        self._begun = 0  # how often there was another thing to begin with
        self._to_tell: list[dict[str, Any]] | None = None  # picks of the message at hand
        self.difference: Difference | None = None
        self.error: BaseException | None = None
        super().__init__(*args, runs=on_run is not None, **traits)

    def run(self) -> None:
        """Begin to try it out, in a separate thread; a run that is going on is cancelled.

        Raises
        ------
        InputError
            Nobody said how.
        """
        if self._on_run is None:
            raise InputError("there is no what-if to run: give on_run=...")
        with self._lock:
            self.cancel()
            act, given, of, begun = self._on_run, self._to_run(), self._last_edit(), self._begun
            run = Run(
                lambda cancelled, progress: difference_of(act(given, cancelled, progress)),
                self._progressed,
                lambda run, found, error: self._ended(run, found, error, of, begun),
            )
            with self.hold_sync():
                self._run, self.error = run, None
                self.state, self.progress, self.failure = "running", [], ""
        run.start()

    def cancel(self) -> None:
        """Wait for the run no longer: the result before it stays, and it ends when it next asks."""
        with self._lock:
            if self.state == "running" and self._run is not None:
                self._run.cancel()
                self.state = "cancelled"

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the last run ends; return whether it did within so many seconds."""
        return self._run is None or self._run.join(timeout)

    def close(self) -> None:
        """Let go of the selection and of what is running."""
        if self.comm is not None:
            self.cancel()
        super().close()

    def _to_run(self) -> Any:
        raise NotImplementedError

    def _last_edit(self) -> str:
        raise NotImplementedError

    def _handle_msg(self, msg: Any) -> None:
        # A run's thread must not change traits while a message holds their notifications.
        with self._lock:
            self._to_tell = []
            try:
                super()._handle_msg(msg)
            finally:
                picks, self._to_tell = self._to_tell, None
        # Who hears of a pick may wait for somebody who waits for this view: a dashboard's thread
        # that refreshes it.
        for picked in picks:
            with self._selection.hold_trait_notifications():
                for name, value in picked.items():
                    setattr(self._selection, name, value)

    def _tell(self, change: Any) -> None:
        if self._to_tell is None:
            super()._tell(change)
        elif not self._hearing:
            self._to_tell.append(self._picked(change["name"]))

    def _begins_anew(self) -> None:
        """Something other than an edit changed what would be run: an earlier result is stale."""
        with self._lock:
            self._begun += 1
            if self.result:
                self.result = {**self.result, "of": _ANOTHER}

    # ---- from the thread of a run; one that is cancelled is not listened to ----

    def _progressed(self, run: Run, done: int, total: int) -> None:
        with self._lock:
            if run is self._run and self.state == "running":
                self.progress = [done, total]

    def _ended(
        self, run: Run, found: Difference | None, error: BaseException | None, of: str, begun: int
    ) -> None:
        with self._lock:
            if run is not self._run or self.state != "running":
                return
            with self.hold_sync():
                if found is not None:
                    of = of if begun == self._begun else _ANOTHER
                    self.difference, self.result = found, difference_state(found, of)
                    self.state = "done"
                elif error is not None:
                    self.error, self.failure, self.state = error, words_of(error), "failed"


def words_of(error: BaseException) -> str:
    """Return what went wrong, in a line; it may be what somebody's own assignor raised."""
    if isinstance(error, ShareLagError):
        return str(error)
    return f"{type(error).__name__}: {first_line(error)}" if str(error) else first_line(error)
