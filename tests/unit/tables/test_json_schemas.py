"""What the command line prints as JSON is what ``docs/schemas`` says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from sharelag import schemas
from sharelag.cli.check import example
from sharelag.reports.store import Run, append
from tests.support.chapters import CAPTURE
from tests.support.command import ask, rows_of, sharelag
from tools import json_schemas

#: Properties of a consumer, which share consumers refuse.
CONSUMER = Path(__file__).with_name("consumer.properties")
#: What a broker measured, as Kafka's JmxTool printed it.
METRICS = Path(__file__).resolve().parents[2] / "data" / "metrics" / "first.properties"
#: Records of a dead-letter queue, with headers as KIP-1191 has them.
QUEUE = Path(__file__).resolve().parents[2] / "data" / "dead_letters.parquet"
IDLE = ("simulate", "--scenario", "idle-members", "--duration", "8s")
#: Two numbers of members to choose between.
TUNED = (
    *("--tune", "--goal", "lag_end<9000", "--seeds", "2", "--between", "11,12"),
    *("--setting", "share.record.lock.duration.ms=30000", "--setting", "renew=false"),
    *("--setting", "share.partition.max.record.locks=2000", "--setting", "max.poll.records=50"),
    *("--setting", "share.delivery.count.limit=5"),
    *("--setting", "share.acquire.mode=batch_optimized"),
)
#: A command line for each schema.
PRINTED = {
    "lag": ["lag"],
    "lag-sums": ["lag", "--by", "group"],
    "windows": ["windows"],
    "windows-since": ["windows", "--since", "2m"],
    "history": ["history"],
    "history-events": ["history", "--events"],
    "history-every": ["history", "--every", "10s"],
    "explain": ["explain"],
    "progress": ["progress"],
    "forecasts": ["forecasts", "--ledger", "ledger"],
    "imbalance": ["imbalance"],
    "imbalance-verdict": ["imbalance", "--verdict"],
    "reconcile": ["reconcile"],
    "groups": ["groups"],
    "brokers": ["brokers"],
    "metrics": ["metrics", str(METRICS)],
    "dlq": ["dlq", "--queue", str(QUEUE)],
    "dlq-redrive": ["dlq", "--queue", str(QUEUE), "--redrive"],
    "plan-delete": ["plan-delete", "--group", "billing"],
    "plan-reset": ["plan-reset", "--group", "billing", "--to-latest"],
    "members": ["members", "--as-of", "2026-11-21T11:43:35Z"],
    "health": ["health"],
    "health-findings": ["health", "--findings"],
    "health-snapshots": ["health", "--snapshots"],
    "settings": ["settings", "--group", "billing"],
    "settings-drift": ["settings", "--before", "demo"],
    "settings-lint": ["settings", "--consumer-config", str(CONSUMER)],
    "lint": ["lint", "kafka-share-groups.sh", "--list"],
    "check": ["check", "--rules", str(example("rules.yaml"))],
    "doctor-rights": [
        *("doctor", "--rights", "--group", "billing", "--topic", "orders"),
        *("--bootstrap-server", "127.0.0.1:9092"),
    ],
    "decode": ["decode"],
    "simulate": [*IDLE, "--members", "2,6"],
    "simulate-compare": [*IDLE, "--members", "2,6", "--seeds", "2", "--compare"],
    "simulate-fewest-members": [
        *IDLE, "--seeds", "2", "--between", "1,3", "--fewest-members", "lag_end<18000",
    ],
    "simulate-timeline": [*IDLE, "--timeline"],
    "simulate-against": [*IDLE, "--seeds", "2", "--against", "consumer-group"],
    "simulate-members-wanted": ["simulate", "--members-wanted", "30s"],
    "simulate-tune": [*IDLE, *TUNED],
    "simulate-tune-front": [*IDLE, *TUNED, "--front"],
    "simulate-suite": ["simulate", "--suite", "2", "--assignor", "sticky"],
    "simulate-scenarios": ["simulate", "--scenario", "list"],
    "report-list": ["report", "list"],
}  # fmt: skip
#: What needs no input.
ALONE = {"metrics", "--consumer-config", "--scenario", "--rights", "--suite"}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _a_cluster_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands in for the only question that a capture cannot answer."""
    nothing = schemas.ASKED_RIGHTS.empty_table()
    monkeypatch.setattr("sharelag.workbench.rights.ask_rights", lambda *_: nothing)


def schema(name: str) -> dict[str, object]:
    text = (json_schemas.FOLDER / f"{name}.json").read_text("utf-8")
    return dict(json.loads(text))


def printed(*arguments: str) -> list[dict[str, object]]:
    if arguments[0] == "lint":  # the command that is checked ends the line
        return rows_of(sharelag("lint", "-o", "json", *arguments[1:]))
    source = [] if ALONE & set(arguments) else ["--capture", str(CAPTURE)]
    return rows_of(sharelag(*arguments, *source, "-o", "json"))


def listed(out: Path) -> list[dict[str, object]]:
    """What ``report list`` prints of a run that failed and one that did not."""
    good = Run(
        "1", "daily", {"group": []}, "1", "0", "2026-11-21T03:10:00Z", 1.5, "ok", "", "", None
    )
    for run in (good, replace(good, as_of=None, error="no capture", cluster_id="c")):
        append(out, run)
    return ask("report list --out", str(out))


def test_the_files_are_those_of_the_tables() -> None:
    files = json_schemas.files()
    assert set(json_schemas.FOLDER.iterdir()) == set(files)
    for path, text in files.items():
        assert path.read_text("utf-8") == text, "run `python tools/json_schemas.py`"
        Draft202012Validator.check_schema(json.loads(text))
    assert set(PRINTED) == {path.stem for path in files}


@pytest.mark.parametrize("name", PRINTED)
def test_what_is_printed_is_valid(name: str, tmp_path: Path) -> None:
    lines = listed(tmp_path) if name == "report-list" else printed(*PRINTED[name])
    result = schema(name)
    assert lines or name == "health-findings"  # nothing is wrong with the topic of the demo
    validator = Draft202012Validator(result)
    for line in lines:
        validator.validate(line)
    if "properties" in result:  # no column that the schema does not have
        assert {tuple(sorted(line)) for line in lines} <= {tuple(sorted(result["required"]))}  # type: ignore
    assert result["$id"] == f"urn:sharelag:v1:{name}"


def test_a_line_of_another_kind_is_not_valid(tmp_path: Path) -> None:
    (line, *_) = printed("lag")
    assert Draft202012Validator(schema("lag")).is_valid(line)
    for wrong in (line | {"lag": "12"}, {key: line[key] for key in list(line)[1:]}):
        assert not Draft202012Validator(schema("lag")).is_valid(wrong)
