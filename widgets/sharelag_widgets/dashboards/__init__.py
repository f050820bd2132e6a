"""Dashboards over a workbench: controls, charts and tables that share a selection.

bench = sharelag.open("broker:9092")
Now(bench)
"""

from .fleet import FleetView, StateTopicHealth
from .group import GroupView, ImbalanceView, PoisonHunt, WindowExplorer
from .now import Now
from .what_if import WhatIfLab

__all__ = [
    "FleetView", "GroupView", "ImbalanceView", "Now", "PoisonHunt", "StateTopicHealth", "WhatIfLab",
    "WindowExplorer",
]  # fmt: skip
