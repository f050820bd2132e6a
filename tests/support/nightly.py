"""Ten nights of two share groups, and notebook runs without a kernel, for many fast runs."""

import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat
import pyarrow as pa
from nbformat.v4 import new_code_cell, new_notebook, new_output

from sharelag import schemas
from sharelag.errors import ShareLagError
from sharelag.inputs.files import archive as views
from sharelag.inputs.files.archive import OFFSETS, RECORDS, begin, write_parquet
from sharelag.inputs.files.captures import CaptureInfo, write_capture
from sharelag.inputs.kafka.config import client_config
from sharelag.reports import Report, cells, report
from sharelag.reports.blocks import VERDICT_MIME
from sharelag.reports.execute import Executed
from sharelag.wire import SHARE_SNAPSHOT, STATE_TOPIC, encode_record
from tests.support.records import row

NIGHTS = 10
FIRST = datetime(2026, 6, 1, 3, 0, tzinfo=UTC)
TOPIC, TOPIC_ID = "orders", "A" * 22
#: From and to which night one offset of `billing` holds the start offset back.
HELD_FROM, HELD_TO = 5, 8
#: What arrives each day, and how much of it each group finishes.
DAILY, FINISHED = 1000, {"billing": 1000, "shipping": 900}


def night(number: int) -> datetime:
    """When the report of a night is made, from 0."""
    return FIRST + timedelta(days=number)


def lag_of(group: str, number: int) -> int:
    """The lag that Kafka would report that night."""
    if group == "billing" and HELD_FROM <= number < HELD_TO:
        return DAILY * (number + 1) - start_of(group, number) - 50
    return DAILY * (number + 1) - start_of(group, number)


def start_of(group: str, number: int) -> int:
    """The start offset that night; while an offset is held it stays."""
    last = min(number, HELD_FROM - 1) if group == "billing" and number < HELD_TO else number
    return FINISHED[group] * (last + 1) - 100


def record_nights(folder: Path) -> Path:
    """Write a capture of all nights: a snapshot per group an hour before each report, and ends."""
    offsets = [_ends(number) for number in range(NIGHTS)]
    tables = {"offsets": offsets[-1], "past_offsets": pa.concat_tables(offsets[:-1])}
    info = CaptureInfo("a-month", night(NIGHTS - 1), {STATE_TOPIC: 1})
    write_capture(folder, [_records(number) for number in range(NIGHTS)], lambda _: (tables, info))
    return folder


def begin_archive(folder: Path) -> Path:
    """Begin an archive that holds nothing yet."""
    begin(folder, "a-month", {STATE_TOPIC: [0]}, client_config("b:1"))
    return folder


def add_night(folder: Path, number: int) -> None:
    """Add a night to an archive: its records, and a sample of the ends."""
    day = f"{night(number):%Y-%m-%d}"
    records = pa.Table.from_batches([_records(number)])
    files = {
        f"{RECORDS}/source={STATE_TOPIC}/day={day}/{number:012d}-00000.parquet": _aside(
            folder, records
        ),
        f"{OFFSETS}/day={day}/{number:020d}.parquet": _aside(folder, _ends(number)),
    }
    assert views.commit(folder, files, batch=number, day=day)


def _aside(folder: Path, table: pa.Table) -> Path:
    path = views.staging(folder, secrets.token_hex(4)) / "file.parquet"
    write_parquet(path, table.schema, table.to_batches())
    return path


def _records(number: int) -> pa.RecordBatch:
    at = night(number) - timedelta(hours=1)
    rows = []
    for place, group in enumerate(FINISHED):
        held = group == "billing" and HELD_FROM <= number < HELD_TO
        start = start_of(group, number)
        batches = [(start + 1, start + 50, 2, 1)] if held else []
        state = row(
            *(start, batches),
            group_id=group,
            topic_id=TOPIC_ID,
            snapshot_epoch=number,
            create_timestamp=_ms(FIRST),
            write_timestamp=_ms(at),
            delivery_complete_count=50 * len(batches),
        )
        key, value = encode_record(SHARE_SNAPSHOT, state)
        offset = number * len(FINISHED) + place
        rows.append(
            {"key": key, "value": value, "topic": STATE_TOPIC, "partition": 0, "offset": offset}
            | {"timestamp": at, "timestampType": 0}
        )
    return pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)


def _ends(number: int) -> pa.Table:
    known: dict[str, Any] = {"topic": TOPIC, "topic_id": TOPIC_ID, "partition": 0}
    known |= {"log_start_offset": 0, "end_offset": DAILY * (number + 1), "as_of": night(number)}
    return pa.Table.from_pylist([known], schema=schemas.OFFSETS)


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def daily(
    capture: Path, out: Path, name: str = "daily", given: Any = None, **options: Any
) -> Report:
    """Make a report of a capture in this process, without pictures, unless options say more."""
    parameters = {"capture": str(capture), "engine": "local"} | (given or {})
    made: dict[str, Any] = {"figures": False, "run": without_kernel} | options
    return report(name, parameters, out, **made)


def without_kernel(
    path: Path,
    out: Path,
    parameters: Mapping[str, Any],
    properties: Mapping[str, str],
    known: frozenset[str],
) -> Executed:
    """What the daily notebook does up to its verdict, in this process."""
    error, outputs = None, []
    try:
        result = cells.verdict(cells.read(**parameters))
        shown = cells.headline(result)._repr_mimebundle_()
        changes = new_output("display_data", {"text/html": cells.changes(result).html})
        outputs = [new_output("execute_result", shown), changes]
        assert shown[VERDICT_MIME] == result
    except ShareLagError as failed:
        error = str(failed)
    made = new_notebook(cells=[new_code_cell("cells.headline(told)", outputs=outputs)])
    nbformat.write(made, out)
    return Executed(made, error)
