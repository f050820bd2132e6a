"""Offsets that ``kafka-get-offsets.sh`` printed: ``orders:0:5000``, a line a topic partition."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from sharelag.errors import InputError
from sharelag.sources.texts import read_text

PRINTED_OFFSETS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
)
_LINE = r"^(?P<topic>[^:]+):(?P<partition>\d{1,9}):(?P<offset>\d{1,18})?$"


def read_printed_offsets(path: str | Path) -> pa.Table:
    """Return the offsets of a file; null where the tool printed none.

    Raises
    ------
    InputError
        The file cannot be read, or has another line.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read offsets from {path}: {error}") from error
    lines = pa.array([line.strip() for line in text.splitlines() if line.strip()], pa.string())
    found = pc.extract_regex(lines, _LINE)
    if found.null_count:
        odd = lines.filter(found.is_null())[0].as_py()
        raise InputError(
            f"{path}: {odd[:80]!r} is not TOPIC:PARTITION:OFFSET: give what "
            "kafka-get-offsets.sh --time earliest-local printed"
        )
    offset = pc.struct_field(found, "offset")
    offset = pc.if_else(pc.equal(offset, ""), pa.scalar(None, pa.string()), offset)
    columns = [pc.struct_field(found, "topic"), pc.struct_field(found, "partition"), offset]
    return pa.table(columns, names=PRINTED_OFFSETS.names).cast(PRINTED_OFFSETS)
