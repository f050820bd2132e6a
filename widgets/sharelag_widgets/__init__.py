"""Widgets for share groups: arrays and labels in, pictures and selections out."""

from .assignment_editor import AssignmentEditor, Difference
from .lag_table import LagTable
from .partition_grid import PartitionGrid
from .plot_view import PlotView
from .view import Selection
from .window_strip import WindowStrip

__all__ = [
    "AssignmentEditor", "Difference", "LagTable", "PartitionGrid", "PlotView", "Selection",
    "WindowStrip",
]  # fmt: skip
