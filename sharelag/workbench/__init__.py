"""The workbench: ``sharelag.open(...)`` returns a `Workbench`, each question a `Result`.

bench = sharelag.open("incident-42")       # or "broker:9092", an archive, Parquet files ...
bench.lag()                                # a table with its moment, units and unknown values
bench.explain("billing").figure()          # a chart
bench.at("2026-11-21T03:10:00Z").lag()     # the same at another moment

Names are imported at first use, because the command line needs few of them and has to start fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sharelag.errors import unknown_name

if TYPE_CHECKING:
    from sharelag.inputs.recorded import samples
    from sharelag.workbench.bench import Workbench
    from sharelag.workbench.opening import open_workbench
    from sharelag.workbench.result import Result
    from sharelag.workbench.summary import summarize

__all__ = ["Result", "Workbench", "open_workbench", "samples", "summarize"]

_HOME_OF = {
    "Result": "sharelag.workbench.result",
    "Workbench": "sharelag.workbench.bench",
    "open_workbench": "sharelag.workbench.opening",
    "samples": "sharelag.inputs.recorded",
    "summarize": "sharelag.workbench.summary",
}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    raise AttributeError(unknown_name(name, __all__, f"module {__name__!r}"))


def __dir__() -> list[str]:
    return sorted(__all__)
