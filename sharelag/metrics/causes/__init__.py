"""The causes of lag: those declared in `declared`, and those of packages.

Each finder works on all share partitions at once. Unknown inputs never support a cause, and none
claims what the state topic does not contain (which member holds a record, why it was archived).
`sharelag.metrics.explain` ranks what is found. Another installed package adds a cause by

    [project.entry-points."sharelag.causes"]
    quota_reached = "our_package:quota_reached"         # a `Cause` of that name
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from sharelag.metrics.causes import declared
from sharelag.metrics.causes.inputs import HEADS as HEADS
from sharelag.metrics.causes.inputs import LAG_AWARE as LAG_AWARE
from sharelag.metrics.causes.inputs import MEMBERS as MEMBERS
from sharelag.metrics.causes.inputs import OF_GROUP as OF_GROUP
from sharelag.metrics.causes.inputs import WHAT_IFS, Floats
from sharelag.metrics.causes.inputs import Cause as Cause
from sharelag.metrics.causes.inputs import CauseInputs as CauseInputs
from sharelag.metrics.causes.inputs import Found as Found
from sharelag.metrics.causes.inputs import cause as cause
from sharelag.plugins import Plugin, load_plugin, plugin_names
from sharelag.tables.level import SEVERITIES

#: In the order of the output among causes of the same severity and size.
CAUSES = tuple(one for one in vars(declared).values() if isinstance(one, Cause))


def known_causes() -> tuple[Cause, ...]:
    """Return the built-in causes in their order, then those of installed packages by name.

    A cause of an installed package that cannot be used is an `InputError` that names the package.
    """
    ours = {one.name for one in CAUSES}
    plugged = ((name, load_plugin("cause", name, name in ours)) for name in plugin_names("cause"))
    return (*CAUSES, *(_check(name, plugin) for name, plugin in plugged if plugin))


def count_stuck(facts: CauseInputs) -> Floats:
    """Count the offsets of each share partition that more members cannot finish, up to its lag."""
    stuck = np.zeros(len(facts.groups))
    for one in known_causes():
        if not one.members_help:
            found = one.find(facts)
            # An offset may have several causes; the largest count is a lower bound.
            stuck = np.maximum(stuck, np.where(found.where, np.nan_to_num(found.held), 0))
    return np.minimum(stuck, np.nan_to_num(facts.lag("lag")))


def _check(name: str, plugin: Plugin) -> Cause:
    """Return the cause of an installed package; an error of its finder names the package."""
    one = plugin.value
    if not isinstance(one, Cause):
        raise plugin.wrong(
            f"is not a Cause: {plugin.place!r} is of type {type(one).__name__}, "
            "and sharelag.metrics.causes.Cause is needed"
        )
    if one.name != name:
        raise plugin.wrong(f"is named {one.name!r}: give it the name of its entry point")
    if one.severity not in SEVERITIES:
        raise plugin.wrong(
            f"has the severity {one.severity!r}: choose one of {', '.join(SEVERITIES)}"
        )
    if not (isinstance(one.summary, str) and isinstance(one.advice, str)):
        raise plugin.wrong("needs a summary and advice that are text")
    if one.what_if not in ("", *WHAT_IFS):
        raise plugin.wrong(
            f"has the what-if {one.what_if!r}: choose one of {', '.join(WHAT_IFS)}, or '' for none"
        )

    def find(given: CauseInputs) -> Found:
        try:
            found = one.find(given)
            problem = _problem(found, given.evidence.lag.num_rows)
        except Exception as error:  # a package's function may raise anything
            raise plugin.failure(error, "failed") from error
        if problem:
            raise plugin.wrong(f"returned {problem}")
        return found

    return replace(one, find=find, includes=frozenset(one.includes))


def _problem(found: Any, rows: int) -> str:
    """Return why a result is not one value per share partition."""
    if not isinstance(found, Found):
        return f"a value of type {type(found).__name__}: sharelag.metrics.causes.Found is needed"
    numbers = {"where": found.where, "held": found.held, "since": found.since, **found.evidence}
    for name, values in numbers.items():
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
