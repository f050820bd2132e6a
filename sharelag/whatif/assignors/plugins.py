"""Assignors of other installed packages: the entry points of the group ``sharelag.assignors``.

[project.entry-points."sharelag.assignors"]
coldest-first = "our_package:coldest_first"         # a function, as `register` takes it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sharelag import plugins


def plugin_names() -> list[str]:
    """The names of all that are installed, without importing any."""
    return plugins.plugin_names("assignor")


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
    plugin = plugins.load_plugin("assignor", name, is_ours)
    return None if plugin is None else plugin.function()
