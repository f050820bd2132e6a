"""Notes on DataFrames: their sources, where tasks can read these faster than the DataFrame."""

from __future__ import annotations

from pyspark.sql import DataFrame

#: Where a DataFrame keeps it.
_ORIGIN = "_sharelag_origin"


def set_origin(frame: DataFrame, origin: object) -> None:
    """Note what a DataFrame was made of; those that are made of it do not have the note."""
    vars(frame)[_ORIGIN] = origin


def origin_of(frame: object) -> object:
    """Return what `set_origin` noted; None where it is not, or the rows are in Spark's cache."""
    if not hasattr(frame, "sparkSession") or getattr(frame, "is_cached", False):
        return None
    return vars(frame).get(_ORIGIN)
