"""Assignors of other installed packages: the entry points of the group ``sharelag.assignors``.

[project.entry-points."sharelag.assignors"]
coldest-first = "our_package:coldest_first"         # a function, as `register` takes it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sharelag.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "sharelag.assignors"


def plugin_names() -> list[str]:
    """The names of all that are installed, without importing any."""
    return sorted(_installed())


def load_plugin(name: str, is_ours: bool) -> Callable[..., Any] | None:
    """Import the assignor of an installed package.

    Parameters
    ----------
    name : str
    is_ours : bool
        Whether sharelag itself has an assignor of that name.

    Returns
    -------
    callable or None
        None when no installed package has an assignor of that name.

    Raises
    ------
    InputError
        Two packages, or a package and sharelag, have the same name for an assignor; or it cannot
        be imported, or is not a function. The message names the package.
    """
    found = _installed().get(name, ())
    if not found:
        return None
    packages = " and ".join(_package(one) for one in found)
    if is_ours:
        raise InputError(
            f"the assignor {name!r} is built in, but {packages} has one of that name too: "
            f"uninstall the package, or rename its entry point"
        )
    if len(found) > 1:
        raise InputError(
            f"the assignor {name!r} is in several installed packages, {packages}: "
            f"uninstall all but one"
        )
    (point,) = found
    try:
        function = point.load()
    except Exception as error:  # whatever a foreign module raises while it is imported
        raise InputError(
            f"the assignor {name!r} of {packages} cannot be loaded from {point.value!r} "
            f"({type(error).__name__}: {error}): repair or uninstall the package"
        ) from error
    if not callable(function):
        raise InputError(
            f"the assignor {name!r} of {packages} is not a function: "
            f"{point.value!r} is of type {type(function).__name__}"
        )
    return function  # type: ignore[no-any-return]


def _installed() -> Mapping[str, tuple[EntryPoint, ...]]:
    from importlib.metadata import entry_points

    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        found[point.name] = (*found.get(point.name, ()), point)
    return found


def _package(point: EntryPoint) -> str:
    return "an installed package" if point.dist is None else f"the package {point.dist.name!r}"
