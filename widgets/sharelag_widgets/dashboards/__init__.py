"""Dashboards over a workbench: controls, charts and tables that share a selection.

bench = sharelag.open("broker:9092")
Now(bench)
"""

from .explorer import WindowExplorer
from .fleet import FleetView
from .group import GroupView
from .health import StateTopicHealth
from .imbalance import ImbalanceView
from .now import Now
from .poison import PoisonHunt
from .what_if import WhatIfLab

__all__ = [
    "FleetView",
    "GroupView",
    "ImbalanceView",
    "Now",
    "PoisonHunt",
    "StateTopicHealth",
    "WhatIfLab",
    "WindowExplorer",
]
