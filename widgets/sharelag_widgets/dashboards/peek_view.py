"""The record at the offset that is looked at, read from a running cluster on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import traitlets

from ..bundle import script, style
from ..heard import Heard
from ..view import in_other_forms
from .parts import words_of


class PeekView(Heard):
    """A button that reads one record; what it holds goes to the page and into no saved notebook.

    Parameters
    ----------
    read : callable
        Gives the text of the record.
    """

    _esm = script("dashboards/peek_view.js")
    _css = style("dashboards/peek_view.css")

    about = traitlets.Unicode("").tag(sync=True)  # which record the button reads; empty: none

    def __init__(self, read: Callable[[], str]) -> None:
        super().__init__()
        self._read = read
        self.on_msg(self._answer)

    def _answer(self, _: Any, message: Any, __: Any) -> None:
        if not (isinstance(message, dict) and message.get("peek")):
            return
        try:
            said = {"text": self._read()}
        except Exception as error:  # people get a sentence
            said = {"failure": words_of(error)}
        self.send({"peeked": said})  # a message, and no trait: traits are saved with notebooks

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return in_other_forms(super()._repr_mimebundle_(**options), plain=self.about)
