"""Unattended reports: a notebook is executed and becomes a page, a mail, images and a verdict.

notebook ──► papermill ──► verdict · page · mail · images ──► a folder per run, ledger, index

`sharelag.reports.cells` has the contents of the notebooks' cells; `report` runs a notebook,
`schedule` defines when to run it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sharelag.errors import SetupError

if TYPE_CHECKING:
    from sharelag.reports.run import Report, report
    from sharelag.reports.schedules import schedule

__all__ = ["Report", "report", "schedule"]

_NEEDED = (
    *("anywidget", "croniter", "css_inline", "filelock", "ipykernel", "mistune"),
    *("nbformat", "papermill", "plotly"),
)
if _missing := [name for name in _NEEDED if find_spec(name) is None]:
    raise SetupError(f"reports need {', '.join(_missing)}: pip install 'sharelag[report]'")

_HOMES = {"Report": "run", "report": "run", "schedule": "schedules"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"sharelag.reports.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'sharelag.reports' has no attribute {name!r}")
