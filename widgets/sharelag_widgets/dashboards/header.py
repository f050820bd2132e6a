"""The header of a dashboard and of its parts: moment, definitions, and what is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import traitlets

from ..bundle import script, style
from ..heard import Heard
from ..view import in_other_forms


class Header(Heard):
    """A title with its moment, its age, help that opens by keyboard, and what went wrong.

    The browser's clock says how old it is; so a dashboard that nobody refreshes turns stale before
    one's eyes.
    """

    _esm = script("dashboards/header.js")
    _css = style("dashboards/header.css")

    title = traitlets.Unicode("").tag(sync=True)
    level = traitlets.Int(3).tag(sync=True)  # of the heading: 2 above a dashboard, 3 above a part
    as_of = traitlets.Float(None, allow_none=True).tag(sync=True)  # milliseconds
    # of a part: the moment that the dashboard's header says; its own is said where it is another
    above = traitlets.Float(None, allow_none=True).tag(sync=True)
    units = traitlets.Unicode("").tag(sync=True)
    source = traitlets.Unicode("").tag(sync=True)
    help: traitlets.List[list[str]] = traitlets.List().tag(
        sync=True
    )  # pairs of a term and its meaning
    unknown = traitlets.List(traitlets.Unicode()).tag(sync=True)
    finding = traitlets.Unicode("").tag(sync=True)  # what a chart shows, as a sentence
    facts = traitlets.List(traitlets.Unicode()).tag(sync=True)  # and how it is to be read
    notes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    failure = traitlets.Unicode("").tag(sync=True)
    code = traitlets.Unicode("").tag(sync=True)  # Python of what is picked
    busy = traitlets.Bool(False).tag(sync=True)
    live = traitlets.Bool(False).tag(sync=True)  # whether reading again can give something else
    every = traitlets.Float(0).tag(
        sync=True
    )  # seconds between two refreshes while somebody looks; 0: by hand only
    paused = traitlets.Bool(False).tag(sync=True)
    stale_after = traitlets.Float(120).tag(sync=True)  # seconds
    theme = traitlets.Enum(["light", "dark"], "light").tag(sync=True)  # as the browser says

    def __init__(self, refresh: Callable[[], Any] | None = None, **traits: Any) -> None:
        super().__init__(**traits)
        self.own_unknown = list(self.unknown)  # `unknown` is also what the parts below do not know
        self._refresh = refresh
        self.on_msg(self._answer)

    def tell(
        self,
        as_of: datetime | None,
        unknown: Sequence[str] = (),
        notes: Sequence[str] = (),
        meanings: Mapping[str, str] | None = None,
        units: str = "",
    ) -> None:
        """Say what is shown now."""
        with self.hold_sync():
            self.as_of = None if as_of is None else as_of.timestamp() * 1000
            self.own_unknown = list(unknown)
            self.units, self.unknown, self.notes = units, self.own_unknown, list(notes)
            if meanings is not None:
                self.help = [[term, meaning] for term, meaning in meanings.items()]

    def _answer(self, _: Any, message: Any, __: Any) -> None:
        if isinstance(message, dict) and message.get("refresh") and self._refresh is not None:
            self._refresh()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        words = f"{self.title}{': ' if self.failure else ''}{self.failure}"
        return in_other_forms(super()._repr_mimebundle_(**options), plain=words)
