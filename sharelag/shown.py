"""Values of lower layers that show themselves in a notebook, by `sharelag.told`."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Shown:
    """Shows itself in Jupyter as a table with what is assumed and what is not known; printed, as the same text."""

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        # Tables that show themselves are made in a layer above, which is needed only where somebody
        # looks.
        told = import_module("sharelag.workbench").told(self)
        return {"text/plain": told.to_text(), "text/html": told.to_html()}
