"""Values that a notebook shows as a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from sharelag.tables.presentation import Presentation


class Displayable(ABC):
    """A value shown as a table with assumptions and unknown values; as HTML and as text."""

    @abstractmethod
    def presentation(self) -> Presentation:
        """Return the table to show."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # Rendering takes a while to import, and is rarely needed.
        from sharelag.tables import render

        shown = self.presentation()
        return {"text/plain": render.as_text(shown), "text/html": render.as_html(shown)}
