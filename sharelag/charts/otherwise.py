"""An incident: what happened, the same simulated, and what would have been otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharelag.charts import text
from sharelag.charts.figure import Figure
from sharelag.charts.palette import Theme
from sharelag.charts.simulations import projection_figure
from sharelag.whatif.otherwise import HAPPENED_NAME

if TYPE_CHECKING:
    from sharelag.whatif.otherwise import Otherwise


def otherwise_figure(found: Otherwise, theme: Theme = "light") -> Figure:
    """Draw lag above and the age of the oldest record below, with the level of the alert.

    Parameters
    ----------
    found : Otherwise
    theme : {"light", "dark"}
    """
    alert = found.alert
    levels = {} if alert is None else {alert.column: alert.level}
    happened = (HAPPENED_NAME, found.past.end)
    return projection_figure(found.curves, theme, text.moment(found.past.begin), levels, happened)
