"""The demo agrees with Kafka, and makes a report of it."""

from __future__ import annotations

import re
from pathlib import Path

from sharelag.cli.demo import CAPTURE
from tests.support.command import sharelag
from tests.support.kafka.describe import parse_describe

HEADINGS = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]


def recorded() -> list[tuple[str, ...]]:
    """Kafka's own words at the moment of the recording, sorted as we sort."""
    lines = (CAPTURE / "expected" / "describe.txt").read_text().splitlines()
    rows = [tuple(line.split()) for line in lines if line and not line.startswith("GROUP")]
    assert len(rows) == len(parse_describe("\n".join(lines))) >= 24
    return sorted(rows, key=lambda row: (row[0], row[1], int(row[2])))


def test_the_demo_prints_what_kafka_printed_row_for_row_and_names_its_report(
    tmp_path: Path,
) -> None:
    done = sharelag("demo", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    table, last, following = done.stdout.split("\n\n")
    heading, *lines = table.splitlines()
    assert heading.split()[:6] == HEADINGS
    assert [tuple(line.split()[:6]) for line in lines] == recorded()
    page = tmp_path / "reports" / "daily" / "latest" / "report.html"
    assert last.startswith("The daily report, ")
    assert last.splitlines()[0].endswith(f": {page}")
    assert "shipments" in page.read_text("utf-8")
    named = [re.split(r"\s{2,}", line.strip())[0] for line in following.splitlines()[1:]]
    tried = [words.split()[1:] for words in named if "--capture" in words]
    assert len(tried) == 2
    for words in tried:
        assert sharelag(*words).returncode == 0, words
