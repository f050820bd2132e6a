"""Causes of lag as cards: what holds it, what shows that, what to do, and a command to copy."""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from ..bundle import script, style
from ..view import in_other_forms


class CauseCards(anywidget.AnyWidget):
    """How a group is in a sentence, and a card for each cause, the worst first."""

    _esm = script("dashboards/cards.js")
    _css = style("dashboards/cards.css")

    group = traitlets.Unicode("").tag(sync=True)
    state = traitlets.Unicode("").tag(sync=True)
    #: For each cause: ``severity``, ``cause``, ``where``, ``summary``, ``evidence``, ``advice``,
    #: and ``command``, a line for a shell.
    cards: traitlets.List[dict[str, str]] = traitlets.List().tag(sync=True)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        lines = [f"{self.group}  {self.state}"]
        lines += [f"{one['severity']}: {one['cause']} {one['where']}" for one in self.cards]
        return in_other_forms(super()._repr_mimebundle_(**options), plain="\n".join(lines))
