"""One line to a picture: ``sharelag.open(...)`` gives a `Workbench`, and each question a `Result` that shows itself.

bench = sharelag.open("incident-42")       # or "broker:9092", an archive, Parquet files, a broker's log directory
bench.lag()                                # a table that says as of when, in which unit, and what is not known
bench.explain("billing").figure()          # a chart
bench.at("2026-11-21T03:10:00Z").lag()     # the same at another moment
"""

from sharelag.workbench.bench import Workbench
from sharelag.workbench.opening import open_workbench
from sharelag.workbench.recorded import samples
from sharelag.workbench.result import Result
from sharelag.workbench.trials import told

__all__ = ["Result", "Workbench", "open_workbench", "samples", "told"]
