"""The demo agrees with Kafka, and makes a report; what pages show in Python runs as it stands."""

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sharelag
from sharelag.cli.demo import CAPTURE
from tests.support import chapters
from tests.support.command import sharelag as command
from tests.support.kafka.describe import parse_describe

#: The commands that need Spark find that of this process.
pytestmark = pytest.mark.usefixtures("spark")
HEADINGS = ["GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "START-OFFSET", "LAG"]
Place = tuple[str, str, int]
ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/how-to/backlog.md", "docs/how-to/why.md"]


def shown(table: str) -> dict[Place, list[str]]:
    """Return leader epoch, start offset and lag of each share partition of a printed table."""
    heading, *lines = [line.split() for line in table.splitlines()]
    assert heading[:6] == HEADINGS
    rows = {(line[0], line[1], int(line[2])): line[3:6] for line in lines}
    assert len(rows) == len(lines)
    return rows


def test_the_chapters_are_printed_as_kafka_printed_them() -> None:
    words = (chapters.CAPTURE / "expected" / "describe.txt").read_text()
    lines = [line.split() for line in words.splitlines() if line and line.split()[:6] != HEADINGS]
    assert len(lines) == len(parse_describe(words)) >= 24
    done = command("lag", "--capture", "chapters", "--engine", "spark", code=0)
    assert shown(done.stdout) == {(one[0], one[1], int(one[2])): one[3:6] for one in lines}


def test_the_demo_is_between_what_kafka_said_before_and_after() -> None:
    done = command("lag", "--capture", "demo", "--engine", "spark", code=0)
    rows = shown(done.stdout)
    before, after = (
        {
            (row["group_id"], row["topic"], row["partition"]): row
            for row in parse_describe((CAPTURE / f"describe_{when}.txt").read_text())
        }
        for when in ("before", "after")
    )
    assert rows.keys() == before.keys() == after.keys()
    moved = 0
    for place, (epoch, start, _) in rows.items():
        first, then = before[place], after[place]
        assert int(epoch) == first["leader_epoch"] == then["leader_epoch"]
        assert (first["start_offset"] or 0) <= int(start) <= (then["start_offset"] or 0)
        moved += first["start_offset"] != then["start_offset"]
    assert moved, "members worked"
    assert re.search(r"28 share partitions, lag 21,238, as of .*, demo, on Spark\n", done.stderr)
    assert [line.split()[5] for line in done.stdout.splitlines()[1:3]] == ["10510", "2011"]


@pytest.mark.parametrize(
    ("engine", "made"),
    [("local", "in one process"), pytest.param("spark", "on Spark", marks=pytest.mark.exhaustive)],
)
def test_the_demo_tells_of_groups_and_of_its_report(engine: str, made: str, tmp_path: Path) -> None:
    done = command("demo", "--engine", engine, "--out", str(tmp_path), code=0)
    headline, table, last, following = done.stdout.split("\n\n")
    groups = sharelag.open("demo", engine=engine).overview()  # which says the same
    assert headline == groups.title
    heading, *rows = [line.split() for line in table.splitlines()]
    assert heading == ["LEVEL", "GROUP", "LAG", "AGE", "CAUSE"]
    assert [(row[0], row[1], int(row[2]), row[-1]) for row in rows] == [
        (r["level"], r["group_id"], r["lag"], r["cause"] or "-") for r in groups.table.to_pylist()
    ]
    assert rows[0][0] == "critical"
    page = tmp_path / "reports" / "daily" / "latest" / "report.html"
    assert last.splitlines()[0] == f"The daily report, critical, made {made}: {page}"
    assert "shipments" in page.read_text("utf-8")
    named = [re.split(r"\s{2,}", line.strip())[0] for line in following.splitlines()[1:]]
    tried = [words.split()[1:] for words in named if "--capture" in words]
    assert (len(tried), named[-2:]) == (3, ["make lab", "the notebooks"])
    # From the first moment on it says what it does, and otherwise only what it has read.
    assert done.stderr.startswith("sharelag: running the notebook of the report daily\n")
    assert done.stderr.endswith(f", demo{', on Spark' * (engine == 'spark')}\n")
    # The report is by that engine, too, and says so.
    assert json.loads(page.with_name("verdict.json").read_text())["engine"] == engine
    assert f"the {engine} engine" in page.read_text("utf-8")
    assert "WARNING" not in done.stderr
    for words in tried:
        assert command(*words).returncode == 0, words


@pytest.mark.parametrize("name", PAGES)
def test_it_runs(name: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text("utf-8"), re.M | re.S)
    exec(compile(code, name, "exec"), {})
    shown = re.findall(r"^\|.*\blag\|$", capsys.readouterr().out, re.MULTILINE)
    assert len(shown) == len(re.findall(r"sql\(.*\.show\(\)", code))
