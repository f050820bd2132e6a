"""The verdict of a dashboard: a sentence, and what can be done about it with one click."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import traitlets

from ..bundle import script, style
from ..heard import Heard
from ..view import in_other_forms


class Verdict(Heard):
    """A level and a sentence, with buttons; texts are copied by the browser.

    Parameters
    ----------
    acts : mapping of str to callable
        What the buttons in ``actions`` do, by their names.
    """

    _esm = script("dashboards/verdict.js")
    _css = style("dashboards/verdict.css")

    level = traitlets.Unicode("").tag(sync=True)
    sentence = traitlets.Unicode("").tag(sync=True)
    #: Pairs of a name and the words on its button.
    actions: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    #: Pairs of the words on a button and the text that it copies.
    copies: traitlets.List[list[str]] = traitlets.List().tag(sync=True)
    assumed = traitlets.List(traitlets.Unicode()).tag(sync=True)  # what a simulation assumes
    busy = traitlets.Unicode("").tag(sync=True)  # what goes on; its buttons are off meanwhile

    def __init__(self, acts: Mapping[str, Callable[[], Any]], **traits: Any) -> None:
        super().__init__(**traits)
        self._acts = dict(acts)
        self.on_msg(self._answer)

    def _answer(self, _: Any, message: Any, __: Any) -> None:
        act = self._acts.get(message.get("act", "")) if isinstance(message, dict) else None
        if act is not None:
            act()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        words = f"{self.level}: {self.sentence}" if self.level else self.sentence
        return in_other_forms(super()._repr_mimebundle_(**options), plain=words)
