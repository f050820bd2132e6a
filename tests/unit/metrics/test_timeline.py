"""The lag of the past, made from one history, is what Kafka printed at each moment."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.metrics.timeline import timeline_arrow
from sharelag.replay.history import HISTORY_KEY
from sharelag.sources.inputs import CaptureInput
from sharelag.tables.reasons import NEGATIVE_LAG, RECORDS_MISSING
from tests.support import readings
from tests.support.chapters import CAPTURE
from tests.support.kafka.describe import parse_describe
from tests.support.recorded_moments import MOMENTS, ends

_NOTED = {path: json.loads(path.with_suffix(".json").read_text())["as_of_ms"] for path in MOMENTS}


def moment(path: Any) -> datetime:
    return datetime.fromtimestamp(_NOTED[path] / 1000, UTC)


def noted_ends() -> pa.Table:
    """The end offsets noted at each moment of the recording, as of that moment."""
    tables = []
    for path in MOMENTS:
        table = ends(json.loads(path.with_suffix(".json").read_text()))
        as_of = pa.repeat(pa.scalar(moment(path), schemas.TIMESTAMP), table.num_rows)
        tables.append(table.set_column(table.schema.get_field_index("as_of"), "as_of", as_of))
    return pa.concat_tables(tables)


def test_every_moment_of_the_recording_from_one_history() -> None:
    history = readings.history(CaptureInput(CAPTURE), "local").table.select(schemas.HISTORY.names)
    history = history.sort_by([(name, "ascending") for name in HISTORY_KEY])
    timeline = timeline_arrow(history, noted_ends(), [moment(path) for path in reversed(MOMENTS)])
    assert timeline.schema == schemas.TIMELINE
    compared = 0
    for path in MOMENTS:
        then = timeline.filter(
            pc.equal(timeline.column("as_of"), pa.scalar(moment(path), schemas.TIMESTAMP))
        )
        ours = sorted(
            (row["group_id"], row["topic"], row["partition"], row["start_offset"], row["lag"])
            for row in then.to_pylist()
        )
        theirs = sorted(
            (row["group"], row["topic"], row["partition"], row["start_offset"], row["lag"])
            for row in parse_describe(path.read_text())
        )
        assert ours == theirs
        compared += len(ours)
    assert compared > 100


def test_what_is_not_known_is_null_with_a_reason() -> None:
    history = readings.history(CaptureInput(CAPTURE), "local").table.select(schemas.HISTORY.names)
    history = history.sort_by([(name, "ascending") for name in HISTORY_KEY])
    when = pc.max(history.column("record_timestamp")).as_py()
    (no_ends,) = {
        row["lag_reason"]
        for row in timeline_arrow(history, noted_ends(), [when + timedelta(hours=1)]).to_pylist()
        if row["start_offset"] is not None
    }
    assert no_ends == "no_end_offset_then"
    partial = history.set_column(
        history.schema.get_field_index("from_snapshot"),
        "from_snapshot",
        pa.repeat(False, history.num_rows),
    )
    rows = timeline_arrow(partial, noted_ends(), [moment(MOMENTS[-1])]).to_pylist()
    assert {(row["lag"], row["lag_reason"]) for row in rows} == {(None, RECORDS_MISSING)}
    ends = noted_ends()
    early = ends.set_column(
        ends.schema.get_field_index("end_offset"), "end_offset", pa.repeat(0, ends.num_rows)
    )
    rows = timeline_arrow(history, early, [moment(MOMENTS[-1])]).to_pylist()
    finished = [row for row in rows if row["start_offset"]]
    assert {(row["lag"], row["lag_reason"]) for row in finished} == {(None, NEGATIVE_LAG)}
    before = pc.min(history.column("record_timestamp")).as_py() - timedelta(milliseconds=1)
    assert timeline_arrow(history, noted_ends(), [before]).num_rows == 0
    assert timeline_arrow(history.slice(0, 0), noted_ends(), [when]).num_rows == 0
