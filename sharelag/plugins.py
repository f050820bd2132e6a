"""Objects of other installed packages, found by entry points: assignors, causes, inputs, views.

[project.entry-points."sharelag.causes"]
quota-reached = "our_package:quota_reached"

Entry points are looked up, and objects imported, only on use.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from sharelag.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.metadata import EntryPoint

#: Kinds of plug-ins, with the group of entry points of each.
GROUPS = {
    "assignor": "sharelag.assignors",
    "cause": "sharelag.causes",
    "input": "sharelag.inputs",
    "view": "sharelag.views",  # used by our widgets; not imported here
}
_Points = dict[str, dict[str, tuple["EntryPoint", ...]]]


@dataclass(frozen=True)
class Plugin:
    """An object of an installed package.

    Parameters
    ----------
    title : str
        Its name in messages: kind, name and package.
    place : str
        Where it was imported from, as in the entry point.
    value : object
    """

    title: str
    place: str
    value: Any

    def function(self) -> Callable[..., Any]:
        """Return the object, which must be a function."""
        if not callable(self.value):
            raise self.wrong(
                f"is not a function: {self.place!r} is of type {type(self.value).__name__}"
            )
        called: Callable[..., Any] = self.value
        return called

    def wrong(self, what: str) -> InputError:
        """Return the error for an object of another kind."""
        return InputError(f"{self.title} {what}")

    def failure(self, error: Exception, doing: str) -> InputError:
        """Return the error for an exception in its code."""
        return self.wrong(
            f"{doing} ({type(error).__name__}: {error}): repair or uninstall the package"
        )


def plugin_names(kind: str) -> list[str]:
    """Return the names of all installed plug-ins of a kind, without importing any."""
    return sorted(_points(kind))


def load_plugin(kind: str, name: str, is_ours: bool) -> Plugin | None:
    """Import an object of an installed package.

    Parameters
    ----------
    kind : {"assignor", "cause", "input", "view"}
    name : str
    is_ours : bool
        Whether sharelag itself has an object of that name.

    Returns
    -------
    Plugin or None
        None if no installed package has an object of that name.

    Raises
    ------
    InputError
        Two packages, or a package and sharelag, use the same name; or it cannot be imported. The
        message names the package.
    """
    found = _points(kind).get(name, ())
    if not found:
        return None
    packages = " and ".join(_package(one) for one in found)
    if is_ours:
        raise InputError(
            f"the {kind} {name!r} is built in, but {packages} has one of that name too: "
            f"uninstall the package, or rename its entry point"
        )
    if len(found) > 1:
        raise InputError(
            f"the {kind} {name!r} is in several installed packages, {packages}: "
            f"uninstall all but one"
        )
    (point,) = found
    plugin = Plugin(f"the {kind} {name!r} of {packages}", point.value, None)
    try:
        value = point.load()
    except Exception as error:  # importing a foreign module may raise anything
        raise plugin.failure(error, f"cannot be loaded from {point.value!r}") from error
    return Plugin(plugin.title, plugin.place, value)


def _points(kind: str) -> dict[str, tuple[EntryPoint, ...]]:
    return _find_installed(tuple(map(str, sys.path))).get(GROUPS[kind], {})


@lru_cache(maxsize=1)
def _find_installed(_path: tuple[str, ...]) -> _Points:
    """Return the entry points of our groups; read again when the module path changes."""
    from importlib.metadata import entry_points

    every = entry_points()
    found: _Points = {}
    for group in GROUPS.values():
        names = found.setdefault(group, {})
        for point in every.select(group=group):
            known = names.get(point.name, ())
            # A checkout lists its widgets twice: in their own metadata, and where it is installed.
            if group != GROUPS["view"] or point.value not in {one.value for one in known}:
                names[point.name] = (*known, point)
    return found


def _package(point: EntryPoint) -> str:
    return "an installed package" if point.dist is None else f"the package {point.dist.name!r}"
