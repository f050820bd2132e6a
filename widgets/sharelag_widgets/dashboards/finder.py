"""A choice of one among many, by typing a part of its name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import traitlets

from sharelag.workbench.charts import text

from ..bundle import script, style
from ..heard import Heard
from ..view import in_other_forms

#: Characters of a name.
_WIDTH = 60


class Finder(Heard):
    """One of some names from outside, of which a part can be typed.

    The names cross to the browser shortened, and unable to turn what is around them.
    """

    _esm = script("dashboards/finder.js")
    _css = style("dashboards/finder.css")

    label = traitlets.Unicode("").tag(sync=True)
    labels: traitlets.List[str] = traitlets.List(traitlets.Unicode()).tag(sync=True)
    index = traitlets.Int(-1).tag(sync=True)  # of the chosen one; -1: none
    disabled = traitlets.Bool(False).tag(sync=True)
    value = traitlets.Unicode(None, allow_none=True)

    @property
    def options(self) -> tuple[str, ...]:
        """The names."""
        return self._options

    @options.setter
    def options(self, names: Sequence[str]) -> None:
        self._options = tuple(names)
        shown = [text.name(name, _WIDTH) for name in names]
        seen = Counter[str]()
        for place, label in enumerate(shown):
            seen[label] += 1
            if seen[label] > 1:  # two that are shortened to the same
                shown[place] = f"{label} ({seen[label]})"
        with self.hold_sync():
            self.labels = shown
            self.index = self._options.index(self.value) if self.value in self._options else -1

    @traitlets.observe("value")
    def _to_index(self, _: Any) -> None:
        self.index = self._options.index(self.value) if self.value in self._options else -1

    @traitlets.observe("index")
    def _to_value(self, _: Any) -> None:
        if 0 <= self.index < len(self._options):
            self.value = self._options[self.index]

    @traitlets.validate("value")
    def _known(self, proposal: Any) -> Any:
        if proposal["value"] is not None and proposal["value"] not in self._options:
            raise traitlets.TraitError(f"unknown choice {proposal['value']!r}")
        return proposal["value"]

    def _repr_mimebundle_(self, **options: Any) -> Any:
        words = f"{self.label}: {self.labels[self.index] if self.index >= 0 else 'none'}"
        return in_other_forms(super()._repr_mimebundle_(**options), plain=words)

    _options: tuple[str, ...] = ()
