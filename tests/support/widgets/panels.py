"""Dashboards' panels as they are once shown."""

from typing import Protocol, TypeVar

_View = TypeVar("_View", covariant=True)


class _Panel(Protocol[_View]):
    @property
    def view(self) -> _View | None: ...


def view_of(panel: _Panel[_View]) -> _View:
    """Return what a panel shows; it shows something."""
    assert panel.view is not None
    return panel.view
