"""The command line: every format, one clear line when something is wrong, and why there is lag."""

import csv
import io
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from sharelag import schemas
from sharelag.cli.output import exit_code
from sharelag.errors import BrokerUnreachableError, NoLeaderError, TopicMissingError
from sharelag.inputs import KafkaInput
from sharelag.inputs.files.captures import CaptureInfo, write_capture
from sharelag.inputs.recorded import folder_of
from sharelag.tables.gaps import KAFKA_SETTING
from sharelag.wire import (
    GROUP_KINDS,
    GROUP_TOPIC,
    SHARE_SNAPSHOT,
    SHARE_UPDATE,
    STATE_TOPIC,
    encode_record,
)
from tests.support.captures import MOMENTS, half_known
from tests.support.chapters import CAPTURE
from tests.support.command import ask as rows
from tests.support.command import refused, rows_of, sharelag, sharelag_process
from tests.support.kafka.describe import parse_describe
from tests.support.own_process import run_code
from tests.support.records import assert_fields, raw, raw_file, row
from tests.support.written_input import Write, WrittenInput

HOSTILE = "=cmd|' /C calc'!A0\x1b[31m<img src=x>"
NOW = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)
SCENARIOS = CAPTURE.parent / "scenarios"
STUCK = str(SCENARIOS / "head_of_line")


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups with eleven share partitions, a reject and a record of another kind."""
    folder = tmp_path_factory.mktemp("cli") / "capture"

    def finish(_: Path) -> tuple[dict[str, pa.Table], CaptureInfo]:
        places = [{"topic": "orders", "topic_id": "A" * 22, "partition": n} for n in range(11)]
        known = {"log_start_offset": 0, "end_offset": 130, "leader_epoch": 0, "as_of": NOW}
        offsets = pa.Table.from_pylist([place | known for place in places], schemas.OFFSETS)
        return {"offsets": offsets}, CaptureInfo("cluster-1", NOW, {STATE_TOPIC: 1, GROUP_TOPIC: 1})

    write_capture(folder, _batches(), finish)
    return folder


def _batches() -> Iterator[pa.RecordBatch]:
    batches = [(100, 109, 2, 1), (110, 111, 0, 2)]
    states = (row(100, batches, delivery_complete_count=10, partition=n) for n in range(11))
    snapshots = [encode_record(SHARE_SNAPSHOT, one) for one in states]
    wrong = encode_record(SHARE_SNAPSHOT, row(-1, [], delivery_complete_count=-1, group_id=HOSTILE))
    update = encode_record(SHARE_UPDATE, row(-1, [(110, 110, 4, 2)], delivery_complete_count=11))
    bad = (snapshots[0][0], b"\0\0\1")
    member = encode_record(GROUP_KINDS[1], {"group_id": "G1", "epoch": 3, "metadata_hash": 9})
    other = (b"\0\2" + b"\0\1g", b"\0\0")
    again = [wrong] * 90  # without these one record in fourteen could not be decoded
    topics = [STATE_TOPIC] * 14 + [GROUP_TOPIC] * 2 + [STATE_TOPIC] * len(again)
    offsets = [*range(14), 0, 1, *range(14, 14 + len(again))]
    place = {"partition": 0, "timestamp": NOW, "timestampType": 0}
    rows = [
        place | {"key": key, "value": value, "topic": topic, "offset": offset}
        for (key, value), topic, offset in zip(
            [*snapshots, wrong, update, bad, member, other, *again], topics, offsets, strict=True
        )
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=schemas.RAW)


def printed_rows(capture: Path, words: str) -> list[Any]:
    """What a command prints of the capture as JSON, line by line."""
    done = sharelag(*words.split(), "--capture", str(capture), "-o", "json")
    return rows_of(done)


@pytest.mark.row("LAG-13")
def test_people_see_aligned_columns_and_a_dash_for_the_unknown(capture: Path) -> None:
    answer = sharelag("lag", "--capture", str(capture))
    heading, *lines = answer.stdout.splitlines()
    assert heading.split()[:3] == ["GROUP", "TOPIC", "PARTITION"]
    assert heading.split()[3:6] == ["LEADER-EPOCH", "START-OFFSET", "LAG"]
    ends = {name: heading.index(name) + len(name) for name in ("PARTITION", "LAG")}
    read = {name: [line[:end].split()[-1] for line in lines] for name, end in ends.items()}
    assert read["PARTITION"][:-1] == [*map(str, range(1, 11)), "0"]
    assert read["LAG"] == [*["20"] * 10, "19", "-"]
    assert "\x1b" not in answer.stdout
    assert r"\x1b[31m" in lines[-1]
    words = "12 share partitions, lag 219 (+1 unknown), as of 2026-11-21T03:10:00.000Z, capture\n"
    assert words in answer.stderr
    said = answer.stderr
    assert "not known: 1 record that could not be decoded; `sharelag decode` shows it" in said


def test_json_is_one_object_a_line_with_null_for_the_unknown(capture: Path) -> None:
    unknown, first, *_ = found = printed_rows(capture, "lag")
    assert list(unknown) == schemas.LAG.names
    values = unknown["lag"], unknown["lag_reason"], unknown["group_id"]
    assert values == (None, "no_start_offset", HOSTILE)
    values = first["lag"], first["window_available"], first["as_of"]
    assert values == (19, 1, "2026-11-21T03:10:00.000Z")
    assert yaml.safe_load(sharelag("lag", "--capture", str(capture), "-o", "yaml").stdout) == found


def test_csv_disarms_formulas(capture: Path) -> None:
    table = list(
        csv.DictReader(io.StringIO(sharelag("lag", "--capture", str(capture), "-o", "csv").stdout))
    )
    assert (len(table), table[0]["group_id"]) == (12, "'" + HOSTILE.replace("\x1b", r"\x1b"))
    assert (table[0]["lag"], table[1]["lag"]) == ("", "19")


@pytest.mark.row("LAG-13")
def test_sums_say_what_they_leave_out(capture: Path) -> None:
    by_group = sharelag("lag", "--capture", str(capture), "--by", "group").stdout.splitlines()
    assert by_group[0].split()[:4] == ["GROUP", "#PARTITIONS", "LAG", "MAX-LAG"]
    assert by_group[1].split()[:4] == ["G1", "11", "219", "20"]
    assert "- (+1 unknown)" in by_group[2]


def test_only_what_is_chosen(capture: Path) -> None:
    some = printed_rows(capture, "lag --group G1 --topic orders:0,10")
    assert [row["partition"] for row in some] == [0, 10]
    said = refused("lag", "--capture", str(capture), "--group", "nobody")
    assert "there is no state of share group 'nobody': its groups are " in said


def test_windows_are_raw_and_derived(capture: Path) -> None:
    hostile, first, *_ = printed_rows(capture, "windows")
    assert (hostile["start_offset"], hostile["effective_start_offset"]) == (-1, None)
    assert_fields(first, batches=[[100, 109, 2, 1], [110, 110, 4, 2], [111, 111, 0, 2]])
    assert_fields(first, start_offset=100, effective_start_offset=111, runs=[[111, 111, 0, 2]])
    assert_fields(first, topic="orders")
    shown = sharelag("windows", "--capture", str(capture), "--group", "G1").stdout
    assert "111:available/2" in shown


def test_as_of_offsets_and_times(capture: Path) -> None:
    before = printed_rows(capture, "windows --as-of 0:11 --group G1")
    assert before[0]["delivery_complete_count"] == 10
    first = printed_rows(capture, "lag --as-of 0:11 --group G1")[0]
    # The capture knows the end offsets of one moment only.
    assert (first["lag"], first["lag_reason"]) == (None, "no_end_offset_then")
    assert first["start_offset"] == 100
    then = ("windows", "--capture", str(capture), "--as-of", "2020-01-01T00:00:00Z")
    nothing = sharelag(*then)
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert nothing.stderr.count("nothing was written in that time") == 1
    assert "'G1' had no state at that moment" in sharelag(*then, "--group", "G1").stderr


def test_decode_prints_records_rejects_and_groups(capture: Path) -> None:
    answer = sharelag("decode", "--capture", str(capture))
    found = rows_of(answer)
    assert len(found) == 105
    # The moment of a reject is not known.
    early = rows_of(
        sharelag("decode", "--capture", str(capture), "--as-of", "2020-01-01T00:00:00Z")
    )
    assert [row for row in early if "reject" not in row] == []
    data = {"groupId": "G1", "topicId": "A" * 22, "partition": 0}
    assert found[0]["key"] == {"type": 0, "data": data}
    assert found[0]["value"]["data"]["stateBatches"][1]["deliveryCount"] == 2
    (reject,) = [row for row in found if "reject" in row]
    assert (reject["offset"], reject["reject"]["value"]) == (13, "000001")
    assert found[-1]["value"] == {"version": 0, "data": {"epoch": 3, "metadataHash": 9}}
    assert "skipped 1 record of other kinds" in answer.stderr
    only = sharelag("decode", "--capture", str(capture), "--records", "group")
    assert len(only.stdout.splitlines()) == 1
    some = printed_rows(capture, "decode --group G1 --as-of 0:4 --records state")
    assert [line["offset"] for line in some if "key" in line] == [0, 1, 2, 3, 4]
    (none,) = printed_rows(capture, f"decode --topic {'B' * 22} --records state")
    assert list(none) == ["reject", "topic", "partition", "offset"]
    as_csv = sharelag("decode", "--capture", str(capture), "-o", "csv")
    table = list(csv.DictReader(io.StringIO(as_csv.stdout)))
    assert list(table[0]) == ["key", "value", "reject", "topic", "partition", "offset"]
    assert (len(table), [line["offset"] for line in table if line["reject"]]) == (105, ["13"])
    assert {line["topic"] for line in table} == {STATE_TOPIC, GROUP_TOPIC}


def test_raw_parquet_knows_no_ends_and_says_so(capture: Path) -> None:
    answer = sharelag("lag", "--raw", str(capture / "records"), "--group", "G1", "-o", "json")
    first = json.loads(answer.stdout.splitlines()[0])
    values = [first[name] for name in ("lag", "lag_reason", "topic", "start_offset")]
    assert values == [None, "unknown_topic", None, 100]
    assert "without topic names and end offsets" in answer.stderr
    assert "A" * 22 in sharelag("lag", "--raw", str(capture / "records"), "--group", "G1").stdout


def test_a_folder_that_cannot_be_written_is_refused_with_the_option(tmp_path: Path) -> None:
    out = tmp_path / "file"
    out.touch()
    for words, option in (("demo", "(--no-report)"), ("report daily --capture demo", "(--out)")):
        *_, said = refused(*words.split(), "--out", str(out / "below")).splitlines()
        assert f"cannot write reports to {out}" in said
        assert said.endswith(option)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--capture {folder}/none", "no capture at"),
        ("--capture {folder}/text.parquet", "is a file, and a capture is a folder: unpack it"),
        ("--capture {folder}/empty", "has no capture.json, offsets.parquet, records: give"),
        ("--raw {folder}/wrong.parquet", "key: expected binary, got string"),
        ("--raw {folder}/text.parquet", "cannot read Parquet from"),
        ("--raw {folder}/gone", "cannot read Parquet from"),
        ("--raw {folder}/empty.parquet", KAFKA_SETTING),
        ("--raw {folder}/empty.parquet --group x", KAFKA_SETTING),
        ("--bootstrap-server 127.0.0.1:1 --timeout 1500", "no broker answered"),
        ("--bootstrap-server localhost", "invalid broker address"),
        ("--capture {capture} --as-of noon", "invalid time 'noon'"),
        ("--capture {capture} --as-of=", "invalid time ''"),
        ("--capture {capture} --topic nosuch", "no share partition of nosuch was found"),
        (
            "--capture {capture} --topic orders:99",
            "no share partition of orders:99 was found",
        ),
        ("--command-config {folder}/none", "cannot read the client properties"),
    ],
)
def test_bad_input_is_one_line(words: str, message: str, capture: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": ["text"]}), tmp_path / "wrong.parquet")
    pq.write_table(schemas.RAW.empty_table(), tmp_path / "empty.parquet")
    (tmp_path / "text.parquet").write_text("no parquet")
    (tmp_path / "empty").mkdir()
    arguments = ["lag", *words.format(folder=tmp_path, capture=capture).split()]
    said = refused(*arguments)
    assert message in said
    assert len(said.splitlines()) == 1
    assert "Traceback" not in said
    assert "Traceback" in sharelag(*arguments, "-v").stderr


@pytest.mark.parametrize("verbose", [["-vv"], ["--verbose"], ["-vo", "json"]])
def test_tracebacks_are_shown_when_asked(capture: Path, tmp_path: Path, verbose: list[str]) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules: [{name: r, measure: lag, warn: 1}]")
    nowhere = ["--capture", str(tmp_path / "none")]
    for command in (["lag"], ["check", "--rules", str(rules)]):
        assert "Traceback" in sharelag(*command, *nowhere, *verbose).stderr
    assert "Traceback" not in refused("lag", "--capture", str(capture), "--group", "-v")


@pytest.mark.parametrize(
    "line",
    [
        "lag",
        "lag --nope",
        "lag --capture a --group g --all-groups",
        "lag --capture a --raw b",
        "lag --capture a --topic t:x",
        "lag --capture demo --watch 1",
        "lag --capture demo --brief --by group",
        "capture a",
        "explain",
        "explain --capture demo --over nan",
        "history --capture demo --every 0s",
        "history --capture demo --every 999999999999d",
        "imbalance --capture demo --every 1s --by member",
        "imbalance --capture demo --by planet",
    ],
)
def test_wrong_usage_is_exit_2(line: str) -> None:
    answer = sharelag(*line.split(), code=2)
    assert "Usage:" in answer.stderr


def test_the_name_of_a_report_comes_before_its_options() -> None:
    said = refused("report", "--capture", "demo", code=2)
    assert "--capture goes after the name of a report, such as daily" in said


def test_watched_lag_of_two_states_counts_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state topic that got more partitions, is missing for a moment, and then another one."""
    written = WrittenInput([Write(10, 5), Write(10, 6, partition=1)], partitions_of_topic=2)

    def batches(_: object, topic: str) -> Iterator[pa.RecordBatch]:
        if len(rounds) == 3:
            raise TopicMissingError("no topic for a moment")
        for one in written.batches(topic):
            yield one
            moved = one.set_column(3, one.schema.field(3), pa.array([1, 1], pa.int32()))
            yield moved.slice(0, 1)

    def wait(_: float) -> None:
        if rounds.pop():
            raise KeyboardInterrupt

    rounds, ids = [True, False, False, False], iter("aab")
    monkeypatch.setattr(KafkaInput, "cluster_id", property(lambda _: next(ids)))
    monkeypatch.setattr(KafkaInput, "batches", batches)
    monkeypatch.setattr(KafkaInput, "offsets", lambda _, *asked: written.offsets(*asked))
    monkeypatch.setattr(KafkaInput, "size", lambda _: 3)
    monkeypatch.setattr("sharelag.cli.questions.time", SimpleNamespace(sleep=wait))
    watch = ("lag", "--bootstrap-server", "localhost:1", "--watch", "1s", "-o", "json")
    done = sharelag(*watch, code=130)
    changes = [(row["partition"], row["change"]) for row in rows_of(done)]
    assert changes == [(0, None), (1, None), (0, 0), (1, 0), (0, None), (1, None)]
    assert "no topic for a moment" in done.stderr
    assert "the cluster at localhost:1 is another one now: changes begin anew" in done.stderr


def test_a_reader_that_stops_early_is_no_error(capture: Path) -> None:
    code = "from sharelag.cli import main; main()"
    decode = f"{sys.executable} -c '{code}' decode --capture {capture}"
    command = f"set -o pipefail; {decode} | head -c 1 >/dev/null"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "Traceback" not in answer.stderr


#: Runs each command in a fork of a process that has imported what takes longest, with standard
#: output to a pipe that nobody reads, or to a file; prints how each ends.
_FORKED = """
import json, os, shlex, sys
import pyarrow.compute, pyarrow.parquet, sharelag.workbench.bench, sharelag.whatif
from sharelag.cli import main

codes = {}
for command in sys.stdin.read().splitlines():
    words, _, file = command.partition(" > ")
    reader, writer = os.pipe()
    os.close(reader)
    if not (child := os.fork()):
        os.dup2(os.open(file, os.O_WRONLY) if file else writer, 1)
        sys.argv[1:] = shlex.split(words)
        sys.exit(main())
    os.close(writer)
    codes[command] = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps(codes))
"""
CHECK = "check --capture poison --rules {rules}"
REPORT = "report daily --capture {lost} --engine local --no-figures --out {rules}-out"


@pytest.mark.parametrize(
    "ends",
    [
        {
            CHECK: 2,
            f"{CHECK} > /dev/full": 3,
            "lag --capture poison > /dev/full": 1,
            "lint kafka-share-groups.sh --group billing --delete": 1,
            "settings --capture poison --set share.delivery.count.limit=999": 1,
            "simulate --capture demo --group billing --since 10m --seeds 1": 3,
            "doctor": 0,
            "doctor --bootstrap-server localhost:1 --timeout 1s": 1,
            "report schedule daily --cron '0 6 * * *' --capture demo": 0,
            "check --example": 0,
        },
        pytest.param({REPORT: 1}, marks=pytest.mark.slow),
    ],
)
def test_what_nobody_reads_ends_as_it_would(ends: dict[str, int], tmp_path: Path) -> None:
    """Monitoring goes by the code: of a check, 0 is fine, and 1 a warning."""
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules: [{name: lag, measure: lag, critical: 1}]\n")
    lost = tmp_path / "lost"
    shutil.copytree(folder_of("poison"), lost)
    (records,) = (lost / "records").glob("*.parquet")
    records.write_bytes(records.read_bytes()[:200] + bytes(200) + records.read_bytes()[400:])
    expected = {command.format(rules=rules, lost=lost): code for command, code in ends.items()}
    answer = subprocess.run(
        [sys.executable, "-c", _FORKED], input="\n".join(expected), capture_output=True, text=True
    )
    assert json.loads(answer.stdout) == expected, answer.stderr
    assert "Traceback" not in answer.stderr
    full = "sharelag: No space left on device: free some space there, or write elsewhere\n"
    assert answer.stderr.count(full) == sum("/dev/full" in command for command in ends)


def test_a_terminal_without_the_characters_shows_the_rows(capture: Path, tmp_path: Path) -> None:
    record = encode_record(SHARE_SNAPSHOT, row(0, [], group_id="グループ"))
    file = raw_file(tmp_path, raw([record]))
    answer = sharelag_process("windows", "--raw", file, env={"PYTHONIOENCODING": "ascii"})
    assert answer.returncode == 0, answer.stderr
    assert r"\u30b0" in answer.stdout
    # What other programs read is UTF-8 and has the names as they are.
    for line in ("windows -o json", "windows -o yaml", "decode"):
        asked = (*line.split(), "--raw", file)
        answer = sharelag_process(*asked, env={"PYTHONIOENCODING": "ascii"})
        assert "グループ" in str(yaml.safe_load(answer.stdout)), line


def test_what_the_kafka_client_does_not_use_is_loaded_when_somebody_uses_it() -> None:
    code = """
import sys
from sharelag.cli.output import Later

sys.meta_path.insert(0, Later())
import confluent_kafka
print("asyncio" in sys.modules, "asyncio.events" in sys.modules)

async def answer():
    return 42

import asyncio
print(asyncio.run(answer()), "asyncio.events" in sys.modules)
"""
    assert run_code(code).split() == ["True", "False", "42", "True"]


def test_notebooks_are_read_without_the_parsers_that_none_of_them_needs(tmp_path: Path) -> None:
    command = ["-X", "importtime", "-m", "sharelag", "report", "list", "--out", str(tmp_path)]
    answer = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    imported = {line.rpartition("|")[2].strip() for line in answer.stderr.splitlines()}
    assert imported >= {"nbformat", "jsonschema"}
    assert "lark" not in imported


def test_records_that_could_not_be_replayed_are_reported(tmp_path: Path) -> None:
    odd = encode_record(SHARE_UPDATE, row(-1, [(1, 10, 0, 1), (5, 3, 0, 2)]))
    records = [encode_record(SHARE_SNAPSHOT, row(0, [(1, 10, 0, 1)])), odd]
    answer = sharelag("windows", "--raw", raw_file(tmp_path, raw(records)), "-o", "json")
    assert json.loads(answer.stdout)["rejected_records"] == 1
    assert "1 record could not be replayed" in answer.stderr


def test_doctor_checks_this_machine() -> None:
    answer = sharelag("doctor")
    said: dict[str, Any] = {
        r.split()[1].rstrip(":"): r.split()[0] for r in answer.stdout.splitlines() if r[0] != " "
    }
    assert answer.returncode == 0
    assert (said["java"], said["spark"], said["cluster"]) == ("ok", "ok", "warn")
    without = sharelag("doctor", env={"PATH": "/nowhere", "JAVA_HOME": ""}, code=1)
    assert "fail  java: not found" in without.stdout


def test_the_package_is_the_command_too() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "sharelag", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout == sharelag("--version").stdout


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NoLeaderError("partition 3 did not answer"), 3),
        (RuntimeError("in a task: sharelag.errors.NoLeaderError: partition 3"), 3),
        (BrokerUnreachableError("no broker answered"), 1),
        (ValueError("a defect"), 1),
    ],
)
def test_a_part_of_a_cluster_has_an_exit_code_of_its_own(error: Exception, code: int) -> None:
    assert exit_code(error) == code


def test_history_has_a_row_a_record() -> None:
    lines = rows("history", "--capture", STUCK, "--topic", "head-of-line-orders:0")
    assert list(lines[0]) == [*schemas.HISTORY.names, "topic"]
    assert [r["record_offset"] for r in lines] == sorted(line["record_offset"] for line in lines)
    assert lines[0]["record_kind"] == "snapshot"
    assert lines[0]["finished"] is None
    # What was finished step by step is all but the stuck record, and nobody finished that.
    assert sum(line["finished"] or 0 for line in lines) == 120
    assert lines[-1]["effective_start_offset"] == 6
    late = rows("history", "--capture", STUCK, "--since", lines[10]["record_timestamp"])
    assert 0 < len(late) < len(rows("history", "--capture", STUCK))
    heading = sharelag("history", "--capture", STUCK).stdout.splitlines()[0].split()
    assert heading[:5] == ["TIME", "GROUP", "TOPIC", "PARTITION", "RECORD"]


@pytest.mark.parametrize(
    "words",
    ["history", "history --since 2h", "history --events", "history --every 1s --since 2m"],
)
def test_a_deleted_group_has_a_past(words: str) -> None:
    every, mine = (rows(f"{words} --capture chapters{one}") for one in ("", " --group trial"))
    assert len(mine) == sum(row["group_id"] == "trial" for row in every)
    assert len(mine) >= 7
    assert {row["topic"] for row in mine} == {"clicks", "shipments"}
    some = rows(f"{words} --capture chapters --group trial --topic clicks")
    assert some == [row for row in mine if row["topic"] == "clicks"]
    assert len(some) >= 3
    shown = sharelag(*words.split(), "--capture", "chapters", "--group", "trial", code=0).stdout
    assert shown.count(" trial ") == len(mine)
    assert rows("history --since 1s --capture chapters --group trial") == []
    assert "no state of share group 'tril'" in refused(
        *words.split(), "--capture", "chapters", "--group", "tril"
    )


def test_history_at_regular_moments_has_the_lag() -> None:
    lines = rows("history", "--capture", STUCK, "--every", "2s")
    assert list(lines[0]) == schemas.TIMELINE.names
    of_0 = [line for line in lines if line["partition"] == 0 and line["lag"] is not None]
    assert len(of_0) >= 3
    assert of_0[-1]["lag"] == 1
    assert all(
        r["lag"] == r["end_offset"] - r["start_offset"] - r["delivery_complete_count"] for r in of_0
    )
    assert {line["lag_reason"] for line in lines} <= {None, "no_end_offset_then", "no_start_offset"}
    later = ("--since", "2100-01-01T00:00:00Z", "--every", "5s")
    assert rows("history", "--capture", STUCK, *later) == []
    # The last row is as of the capture, not of the last record.
    assert max(line["as_of"] for line in lines) == rows("lag", "--capture", STUCK)[0]["as_of"]
    too_many = refused("history", "--capture", STUCK, "--every", "1ms")
    assert re.search(r"every 1ms since 2026-\S+Z is more than 2,000 moments: choose a", too_many)


def test_explain_names_causes_with_their_evidence() -> None:
    (cause,) = rows("explain", "--capture", STUCK, "--patience", "2s")
    assert list(cause) == schemas.CAUSES.names
    assert_fields(cause, cause="head_of_line", rank=1, partition=0, held=1)
    evidence = {one["name"]: one["value"] for one in cause["evidence"]}
    assert (evidence["offset"], evidence["deliveries"]) == ("6", "5")
    people = sharelag("explain", "--capture", STUCK, "--patience", "2s")
    assert "1. warning: head of line  head-of-line-orders:0, holds 1, since " in people.stdout
    assert "offset 6" in people.stdout
    assert "-> check the record at that offset" in people.stdout
    assert "as of 2026-11-21T" in people.stderr
    table = sharelag("explain", "--capture", STUCK, "--patience", "2s", "-o", "csv").stdout
    assert next(csv.DictReader(io.StringIO(table)))["cause"] == "head_of_line"


def test_a_capture_without_settings_says_what_is_assumed(tmp_path: Path) -> None:
    without = shutil.ignore_patterns("settings.parquet")
    bare = shutil.copytree(CAPTURE, tmp_path / "bare", ignore=without)
    answer = sharelag("explain", "--capture", str(bare), "--group", "billing", code=0)
    assert "Kafka's defaults are assumed" in answer.stderr
    assert answer.stdout.startswith("billing  lag 2,390 in 10 share partitions")


def test_imbalance_shows_figures_and_a_verdict() -> None:
    hot = str(SCENARIOS / "hot_partition")
    lines = rows("imbalance", "--capture", hot, "--by", "partition")
    assert list(lines[0]) == schemas.IMBALANCE.names
    (lag,) = [line for line in lines if line["measure"] == "lag" and line["topic"] is None]
    assert lag["items"] == 6
    assert lag["max_mean"] > 5
    assert lag["top_share"] > 0.9
    said = sharelag("imbalance", "--capture", hot).stderr
    assert "that receive more records than the others" in said
    # People see the most uneven first, as in Python; scripts have the names in order.
    ginis = [one["gini"] for one in rows("imbalance", "--capture", "demo", "--sort", "gini")]
    known = [gini for gini in ginis if gini is not None]
    assert known == sorted(known, reverse=True)
    first = sharelag("imbalance", "--capture", "demo", "--top", "1").stdout.splitlines()[1]
    assert first.split()[0] == "fulfilment"
    (verdict,) = rows("imbalance", "--capture", hot, "--verdict")
    assert (verdict["verdict"], verdict["idle_members"]) == ("data_skew", 0)
    trend = rows("imbalance", "--capture", hot, "--every", "3s", "--by", "partition")
    assert len({line["as_of"] for line in trend}) >= 3


def test_of_the_past_it_says_which_values_are_those_of_now() -> None:
    asked = ("explain", "--capture", STUCK, "--engine", "local")
    words = "settings, retention and last stable offsets of that moment; the current ones are used"
    assert words not in sharelag(*asked).stderr
    (moment,) = {line["as_of"] for line in rows("lag", "--capture", STUCK)[:1]}
    assert words in sharelag(*asked, "--as-of", moment).stderr


def test_health_of_the_state_topic() -> None:
    lines = rows("health", "--capture", str(CAPTURE))
    assert (list(lines[0]), sum(line["records"] for line in lines)) == (schemas.HEALTH.names, 1780)
    assert {line["misplaced"] for line in lines} == {0}
    assert all(line["bytes_per_finished"] > 1 for line in lines)
    assert "UPDATES/SNAPSHOT" in sharelag("health", "--capture", str(CAPTURE)).stdout


def test_lags_of_several_moments_have_no_sum(tmp_path: Path) -> None:
    half = half_known(SCENARIOS / "hot_partition", tmp_path / "half")
    for command in ("history", "imbalance"):
        done = sharelag(command, "--every", "2s", "--capture", str(half), "--engine", "local")
        (summary, *notes) = done.stderr.splitlines()
        assert re.match(r"sharelag: \d+ rows, as of ", summary), summary
        assert any(re.search(r"not known: .* in \d+ of \d+ rows$", one) for one in notes), notes


def test_what_happened_is_not_all_known_where_records_are_missing(tmp_path: Path) -> None:
    capture = shutil.copytree(CAPTURE, tmp_path / "capture")
    file = next((capture / "records").glob("*.parquet"))
    records = pq.read_table(file)
    pq.write_table(records.filter(pc.not_equal(records["offset"], 5)), file)
    said = sharelag("history", "--events", "--capture", str(capture), "--engine", "local")
    lost = "of the state topic, whose records are missing"
    assert said.returncode == 3
    assert lost in said.stdout + said.stderr


def test_a_check_names_a_topic_by_its_id_where_its_name_is_not_known(tmp_path: Path) -> None:
    capture = shutil.copytree(STUCK, tmp_path / "capture")
    offsets = pq.read_table(capture / "offsets.parquet")
    (topic_id,) = set(offsets["topic_id"].to_pylist())
    pq.write_table(offsets.slice(0, 0), capture / "offsets.parquet")
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules: [{name: age, measure: age, warn: 1d}]")
    asked = ("check", "--rules", str(rules), "--capture", str(capture), "--engine", "local")
    assert f" {topic_id}:0 " in sharelag(*asked, code=3).stdout


def test_what_is_wrong_with_the_state_topic_names_its_partition(tmp_path: Path) -> None:
    records = pq.read_table(CAPTURE / "records")
    is_lost = pc.and_(pc.equal(records["partition"], 3), pc.equal(records["offset"], 5))
    pq.write_table(records.filter(pc.invert(is_lost)), tmp_path / "raw.parquet")
    raw = ("--raw", str(tmp_path / "raw.parquet"), "--engine", "local")
    said = "state partition 3: 1 offset is missing from 0 to "
    assert said in sharelag("health", *raw).stderr
    rules = tmp_path / "rules.yaml"
    rules.write_text("version: 1\nrules: [{name: topic, measure: state_topic, critical: 1}]")
    assert f"1 finding: {said}" in sharelag("check", "--rules", str(rules), *raw, code=2).stdout
    assert "sharelag: 1 finding, " in sharelag("health", "--findings", *raw).stderr


def test_what_changed_between_two_moments() -> None:
    """Both moments were described by Kafka's own command when they were now."""
    noted = (path.with_suffix(".json").read_text() for path in (MOMENTS[3], MOMENTS[-1]))
    first, last = (json.loads(one)["as_of_ms"] for one in noted)
    iso = [datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (first, last)]
    lines = rows("windows", "--capture", str(CAPTURE), "--since", iso[0], "--as-of", iso[1])
    ours = {(line["group_id"], line["topic"], line["partition"]): line for line in lines}
    for path, side in ((MOMENTS[3], "before"), (MOMENTS[-1], "after")):
        for result in parse_describe(path.read_text()):
            line = ours[result["group_id"], result["topic"], result["partition"]]
            assert line[f"start_offset_{side}"] == result["start_offset"]
    assert {line["change"] for line in lines} >= {"reset", "moved"}


def test_kafkas_command_before_4_2_printed_no_lag_to_compare_with(tmp_path: Path) -> None:
    path = tmp_path / "described.txt"
    path.write_text("GROUP TOPIC PARTITION START-OFFSET\nbilling orders 0 2\n")
    asked = ("reconcile", "--capture", "demo", "--topic", "orders:0", "--described", str(path))
    (row,) = rows(*asked)
    assert (row["described_lag"], row["matches"]) == (None, None)
    assert row["differences"][-1]["reason"] == "no_lag"
    why = "not known: Kafka's lag in 1 of 1 share partition (Kafka's command printed a dash, or no"
    assert why in sharelag(*asked).stderr
