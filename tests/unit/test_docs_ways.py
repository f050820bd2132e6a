"""The table of ways to lag is what test runs saw, and every combination was tried or says why not."""

from __future__ import annotations

import json
from typing import Any

from tools import ways_page

KEPT = json.loads(ways_page.KEPT.read_text("utf-8"))


def test_the_table_is_made_of_what_was_kept() -> None:
    page = ways_page.PAGE.read_text("utf-8")
    assert ways_page.written(page, KEPT) == page, "run `python -m tools.ways_page`"
    assert "not tried" not in ways_page.table(KEPT), "run `make test-versions`"
    assert ways_page.FAILED not in {one["saw"] for one in KEPT}


def seen(pyspark: str, kind: str, way: str, saw: Any, as_of: str = "2026-11-26") -> dict[str, Any]:
    one = {"pyspark": pyspark, "kind": kind, "input": "files", "way": way, "saw": saw}
    return one | {"as_of": as_of}


def test_a_row_has_a_cell_for_each_version_and_kind_of_session() -> None:
    kept = [
        seen("4.10.1", "classic", "functions", 32),
        seen("4.2.1", "Connect", "functions", 32, "2026-11-25"),
        seen("4.2.1", "classic", "functions", ways_page.FAILED),
        seen("4.2.1", "classic", "stream", "needs a jar"),
    ]
    assert ways_page.table(kept).splitlines() == [
        "| records from | way | 4.2 classic | 4.2 Connect | 4.10 classic |",
        "|---|---|---|---|---|",
        "| files | functions | failed | 32 | 32 |",
        "| files | frames | not tried | not tried | not tried |",
        "| files | SQL | not tried | not tried | not tried |",
        "| files | stream | needs a jar | not tried | not tried |",
        "",
        "pyspark 4.10.1, 4.2.1; tried 2026-11-25 to 2026-11-26.",
    ]
