"""Dashboards over a workbench: controls, charts and tables that share a selection.

bench = sharelag.open("broker:9092")
Now(bench)
"""

from .fleet import FleetView
from .group import GroupView, ImbalanceView, WindowExplorer
from .health import StateTopicHealth
from .now import Now
from .poison import PoisonHunt
from .what_if import WhatIfLab

__all__ = [
    "FleetView", "GroupView", "ImbalanceView", "Now", "PoisonHunt", "StateTopicHealth", "WhatIfLab",
    "WindowExplorer",
]  # fmt: skip
