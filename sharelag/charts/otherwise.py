"""An incident: what happened, the same simulated, and what would have been otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharelag.charts import text
from sharelag.charts.figure import Figure
from sharelag.charts.palette import Theme
from sharelag.charts.simulations import projection_figure

if TYPE_CHECKING:
    from sharelag.whatif.otherwise import Otherwise


def otherwise_figure(found: Otherwise, theme: Theme = "light") -> Figure:
    """Draw lag above and the age of the oldest record below, with the level of the alert.

    Parameters
    ----------
    found : Otherwise
    theme : {"light", "dark"}
    """
    drawn = projection_figure(found.curves, theme, since=text.moment(found.past.begin))
    alert = found.alert
    if alert is not None:
        above, scale = alert.measure == "lag", 1.0
        if not above:
            ages = found.curves.column("age_ms").drop_null().to_pylist()
            scale, _ = text.time_unit(max(ages))
        drawn.add_hline(
            alert.level / scale,
            line={"dash": "dot", "width": 1.5, "color": drawn.layout.font.color},
            yref="y" if above else "y2",
        )
    return drawn
