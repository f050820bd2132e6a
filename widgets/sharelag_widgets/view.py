"""What all views have in common: bytes out, picks back, and words where no picture is."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import traitlets

from .heard import Heard
from .selection import Selection

_PARTS = ("keys", "offsets", "moment")


class Deaf:
    """Somebody who changes what it also hears of."""

    _hearing = False

    @contextmanager
    def _deaf(self) -> Iterator[None]:
        # What it sent must not come back, nor what it received go out again.
        self._hearing = True
        try:
            yield
        finally:
            self._hearing = False


def in_other_forms(made: Any, **forms: str) -> Any:
    """How a widget shows itself, with words for GitHub, mail and terminals."""
    if made is None:
        return None
    data, metadata = made if isinstance(made, tuple) else (made, {})
    return {**data, **{f"text/{form}": words for form, words in forms.items()}}, metadata


class View(Deaf, Heard):
    """A picture of some rows.

    A subclass makes ``data`` of its rows, says which of its traits people change (`_PICKS`), and
    translates between them and the selection (`_picked`, `_show`).
    """

    title = traitlets.Unicode("").tag(sync=True)
    data = traitlets.Bytes(b"").tag(sync=True)
    #: What to say where there is nothing to show.
    note = traitlets.Unicode("").tag(sync=True)
    link = traitlets.Unicode("").tag(sync=True)

    _PICKS: tuple[str, ...] = ()

    def __init__(self, selection: Selection | None = None, **traits: Any) -> None:
        self._selection = Selection() if selection is None else selection
        super().__init__(link=self._selection.id, **traits)
        self.on_msg(self._answer)
        self.observe(self._tell, names=list(self._PICKS))
        self._selection.observe(self._hear, names=list(_PARTS))

    @property
    def selection(self) -> Selection:
        """What is picked, here or in a linked view."""
        return self._selection

    @selection.setter
    def selection(self, selection: Selection) -> None:
        self._selection.unobserve(self._hear, names=list(_PARTS))
        self._selection = selection
        self._selection.observe(self._hear, names=list(_PARTS))
        self.link = selection.id
        self._hear()

    def summary(self) -> str:
        """What the picture shows, in a sentence."""
        return self.note or self.title

    def to_code(self) -> str:
        """Python that makes the selection again."""
        return self._selection.to_code()

    def close(self) -> None:
        """Let go of the selection, which may outlive the view."""
        if self.comm is not None:  # it is closed once more when it is collected
            self._selection.unobserve(self._hear, names=list(_PARTS))
        super().close()

    def _picked(self, trait: str) -> dict[str, Any]:
        """What a change of this trait means for the selection, as its traits."""
        raise NotImplementedError

    def _show(self, selection: Selection) -> None:
        """Set the traits in `_PICKS` by the selection."""
        raise NotImplementedError

    def _tell(self, change: Any) -> None:
        if self._hearing:
            return
        with self._deaf(), self._selection.hold_trait_notifications():
            for name, value in self._picked(change["name"]).items():
                setattr(self._selection, name, value)

    def _hear(self, _: Any = None) -> None:
        if not self._hearing:
            with self._deaf(), self.hold_sync():
                self._show(self._selection)

    def _answer(self, _: Any, message: Any, __: Any) -> None:
        if isinstance(message, dict) and "ping" in message:
            self.send({"pong": message["ping"]})

    def _repr_mimebundle_(self, **options: Any) -> Any:
        words = self.summary()
        made = super()._repr_mimebundle_(**options)
        return in_other_forms(made, plain=words, html=f"<p>{html.escape(words)}</p>")
