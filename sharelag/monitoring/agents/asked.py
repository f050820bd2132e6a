"""What all tools ask: one input, which is read again for each question."""

from __future__ import annotations

from contextlib import suppress
from threading import Lock

from sharelag.errors import ShareLagError
from sharelag.workbench.bench import Workbench


class AskedOf:
    """One input, which is read again for each question.

    Parameters
    ----------
    bench : Workbench
        The input that the user chose; no question can name another.
    """

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._one_at_a_time = Lock()

    def now(self) -> Workbench:
        """Return the input as it is now."""
        with self._one_at_a_time:
            self._bench = self._bench.refresh()
            return self._bench

    def read_ahead(self) -> None:
        """Read once before anybody asks, since the first reading loads machine code for seconds.

        A question meanwhile waits for it. The next question says what went wrong, if anything did.
        """
        with self._one_at_a_time, suppress(ShareLagError):
            self._bench = self._bench.refresh()
            self._bench.overview()
