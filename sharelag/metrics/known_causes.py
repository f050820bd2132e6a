"""All causes of lag: the built-in ones, and those of other installed packages.

[project.entry-points."sharelag.causes"]
quota_reached = "our_package:quota_reached"         # a `Cause` of that name
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sharelag.metrics.causes import CAUSES, Cause
from sharelag.metrics.facts import Facts
from sharelag.metrics.finders import Found
from sharelag.plugins import Plugin, load_plugin, plugin_names
from sharelag.tables.level import SEVERITIES

_OURS = frozenset(cause.name for cause in CAUSES)


def known_causes() -> tuple[Cause, ...]:
    """The built-in causes in their order, then those of installed packages by name.

    Raises
    ------
    InputError
        The cause of an installed package cannot be used; the message names the package.
    """
    names = plugin_names("cause")
    plugged = ((name, load_plugin("cause", name, name in _OURS)) for name in names)
    return (*CAUSES, *(_checked(name, plugin) for name, plugin in plugged if plugin))


def _checked(name: str, plugin: Plugin) -> Cause:
    """The cause of an installed package; what goes wrong in its finder names the package."""
    cause = plugin.value
    if not isinstance(cause, Cause):
        raise plugin.wrong(
            f"is not a Cause: {plugin.place!r} is of type {type(cause).__name__}, "
            "and sharelag.metrics.causes.Cause is needed"
        )
    if cause.name != name:
        raise plugin.wrong(f"is named {cause.name!r}: give it the name of its entry point")
    if cause.severity not in SEVERITIES:
        raise plugin.wrong(
            f"has the severity {cause.severity!r}: choose one of {', '.join(SEVERITIES)}"
        )
    if not (isinstance(cause.summary, str) and isinstance(cause.advice, str)):
        raise plugin.wrong("needs a summary and advice that are text")

    def find(facts: Facts) -> Found:
        try:
            found = cause.find(facts)
            problem = _problem(found, facts.evidence.lag.num_rows)
        except Exception as error:  # whatever a foreign function raises
            raise plugin.failed(error, "failed") from error
        if problem:
            raise plugin.wrong(f"returned {problem}")
        return found

    return replace(cause, find=find, includes=frozenset(cause.includes))


def _problem(found: Any, rows: int) -> str:
    """Say what keeps an answer from being read as one value per share partition."""
    if not isinstance(found, Found):
        return f"a value of type {type(found).__name__}: sharelag.metrics.finders.Found is needed"
    numbers = {"held": found.held, "since": found.since, **found.evidence}
    for name, values in {"where": found.where, **numbers}.items():
        kind, words = ("b", "booleans") if name == "where" else ("f", "floats")
        array = np.asarray(values)
        if array.shape != (rows,) or array.dtype.kind != kind:
            return (
                f"{name!r} as {array.dtype} of shape {array.shape}: "
                f"one value per share partition is needed, here an array of {rows} {words}"
            )
    for name, texts in found.texts.items():
        if len(texts) != rows:
            return f"{len(texts)} texts as {name!r}: one per share partition is needed, here {rows}"
    return ""
