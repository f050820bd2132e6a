"""The views that answers show themselves in, found among what is installed.

`sharelag_widgets` registers them as entry points of the group ``sharelag.views``: nothing here
imports it, so that a workbench works where there is no page to show a widget in.
"""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from sharelag.errors import InputError, SetupError
from sharelag.plugins import load_plugin

#: What to do where nothing can be shown that lives in a page.
NO_WIDGETS = "the widgets are not installed here: pip install 'sharelag[notebook]'"


class View(Protocol):
    """A widget that shows rows: what all have; `sharelag_widgets` says what else each has."""

    selection: Any  # what is picked, here or in a linked view

    def summary(self) -> str:
        """Return what is shown as text."""

    def close(self) -> None:
        """Let go of the selection, which may outlive the view."""

    def __getattr__(self, name: str) -> Any: ...


class Strip(View, Protocol):
    """`sharelag_widgets.WindowStrip`: a window offset by offset, at every moment."""

    rows: pa.Table  # the moments; may be set

    @property
    def shown_key(self) -> tuple[Any, ...] | None:
        """The key of the share partition that is shown."""


class Dashboard(View, Protocol):
    """`sharelag_widgets.dashboards.Now`: all groups, and one of them in detail."""

    group: str | None  # the one that is shown; may be set

    def refresh(self) -> None:
        """Read again, and wait for it."""


def load_view(name: str) -> Any:
    """Return the class of a view: ``Now``, ``PlotView`` or ``WindowStrip``."""
    try:
        plugin = load_plugin("view", name, is_ours=False)
    except InputError as error:
        if isinstance(error.__cause__, ImportError):
            raise SetupError(NO_WIDGETS) from error.__cause__
        raise
    if plugin is None:
        raise SetupError(NO_WIDGETS)
    return plugin.value
