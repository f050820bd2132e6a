"""Read records back that Kafka's tools printed: JSON of its formatters, text of its log dump.

``kafka-console-consumer.sh`` with the formatter of share group state, or of groups, prints objects
one after another, without a newline between; ``kafka-dump-log.sh --share-group-state-decoder``
prints a line a record. Both are made records again, byte for byte as Kafka writes them. What
``sharelag decode -o json`` prints is read, too. Log lines between records are passed over, and what
is neither they nor a record is a reject.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.files.printed_records import (
    NotPrintedError,
    Printed,
    number,
    regular_lines,
    regular_records,
    take_lines_apart,
    text,
)
from sharelag.inputs.files.raw_files import first_bytes
from sharelag.inputs.files.text_pieces import LEVEL, unwrap_lines
from sharelag.inputs.texts import OTHERS, read_text, text_of
from sharelag.tables.arrow import one_batch
from sharelag.wire.fields import STATE_TOPIC

_DUMP = "Dumping "
_SEGMENT = re.compile(r"\d+\.\w")
#: How an object begins, which a group's id cannot look like: its quotation marks are escaped.
_BEGIN = re.compile(r'\{\s*"(?:key|reject)"\s*:')
#: What is before the objects of a consumer that prints where a record is.
_WHERE = re.compile(r"(?:CreateTime:-?\d+\t)?Partition:(\d{1,9})\tOffset:(\d{1,18})\t$")
#: What a consumer says at its end, and what is between the objects of a list.
_ENDS, _OF_LIST = "Processed a total of", ("[", "]", ",")
#: A line of another program, maybe behind the name of its container; no end of a record.
_OF_OTHERS = re.compile(
    rf'(?:[^\s{{}}"]{{1,200}}\s{{1,9}}){{0,12}}?(?:\[\d{{4}}-|{OTHERS.pattern})'
)
#: What the end of a record has that was cut, before any other object.
_OF_RECORD = re.compile(r'"\w+":|\}$')
_PLACES = ("CreateTime:", "Partition:", "Offset:")
#: Characters that may be read again, for each of a text, because an object is not whole and
#: another may begin in it; and how many an object counts that does not say where it breaks.
_AGAIN, _UNKNOWN = 64, 10_000
#: Characters of objects, and lines of a dump, that are read at once.
_PIECE, _LINES = 1 << 20, 4096
#: Bytes of a file in which the first record has to begin.
_LOOK = 1 << 16

_Row = dict[str, Any]


def is_printed(path: Path) -> bool:
    """Whether a file holds what Kafka's tools print of records, maybe behind lines of a log."""
    begin = first_bytes(path, _LOOK)
    if begin.startswith(b"PAR1"):
        return False
    text = _plain(begin)
    return text.startswith("{") or bool(_dump_begins(text) or _BEGIN.search(text))


def read_printed(path: Path) -> pa.RecordBatch:
    """Read what Kafka's tools printed, as `sharelag.schemas.RAW` of both topics, in their order.

    The formatters print neither partition nor offset: such records count up from 0 in partition 0,
    without a time. Text that is not a whole record becomes a record without a key, and is read on
    at the next object or line. It is an InputError if nothing of the text is what Kafka's tools
    print, or objects that are not whole are so deep in each other that reading them would take a
    time that nobody waits for.
    """
    text = _plain(path.read_bytes())
    batches: list[pa.RecordBatch] = []
    rows: list[_Row] = []
    errors, is_any_whole = [], False
    for found in _read_dump(text) if _dump_begins(text) else _read_objects(text, path):
        if isinstance(found, pa.RecordBatch):
            batches += [_batch(rows), found]
            rows, is_any_whole = [], True
        else:
            row, error = found
            rows.append(row | {"timestampType": 0})
            errors.append(error)
    if errors and all(errors) and not is_any_whole:
        raise InputError(
            f"{path} is not what Kafka's formatters print of share group records ({errors[0]}): "
            "give the output of kafka-console-consumer.sh or kafka-dump-log.sh"
        )
    if text and not is_any_whole and not errors:
        raise InputError(
            f"no line of {path} has a record: give the output of kafka-console-consumer.sh with a "
            "formatter of share group records, or of kafka-dump-log.sh"
        )
    return one_batch(pa.Table.from_batches([*batches, _batch(rows)]))


def _batch(rows: list[_Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)


def _plain(octets: bytes) -> str:
    # Not splitlines: a group's id may have what Unicode takes for the end of a line.
    lines = unwrap_lines(pa.array(text_of(octets, "replace").split("\n"), pa.string()))
    return "\n".join(lines.to_pylist()).lstrip()


def _dump_begins(text: str) -> bool:
    found = re.search(rf"^{_DUMP}", text, re.MULTILINE)
    first = _BEGIN.search(text)
    return found is not None and (first is None or found.start() < first.start())


def _read_objects(text: str, path: Path) -> Iterator[pa.RecordBatch | tuple[_Row, str]]:
    """Yield the records of a piece, or one row per object, with its fault.

    Most pieces are read at once; of those that cannot be, and where records of Kafka 4.0 have been
    seen, each object is read for itself. Log lines are passed over.
    """
    decoder, printed = json.JSONDecoder(), Printed()
    at, count, again, careful = 0, 0, _AGAIN * (len(text) + _UNKNOWN), 0
    while at < len(text):
        if at >= careful:
            careful = _next(text, at + _PIECE)
            if not printed.has_kafka_4_0:
                batch = regular_records(text[at:careful], count)
                if batch is not None:
                    yield batch
                    at, count = careful, count + batch.num_rows
                    continue
        begin = text.find("{", at)
        between = text[at : len(text) if begin < 0 else begin]
        words = between.rpartition("\n")[2].strip()
        if not all(map(_is_logged, between.split("\n"))):
            begin = _next(text, at)
            yield _reject(text[at:begin], count), f"{text[at:begin][:40]!r} is not an object"
        elif begin < 0:
            return
        elif words not in _OF_LIST and _is_of_others(words):  # a log's, with an object in it
            end = text.find("\n", begin)
            begin, count = len(text) if end < 0 else end, count - 1
        else:
            where = _WHERE.search(between)
            place = {"partition": int(where[1]), "offset": int(where[2])} if where else {}
            try:
                found, end = decoder.raw_decode(text, begin)
                row, error = _row(found, count, printed) | place, ""
            except (ValueError, RecursionError) as bad:  # also of more digits than Python reads
                end = _next(text, begin + 1)
                error = "too many brackets" if isinstance(bad, RecursionError) else str(bad)
                row = _reject(text[begin:end], count) | place
                again -= (
                    max(bad.pos - end, 0) if isinstance(bad, json.JSONDecodeError) else _UNKNOWN
                )
                if again < 0:
                    raise InputError(
                        f"{path} has objects in objects that are not whole, which Kafka's "
                        "formatters do not print: give the output of kafka-console-consumer.sh"
                    ) from bad
            except NotPrintedError as bad:
                row, error = _reject(text[begin:end], count) | place, str(bad)
            yield row, error
            begin = end
        at, count = begin, count + 1


def _is_logged(line: str) -> bool:
    """Whether a line, or the part of it that precedes an object, is passed over."""
    words = line.strip()
    if not words or words in _OF_LIST or words.startswith(_ENDS) or _is_of_others(words):
        return True
    return words.startswith(_PLACES) and "\t" in line[len(line.rstrip()) :]


def _is_of_others(words: str) -> bool:
    """Whether another program wrote a line, and without a level no end of a record is in it."""
    if words[:1] != "[" and not _OF_OTHERS.match(words):
        return False
    return re.match(LEVEL, words) is not None or not _OF_RECORD.search(words)


def _next(text: str, at: int) -> int:
    found = _BEGIN.search(text, at)
    return found.start() if found else len(text)


def _reject(text: str, count: int) -> _Row:
    place = {"topic": STATE_TOPIC, "partition": 0, "offset": count}
    return place | {"key": None, "value": text.encode()}


def _row(found: Any, count: int, printed: Printed) -> _Row:
    if "reject" in found:
        topic, (key, value) = STATE_TOPIC, printed.encode_reject(found["reject"])
    else:
        topic, key, value = printed.encode(found.get("key"), found.get("value"))
    partition = number(found.get("partition", 0), "partition", "int32")
    offset = number(found.get("offset", count), "offset", "int64")
    named = text(found.get("topic") or topic, "topic")
    return {"topic": named, "partition": partition, "offset": offset, "key": key, "value": value}


def _read_dump(text: str) -> Iterator[pa.RecordBatch | tuple[_Row, str]]:
    """Yield the records of some lines, or one row per line; other lines are about batches."""
    place: _Row = {"topic": STATE_TOPIC, "partition": 0}
    printed = Printed()
    lines: list[str] = []
    for line in text.split("\n"):
        is_file = line.startswith(_DUMP)
        if is_file or len(lines) == _LINES:
            yield from _of_lines(lines, place, printed)
            lines = []
        if is_file:
            file = _segment(line)
            if file is None:
                raise InputError(
                    f"{line[:200]!r} does not name a segment, such as {STATE_TOPIC}-3/"
                    "00000000000000000000.log: give the whole output of kafka-dump-log.sh"
                )
            place = file
        elif line.startswith("| offset: "):
            lines.append(line)
    yield from _of_lines(lines, place, printed)


def _of_lines(
    lines: list[str], place: _Row, printed: Printed
) -> Iterator[pa.RecordBatch | tuple[_Row, str]]:
    """Yield the records of lines of one segment, or one row per line, with its fault."""
    parts = take_lines_apart(lines)
    batch = None if printed.has_kafka_4_0 or not lines else regular_lines(parts, **place)
    if batch is not None:
        yield batch
        return
    for line, offset, time, found in zip(lines, *(one.to_pylist() for one in parts), strict=True):
        row, error = place | {"offset": offset, "key": None, "value": line.encode()}, ""
        try:
            if found is None:
                raise NotPrintedError(
                    "a line without time, key and payload: dump with --share-group-state-decoder"
                )
            read = json.loads(found)
            _, key, value = printed.encode(read["key"], read["value"])
            row |= {"timestamp": time, "key": key, "value": value}
        except (NotPrintedError, ValueError, RecursionError) as bad:
            error = str(bad)
        yield row, error


def _segment(line: str) -> _Row | None:
    """Return the topic and partition that the first segment of a path is of."""
    parts = re.split(r"[/\\]", line.removeprefix(_DUMP))
    for folder, file in pairwise(parts):
        topic, _, partition = folder.rpartition("-")
        if topic and partition.isdecimal() and len(partition) <= 9 and _SEGMENT.match(file):
            return {"topic": topic, "partition": int(partition)}
    return None


# ---- offsets ------------------------------------------------------------------------------------


PRINTED_OFFSETS = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())]
)
_OFFSET_LINE = r"^(?P<topic>[^:]+):(?P<partition>\d{1,9}):(?P<offset>\d{1,18})?$"


def read_printed_offsets(path: str | Path) -> pa.Table:
    """Return the offsets that ``kafka-get-offsets.sh`` printed: ``orders:0:5000``, one per line.

    Null where the tool printed none. A file that cannot be read, or has another line, is an
    InputError.
    """
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read offsets from {path}: {error}") from error
    lines = pa.array([line.strip() for line in text.splitlines() if line.strip()], pa.string())
    found = pc.extract_regex(lines, _OFFSET_LINE)
    if found.null_count:
        odd = lines.filter(found.is_null())[0].as_py()
        raise InputError(
            f"{path}: {odd[:80]!r} is not TOPIC:PARTITION:OFFSET: give what "
            "kafka-get-offsets.sh --time earliest-local printed"
        )
    columns = [pc.struct_field(found, name) for name in PRINTED_OFFSETS.names]
    columns[2] = pc.if_else(pc.equal(columns[2], ""), None, columns[2])
    return pa.table(columns, names=PRINTED_OFFSETS.names).cast(PRINTED_OFFSETS)
