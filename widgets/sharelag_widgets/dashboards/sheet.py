"""The head of what is beside a table on a wide page, and a sheet over it on a narrow one."""

from __future__ import annotations

from typing import Any

import traitlets

from ..bundle import script, style
from ..heard import Heard
from ..view import in_other_forms


class Sheet(Heard):
    """The name of what is picked; on a narrow page a button that opens and closes what is below.

    It stands first in a box with the class ``sharelag-sheet``.
    """

    _esm = script("dashboards/sheet.js")
    _css = style("dashboards/sheet.css")

    words = traitlets.Unicode("").tag(sync=True)
    is_open = traitlets.Bool(False).tag(sync=True)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return in_other_forms(super()._repr_mimebundle_(**options), plain=self.words)
