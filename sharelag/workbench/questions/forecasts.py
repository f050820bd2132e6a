"""Forecasts with their scores, and the ledger that stores them."""

from __future__ import annotations

from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.durations import duration
from sharelag.engine import Reading
from sharelag.errors import InputError
from sharelag.inputs.files.parquet import (
    append_rows,
    name_of,
    open_table,
    require_same,
    translate_errors,
)
from sharelag.inputs.files.raw_files import absolute
from sharelag.metrics.forecasts import (
    CONFIDENCE,
    KEY,
    calibration,
    make_forecasts,
    moments_of,
    score,
)
from sharelag.model import iso, milliseconds
from sharelag.tables import views
from sharelag.tables.arrow import keys, with_columns
from sharelag.tables.words import percent, pluralize
from sharelag.version import __version__
from sharelag.workbench.ask import question
from sharelag.workbench.base import Tables
from sharelag.workbench.questions.timeline import lags_at
from sharelag.workbench.result import Result

_NAME = "forecasts of share groups"
#: The default horizon of forecasts.
HORIZON = timedelta(minutes=5)


@question("evidence", "history")
def forecasts(t: Tables, ledger: str | Path, horizon: timedelta) -> Result:
    """Forecast age and drain of the lag, score due forecasts, and save both in the ledger."""
    kept = keep_forecasts(t.read, place_of(ledger), horizon)
    made, graded, scored = kept.made, kept.graded, kept.scored
    better = graded.filter(graded.column("shown")).column("forecast")
    counts = f"{pluralize(kept.new, 'new forecast')}, {scored.num_rows:,} scored"
    lost = scored.column("actual_ms").null_count
    return t.bench.base_of(t.bench.evidence()).answer(
        "Forecasts of the lag",
        _show_intervals(made, pc.is_in(made.column("forecast"), better.combine_chunks())),
        views.FORECASTS,
        notes=(*kept.sentences, f"in this run {counts}"),
        unknown=[f"what became of {lost:,} of {scored.num_rows:,} due forecasts"] * bool(lost),
    )


class Kept(NamedTuple):
    """The forecasts of a reading, those of the ledger that it scored, and their calibration.

    ``made`` and ``scored`` are `FORECASTS`, ``graded`` is `CALIBRATION`; ``new`` is a count.
    """

    made: pa.Table
    scored: pa.Table
    graded: pa.Table
    new: int

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence per kind of forecast on how often those in the ledger came true."""
        return tuple(calibration_sentences(self.graded))


def keep_forecasts(read: Reading, ledger: str, horizon: timedelta = HORIZON) -> Kept:
    """Forecast age and drain from a reading, score due forecasts, and append both to the ledger."""
    if find_spec("scoringrules") is None:
        raise InputError("forecasts need scoringrules: pip install 'sharelag[lake]'")
    cluster = read.source.cluster_id
    evidence, kept = read.evidence, read_ledger(ledger, cluster)
    scored = score_due(read, kept)
    kept = _latest(pa.concat_tables([kept, scored]))
    made = make_forecasts(evidence.progress, evidence.lag, kept, evidence.as_of, horizon)
    new = made.filter(pc.invert(pc.is_in(keys(made, KEY), keys(kept, KEY))))
    rows = pa.concat_tables([scored, new])
    if rows.num_rows:
        about = {"as_of": iso(evidence.as_of), "source": read.source.describe()}
        append_rows(ledger, rows, name_of(_NAME, cluster), about | {"tool_version": __version__})
    return Kept(made, scored, calibration(pa.concat_tables([kept, new])), new.num_rows)


def calibration_sentences(graded: pa.Table) -> list[str]:
    """Return a sentence per kind on how often forecasts came true, by `CALIBRATION`."""
    lines = []
    for row in graded.to_pylist():
        what = f"{pluralize(row['scored'], 'forecast')} of {row['forecast']}"
        if not row["scored"]:
            lines.append(f"no forecast of {row['forecast']} with an interval has been scored yet")
            continue
        far, rate = (duration(row[name]) for name in ("crps_ms", "rate_crps_ms"))
        compared = "not shown yet: too few to compare with lag / rate"
        if row["shown"]:
            compared = f"they were off by {far} (CRPS), lag / rate by {rate}"
        elif row["crps_ms"] >= row["rate_crps_ms"]:
            compared = f"not shown: lag / rate was off by {rate} (CRPS), they by {far}"
        true = f"at {percent(CONFIDENCE)}, {percent(row['covered'])} came true"
        lines.append(f"of {what} {true}; {compared}")
    return lines


def _show_intervals(made: pa.Table, better: pa.ChunkedArray) -> pa.Table:
    """Remove the intervals of kinds that are not better than lag / rate."""
    names = ("low_ms", "middle_ms", "high_ms")
    shown = {name: pc.if_else(better, made.column(name), None) for name in names}
    return with_columns(made, shown)


# ---- the ledger ----------------------------------------------------------------------------------


def place_of(ledger: str | Path) -> str:
    """Return the absolute path of a ledger, or its URL."""
    if not isinstance(ledger, str | Path) or not str(ledger):
        raise InputError(f"a ledger of forecasts is a folder: give its path, not {ledger!r}")
    return absolute(ledger)


def read_ledger(place: str, cluster: str | None = None) -> pa.Table:
    """Return the distinct forecasts in a ledger, as `FORECASTS`; none without a ledger.

    A ledger of another ``cluster`` raises an InputError, because its forecasts could never be
    scored.
    """
    found = open_table(place)
    if found is None:
        return schemas.FORECASTS.empty_table()
    require_same(found, place, _NAME, cluster)
    with translate_errors(f"cannot read {place}"):
        rows = found.to_pyarrow_table()
    return _latest(rows.select(schemas.FORECASTS.names).cast(schemas.FORECASTS))


def _latest(rows: pa.Table) -> pa.Table:
    """Return each forecast once, with its score if it has one.

    A ledger is append-only, so that concurrent runs do not conflict: a scored forecast is there
    twice, and one scored by two runs three times.
    """
    is_scored = pc.is_valid(rows.column("outcome"))
    rows = pa.concat_tables([rows.filter(is_scored), rows.filter(pc.invert(is_scored))])
    codes = keys(rows, KEY).dictionary_encode().indices.to_numpy()
    return rows.take(pa.array(np.sort(np.unique(codes, return_index=True)[1])))


def score_due(reading: Reading, kept: pa.Table) -> pa.Table:
    """Score the forecasts that are due at the moment of a reading, within its selection."""
    lag, now = reading.table("lag"), reading.evidence.as_of
    # Forecasts due after the last known ends of logs are scored by a later reading.
    last = pc.max(lag.column("as_of")).as_py() or now
    is_due = pc.less(kept.column("due_at"), pa.scalar(last, schemas.TIMESTAMP))
    due = kept.filter(pc.and_(pc.is_null(kept.column("outcome")), is_due))
    if reading.choice.groups:
        chosen = pa.array(sorted(reading.choice.groups), pa.string())
        due = due.filter(pc.is_in(due.column("group_id"), chosen))
    due = reading.choice.of(due)
    if not due.num_rows:
        return due
    moments, ids = moments_of(due), sorted(pc.unique(lag.column("topic_id")).to_pylist())
    # Arrival times of the oldest records need ends from before the forecasts were made.
    ends = reading.source.past_offsets(ids, moments)
    ends = pa.concat_tables([ends, reading.evidence.past_offsets])
    return score(due, lag, lags_at(reading, ends, moments), ends, milliseconds(now))
