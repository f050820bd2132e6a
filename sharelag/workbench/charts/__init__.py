"""Charts: each a records function (Arrow in, tidy Arrow out) and a figure function.

Records functions need nothing but the tables; figure functions need plotly, which is imported when
the first is called. Every figure says as of when, in which unit, and what is not known; a null is a
gap or a hatched stretch, never 0.
"""

from sharelag.whatif.comparison.cost import COST_AGAINST_AGE as SCALING_COST
from sharelag.whatif.comparison.cost import cost_against_age as scaling_cost_records
from sharelag.workbench.charts.brokers import (
    BROKER_LOADS,
    broker_load_figure,
    broker_load_records,
)
from sharelag.workbench.charts.causes import CAUSE_SPANS, cause_figure, cause_records
from sharelag.workbench.charts.comparison import COMPARED, compared_figure, compared_records
from sharelag.workbench.charts.decomposition import (
    DECOMPOSITION,
    decomposition_figure,
    decomposition_records,
)
from sharelag.workbench.charts.deliveries import (
    DELIVERY_COUNTS,
    delivery_count_figure,
    delivery_count_records,
)
from sharelag.workbench.charts.drain import DRAIN_FORECAST, drain_figure, drain_records
from sharelag.workbench.charts.html import to_html
from sharelag.workbench.charts.lag_over_time import (
    LAG_OVER_TIME,
    lag_over_time_figure,
    lag_over_time_records,
)
from sharelag.workbench.charts.layout import CONFIG
from sharelag.workbench.charts.lorenz import LORENZ, lorenz_figure, lorenz_records
from sharelag.workbench.charts.matrix import ASSIGNED, assigned_figure, assigned_records
from sharelag.workbench.charts.palette import Theme
from sharelag.workbench.charts.projection import projection_figure
from sharelag.workbench.charts.rates import RATES, rates_figure, rates_records
from sharelag.workbench.charts.rates_over_time import (
    RATES_OVER_TIME,
    rates_over_time_figure,
    rates_over_time_records,
)
from sharelag.workbench.charts.scaling import scaling_cost_figure
from sharelag.workbench.charts.spans import WINDOW_SPANS, window_span_figure, window_span_records
from sharelag.workbench.charts.state_keys import (
    STATE_KEYS,
    state_key_figure,
    state_key_records,
)
from sharelag.workbench.charts.state_topic import (
    STATE_RECORDS,
    state_record_figure,
    state_record_records,
)
from sharelag.workbench.charts.story import (
    GROUP_STORY,
    group_story_figure,
    group_story_records,
)
from sharelag.workbench.charts.window_heat import (
    WINDOW_HEAT,
    window_heat_figure,
    window_heat_records,
)
from sharelag.workbench.charts.window_states import (
    WINDOW_STATES,
    window_state_figure,
    window_state_records,
)

__all__ = [
    "ASSIGNED",
    "BROKER_LOADS",
    "CAUSE_SPANS",
    "COMPARED",
    "CONFIG",
    "DECOMPOSITION",
    "DELIVERY_COUNTS",
    "DRAIN_FORECAST",
    "GROUP_STORY",
    "LAG_OVER_TIME",
    "LORENZ",
    "RATES",
    "RATES_OVER_TIME",
    "SCALING_COST",
    "STATE_KEYS",
    "STATE_RECORDS",
    "WINDOW_HEAT",
    "WINDOW_SPANS",
    "WINDOW_STATES",
    "Theme",
    "assigned_figure",
    "assigned_records",
    "broker_load_figure",
    "broker_load_records",
    "cause_figure",
    "cause_records",
    "compared_figure",
    "compared_records",
    "decomposition_figure",
    "decomposition_records",
    "delivery_count_figure",
    "delivery_count_records",
    "drain_figure",
    "drain_records",
    "group_story_figure",
    "group_story_records",
    "lag_over_time_figure",
    "lag_over_time_records",
    "lorenz_figure",
    "lorenz_records",
    "projection_figure",
    "rates_figure",
    "rates_over_time_figure",
    "rates_over_time_records",
    "rates_records",
    "scaling_cost_figure",
    "scaling_cost_records",
    "state_key_figure",
    "state_key_records",
    "state_record_figure",
    "state_record_records",
    "to_html",
    "window_heat_figure",
    "window_heat_records",
    "window_span_figure",
    "window_span_records",
    "window_state_figure",
    "window_state_records",
]
