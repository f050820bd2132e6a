"""One declaration of a column is all that types, headings, outputs and documentation need."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.tables.declared import lag
from sharelag.tables.lines import lines, plain_rows
from sharelag.tables.presentation import Presentation
from sharelag.tables.render import as_html, as_text
from sharelag.tables.table import COLUMNS, Column, Format, Own, Table, view
from tools import frames_page, json_schemas


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
    assert [line[at : at + 5].strip() for line in (heading, known, unknown)] == [
        "WAITS",
        "5 s",
        "-",
    ]
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
    assert json_schemas.properties(longer.schema)["waiting_ms"] == {
        "description": "time that it waits; null: unknown",
        "type": ["integer", "null"],
    }


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
    assert [column.meaning for column in table.columns[1:]] == [
        "their sum; null: none is known",
        COLUMNS["topic"].meaning,
    ]
    assert table.view.columns == {"LAG-HERE": "lag", "TOPIC": "topic", "GROUP": "group_id"}
    assert table.view.means == {
        "lag": "their sum; -: none is known",
        "topic": "all",
        "group_id": "share group",
    }
    assert COLUMNS["lag"].format is Format.OFFSETS
    assert schemas.LAG.field("lag").type == pa.int64()


def test_a_name_that_nobody_declared_is_refused() -> None:
    with pytest.raises(KeyError, match="of_nobody"):
        Table("some", "a row", "lag of_nobody")
