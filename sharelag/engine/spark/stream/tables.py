"""Windows and lag of a stream as two Delta tables, which go on where a restarted query goes on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from sharelag import schemas
from sharelag.engine.spark.stream.changes import updated
from sharelag.engine.spark.stream.state import WINDOWS
from sharelag.errors import InputError
from sharelag.inputs.files.delta import open_table, remove_old_files, replace_table
from sharelag.inputs.offsets import latest_ends
from sharelag.inputs.spark.ends import Ends, read_ends
from sharelag.metrics.lag import lag_arrow

if TYPE_CHECKING:
    from sharelag.inputs.spark.frames import Tabular

#: How long readers may use rows that were replaced, and after how many micro-batches they go.
_KEEP, _TIDY_EVERY = timedelta(hours=1), 100
_BATCH = "sharelag.batch"


def to_delta(folder: Path | str, offsets: Ends | Tabular) -> Callable[[DataFrame, int], None]:
    """Return what keeps ``FOLDER/windows`` and ``FOLDER/lag`` current, for ``foreachBatch``.

    Both have one row per share partition. Each micro-batch computes the lag of all of them, with
    end offsets of that moment, and replaces both tables, each in one commit. A query that is
    started again goes on with them, and a micro-batch that is repeated changes nothing: what it
    says is a state, not a difference. While no record comes there is no micro-batch, so ``as_of``
    says how old the lag is.

    Parameters
    ----------
    folder : path or str
        Where Spark's driver writes.
    offsets : path, name of a table, function, or DataFrame
        As for `watch`: a function may use the session.

    Returns
    -------
    callable
        Takes rows of `WINDOWS` and the number of their micro-batch. It raises `InputError` when
        the tables are not those that the query wrote, or cannot be written.

    Raises
    ------
    InputError
        When deltalake is not installed, or the folder cannot be read.

    Examples
    --------
    >>> windows = sharelag.stream.windows(raw)  # doctest: +SKIP
    >>> writer = windows.writeStream.outputMode("update")  # doctest: +SKIP
    >>> writer = writer.option("checkpointLocation", "checkpoint")  # doctest: +SKIP
    >>> sink = sharelag.stream.to_delta("tables", offsets="offsets")  # doctest: +SKIP
    >>> writer.foreachBatch(sink).start()  # doctest: +SKIP
    """
    place = str(folder) if "://" in str(folder) else str(Path(folder).absolute())
    open_table(f"{place}/windows")
    return partial(_replace, place=place, offsets=offsets)


def _replace(changes: DataFrame, batch: int, place: str, offsets: Ends | Tabular) -> None:
    schemas.require(changes, WINDOWS, "windows")
    windows = updated(_before(f"{place}/windows", batch), changes.toArrow())
    ends = latest_ends(read_ends(offsets, changes.sparkSession))
    lag = pa.Table.from_batches([lag_arrow(windows, ends)])
    for name, table in (("windows", windows), ("lag", lag)):
        replace_table(f"{place}/{name}", table, f"{name} of a stream", {_BATCH: str(batch)})
        if batch % _TIDY_EVERY == 0:
            remove_old_files(f"{place}/{name}", _KEEP)


def _before(place: str, batch: int) -> pa.Table:
    """Return the windows that the micro-batch before has left."""
    found = open_table(place)
    last = None if found is None else found.history(1)[0].get(_BATCH)
    if found is not None and last is None:
        raise InputError(f"{place} is a different table: choose another folder")
    if batch == 0:  # a new query begins with all records
        return schemas.WINDOWS.empty_table()
    if found is None or last not in (str(batch - 1), str(batch)):
        there = "no table" if found is None else f"the table of micro-batch {last}"
        raise InputError(
            f"{place} is {there}, and the query goes on with micro-batch {batch}: bring back the "
            "table that it wrote, or start the query with a new checkpoint"
        )
    return found.to_pyarrow_table(columns=schemas.WINDOWS.names).cast(schemas.WINDOWS)
