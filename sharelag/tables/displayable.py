"""Values that show themselves in a notebook, as a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from sharelag.tables.presentation import Presentation


class Displayable(ABC):
    """Shows itself as a table with what is assumed and what is not known; as HTML and as text."""

    @abstractmethod
    def presentation(self) -> Presentation:
        """Return the table that people are shown of it."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # What makes HTML takes a while to import, and is needed only where somebody looks.
        from sharelag.tables import render

        shown = self.presentation()
        return {"text/plain": render.as_text(shown), "text/html": render.as_html(shown)}
