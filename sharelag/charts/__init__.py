"""Charts: what answers draw, as plotly figures.

``bench.lag().figure("decomposition")`` draws one; the functions here draw your own tables. Each
takes the result of the function of the same name with ``_records`` (Arrow in, tidy Arrow out,
without plotly), and a ``theme``, light or dark. Every figure states its moment, unit and unknown
values; a null is a gap or a hatched area, never 0.
"""

from sharelag.charts.figure import to_html
from sharelag.charts.lag import decomposition_figure, lorenz_figure, window_span_figure
from sharelag.charts.lag import decomposition_records as decomposition_records
from sharelag.charts.lag import lorenz_records as lorenz_records
from sharelag.charts.lag import window_span_records as window_span_records
from sharelag.charts.over_time import (
    drain_figure,
    lag_over_time_figure,
    rates_figure,
    rates_over_time_figure,
)
from sharelag.charts.over_time import drain_records as drain_records
from sharelag.charts.over_time import lag_over_time_records as lag_over_time_records
from sharelag.charts.over_time import rates_over_time_records as rates_over_time_records
from sharelag.charts.over_time import rates_records as rates_records
from sharelag.charts.palette import Theme as Theme
from sharelag.charts.simulations import (
    clearing_figure,
    compared_figure,
    otherwise_figure,
    projection_figure,
    scaling_cost_figure,
)
from sharelag.charts.simulations import compared_records as compared_records
from sharelag.charts.spread import (
    assigned_figure,
    broker_load_figure,
    state_key_figure,
    state_record_figure,
)
from sharelag.charts.spread import assigned_records as assigned_records
from sharelag.charts.spread import broker_load_records as broker_load_records
from sharelag.charts.spread import state_key_records as state_key_records
from sharelag.charts.spread import state_record_records as state_record_records
from sharelag.charts.story import cause_figure, group_story_figure
from sharelag.charts.story import cause_records as cause_records
from sharelag.charts.story import group_story_records as group_story_records
from sharelag.charts.windows import delivery_count_figure, window_heat_figure, window_state_figure
from sharelag.charts.windows import delivery_count_records as delivery_count_records
from sharelag.charts.windows import window_heat_records as window_heat_records
from sharelag.charts.windows import window_state_records as window_state_records
from sharelag.whatif.comparison.intervals import cost_against_age as scaling_cost_records

#: Public names; the ``_records`` functions are here for the workbench's questions.
__all__ = [
    "assigned_figure", "broker_load_figure", "cause_figure", "clearing_figure", "compared_figure",
    "decomposition_figure", "delivery_count_figure", "drain_figure", "group_story_figure",
    "lag_over_time_figure", "lorenz_figure", "otherwise_figure", "projection_figure",
    "rates_figure", "rates_over_time_figure", "scaling_cost_figure", "scaling_cost_records",
    "state_key_figure", "state_record_figure", "to_html", "window_heat_figure",
    "window_span_figure", "window_state_figure",
]  # fmt: skip
