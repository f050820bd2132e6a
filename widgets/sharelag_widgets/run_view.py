"""Views that run something in Python, in a separate thread, and can cancel it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import traitlets

from sharelag.errors import InputError, ShareLagError, first_line

from .difference import Difference, difference_of, difference_state
from .rows_view import RowsView
from .run import Run

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
    state = traitlets.Enum(["idle", "running", "done", "cancelled", "failed"], "idle").tag(
        sync=True
    )
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
        """What the function is given."""
        raise NotImplementedError

    def _last_edit(self) -> str:
        """The id of what it is of."""
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
                    self.difference, self.result, self.state = (
                        found,
                        difference_state(found, of),
                        "done",
                    )
                elif error is not None:
                    self.error, self.failure, self.state = error, words_of(error), "failed"


def words_of(error: BaseException) -> str:
    """What went wrong, in a line; it may be what somebody's own assignor raised."""
    if isinstance(error, ShareLagError):
        return str(error)
    return f"{type(error).__name__}: {first_line(error)}" if str(error) else first_line(error)
