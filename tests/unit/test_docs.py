"""The documentation: links lead somewhere, names exist, made pages are up to date."""

import ast
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import sharelag
from sharelag import gather
from sharelag.cli import cli
from sharelag.engine.spark.reading import TABLES
from sharelag.inputs import CaptureInput
from sharelag.inputs.files import parquet, printed, segments, text_pieces
from sharelag.inputs.recorded import CAPTURES
from sharelag.metrics.causes import CAUSES
from sharelag.model import DeliveryState
from sharelag.monitoring import exports
from sharelag.monitoring.checks import rules
from sharelag.monitoring.exports import Gathered, registry_of
from sharelag.reports import notebooks
from sharelag.schemas import spark_schema
from sharelag.whatif import scenario
from sharelag.whatif.consumer_group import RUNS
from sharelag.whatif.simulation.tables import SUMMARY
from tests.support.chapters import CAPTURE
from tools import frames_page, reliability_page, ways_page

ROOT = Path(__file__).parents[2]
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "data" / "README.md"})
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_IMAGE = re.compile(r'(?:src|srcset)="([^"]+)"')
_CODE = re.compile(r"^```.*?^```|^(?: {4}[^\n]*\n)+", re.MULTILINE | re.DOTALL)


def text_of(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", _CODE.sub("", path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", one.lower()).strip().replace(" ", "-") for one in headings}


def commands(text: str) -> Iterator[list[str]]:
    """Command lines in code blocks, without comments and continued lines joined."""
    for block in _CODE.findall(text):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip().startswith("sharelag "):
                yield shlex.split(line, comments=True)[1:]


def test_the_readme_is_short() -> None:
    before, _, rest = text_of("README.md").partition("<!-- figures -->")  # a run writes these
    assert len((before + rest.partition("<!-- end of figures -->")[2]).split()) < 700
    assert len(_IMAGE.findall(text_of("README.md"))) == 2  # one picture, light and dark


def links() -> Iterator[tuple[str, str]]:
    """Every page's links to other pages, files and places within them."""
    for name in NAMES:
        text = _CODE.sub("", text_of(name))
        yield from ((name, link) for link in (*_LINK.findall(text), *_IMAGE.findall(text)))


def test_links_lead_somewhere() -> None:
    for name, link in links():
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), (name, link)
        assert not anchor or anchor in anchors(target), (name, link)


def test_commands_take_these_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rules.yaml").write_text("{}")
    (tmp_path / "mine.py").write_text("assign = dict")
    for jar in ("mine.jar", "kafka-group-coordinator-4.4.0.jar"):
        (tmp_path / jar).touch()
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    monkeypatch.setattr("sharelag.whatif.assignors.registry.ASSIGNORS", {})
    monkeypatch.chdir(tmp_path)
    for arguments in (line for name in NAMES for line in commands(text_of(name))):
        arguments = arguments[: next((i for i, a in enumerate(arguments) if a == ">"), None)]
        command: click.Command = cli
        context = click.Context(cli, info_name="sharelag")
        while isinstance(command, click.Group) and arguments[0] in command.commands:
            command = command.commands[arguments[0]]
            context = click.Context(command, parent=context, info_name=arguments[0])
            arguments = arguments[1:]
        if "--example" not in arguments:  # which prints and ends
            command.parse_args(context, list(arguments))


def test_python_names_what_exists() -> None:
    for page in NAMES:
        code = re.findall(r"^```python\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)
        for node in (node for part in code for node in ast.walk(ast.parse(part))):
            is_name = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            if is_name and node.value.id == "sharelag":  # type: ignore[attr-defined]
                assert node.attr in dir(sharelag), page  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "README.md"])
def test_files_it_names_exist(name: str) -> None:
    room = r"`((?:sharelag|tests|docs|tools|notebooks|data|widgets|benchmarks)/[\w./-]*)`"
    assert not [path for path in re.findall(room, text_of(name)) if not (ROOT / path).exists()]


def test_tests_that_promises_of_security_name_exist() -> None:
    named = set(re.findall(r"`(?:[\w/]+/)?(test_\w+\.py)`", text_of("SECURITY.md")))
    assert len(named) > 20
    assert named - {path.name for path in (ROOT / "tests").rglob("test_*.py")} == set()


def measured_by(test: str, names: str) -> tuple[int, int]:
    """The two numbers with these names in a test module, which no other one imports."""
    (found,) = re.findall(rf"^{names} = (\d+), (\d+) << (\d+)$", text_of(test), re.MULTILINE)
    a_byte, number, bits = map(int, found)
    return a_byte, number << bits


def test_the_bounds_of_security_are_those_that_are_held() -> None:
    raw, raw_least = measured_by("tests/unit/wire/test_mutated.py", "MOST, LEAST")
    text, text_least = measured_by(
        "tests/unit/inputs/test_damaged.py", "MOST_BYTES_A_BYTE, LEAST_BYTES"
    )
    rows, octets = f"{parquet._ROWS_A_BYTE} rows", f"{parquet._BYTES_A_BYTE:,} bytes"
    small = f"a million rows or {parquet._SMALL_BYTES >> 20} MiB"
    assert parquet._SMALL_ROWS == 1_000_000
    packed, line = text_pieces._MOST_PACKED >> 20, text_pieces.MOST_LINE >> 20
    held = {
        "memory while raw records are decoded": (
            f"{raw} bytes for each byte of its input, and {raw_least >> 20} MiB"
        ),
        "Parquet": (
            f"{rows} or {octets} for each of its bytes, beyond {small}; "
            f"tables of captures: {parquet.TABLE_BYTES >> 30} GiB, and as many values in lists as "
            "rows, by the count of the footer"
        ),
        "compressed batches of segments": f"{segments.MOST_BYTES >> 20} MiB without compression",
        "packed logs": (
            f"{text_pieces._MOST_BYTES_A_BYTE} bytes for each of its bytes, beyond {packed} MiB; "
            f"lines: {line} MiB"
        ),
        "what Kafka's tools printed": f"{printed._AGAIN} times as much reading as it is long",
        "memory while rules, scenarios, client settings, metrics and printed texts are read": (
            f"{text} bytes for each byte of the text, and {text_least >> 20} MiB"
        ),
        "rule files and parameters of reports": (
            f"{rules._MOST_CHARACTERS:,} characters, and {rules._MOST_VALUES:,} "
            "values, with each alias counted as what it stands for"
        ),
        "scenarios": (
            f"{scenario.MOST_PARTITIONS:,} partitions, {scenario._MOST_MEMBERS:,} members"
        ),
        "connections of `export serve`": f"{exports._MOST_CONNECTIONS}: the oldest gives way",
    }
    told = (
        text_of("SECURITY.md").partition("| What | At most |\n|---|---|\n")[2].partition("\n\n")[0]
    )
    assert dict(re.findall(r"^\| (.*?) \| (.*) \|$", told, re.MULTILINE)) == held


def test_files_of_the_architecture_exist() -> None:
    """Files are named without their room there, so they may be anywhere."""
    git = ["git", "ls-files"]
    known = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    names = {path.rpartition("/")[2] for path in known}
    named = re.findall(r"`[\w/.]*?(\w+\.py)", text_of("ARCHITECTURE.md"))
    assert len(named) > 100
    assert sorted(set(named) - names) == []


def test_every_page_is_found_from_the_first() -> None:
    seen: set[Path] = set()
    todo = [ROOT / "README.md"]
    while todo:
        page = todo.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        links = (link.partition("#")[0] for link in _LINK.findall(page.read_text("utf-8")))
        todo += [(page.parent / link).resolve() for link in links if "://" not in link and link]
    assert {page.resolve() for page in PAGES} <= seen


def test_the_number_of_causes_is_true() -> None:
    paths = CAPTURES.glob("scenarios/*/expected.json")
    recorded = {json.loads(path.read_text("utf-8"))["cause"] for path in paths} - {None}
    assert (len(CAUSES), len(recorded)) == (21, 15)
    assert "twenty-one causes; fifteen are tested on recordings" in text_of("README.md")


TABLES_PAGE = frames_page.PAGE.read_text("utf-8")
_ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| ([^|]*) \| ([^|]+) \|$", re.MULTILINE)


def columns_of(table: str) -> list[tuple[str, str]]:
    """Columns and types of one table, as the page has them, each with a meaning."""
    section = TABLES_PAGE.partition(f"\n### {table}\n")[2].partition("\n### ")[0]
    return [(name, kind) for name, kind, _, meaning in _ROW.findall(section) if meaning.strip()]


@pytest.mark.parametrize("table", TABLES)
def test_the_page_of_tables_has_every_column(table: str) -> None:
    fields = spark_schema(TABLES[table].schema).fields
    assert columns_of(table) == [(field.name, field.dataType.simpleString()) for field in fields]
    assert f"One row is {TABLES[table].row}." in TABLES_PAGE


def test_the_page_of_tables_is_up_to_date() -> None:
    assert frames_page.page(TABLES_PAGE) == TABLES_PAGE, "run `python tools/frames_page.py`"


@pytest.mark.parametrize("place", ["README.md", "docs/README.md"])
def test_the_page_of_tables_is_found(place: str) -> None:
    assert "frames.md" in (ROOT / place).read_text("utf-8")


WAYS = json.loads(ways_page.KEPT.read_text("utf-8"))


def test_the_table_of_ways_is_made_of_what_was_kept() -> None:
    page = ways_page.PAGE.read_text("utf-8")
    assert ways_page.written(page, WAYS) == page, "run `python -m tools.ways_page`"
    assert "not tried" not in ways_page.table(WAYS), "run `make test-versions`"
    assert ways_page.FAILED not in {one["saw"] for one in WAYS}


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


def test_the_page_of_faults_is_made_of_what_was_kept() -> None:
    kept = json.loads(reliability_page.KEPT.read_text("utf-8"))
    page = reliability_page.PAGE.read_text("utf-8")
    assert reliability_page.written(page, kept) == page, "run `python -m tools.reliability_page`"
    assert not [name for name, one in kept.items() if not one["passed"]]
    faults = [fault for one in kept.values() for fault in one["faults"]]
    assert [fault for fault in faults if fault["lost"] or fault["wrong"]] == []
    assert all(map(reliability_page._is_there, kept)), "run `python -m tools.reliability_page`"
    assert not reliability_page._is_there("tests/unit/test_docs.py::test_gone[1]")


def fault(area: str = "brokers", **more: Any) -> dict[str, Any]:
    plain = {"times": 2, "lost": 0, "wrong": 1, "happened": {}, "measured": {}}
    return plain | {"area": area, "fault": "a | b"} | more


def test_the_same_fault_of_two_tests_is_one_row() -> None:
    kept = {
        "a": {
            "as_of": "2026-11-23",
            "passed": True,
            "faults": [fault(happened={"whole answers": 1_000}, measured={"s": 0.5})],
        },
        "b": {
            "as_of": "2026-11-24",
            "passed": False,
            "faults": [fault(lost=3, happened={"whole answers": 2, "none": 0}, measured={"s": 2})],
        },
    }
    text = reliability_page.tables(kept)
    assert "| a \\| b | 4 | 1,002 whole answers; at most 2 s | 3 | 2 |" in text
    words = "4 faults by 2 tests, which ran from 2026-11-23 to 2026-11-24; 1 of them failed: b."
    assert words in text
    unknown = {"a": kept["a"] | {"faults": [fault(wrong=None), fault()]}}
    assert "| a \\| b | 4 |  | 0 | not measured |" in reliability_page.tables(unknown)
    with pytest.raises(SystemExit, match="unknown area 'brokes': choose one of brokers"):
        reliability_page.tables({"a": kept["a"] | {"faults": [fault("brokes")]}})


@pytest.mark.parametrize(
    ("happened", "measured", "text"),
    [
        ({"scrapes without numbers": 1}, {}, "1 scrape without numbers"),
        ({"whole answers": 1}, {}, "1 whole answer"),
        ({"answers like Kafka's": 1}, {}, "1 answer like Kafka's"),
        ({"refusals with what is missing": 2}, {}, "2 refusals with what is missing"),
        ({}, {"seconds after the timeout": 1}, "at most 1 second after the timeout"),
        ({}, {"seconds after the timeout": 1.2}, "at most 1.2 seconds after the timeout"),
        ({}, {"more threads": -8}, "no more threads"),
        ({}, {"more handles": 1}, "at most 1 more handle"),
        ({}, {"more KiB of memory": 0.5}, "at most 0.5 more KiB of memory"),
    ],
)
def test_counts_in_english(happened: dict[str, int], measured: dict[str, float], text: str) -> None:
    one = {"as_of": "2026-11-23", "passed": True}
    one |= {"faults": [fault(happened=happened, measured=measured)]}
    assert f"| 2 | {text} | 0 |" in reliability_page.tables({"a": one})


def ran(times: int, passed: bool = True, name: str = "a") -> dict[str, Any]:
    return {"as_of": "2026-11-23", "passed": passed, "faults": [fault(fault=name, times=times)]}


def test_a_shorter_run_of_faults_replaces_no_longer_one() -> None:
    before = {"long": ran(30), "short": ran(4), "failed": ran(30, passed=False), "other": ran(30)}
    new = {"long": ran(4), "short": ran(30), "failed": ran(4), "other": ran(4, name="b")}
    kept = reliability_page.with_new(before, new | {"new": ran(1)})
    assert kept == new | {"long": before["long"], "new": ran(1)}
    failed = {"long": ran(4, passed=False)}
    assert reliability_page.with_new(before, failed)["long"] == failed["long"]
    nothing = {"long": ran(4, passed=False) | {"faults": []}}
    assert reliability_page.with_new(before, nothing)["long"] == nothing["long"]


DOCS = ROOT / "docs"


def left_to_the_future() -> dict[str, str]:
    """What stands beside each line of the list."""
    rows = re.findall(r"^\| ([^|`]+) \| ([^|]+) \|$", (DOCS / "future.md").read_text(), re.M)
    return {name: words for name, words in rows if name != "Left to the future"}


@pytest.mark.row("FUT-09")
def test_the_list_of_what_the_kip_leaves_is_whole() -> None:
    """Five items, of the accepted text."""
    text = " ".join((DOCS / "future.md").read_text().split())
    assert "the KIP as it was accepted, not of a draft before" in text
    assert list(left_to_the_future()) == [
        "Dead-letter queue, in Kafka since 4.4",
        "Ordering by key",
        "Log cleaning that knows start offsets",
        "A record TTL",
        "Acknowledgements in a transaction",
    ]


@pytest.mark.row("FUT-05")
def test_nothing_promises_exactly_once() -> None:
    said = left_to_the_future()["Acknowledgements in a transaction"]
    assert "nothing here promises exactly once" in said
    others = [
        path for path in (*DOCS.glob("*.md"), DOCS.parent / "README.md") if path.name != "future.md"
    ]
    assert not [path.name for path in others if "exactly once" in path.read_text().lower()]


def test_what_the_page_of_the_future_names_is_there() -> None:
    words = left_to_the_future()
    assert "poison_records" in {cause.name for cause in CAUSES}
    assert DeliveryState(3).name.title() == "Archiving"
    assert {"archived", "redeliveries"} <= set(SUMMARY.names)
    assert "out_of_order_share" in RUNS.names
    named = set(re.findall(r"`(\w+)`", " ".join(words.values())))
    assert named == {
        *("explain", "poison_records", "archived", "Archiving"),
        *("out_of_order_share", "redeliveries", "dlq"),
    }
    (option,) = re.findall(r"-p (\w+)", words["A record TTL"])
    assert option in notebooks.read_parameters(notebooks.notebook("capacity"))
    cells = notebooks.notebook("capacity").read_text()
    found = {"cells.reclaimable(case)", f"cells.archived(case, {option})"}
    assert found <= set(re.findall(r"cells\.\w+\([^)]*\)", cells))


@pytest.mark.row("MET-09")
def test_no_metric_of_ours_looks_like_one_of_kafkas_clients() -> None:
    """What is derived here has a separate prefix, and the documentation says so."""
    now = Gathered(gather(CaptureInput(CAPTURE), "local"), 0.5, 1_000.0)
    names = [family.name for family in registry_of(lambda: now).collect()]
    assert len(names) >= 15
    assert {name[: len("kafka_share_group_")] for name in names} == {"kafka_share_group_"}
    text = " ".join((DOCS / "exports.md").read_text().split())
    assert "all begin with `kafka_share_group_`, as none of Kafka's own do" in text
    words = "What share consumers measure of themselves (`metrics()`, telemetry) is not read here."
    assert words in text
