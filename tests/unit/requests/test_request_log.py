"""A request log, read: nothing is lost, what cannot be read is a reject; and what checks find."""

import gzip
import json
import random
import re
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.files.request_log import RequestLog, read_requests
from sharelag.inputs.files.text_pieces import Piece
from sharelag.metrics.columns import series
from sharelag.model import StateBatch
from sharelag.schemas import REQUEST_TABLES
from sharelag.wire import STATE_TOPIC, messages
from sharelag.wire.messages import APIS, SHARE_APIS, api
from sharelag.wire.requests.tables import tables_of
from sharelag.workbench.side_inputs import Requests
from tests.support.cases import Cases, few_of
from tests.support.command import refused, sharelag
from tests.support.request_lines import (
    KEYS,
    TOPIC,
    acknowledge,
    batches,
    described,
    fetch,
    heartbeat,
    line,
    log_of,
    rows,
    shown,
    state_call,
)

#: Requests about share groups alone.
SHARED = {name: key for name, key in KEYS.items() if "Share" in name}
RUN = ("first_offset", "last_offset")
WRITE = "WriteShareGroupState"


@pytest.mark.row("RPC-01")
def test_the_catalogue_has_every_request_about_share_groups() -> None:
    assert {name: key for key, name in SHARE_APIS.items()} == SHARED
    folder = Path(messages.__file__).parent
    shipped = {path.stem for path in folder.glob("*.json")}
    assert shipped == {f"{name}{end}" for name in APIS.values() for end in ("Request", "Response")}
    for key, name in APIS.items():
        text = (folder / f"{name}Request.json").read_text()
        head = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))
        assert (head["apiKey"], api(key).name) == (key, name)


@pytest.mark.row("FET-08")
def test_acquired_records_are_rows(tmp_path: Path) -> None:
    log = log_of(tmp_path, fetch(1_000, "m", 1, [(110, 110, 2), (120, 120, 1)]))
    found = log.table("acquisitions")
    assert rows(found, *RUN, "delivery_count") == [(110, 110, 2), (120, 120, 1)]
    assert rows(found, "member_id", "lock_ms") == [("m", 5_000)] * 2
    # 1,000 ms less what it took to answer and to send.
    moment = datetime(2026, 11, 23, 0, 0, 0, 999_500, UTC)
    assert set(found.column("timestamp").to_pylist()) == {moment}


@pytest.mark.row("RPC-05", "ACK-13")
@pytest.mark.parametrize("kind", [0, 1])
def test_one_type_is_that_of_a_whole_batch(tmp_path: Path, kind: int) -> None:
    log = log_of(tmp_path, fetch(0, "m", 1, acknowledged=[(100, 109, [kind])]))
    (only,) = rows(log.table("acknowledgements"), *RUN, "acknowledge_type", "api")
    assert only == (100, 109, kind, "ShareFetch")


def test_several_types_are_one_an_offset(tmp_path: Path) -> None:
    log = log_of(tmp_path, acknowledge(0, "m", 1, [(5, 10, [1, 1, 0, 3, 3, 2]), (20, 20, [4])]))
    found = rows(log.table("acknowledgements"), *RUN, "acknowledge_type")
    assert found == [(5, 6, 1), (7, 7, 0), (8, 9, 3), (10, 10, 2), (20, 20, 4)]


@pytest.mark.row("RPC-06")
def test_acquisitions_count_although_acknowledgements_were_refused(tmp_path: Path) -> None:
    log = log_of(tmp_path, fetch(0, "m", 1, [(7, 7, 1)], [(3, 3, [1])], error=42))
    assert rows(log.table("acquisitions"), *RUN) == [(7, 7)]
    assert rows(log.table("acknowledgements"), "error_code") == [(42,)]


@pytest.mark.row("RPC-14")
def test_a_write_before_version_1_has_no_count(tmp_path: Path) -> None:
    state: dict[str, Any] = {"stateEpoch": 1, "leaderEpoch": 3, "startOffset": 10}
    state |= {"stateBatches": batches([(11, 12, 2, 1)])}
    versions: list[dict[str, Any]] = [{"version": 0}, {"deliveryCompleteCount": 2}]
    writes = [state_call(WRITE, at, **state, **more) for at, more in enumerate(versions)]
    found = log_of(tmp_path, *writes).table("state_calls")
    names = ("call", "start_offset", "delivery_complete_count")
    assert rows(found, *names) == [("write", 10, None), ("write", 10, 2)]
    assert found.column("state_batches").to_pylist()[1] == [StateBatch(11, 12, 2, 1)._asdict()]


@pytest.mark.row("RPC-16")
def test_a_summary_is_what_was_answered(tmp_path: Path) -> None:
    answer = {"stateEpoch": 2, "leaderEpoch": 1, "startOffset": 2, "deliveryCompleteCount": 2}
    call = state_call("ReadShareGroupStateSummary", 0, leaderEpoch=9, answer=answer)
    log = log_of(tmp_path, call)
    names = ("call", "state_epoch", "leader_epoch", "start_offset", "delivery_complete_count")
    assert rows(log.table("state_calls"), *names) == [("summary", 2, 1, 2, 2)]


@pytest.mark.row("ADM-09")
def test_groups_of_all_types_are_listed_beside_the_coordinators_that_failed(tmp_path: Path) -> None:
    """Three valid ones and an error are three rows and one row."""
    kinds = {"g": "Share", "c": "Consumer", "old": "Classic"}
    groups = [
        {"groupId": name, "protocolType": "x", "groupState": "Stable", "groupType": kind}
        for name, kind in kinds.items()
    ]
    asked: dict[str, Any] = {"statesFilter": [], "typesFilter": []}
    log = log_of(
        tmp_path,
        line("ListGroups", 0, asked, {"errorCode": 0, "groups": groups}, version=5),
        line("ListGroups", 1, asked, {"errorCode": 14, "groups": []}, version=5),
    )
    listed = rows(log.table("listings"), "group_id", "type", "error_code")
    assert listed == [("g", "Share", 0), ("c", "Consumer", 0), ("old", "Classic", 0),
                      (None, None, 14)]  # fmt: skip
    (file,) = log.log.files
    printed = shown(file, "listings")
    assert [(row["group_id"], row["type"], row["error_code"]) for row in printed] == listed
    (said,) = shown(file, "errors")
    assert (said["api"], said["error_name"]) == ("ListGroups", "COORDINATOR_LOAD_IN_PROGRESS")


@pytest.mark.row("RPC-04")
def test_groups_and_their_members_are_described(tmp_path: Path) -> None:
    assignment = {"topicPartitions": [{"topicId": TOPIC, "topicName": "o", "partitions": [0, 2]}]}
    member = {
        "memberId": "m", "rackId": None, "memberEpoch": 5, "clientId": "c", "clientHost": "/h",
        "subscribedTopicNames": ["o", "r"], "assignment": assignment,
    }  # fmt: skip
    idle = member | {"memberId": "n", "rackId": "r1", "assignment": {"topicPartitions": []}}
    group = {
        "errorCode": 0, "errorMessage": None, "groupId": "g", "groupState": "Stable",
        "groupEpoch": 5, "assignmentEpoch": 4, "assignorName": "simple", "members": [member, idle],
        "authorizedOperations": -2147483648,
    }  # fmt: skip
    other = group | {"groupId": "h", "members": [], "authorizedOperations": 264}
    answer = {"groups": [group, other]}
    log = log_of(tmp_path, line("ShareGroupDescribe", 0, {"groupIds": ["g", "h"]}, answer))
    names = ("group_id", "group_state", "group_epoch", "assignment_epoch", "members")
    said = rows(log.table("descriptions"), *names, "authorized_operations")
    assert said == [("g", "Stable", 5, 4, 2, None), ("h", "Stable", 5, 4, 0, 264)]
    of_member = ("group_id", "member_id", "rack_id", "member_epoch", "client_id", "client_host")
    members = log.table("described_members")
    result = rows(members, *of_member)
    assert result == [("g", "m", None, 5, "c", "/h"), ("g", "n", "r1", 5, "c", "/h")]
    seen = rows(members, "subscribed_topic_names", "assigned_partitions")
    assert seen == [(["o", "r"], [{"topic_id": TOPIC, "partitions": [0, 2]}]), (["o", "r"], [])]
    assert len(shown(tmp_path, "described_members")) == 2


@pytest.mark.row("RPC-11")
def test_a_lag_that_is_not_known_is_null(tmp_path: Path) -> None:
    parts = [
        {"partitionIndex": n, "startOffset": start, "leaderEpoch": 0, "lag": lag, "errorCode": 0}
        for n, (start, lag) in enumerate([(2, 7), (-1, -1)])
    ]
    topic = {"topicName": "orders", "topicId": TOPIC, "partitions": parts}
    groups = [{"groupId": "g", "topics": [topic], "errorCode": 0}]
    log = log_of(tmp_path, line("DescribeShareGroupOffsets", 0, {"groups": []}, {"groups": groups}))
    found = rows(log.table("offset_calls"), "call", "topic", "partition", "start_offset", "lag")
    asked = ("describe offsets", "orders")
    assert found == [(*asked, 0, 2, 7), (*asked, 1, None, None)]


@pytest.mark.row("ADM-02")
def test_offsets_are_altered_partition_by_partition(tmp_path: Path) -> None:
    asked = [{"partitionIndex": n, "startOffset": 5 * n} for n in range(2)]
    answered = [
        {"partitionIndex": 0, "errorCode": 0, "errorMessage": None},
        {"partitionIndex": 1, "errorCode": 29, "errorMessage": "Not authorized."},
    ]
    request = {"groupId": "g", "topics": [{"topicName": "orders", "partitions": asked}]}
    response = {"errorCode": 0, "responses": [{"topicName": "orders", "partitions": answered}]}
    log = log_of(tmp_path, line("AlterShareGroupOffsets", 0, request, response))
    names = ("call", "topic", "partition", "start_offset", "error_code", "error_message")
    altered = ("alter offsets", "orders")
    told = [(*altered, 0, 0, 0, None), (*altered, 1, 5, 29, "Not authorized.")]
    assert rows(log.table("offset_calls"), *names) == told


@pytest.mark.row("ADM-03")
def test_offsets_of_a_subscribed_topic_are_not_deleted(tmp_path: Path) -> None:
    answered = [
        {"topicName": "orders", "topicId": TOPIC, "errorCode": 86, "errorMessage": "subscribed"},
        {"topicName": "returns", "topicId": TOPIC, "errorCode": 0, "errorMessage": None},
    ]
    request = {"groupId": "g", "topics": [{"topicName": one["topicName"]} for one in answered]}
    response = {"errorCode": 0, "responses": answered}
    log = log_of(tmp_path, line("DeleteShareGroupOffsets", 0, request, response))
    found = rows(log.table("offset_calls"), "call", "topic", "error_code")
    assert found == [("delete offsets", "orders", 86), ("delete offsets", "returns", 0)]


@pytest.mark.row("ADM-04")
def test_a_group_with_members_is_not_deleted(tmp_path: Path) -> None:
    answered = [{"groupId": "busy", "errorCode": 68}, {"groupId": "idle", "errorCode": 0}]
    asked = {"groupsNames": ["busy", "idle"]}
    log = log_of(tmp_path, line("DeleteGroups", 0, asked, {"results": answered}))
    found = rows(log.table("offset_calls"), "call", "group_id", "error_code")
    assert found == [("delete group", "busy", 68), ("delete group", "idle", 0)]


@pytest.mark.row("RPC-03")
def test_no_assignment_means_the_one_before(tmp_path: Path) -> None:
    given: list[list[int] | None] = [[0, 1], None, []]
    beats = (heartbeat(at, "m", 1, assigned=one) for at, one in enumerate(given))
    found = log_of(tmp_path, *beats).table("heartbeats").column("assigned_partitions").to_pylist()
    assert found == [[{"topic_id": TOPIC, "partitions": [0, 1]}], None, []]


def test_every_line_is_a_request_a_reject_or_skipped(tmp_path: Path) -> None:
    good = [fetch(n, "m", n, [(n, n, 1)]) for n in range(50)]
    broken = [
        good[0][:-60],  # cut off
        good[1].replace('"firstOffset":1', '"firstOffset":"one"'),
        good[2].replace("[2026-11-23 00:00:00,002]", "[today]"),
        good[3].replace('"requestApiKey":78,', ""),
    ]
    other = ["[2026-11-23 00:00:00,000] INFO Kafka version: 4.3.1"]
    other += [good[4].replace('"requestApiKey":78', '"requestApiKey":0'), ""]
    lines = good + broken + other
    random.Random(1).shuffle(lines)
    log = log_of(tmp_path, *lines)
    assert log.log.line_counts == (len(lines), len(other))
    assert log.table("requests").num_rows == len(good)
    assert log.table("rejects").num_rows == len(broken)
    assert set(log.table("rejects").column("text").to_pylist()) == set(broken)
    assert "57 lines: 50 requests about share groups, 4 that could not be read" in log.summary()


def test_a_log_that_is_cut_anywhere_is_read_up_to_there(tmp_path: Path, cases: Cases) -> None:
    whole = log_of(tmp_path, *[fetch(n, "m", n, [(n, n, 1)]) for n in range(20)])
    data = whole.log.path.read_bytes()
    ends = [n + 1 for n, octet in enumerate(data) if octet == ord("\n")]
    for cut in random.Random(2).sample(range(len(data)), cases(20, 500)):
        path = tmp_path / "cut.log"
        path.write_bytes(data[:cut])
        log = RequestLog(path)
        complete = sum(end <= cut for end in ends)
        # What is cut within the brackets after the JSON has all of it.
        assert log.tables["requests"].num_rows in (complete, complete + 1)
        rest = log.tables["rejects"].num_rows + log.line_counts[1]
        assert log.line_counts[0] == log.tables["requests"].num_rows + rest
        assert rest <= 1


@pytest.mark.parametrize("step", few_of([60, 100, 701, 5_000, 1 << 30], [701, 5_000, 1 << 30]))
def test_pieces_of_a_file_are_the_file(tmp_path: Path, step: int) -> None:
    lines = [fetch(n, "mem\u00f6ber", n, [(n, n, 1)]) for n in range(7)]
    log = log_of(tmp_path, *lines, "no request", described(9, "Empty", 1)).log
    size = log.path.stat().st_size
    pieces = [
        read
        for begin in range(0, size, step)
        for read in read_requests(
            Piece(str(log.path), begin, min(begin + step, size), log.path.name)
        )
    ]
    assert sum(one.total for one in pieces) == log.line_counts[0] == 9
    for name, schema in REQUEST_TABLES.items():
        parts = [tables_of(one)[name] for one in pieces]
        assert pa.Table.from_batches(parts, schema).equals(log.tables[name]), name


def test_times_are_those_of_the_zone(tmp_path: Path) -> None:
    said = described(0, "Empty", 1)
    log = log_of(tmp_path, said, said.replace("00,000]", "00,000+0530]"), zone="Europe/Berlin")
    found = log.table("descriptions").column("timestamp").to_pylist()
    assert [f"{at:%d %H:%M %Z}" for at in found] == ["22 23:00 UTC", "22 18:30 UTC"]
    skipped = said.replace("2026-11-23 00:", "2026-03-29 02:")
    log = log_of(tmp_path, said, skipped, zone="Europe/Berlin")
    assert log.table("descriptions").num_rows == 1
    (reject,) = log.table("rejects").column("reason").to_pylist()
    assert "its time zone is ambiguous or skips that time: name the one of the log" in reject
    with pytest.raises(InputError, match="unknown time zone 'Mars': give a name such as"):
        log_of(tmp_path, said, zone="Mars").table("requests")


def test_a_folder_is_all_of_its_files(tmp_path: Path) -> None:
    log_of(tmp_path, described(0, "Empty", 1))
    (tmp_path / "kafka-request.log.1").write_text(described(1, "Stable", 2) + "\n")
    log = RequestLog(tmp_path)
    assert log.tables["descriptions"].column("group_state").to_pylist() == ["Empty", "Stable"]
    with pytest.raises(InputError, match="no request log at"):
        RequestLog(tmp_path / "missing").tables  # noqa: B018


@pytest.mark.row("RPC-18")
def test_a_broker_that_leads_no_more_names_the_leader(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        fetch(1_000, "m", 1, [(110, 110, 1)]),  # its current leader, zeros, means nothing
        fetch(2_000, "m", 2, fetch_error=6, leader=(3, 7)),
        fetch(3_000, "m", 3, [], [(110, 110, [1])], error=6, leader=(3, 7), partition=4),
        fetch(4_000, "m", 4, fetch_error=74, leader=(-1, -1)),
        acknowledge(5_000, "m", 5, [(110, 110, [1])], error=121),
    )
    found = log.table("current_leaders")
    assert rows(found, "partition", "leader_id", "current_leader_epoch", "error_code") == [
        (0, 3, 7, 6),
        (4, 3, 7, 6),
        (0, None, None, 74),  # neither is known there
    ]
    who = rows(found, "group_id", "topic_id", "member_id", "api")
    assert who == [("g", TOPIC, "m", "ShareFetch")] * 3
    assert log.table("acknowledgements").num_rows == 2
    assert len(shown(tmp_path, "current_leaders")) == 3


@pytest.mark.parametrize("names", [("1/kafka-request.log", "2/kafka-request.log"), ("1", "2")])
def test_files_of_brokers_may_have_the_same_name(tmp_path: Path, names: tuple[str, str]) -> None:
    """Lines of two brokers have no common order, whatever their files are called."""
    filler = ["no request"] * 50
    first = [*filler, fetch(100, "m", 1, [(0, 9, 1)]), acknowledge(900, "m", 2, [(0, 9, [2])])]
    second = [fetch(2_000, "m", 0, [(50, 59, 1)], partition=1)]
    for name, lines in zip(names, (first, second), strict=True):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    log = RequestLog(tmp_path)
    assert set(log.tables["requests"].column("source").to_pylist()) == set(names)
    holds = rows(Requests(log).table("holds"), "partition", "ended_by")
    assert holds == [(0, "release"), (1, None)]


def packed(folder: Path, octets: bytes) -> Requests:
    (folder / "a b.log.gz").write_bytes(octets)
    return Requests(RequestLog(folder))


def test_a_packed_file_is_read_up_to_where_it_is_cut(tmp_path: Path) -> None:
    """Wherever it is cut: whole lines before it are read, and the rest is one reject."""
    random_ = random.Random("cut")
    names = [random_.randbytes(40).hex() for _ in range(60)]  # of which little can be packed
    lines = [fetch(n, name, 0, [(n, n, 1)]) for n, name in enumerate(names)]
    text = "\n".join(lines).encode() + b"\n"
    whole = gzip.compress(text)
    for at in sorted(random_.sample(range(200, len(whole)), 15)):
        found = packed(tmp_path, whole[:at])
        before = zlib.decompressobj(31).decompress(whole[:at])
        assert found.log.tables["requests"].num_rows == before.count(b"\n")
        (reject,) = found.log.tables["rejects"].to_pylist()
        assert reject["position"] == before.rfind(b"\n") + 1
        assert before.decode().endswith(reject["text"])
        assert reject["reason"] == "it is cut off, and what follows was not read"
        assert found.log.line_counts == (before.count(b"\n") + 1, 0)
    assert not packed(tmp_path, whole).log.tables["rejects"].num_rows


def test_all_of_a_packed_file_is_read_before_its_wrong_checksum(tmp_path: Path) -> None:
    text = (fetch(0, "m", 0) + "\n").encode()
    octets = bytearray(gzip.compress(text) + gzip.compress(text) + bytes(512))
    assert packed(tmp_path, bytes(octets)).log.tables["requests"].num_rows == 2  # members, zeros
    octets[-518] ^= 1
    found = packed(tmp_path, bytes(octets))
    assert found.log.tables["requests"].num_rows == 2
    (reject,) = found.log.tables["rejects"].to_pylist()
    assert "it is damaged: " in reject["reason"]
    assert "incorrect data check" in reject["reason"]
    done = sharelag("requests", str(tmp_path), "--show", "rejects")
    assert "1 that could not be read" in done.stderr
    assert "a b.log.gz" in done.stdout


def test_a_packed_file_of_which_nothing_can_be_unpacked_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a b.log.gz").write_bytes(b"\x1f\x8b" + fetch(0, "m", 0).encode())
    said = refused("requests", str(tmp_path))
    assert f"cannot unpack {tmp_path}/a b.log.gz: it is damaged: " in said
    assert f"`gzip -dc '{tmp_path}/a b.log.gz'` unpacks of it" in said


@pytest.mark.parametrize(
    ("block", "times", "words"),
    [
        (b"x" * ((8 << 20) - 1) + b"\n", 33, "becomes more than 256 MiB"),
        (b"x" * (8 << 20), 10, "has a line of more than 64 MiB"),
    ],
    ids=["many lines", "one line"],
)
def test_packed_files_fill_no_memory(tmp_path: Path, block: bytes, times: int, words: str) -> None:
    path = tmp_path / "request.log.gz"
    path.write_bytes(gzip.compress(block) * times)
    assert path.stat().st_size < 300_000
    before = pa.total_allocated_bytes()
    with pytest.raises(InputError, match=f"request.log.gz {words}"):
        _ = RequestLog(path).tables
    assert pa.total_allocated_bytes() - before < 64 << 20


def test_a_file_that_is_packed_otherwise_is_refused(tmp_path: Path) -> None:
    (tmp_path / "request.log.zst").write_bytes(b"(\xb5/\xfd")
    with pytest.raises(InputError, match="is compressed: decompress it, or compress it with gzip"):
        _ = RequestLog(tmp_path).tables


REFUSED = "write with leader epoch 4 and state epoch 1 was refused: the leader epoch is outdated"


def found(folder: Path, *lines: str, history: pa.Table | None = None) -> list[tuple[Any, ...]]:
    return rows(log_of(folder, *lines).findings(history), "finding", "summary")


@pytest.mark.row("FET-03")
def test_session_epochs_follow_each_other(tmp_path: Path) -> None:
    fine = [fetch(n, "a", n) for n in range(3)] + [acknowledge(3, "a", 3, [])]
    closed = acknowledge(4, "a", -1, [])
    assert found(tmp_path, *fine, closed, fetch(5, "a", 0)) == []
    gap = [fetch(0, "a", 0), fetch(1, "a", 1), fetch(2, "a", 3), fetch(2, "b", 9)]
    words = "session epoch 3 follows 1: a request is missing or was sent twice"
    assert found(tmp_path, *gap) == [("session epoch gap", words)]


@pytest.mark.row("SEC-05")
def test_an_error_that_the_request_never_has(tmp_path: Path) -> None:
    listed = [fetch(0, "a", 0, error=121), fetch(1, "a", 1, error=6), acknowledge(2, "a", 2, [])]
    calls = [state_call(WRITE, 3, leaderEpoch=1, stateEpoch=1, startOffset=0, stateBatches=[])]
    assert found(tmp_path, *listed, *calls) == []
    log = tmp_path / "kafka-request.log"
    one = fetch(0, "a", 0).replace('"errorCode":0', '"errorCode":68', 1)
    other = fetch(1_000, "a", 1, acknowledged=[(0, 4, [1])], error=999)
    log.write_text(f"{one}\n{other}\n")
    unlisted = "ShareFetch was answered with {}, which Kafka does not list for it"
    assert [(row["finding"], row["summary"]) for row in shown(log, "findings")] == [
        ("unlisted error", unlisted.format("NON_EMPTY_GROUP: the group has members")),
        ("unlisted error", unlisted.format("error 999")),
    ]


def test_errors_are_counted_and_explained(tmp_path: Path) -> None:
    lock = [fetch(n, "a", n, acknowledged=[(n, n, [1])], error=121) for n in range(3)]
    whole = acknowledge(3_000, "a", 3, [(5, 9, [1])]).replace('"errorCode":0', '"errorCode":122', 1)
    refused = [fetch(n, "a", n).replace('"errorCode":0', '"errorCode":30', 1) for n in (5, 6)]
    fine = fetch(4_000, "b", 0, [(10, 19, 1)])
    table = log_of(tmp_path, *lock, whole, fine, *refused).table("errors")
    assert rows(table, "group_id", "api", "error_code", "error_name", "answers") == [
        ("g", "ShareFetch", 121, "INVALID_RECORD_STATE", 3),
        ("g", "ShareFetch", 30, "GROUP_AUTHORIZATION_FAILED", 2),
        ("g", "ShareAcknowledge", 122, "SHARE_SESSION_NOT_FOUND", 1),
    ]
    assert table.column("meaning")[0].as_py() == "the member no longer holds the record"
    assert "share.record.lock.duration.ms" in table.column("advice")[0].as_py()
    assert table.column("advice")[1].as_py().endswith("--operation Describe --group g")
    done = sharelag("requests", str(tmp_path / "kafka-request.log"), "--show", "errors")
    assert "INVALID_RECORD_STATE" in done.stdout
    assert "the member no longer holds the record" in done.stdout


#: What is said of states, with their assignment epochs, that do not come so.
OUT_OF_ORDER = {
    "Stable 5, Dead 5": (
        "group state", "Stable, then Dead: it was not seen Empty, which comes between"
    ),
    "Stable 5, Stable 4": (
        "assignment epoch went back", "assignment epoch 4 after 5: it never goes back"
    ),
}  # fmt: skip
#: A group that was deleted begins anew.
IN_ORDER = ("Empty 5, Stable 5, Empty 5, Dead 5", "Stable 4, Stable 5", "Empty 5, Dead 0, Stable 1")


@pytest.mark.row("GRP-15", "ADM-12", "GRP-18")
@pytest.mark.parametrize("states", [*OUT_OF_ORDER, *IN_ORDER])
def test_states_and_epochs_of_a_group_come_in_order(states: str, tmp_path: Path) -> None:
    seen = (one.split() for one in states.split(", "))
    lines = [described(n, state, int(epoch)) for n, (state, epoch) in enumerate(seen)]
    said = OUT_OF_ORDER.get(states)
    assert found(tmp_path, *lines) == ([said] if said else [])


def test_two_groups_without_a_member_id_are_two_runs() -> None:
    columns: dict[str, Any] = {"group_id": ["a", "a", "b"], "member_id": pa.nulls(3, pa.string())}
    columns |= {"timestamp": [1, 2, 3], "source": ["log"] * 3, "position": [0, 1, 2]}
    _, first = series(pa.table(columns), ("group_id", "member_id"))
    assert first.tolist() == [True, False, True]


@pytest.mark.row("PSS-05")
def test_leader_epochs_never_go_back(tmp_path: Path) -> None:
    def write(at: int, epoch: int, error: int = 0) -> str:
        return state_call(
            WRITE, at, leaderEpoch=epoch, stateEpoch=1, startOffset=0, stateBatches=[], error=error
        )

    assert found(tmp_path, write(0, 4), write(1, 5)) == []
    said = found(tmp_path, write(0, 5), write(1, 4))
    assert said == [("leader epoch went back", "leader epoch 4 after 5: it never goes back")]
    assert found(tmp_path, write(0, 5), write(1, 4, error=74)) == [("fenced", REFUSED)]


@pytest.mark.row("ADM-01")
def test_a_state_that_was_deleted_in_part_is_found(tmp_path: Path) -> None:
    def deleted(*partitions: int) -> list[str]:
        return [state_call("DeleteShareGroupState", 10 + n, n) for n in partitions]

    begun = [state_call("InitializeShareGroupState", n, n, stateEpoch=1) for n in (0, 1)]
    assert found(tmp_path, *begun) == []
    assert found(tmp_path, *begun, *deleted(0, 1)) == []
    words = (
        "the state of 1 of 2 partitions was deleted: the deletion is still running, or stopped "
        "halfway"
    )
    assert found(tmp_path, *begun, *deleted(0)) == [("partial delete", words)]


@pytest.mark.row("ADM-01")
def test_tombstones_of_some_partitions_are_a_partial_delete(tmp_path: Path) -> None:
    log = log_of(tmp_path, described(0, "Empty", 1))
    rest = _history((0, 0, "snapshot"), (1, 1, "snapshot"), (0, 2, "tombstone"))
    assert rows(log.findings(rest), "finding") == [("partial delete",)]
    gone = _history((0, 0, "snapshot"), (0, 2, "tombstone"), (1, 3, "tombstone"))
    assert log.findings(gone).num_rows == 0


@pytest.mark.row("PSS-05")
def test_records_of_an_older_leader_are_found(tmp_path: Path) -> None:
    records = _history((0, 0, "update"), (0, 1, "update"), epochs=(5, 4))
    ((_, said),) = found(tmp_path, described(0, "Empty", 1), history=records)
    assert said == "leader epoch 4 after 5: it never goes back"


def test_a_write_without_a_record_is_found(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"leaderEpoch": 0, "stateBatches": []}
    writes = [state_call(WRITE, at, startOffset=at, **asked) for at in (100, 500, 900)]
    records = _history((0, 0, "snapshot"), (0, 1, "update"), (0, 2, "update"), times=(99, 499, 899))
    assert found(tmp_path, *writes, history=records) == []
    # The first may have been pruned, the second has none.
    (only,) = found(tmp_path, *writes, history=records.take([0, 2]))
    assert only[0] == "write without a record"
    assert found(tmp_path, *writes, history=records.take([1, 2])) == []


def _history(
    *records: tuple[int, int, str], epochs: tuple[int, ...] = (), times: tuple[int, ...] = ()
) -> pa.Table:
    begin = datetime(2026, 11, 23, tzinfo=UTC)
    place = {"group_id": "g", "topic_id": TOPIC, "record_topic": STATE_TOPIC, "record_partition": 0}
    made = [
        place
        | {"partition": partition, "record_offset": offset, "record_kind": kind, "state_epoch": 1}
        | {"record_timestamp": begin + timedelta(milliseconds=times[n] if times else offset)}
        | {"leader_epoch": epochs[n] if epochs else 0}
        for n, (partition, offset, kind) in enumerate(records)
    ]
    return pa.Table.from_pylist(made, schema=schemas.HISTORY)
