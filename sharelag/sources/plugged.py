"""Inputs of other installed packages, by the prefix of an address.

[project.entry-points."sharelag.inputs"]
s3state = "our_package:open_s3state"                # opens "s3state:...", given as a whole
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from sharelag.errors import ShareLagError
from sharelag.plugins import Plugin, load_plugin, plugin_names
from sharelag.sources.inputs import Input

#: A prefix and a colon, followed by more than the port of a HOST:PORT.
_PREFIXED = re.compile(r"([A-Za-z][\w+.-]+):(?!\d+\s*(,|$))")
#: Prefixes that mean a cluster or files already.
_OURS = frozenset(
    {"plaintext", "ssl", "sasl_plaintext", "sasl_ssl", "file", "http", "https", "hdfs", "viewfs"}
    | {"s3", "s3a", "s3n", "gs", "abfs", "abfss", "wasb", "wasbs", "dbfs"}
)
_NEEDED = tuple(name for name in vars(Input) if not name.startswith("_"))


def plugged_input(where: str) -> Callable[[], Input] | None:
    """Find the installed package that opens an address.

    Parameters
    ----------
    where : str
        Such as ``s3state:anything`` or ``s3state://anything``. ``HOST:PORT`` is never one.

    Returns
    -------
    callable or None
        Opens it; None when no installed package knows the prefix.

    Raises
    ------
    InputError
        Two packages, or a package and sharelag, use the same prefix; or the package cannot be
        used. The message names the package.
    """
    found = _PREFIXED.match(where)
    if found is None:
        return None
    plugin = load_plugin("input", found[1], found[1].lower() in _OURS)
    if plugin is None:
        return None
    return partial(_opened, plugin.function(), plugin, where)


def plugged_prefixes() -> list[str]:
    """The prefixes that installed packages open, each with its colon."""
    return [f"{name}:" for name in plugin_names("input")]


def _opened(factory: Callable[..., Input], plugin: Plugin, where: str) -> Input:
    try:
        source = factory(where)
    except ShareLagError:
        raise  # what the package has to say about the address
    except Exception as error:  # whatever else a foreign function raises
        raise plugin.failed(error, f"cannot open {where!r}") from error
    if missing := [name for name in _NEEDED if not hasattr(source, name)]:
        raise plugin.wrong(
            f"opened {where!r} as a {type(source).__name__} without {', '.join(missing)}: "
            "inherit sharelag.sources.inputs.RecordsOnly for what it cannot know, and add the rest"
        )
    return source
