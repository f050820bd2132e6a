"""Who holds what by a request log: members, sessions, locks and acknowledgements; in lag, too."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import sharelag
from sharelag.errors import InputError
from sharelag.metrics.holders import NEVER_DELIVERED, lines_of_places
from tests.support.chapters import CAPTURE
from tests.support.command import ask, refused
from tests.support.command import sharelag as command
from tests.support.request_lines import (
    TOPIC,
    acknowledge,
    batches,
    described,
    fetch,
    heartbeat,
    log_of,
    rows,
    shown,
    shown_of,
    state_call,
)

#: Topic `orders` of the recorded demo, of which `billing` has not read what is beyond 680.
ORDERS = "sKsPW6TOQnKQg0plb_HCDA"
RUN = ("first_offset", "last_offset", "lock_state", "member_id")
HOLD = ("member_id", "first_offset", "last_offset", "ended_by")
INVALID_RECORD_STATE, UNKNOWN_MEMBER_ID, NOT_COORDINATOR = 121, 25, 16


@pytest.fixture(name="log")
def log_beside_the_demo(tmp_path: Path) -> Path:
    """A log that goes from a moment before the capture to one after it."""
    lines = [state_call("InitializeShareGroupState", 0, stateEpoch=1, startOffset=-1)]
    lines += [fetch(1_000, "m-7", 0, [(680, 699, 1)]), fetch(50_000, "m-8", 0)]
    return log_of(tmp_path, *[_of_demo(one) for one in lines]).log.path


def _of_demo(line: str) -> str:
    line = line.replace("2026-11-23 00:00:", "2026-11-21 11:45:").replace(TOPIC, ORDERS)
    return line.replace('"groupId":"g"', '"groupId":"billing"')


def test_what_is_unread_is_held_or_was_never_delivered(log: Path) -> None:
    bench = sharelag.open("chapters", engine="local", requests=log)
    evidence = bench.evidence("billing")
    found = rows(evidence.holders, *RUN)
    assert found == [(680, 699, "acquired", "m-7"), (700, 1099, NEVER_DELIVERED, None)]
    at = evidence.lag.column("partition").to_pylist().index(0)
    held, never = evidence.lag.column("notes").to_pylist()[at]
    assert held.startswith("680-699 acquired by m-7 since 2026-11-21 11:45:00 UTC")
    assert never == "400 never delivered"
    assert "acquired by m-7" in bench.lag("billing").to_text()
    notes = [row["notes"] for row in ask("lag", "--capture", str(CAPTURE), "--requests", str(log))]
    assert [one for one in notes if one and "acquired by m-7" in one[0]] == [[held, never]]


def test_a_cause_names_who_holds_offsets_in_each_of_its_share_partitions(log: Path) -> None:
    """Not only in the one with the most offsets, which is partition 3."""
    of_three = fetch(2_000, "m-8", 1, [(670, 674, 1)], partition=3)
    with log.open("a") as file:
        file.write(_of_demo(of_three) + "\n")
    bench = sharelag.open("chapters", engine="local", requests=log)
    (found,) = bench.explain("billing").table.column("evidence").to_pylist()
    (held,) = [one["value"] for one in found if one["name"] == "held_by"]
    first, second = held.split("; ")
    assert first.startswith("orders:0: 680-699 acquired by m-7 since")
    assert second.startswith("orders:3: 670-674 acquired by m-8 since")
    given = ("--capture", str(CAPTURE), "--group", "billing", "--requests", str(log))
    shown = " ".join(command("explain", *given).stdout.split())
    assert first in shown
    assert second in shown


@pytest.mark.parametrize(
    ("more", "said"), [(1, "1 more share partition"), (2, "2 more share partitions")]
)
def test_five_share_partitions_are_named_and_the_others_counted(more: int, said: str) -> None:
    place = {"group_id": "g", "topic": "orders", "topic_id": TOPIC}
    places = [place | {"partition": number} for number in range(5 + more)]
    found = {("g", TOPIC, number): f"held by m-{number}" for number in range(5 + more)}
    *named, last = lines_of_places(places, found)
    assert named == [f"orders:{number}: held by m-{number}" for number in range(5)]
    assert last == f"and {said}"


def test_a_log_that_ended_before_says_nothing(log: Path) -> None:
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:2]))
    evidence = sharelag.open("chapters", engine="local", requests=log).evidence()
    assert evidence.holders.num_rows == 0
    assert "acquired" not in str(evidence.lag.column("notes").to_pylist())


def test_nothing_is_called_never_delivered_where_the_log_began_later(log: Path) -> None:
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    evidence = sharelag.open("chapters", engine="local", requests=log).evidence()
    assert rows(evidence.holders, *RUN) == [(680, 699, "acquired", "m-7")]


@pytest.mark.parametrize("name", ["lag", "explain"])
def test_commands_say_from_when_to_when_the_log_goes(log: Path, name: str) -> None:
    answer = command(name, "--capture", str(CAPTURE), "--requests", str(log), code=0)
    # With milliseconds, as the log has them: its first request came in 2 ms before it was done.
    goes = "the request log covers 2026-11-21T11:44:59.998Z to 2026-11-21T11:45:50.000Z"
    assert goes in answer.stderr
    assert ", its times read as UTC, since they name no zone" in answer.stderr
    assert "is not known" not in answer.stderr
    # Two hours east of UTC the same clock was earlier.
    east = ("--requests-zone", "Asia/Tokyo")
    answer = command(name, "--capture", str(CAPTURE), "--requests", str(log), *east)
    assert "who holds what at the moment above is not known" in answer.stderr


def test_windows_name_members_in_every_form(log: Path) -> None:
    given = ("windows", "--capture", str(CAPTURE), "--requests", str(log), "--group", "billing")
    held = "680-699 acquired by m-7 since 2026-11-21 11:45:00 UTC"
    notes = {(row["topic"], row["partition"]): row["notes"] for row in ask(*given)}
    mine = notes.pop(("orders", 0))
    assert mine == [held, "400 never delivered"]
    assert len(notes) == 9
    assert not any(notes.values())
    drawn = command(*given, "--picture")
    assert f"  {held}\n" in drawn.stdout
    assert "680-699" in drawn.stdout
    assert "Q acquired, by the request log" in drawn.stdout
    assert "the request log covers" in drawn.stderr
    assert held in command(*given).stdout
    bench = sharelag.open("chapters", engine="local", requests=log)
    shown = bench.windows("billing")
    assert [one for one in shown.table.column("notes").to_pylist() if one] == [mine]
    assert "acquired by m-7" in shown.to_text()
    assert "remove --since" in refused(*given, "--since", "10m", code=2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lag", "--requests-zone", "UTC"], "--requests-zone needs --requests"),
        (["lag", "--brief", "--requests", "LOG"], "--requests needs --by partition"),
        (["requests", "LOG", "--show", "holds", "--as-of", "x"], "--as-of needs --show held."),
        (["requests", "LOG", "--capture", "x"], "--capture needs --show findings."),
    ],
)
def test_options_that_say_nothing_are_refused(log: Path, arguments: list[str], said: str) -> None:
    given = [str(log) if one == "LOG" else one for one in arguments]
    source = ["--capture", str(CAPTURE)] if given[0] == "lag" else []
    assert said in refused(*given, *source, code=2)


def test_requests_shows_tables_and_counts_findings(log: Path) -> None:
    answer = command("requests", str(log), "--show", "acquisitions", code=0)
    heading, row = answer.stdout.splitlines()
    assert heading.split()[:3] == ["TIMESTAMP", "GROUP", "TOPIC-ID"]
    assert "m-7" in row
    assert "3 lines: 3 requests about share groups, 0 that could not be read" in answer.stderr
    (held,) = ask("requests", str(log), "--as-of", "2026-11-21T11:45:02Z")
    assert held["last_offset"] == 699
    with log.open("a") as file:
        file.write(_of_demo(fetch(51_000, "m-8", 5)) + "\n")
    said = command("requests", str(log), "--group", "billing").stderr
    assert "session epoch gap: 1; --show findings shows them" in said
    findings = ("requests", str(log), "--show", "findings", "--group")
    assert "session epoch 5 follows 0" in command(*findings, "billing").stdout
    assert "follows" not in command(*findings, "x").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "nobody holds any offset at the end of the log; --show holds lists every lock"),
        (["--as-of", "2026-11-21T11:45:09Z"], "nobody holds any offset at 2026-11-21T11:45:09"),
        (["--group", "other"], "nobody holds any offset at the end of the log"),
        (["--show", "listings"], "the request log has no rows for --show listings"),
        (["--show", "findings"], "the checkers found nothing wrong"),
        (["--show", "findings", "--group", "billing"], "the checkers found nothing wrong"),
    ],
)
def test_a_table_without_rows_is_a_sentence(log: Path, options: list[str], said: str) -> None:
    answer = command("requests", str(log), *options)
    assert (answer.returncode, answer.stdout) == (0, "")
    assert f"sharelag: {said}" in answer.stderr
    assert said not in command("requests", str(log), *options, "-o", "json").stderr


def test_findings_take_the_name_of_a_sample_as_other_commands_do(log: Path) -> None:
    given = ("requests", str(log), "--show", "findings", "--capture")
    by_name, by_path = (command(*given, one, code=0) for one in ("chapters", str(CAPTURE)))
    assert by_name.stdout == by_path.stdout
    assert "no capture at chapterz" in refused(*given, "chapterz")


def at(milliseconds: int) -> datetime:
    """The moment of a line."""
    return datetime(2026, 11, 23, tzinfo=UTC) + timedelta(milliseconds=milliseconds)


@pytest.mark.parametrize("table", ["memberships", "sessions"])
def test_no_member_is_no_row(table: str, tmp_path: Path) -> None:
    assert shown_of(tmp_path, table, described(0, "Empty", 1)) == []


# ---- memberships ---------------------------------------------------------------------------------
@pytest.mark.row("GRP-01")
def test_a_member_that_joins_is_a_row_and_one_that_leaves_has_an_end(tmp_path: Path) -> None:
    beat = heartbeat(10, "m", 0, answered=1, assigned=[0])
    (joined,) = shown_of(tmp_path, "memberships", beat)
    assert (joined["member_id"], joined["member_epoch"], joined["until"]) == ("m", 1, None)
    assert joined["assigned_partitions"] == [{"topic_id": TOPIC, "partitions": [0]}]
    lines = [beat, heartbeat(20, "m", 1), heartbeat(30, "m", -1)]
    (left,) = log_of(tmp_path, *lines).table("memberships").to_pylist()
    assert (left["since"], left["until"], left["ended_by"]) == (at(10), at(30), "left")
    assert left["heartbeats"] == 2


@pytest.mark.row("RPC-02")
def test_what_a_heartbeat_leaves_out_is_as_before(tmp_path: Path) -> None:
    """GL-16: null, and -1 for a rebalance timeout that Kafka's request has no more."""
    said = shown_of(
        *(tmp_path, "memberships"),
        heartbeat(10, "m", 0, answered=1, rackId="r1", subscribedTopicNames=["a"], assigned=[0]),
        heartbeat(20, "m", 1, rebalanceTimeoutMs=-1),
        heartbeat(30, "m", 1, subscribedTopicNames=["a", "b"]),
        heartbeat(40, "m", 1, answered=2, assigned=[]),
        heartbeat(50, "m", 2, subscribedTopicNames=["a", "b"], assigned=[]),  # nothing new
    )
    names = ("member_epoch", "rack_id", "subscribed_topic_names", "assigned_partitions")
    held = [{"topic_id": TOPIC, "partitions": [0]}]
    assert [tuple(one[name] for name in (*names, "heartbeats")) for one in said] == [
        (1, "r1", ["a"], held, 2),
        (1, "r1", ["a", "b"], held, 1),
        (2, "r1", ["a", "b"], [], 2),
    ]
    assert [one["ended_by"] for one in said] == ["changed", "changed", None]


def test_each_life_of_a_member_begins_without_the_one_before(tmp_path: Path) -> None:
    table = log_of(
        tmp_path,
        heartbeat(10, "a", 0, answered=1, subscribedTopicNames=["x"]),
        heartbeat(20, "a", 0, answered=3, subscribedTopicNames=["y"]),
        heartbeat(30, "a", 3, error=UNKNOWN_MEMBER_ID),
        heartbeat(40, "a", 3, error=UNKNOWN_MEMBER_ID),
        heartbeat(50, "a", 0, answered=4),
        heartbeat(60, "b", -1),  # a member from before the log
        heartbeat(70, "c", 7),
        heartbeat(80, "c", 7, error=NOT_COORDINATOR),
        heartbeat(90, "c", -1),
    ).table("memberships")
    assert rows(table, "member_id", "since", "until", "ended_by") == [
        ("a", at(10), at(20), "joined again"),
        ("a", at(20), at(30), "removed"),
        ("a", at(50), None, None),
        ("b", None, at(60), "left"),
        ("c", at(70), at(90), "left"),
    ]
    assert rows(table, "subscribed_topic_names") == [(["x"],), (["y"],), (None,), (None,), (None,)]
    assert rows(table, "joined") == [(at(10),), (at(20),), (at(50),), (None,), (None,)]
    assert rows(table, "heartbeats") == [(1,), (1,), (1,), (0,), (1,)]


# ---- sessions ------------------------------------------------------------------------------------
@pytest.mark.row("FET-02")
def test_a_session_has_what_was_added_and_not_forgotten(tmp_path: Path) -> None:
    """Add t-0 and t-1, forget t-0: t-1 is left."""
    added = [fetch(1_000, "m", 0, partition=0), fetch(2_000, "m", 1, partition=1)]
    both = shown_of(tmp_path, "sessions", *added)
    assert [(one["partition"], one["until"]) for one in both] == [(0, None), (1, None)]
    then = shown_of(tmp_path, "sessions", *added, fetch(3_000, "m", 2, partition=-1, forgotten=[0]))
    assert [one["partition"] for one in then if one["until"] is None] == [1]
    (gone,) = [one for one in then if one["until"]]
    assert (gone["partition"], gone["ended_by"]) == (0, "forgotten")
    assert gone["until"].startswith("2026-11-23T00:00:02.998")  # when the broker had it


def test_a_session_ends_when_it_is_closed_or_opened_anew(tmp_path: Path) -> None:
    table = log_of(
        tmp_path,
        fetch(1_000, "a", 0, partition=0),
        fetch(2_000, "a", 1, partition=1, forgotten=[0]),
        fetch(3_000, "a", 2, partition=0),
        acknowledge(4_000, "a", -1, []),
        fetch(5_000, "a", 0, partition=2),
        fetch(1_000, "b", 0, partition=0),
        fetch(2_000, "b", 0, partition=0),
        fetch(1_000, "c", 7, partition=4),  # of a session that began before the log
        fetch(2_000, "d", 0, partition=5).replace('"errorCode":0', '"errorCode":30', 1),
    ).table("sessions")
    assert rows(table, "member_id", "partition", "ended_by") == [
        ("a", 0, "forgotten"),
        ("a", 0, "session closed"),
        ("a", 1, "session closed"),
        ("a", 2, None),
        ("b", 0, "session opened anew"),
        ("b", 0, None),
        ("c", 4, None),
    ]


# ---- locks ---------------------------------------------------------------------------------------
def test_acknowledgements_end_what_they_name(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        fetch(1_000, "a", 0, [(0, 9, 1)]),
        acknowledge(1_500, "a", 1, [(0, 3, [1]), (4, 4, [2]), (5, 5, [3]), (6, 6, [0])]),
    )
    assert rows(log.table("holds"), *HOLD) == [
        ("a", 0, 3, "accept"),
        ("a", 4, 4, "release"),
        ("a", 5, 5, "reject"),
        ("a", 6, 6, "gap"),
        ("a", 7, 9, None),
    ]
    assert rows(log.table("held"), *HOLD[:3]) == [("a", 7, 9)]
    runs = [(0, 3), (4, 4), (5, 5), (6, 6), (7, 9)]
    assert rows(log.table("held", at(1_200)), *HOLD[:3]) == [("a", *run) for run in runs]


def test_a_lock_expires_unless_it_is_renewed(tmp_path: Path) -> None:
    log = log_of(
        tmp_path,
        fetch(1_000, "a", 0, [(0, 1, 1)]),
        acknowledge(4_000, "a", 1, [(1, 1, [4])]),
        fetch(7_000, "b", 0, [(0, 0, 2)]),
    )
    found = rows(log.table("holds"), *HOLD)
    assert found == [("a", 0, 0, "lock expired"), ("b", 0, 0, None), ("a", 1, 1, None)]
    expired, _, renewed = log.table("holds").column("locked_until").to_pylist()
    assert expired == at(5_999) + timedelta(microseconds=500)
    assert renewed - expired == timedelta(milliseconds=2_999)


#: What follows upon a fetch of offset 0 and more by a.
REFUSED = acknowledge(1_500, "a", 1, [(0, 0, [1])], error=INVALID_RECORD_STATE)
OF_ANOTHER = acknowledge(1_500, "b", 1, [(0, 0, [1])])
CLOSED = acknowledge(2_000, "a", -1, [(0, 2, [1])])
NEW_LEADER = state_call("ReadShareGroupState", 2_000, leaderEpoch=1, answer={"stateBatches": []})
GIVEN_BACK: dict[str, Any] = {"startOffset": 0, "stateBatches": batches([(0, 0, 0, 1)])}
WRITTEN = state_call("WriteShareGroupState", 2_000, **GIVEN_BACK)
SAME_MILLISECOND = fetch(1_000, "a", 1, [(1, 1, 1)], [(0, 0, [1])])
NEXT_HELD = ("a", 1, 1, None)


@pytest.mark.parametrize(
    ("last", "lines", "ends"),
    [
        pytest.param(0, [REFUSED], [("a", 0, 0, None)], id="refused"),
        pytest.param(0, [OF_ANOTHER], [("a", 0, 0, None)], id="by another"),
        pytest.param(5, [CLOSED, fetch(3_000, "b", 0)],
                     [("a", 0, 2, "accept"), ("a", 3, 5, "session closed")], id="session closed"),
        # It knows of no lock.
        pytest.param(0, [NEW_LEADER], [("a", 0, 0, "leader changed")], id="another leader"),
        # The connection was lost, which no request tells: the leader gave offset 0 back.
        pytest.param(1, [WRITTEN], [("a", 0, 0, "state written"), NEXT_HELD], id="written"),
        pytest.param(0, [SAME_MILLISECOND], [("a", 0, 0, "accept"), NEXT_HELD], id="at once"),
    ],
)  # fmt: skip
def test_what_ends_a_lock(last: int, lines: list[str], ends: list[Any], tmp_path: Path) -> None:
    log = log_of(tmp_path, fetch(1_000, "a", 0, [(0, last, 1)]), *lines)
    assert rows(log.table("holds"), *HOLD) == ends


def test_a_moment_outside_the_log_is_an_error(tmp_path: Path) -> None:
    log = log_of(tmp_path, fetch(1_000, "a", 0, [(0, 0, 1)]))
    with pytest.raises(InputError, match="which does not include that moment"):
        log.table("held", at(60_000))


# ---- acknowledgements of what was acquired at once -----------------------------------------------
@pytest.mark.row("ACK-15")
def test_a_batch_that_is_acknowledged_as_one(tmp_path: Path) -> None:
    """GL-01, step 2: one range, 100-109."""
    steps = [fetch(1_000, "m", 0, [(100, 109, 1)]), acknowledge(2_000, "m", 1, [(100, 109, [1])])]
    (said,) = shown_of(tmp_path, "acknowledgements", *steps)
    assert (said["first_offset"], said["last_offset"], said["acknowledge_type"]) == (100, 109, 1)
    (row,) = shown(tmp_path, "batching")
    assert (row["acknowledged_runs"], row["whole_runs"], row["whole_ratio"]) == (1, 1, 1.0)
    assert (row["acquired_offsets"], row["acknowledged_offsets"]) == (10, 10)


@pytest.mark.row("FET-05")
def test_batches_that_are_acknowledged_in_parts(tmp_path: Path) -> None:
    parts = [(100, 104, [1]), (105, 109, [2])]
    neighbours = [(110, 129, [1])]
    (first, second) = shown_of(
        *(tmp_path, "batching"),
        fetch(1_000, "a", 0, [(100, 109, 1), (110, 119, 1), (120, 129, 1)]),
        acknowledge(2_000, "a", 1, [*parts, *neighbours, (100, 109, [4])]),
        acknowledge(3_000, "a", 2, [(100, 109, [1])], error=INVALID_RECORD_STATE),
        fetch(4_000, "b", 0, [(105, 109, 2)]),
    )
    # One acknowledgement may be of two acquired runs; renewals and refusals do not count.
    counted = ("member_id", "acquired_runs", "acknowledged_runs", "whole_runs", "whole_ratio")
    assert [first[name] for name in counted] == ["a", 3, 3, 1, pytest.approx(1 / 3)]
    assert [second[name] for name in counted] == ["b", 1, 0, 0, None]
