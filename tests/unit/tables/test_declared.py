"""One declaration of a column is all that types, headings, outputs and documentation need."""

import ast
import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag import schemas
from sharelag.charts import palette
from sharelag.metrics.causes import CAUSES
from sharelag.model import DeliveryState
from sharelag.monitoring.checks.judge import CODES
from sharelag.schemas import RAW
from sharelag.tables import arrow, level, report_views, views
from sharelag.tables.declared import format_of, heading_of, lag, meaning_of, unit_of
from sharelag.tables.lines import lines, plain_rows
from sharelag.tables.presentation import Presentation
from sharelag.tables.render import as_html, as_text
from sharelag.tables.table import COLUMNS, Column, Format, Own, Table, View, declare, view
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, STATE_TOPIC, encode_record
from sharelag_widgets import LagTable
from tests.support.command import sharelag as command
from tests.support.records import row
from tools import frames_page, json_schemas
from tools.docs.reference import tables


@pytest.fixture
def longer() -> Iterator[Table]:
    """`lag` with one column more, declared as any other is."""
    column = Column("waiting_ms", Format.DURATION, "time that it waits; null: unknown", "WAITS")
    table = Table("lag", lag.LAG.row, lag.LAG, column, view=lag.LAG.view.after("lag", column.name))
    yield table
    del COLUMNS[column.name]


def rows(table: Table) -> pa.Table:
    """Two rows, with and without a value of the new column."""
    some = [{"group_id": "g", "lag": 3, "waiting_ms": known} for known in (5_000, None)]
    return pa.Table.from_pylist(some, table.schema)


def test_arrow_and_spark_have_its_type(longer: Table) -> None:
    assert longer.schema.remove(len(lag.LAG.columns)).equals(schemas.LAG)
    assert longer.schema.field("waiting_ms").type == pa.int64()
    spark = pytest.importorskip("pyspark.sql.types")
    assert schemas.spark_schema(longer.schema)["waiting_ms"].dataType == spark.LongType()


def test_every_output_has_it(longer: Table) -> None:
    plain = plain_rows(rows(longer))
    heading, known, unknown = lines(plain, "human", longer.view.columns)
    at = heading.index("WAITS")
    assert [r[at : at + 5].strip() for r in (heading, known, unknown)] == ["WAITS", "5 s", "-"]
    assert [json.loads(line)["waiting_ms"] for line in lines(plain, "json")] == [5_000, None]
    (first, second) = csv.DictReader(io.StringIO("\n".join(lines(plain, "csv"))))
    assert (first["waiting_ms"], second["waiting_ms"]) == ("5000", "")


def test_pages_show_and_explain_it(longer: Table) -> None:
    shown = Presentation("Lag", "now", rows(longer), longer.view.columns, "a test")
    assert "WAITS" in as_text(shown)
    page = as_html(shown)
    assert "WAITS" in page
    assert "time that it waits; -: unknown" in page


def test_documentation_has_it(longer: Table) -> None:
    page = "\n".join(frames_page.section(longer))
    assert "| `waiting_ms` | bigint | ms | time that it waits; null: unknown |" in page
    said = {"description": "time that it waits; null: unknown", "type": ["integer", "null"]}
    assert json_schemas.properties(longer.schema)["waiting_ms"] == said


def test_a_table_may_have_a_column_otherwise() -> None:
    named = {"lag": "LAG-HERE"}
    table = Table(
        "sums",
        "a sum",
        "group_id",
        Own("lag", "their sum; null: none is known", pa.float64(), in_view=True),
        Own("topic", type=pa.large_string()),
        view=view("lag topic group_id", {"topic": "all"}, **named),
    )
    assert [str(field.type) for field in table.schema] == ["string", "double", "large_string"]
    found = [column.meaning for column in table.columns[1:]]
    assert found == ["their sum; null: none is known", COLUMNS["topic"].meaning]
    assert table.view.columns == {"LAG-HERE": "lag", "TOPIC": "topic", "GROUP": "group_id"}
    told = table.view.means
    assert told == {"lag": "their sum; -: none is known", "topic": "all", "group_id": "share group"}
    assert COLUMNS["lag"].format is Format.OFFSETS
    assert schemas.LAG.field("lag").type == pa.int64()


def test_a_name_that_nobody_declared_is_refused() -> None:
    with pytest.raises(KeyError, match="of_nobody"):
        Table("some", "a row", "lag of_nobody")


# ---- each column is defined once; everything shown has a heading and a meaning -------------------
ROOT = Path(__file__).parents[3]
VIEWS = {
    f"{room.__name__}.{name}": one
    for room in (views, report_views)
    for name, one in vars(room).items()
    if isinstance(one, View)
}
#: Kafka's own headings, which are read and not shown.
_OTHERS = {"sharelag/cli/options.py", "sharelag/inputs/kafka/described.py"}


def test_what_is_shown_has_a_heading_and_a_meaning() -> None:
    for name, shown in VIEWS.items():
        assert set(shown.names) <= set(COLUMNS), name
        assert len(shown.columns) == len(shown.names), f"{name}: two columns have one heading"
        assert all(heading and shown.means[one] for heading, one in shown.columns.items()), name
        assert {*shown.headings, *shown.meanings} <= set(shown.names), name


def test_a_quantity_has_one_heading_wherever_it_is_shown() -> None:
    glossary = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    quantities = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", glossary, re.MULTILINE)
    assert len(quantities) == 13
    for name, terminal, page in quantities:
        assert (heading_of(name), COLUMNS[name].words) == (terminal, page)
        for where, shown in VIEWS.items():
            if name in shown.names:
                heading = next(text for text, one in shown.columns.items() if one == name)
                assert heading in (terminal, page), (where, name)
    names = [name for name, _, _ in quantities]
    empty = pa.table({name: pa.array([], pa.float64()) for name in names})
    table = LagTable.of(empty, columns=names, keys=["cause"])
    assert table.headings == {name: page for name, _, page in quantities}
    tries = (ROOT / "widgets/sharelag_widgets/dashboards/tries.js").read_text("utf-8")
    assert all(f'["{COLUMNS[name].words}", ' in tries for name in ("age_p95_ms", "drain_ms"))


def test_tables_say_only_what_is_their_own() -> None:
    for name, table in tables().items():
        assert table.row, name
        for column in table.columns:
            common = COLUMNS[column.name]
            assert column.meaning, name
            assert (column.format, column.heading) == (common.format, common.heading), name
        assert set(table.view.meanings) <= set(table.view.names), name


def test_no_column_is_declared_twice() -> None:
    with pytest.raises(ValueError, match="column lag is declared twice"):
        declare(COLUMNS["lag"])


def _second_definitions(path: Path) -> Iterator[int]:
    """Lines of dictionaries from headings to columns, or from columns to meanings."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if not isinstance(node, ast.Dict):
            continue
        pairs = [
            (key.value, value.value)
            for key, value in zip(node.keys, node.values, strict=True)
            if isinstance(key, ast.Constant) and isinstance(value, ast.Constant)
        ]
        headings = [key for key, value in pairs if value in COLUMNS and _is_heading(key)]
        meanings = [key for key, value in pairs if key in COLUMNS and _is_sentence(str(value))]
        if len(headings) > 2 or len(meanings) > 2:
            yield node.lineno


def _is_sentence(text: str) -> bool:
    return len(text.split()) > 2 and "{" not in text


def _is_heading(text: object) -> bool:
    return isinstance(text, str) and text not in COLUMNS and text[:1].isupper()


def test_there_is_no_second_definition() -> None:
    files = [
        path
        for folder in ("sharelag", "widgets", "tools")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if (ROOT / "sharelag" / "tables") not in path.parents
    ]
    found = {
        f"{name}:{line}"
        for path in files
        if (name := path.relative_to(ROOT).as_posix()) not in _OTHERS
        for line in _second_definitions(path)
    }
    assert not found


def test_the_first_columns_are_those_of_kafkas_command() -> None:
    headings = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]
    assert list(views.LAG.columns)[:6] == headings


def test_units_follow_formats() -> None:
    assert (unit_of("age_ms"), unit_of("lag"), unit_of("end_offset")) == ("ms", "offsets", "offset")
    assert (unit_of("arrival_rate"), unit_of("as_of"), unit_of("bytes")) == ("1/s", "UTC", "bytes")
    assert unit_of("group_id") == ""


def test_columns_that_nobody_declared_are_read_by_their_names() -> None:
    assert heading_of("of_somebody_else") == "OF-SOMEBODY-ELSE"
    assert format_of("of_somebody_else") is None
    assert format_of("some_ms") is Format.DURATION
    assert meaning_of("of_somebody_else") == ""


# ---- there is one order of levels, and it has what checks, causes and reports need ---------------
def test_the_order() -> None:
    assert list(level.LEVELS) == ["ok", "note", "unknown", "warning", "critical", "failed"]
    assert (level.worst(["ok", "warning", "unknown"]), level.worst([])) == ("warning", "ok")


def test_all_that_judge_use_it() -> None:
    assert list(CODES) == ["ok", "warning", "critical", "unknown"]
    assert [CODES[name] for name in CODES] == [0, 1, 2, 3]
    assert {cause.severity for cause in CAUSES} <= set(level.SEVERITIES)
    assert tuple(palette.SEVERITIES) == level.SEVERITIES
    assert list(level.CHECKED) == sorted(CODES, key=level.rank, reverse=True)


@pytest.mark.parametrize(
    ("severity", "expected"), [("note", "ok"), ("warning", "warning"), ("critical", "critical")]
)
def test_a_note_needs_nobody(severity: str, expected: str) -> None:
    assert level.outcome(severity) == expected


def test_rule_files_call_a_warning_otherwise() -> None:
    assert (level.of_rule("warn"), level.of_rule("ok")) == ("warning", "ok")


# ---- state 3, Archiving (KIP-1191), is a separate state wherever states are shown ----------------
ARCHIVING = int(DeliveryState.ARCHIVING)


@pytest.fixture(name="raw")
def raw_records(tmp_path: Path) -> Path:
    """A share partition whose offsets 3 and 4 are on their way to a queue."""
    records = [
        encode_record(SHARE_SNAPSHOT, row(0, [])),
        encode_record(SHARE_UPDATE, row(-1, [(0, 2, 2, 1), (3, 4, ARCHIVING, 5), (5, 5, 0, 1)])),
    ]
    rows = [
        {"key": key, "value": value, "topic": STATE_TOPIC, "partition": 0, "offset": offset}
        | {"timestamp": offset, "timestampType": 0}
        for offset, (key, value) in enumerate(records)
    ]
    path = tmp_path / "state.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=RAW), path)
    return path


def test_it_is_decoded_replayed_and_shown_as_it_is(raw: Path) -> None:
    (line,) = command("decode", "--raw", str(raw), "-o", "json").stdout.splitlines()[1:]
    batches = json.loads(line)["value"]["data"]["stateBatches"]
    assert [one["deliveryState"] for one in batches] == [2, ARCHIVING, 0]
    (shown,) = map(
        json.loads, command("windows", "--raw", str(raw), "-o", "json").stdout.split("\n")[:-1]
    )
    assert [run[:3] for run in shown["runs"]] == [[3, 4, ARCHIVING], [5, 5, 0]]
    human = command("windows", "--raw", str(raw)).stdout
    assert "archiving" in human
    picture = command("windows", "--raw", str(raw), "--picture").stdout
    assert "archiving" in picture
    assert palette.KINDS["archiving"].words == "Archiving"


@pytest.mark.parametrize("rows", [0, 2])
def test_one_value_stands_in_each_row(rows: int) -> None:
    """Arrow itself cannot repeat a list 0 times."""
    ids = pa.array(["A" * 22] * rows)
    found = arrow.table_of({"topic_id": ids, "runs": []}, schemas.WINDOWS, pad=True)
    assert found.column("runs").to_pylist() == [[]] * rows
