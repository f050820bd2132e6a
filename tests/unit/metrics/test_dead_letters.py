"""The ledger of a dead-letter queue says what comparing offset by offset says."""

from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.dead_letters import (
    EITHER,
    LIMIT,
    REJECTED,
    archived_arrow,
    count_letters,
    ledger_arrow,
    letters_arrow,
    redrive_arrow,
    summary_words,
    sums_of,
)
from sharelag.metrics.lag import lag_arrow
from sharelag.model import StateBatch
from sharelag.replay import replay_arrow
from sharelag.wire import STATE_TOPIC
from tests.support.cases import Cases
from tests.support.command import rows_of
from tests.support.command import sharelag as command
from tests.support.dead_letters import EXCEEDED, Letter, queue_table
from tests.support.memory import peak_of
from tests.support.records import KEY, assert_fields, decode, offsets, state_records, with_column
from tests.support.written_input import Write, WrittenInput

PATIENCE, LIMIT_OF_GROUP = 30_000, 5
NAMES = {"orders": KEY.topic_id}
#: A window's end, and the log of its topic.
LOG_START, END = 5, 60


def ledger(
    writes: list[tuple[int, Any]], queue: pa.Table, now: int = 10
) -> tuple[pa.Table, pa.Table]:
    """The ledger after these writes, a millisecond each, and the windows they left."""
    records = decode(state_records(writes))
    windows = pa.Table.from_batches([replay_arrow(records)])
    lag = lag_arrow(windows, offsets(END, LOG_START))
    limits = {"group_id": [KEY.group_id], "delivery_limit": [LIMIT_OF_GROUP]}
    limits |= {"patience_ms": [PATIENCE], "nameless": [False]}
    letters = count_letters(letters_arrow(queue), NAMES)
    found = ledger_arrow(archived_arrow(records), letters, lag, pa.table(limits), now)
    return found, windows


def by_offset(table: pa.Table) -> dict[int, tuple[str, str | None, int | None, int, bool | None]]:
    found: dict[int, tuple[str, str | None, int | None, int, bool | None]] = {}
    for row in table.to_pylist():
        if row["first_offset"] is not None:
            letters = row["letters"] // row["offsets"]
            said = row["status"], row["reason"], row["delivery_count"], letters, row["retained"]
            found |= dict.fromkeys(range(row["first_offset"], row["last_offset"] + 1), said)
    return found


def letter(offset: int, count: int | None = 1, message: str | None = None, **more: Any) -> Letter:
    return Letter(KEY.group_id, "orders", KEY.partition, offset, count, message, **more)


# ---- each status ---------------------------------------------------------------------------------
def test_each_status_and_reason() -> None:
    writes = [
        (-1, [(10, 12, 4, 1), (13, 13, 4, 5), (14, 14, 3, 5), (15, 15, 2, 1)]),
        (-1, [(20, 20, 4, 2)]),
    ]
    given = [
        *(letter(10, 1, "Offset rejected by client."), letter(13, 5, EXCEEDED)),
        *(letter(13, 5, EXCEEDED), letter(14, 5, EXCEEDED), letter(40, None, "out of patience")),
        letter(41, None),
    ]
    found, _ = ledger(writes, queue_table(given))
    assert by_offset(found) == {
        10: ("written", REJECTED, 1, 1, True),
        11: ("missing", EITHER, 1, 0, True),
        12: ("missing", EITHER, 1, 0, True),
        13: ("duplicate", LIMIT, 5, 2, True),
        14: ("archiving", LIMIT, 5, 1, True),
        20: ("missing", EITHER, 2, 0, True),
        40: ("unexpected", "other", None, 1, True),
        41: ("unexpected", None, None, 1, True),
    }
    late, _ = ledger(writes, queue_table(given), now=PATIENCE + 10)
    assert by_offset(late)[14][0] == "stuck"
    assert summary_words(sums_of(found)) == [
        "3 missing (rejected or gap 3)",
        "2 unexpected (other 1, reason not known 1)",
        "1 duplicate (delivery limit 1)",
        "1 archiving (delivery limit 1)",
        "1 written (rejected 1)",
    ]


def test_what_went_through_archiving_is_archived_since_then() -> None:
    writes = [(-1, [(10, 10, 3, 5)]), (-1, [(10, 10, 4, 5)]), (-1, [(10, 11, 4, 5)])]
    found, _ = ledger(writes, queue_table([]))
    (row,) = found.to_pylist()
    assert_fields(row, first_offset=10, last_offset=11, status="missing")
    assert_fields(row, reason=LIMIT, record="3:102")


def test_a_start_offset_that_has_passed_finishes_what_was_archiving() -> None:
    writes = [(-1, [(10, 10, 3, 5)]), (11, [(11, 12, 2, 1)])]
    found, _ = ledger(writes, queue_table([letter(10), letter(3), letter(30)]))
    said = {offset: row[0] for offset, row in by_offset(found).items()}
    assert said == {10: "written", 3: "passed", 30: "unexpected"}
    assert by_offset(found)[3][4] is False  # deleted from the log


def test_letters_that_are_markers_are_their_own_kind() -> None:
    of = {  # key and value by offset: ControlRecordType and EndTransactionMarker of Kafka
        10: (b"\0\0\0\1", b"\0\0\0\0\0\7"),
        11: (b"\0\0\0\0", b"\0\0\0\0\1\0"),
        12: (b"\0\0\0\2", b"\0\0\0\0\0\0"),  # a leader's change is never in a share partition
        13: (b"\0\0\0\1", b"\0\1\0\0\0\0"),
        14: (b"\0\0\0\1", b"\0\0\0\0\0\0\0"),
        15: (b"\0\0\0\1", None),
        16: (None, b"\0\0\0\0\0\0"),
        17: (None, None),
    }
    given = [letter(o, 5, EXCEEDED, key=key, value=value) for o, (key, value) in of.items()]
    found, _ = ledger([(-1, [(10, 17, 4, 5)])], queue_table([*given, given[1]]))
    said = {offset: row[0] for offset, row in by_offset(found).items()}
    assert said == dict.fromkeys(of, "written") | {10: "marker", 11: "marker"}
    planned = redrive_arrow(found).to_pylist()
    assert sum(row["offsets"] for row in planned) == 6
    assert min(row["first_offset"] for row in planned) == 12
    with pytest.raises(InputError, match="markers cannot be sent again"):
        redrive_arrow(found, ("marker",))


DATA = Path(__file__).resolve().parents[2] / "data" / "kafka-4.4"


def test_a_queue_that_a_broker_wrote_markers_into() -> None:
    """Four transactions of three records, which Kafka 4.4.0 gave up with their markers."""
    bench = sharelag.open(DATA / "both-gaps.parquet", engine="local")
    queue = DATA / "queue-dlq.gaps-gaps.parquet"
    found = by_offset(bench.dead_letters("gaps", queue).table)
    assert {offset for offset, row in found.items() if row[0] == "marker"} == {3, 7, 11, 15}
    assert ({row[0] for row in found.values()}, len(found)) == ({"written", "marker"}, 16)
    assert {row["topic"] for row in bench.dead_letters("gaps", queue).table.to_pylist()} == {"gaps"}
    planned = bench.redrive("gaps", queue).table.to_pylist()
    assert sum(row["offsets"] for row in planned) == 12


def test_more_runs_than_are_shown_are_counted_and_others_can_be_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sharelag.workbench.questions.dead_letters.MOST_RUNS", 3)
    batches = tuple((offset, offset, 4 if offset % 2 else 2, 1) for offset in range(20))
    bench = sharelag.open(WrittenInput([Write(10, 0, batches)]), engine="local")
    # Of ten that were rejected four have no letter, which comes first.
    queue = queue_table([Letter("billing", "orders", 0, n, 1) for n in range(9, 20, 2)])
    for statuses, left in ((("written",), 3), (("missing",), 1), ((), 7)):
        found = bench.dead_letters(queue=queue, statuses=statuses)
        assert len(found.table) == 3
        assert set(found.table.column("status").to_pylist()) == {*statuses} or {"missing"}
        assert any(f"(to_spark): {left} run" in note for note in found.notes)
        planned = bench.redrive(queue=queue, statuses=statuses)
        assert planned.lacks == planned.unknown != ()
        assert planned.lacks[0].startswith(f"{left} more run")


def test_a_window_of_many_batches_takes_the_memory_of_its_batches() -> None:
    few, many = (
        decode(state_records([(-1, [StateBatch(n, n, 2 + n % 2 * 2, 1) for n in range(count)])]))
        for count in (1000, 4000)
    )
    assert archived_arrow(few).num_rows == 500  # what is imported first
    assert peak_of(lambda: archived_arrow(many)) < 6 * peak_of(lambda: archived_arrow(few))


@pytest.mark.parametrize("wanted", [(), ("--redrive",)])
@pytest.mark.parametrize(
    ("named_by", "statuses"),
    [("nothing", {"unknown"}), ("id", {"written", "marker"}), ("groups", {"written", "marker"})],
)
def test_letters_whose_topic_has_no_known_id(
    named_by: str, statuses: set[str], wanted: tuple[str, ...], tmp_path: Path
) -> None:
    """Of the state topic alone, an archived offset is not missing because its name is unknown."""
    both = pq.read_table(DATA / "both-gaps.parquet")
    queue = pq.read_table(DATA / "queue-dlq.gaps-gaps.parquet")
    if named_by != "groups":
        both = both.filter(pc.equal(both.column("topic"), STATE_TOPIC))
    if named_by == "id":  # as a broker writes it that does not know the name either
        one = sharelag.open(DATA / "both-gaps.parquet", engine="local").lag("gaps").table
        topic_id = one.column("topic_id")[0].as_py().encode()
        headers = [
            [one | {"value": topic_id} if one["key"].endswith(".topic") else one for one in row]
            for row in queue.column("headers").to_pylist()
        ]
        queue = with_column(queue, "headers", headers)
    pq.write_table(both, tmp_path / "raw.parquet")
    pq.write_table(queue, tmp_path / "queue.parquet")
    files = ("--raw", str(tmp_path / "raw.parquet"), "--queue", str(tmp_path / "queue.parquet"))
    done = command("dlq", *files, "--group", "gaps", *wanted, "-o", "json")
    rows = rows_of(done)
    is_known = "unknown" not in statuses
    assert done.returncode == (0 if is_known else 3), done.stderr
    lacks = "it lacks which letters belong to topics known only by their ids" in done.stderr
    assert lacks != is_known
    assert " missing (" not in done.stderr
    if wanted:  # nothing is sent of what may be something else
        assert sum(row["offsets"] for row in rows) == (12 if is_known else 0)
        return
    assert {row["status"] for row in rows} == statuses
    assert {row.get("complete") for row in rows} == {None if is_known else False}
    reasons = {row["reason"]: row["offsets"] for row in rows if row["status"] == "unknown"}
    known = {} if is_known else {"topic's name not known": 16, "topic's id not known": 16}
    assert reasons == known


def test_letters_without_copies_may_be_markers_and_it_is_said() -> None:
    bench = sharelag.open(DATA / "both-gaps.parquet", engine="local")
    queue = pq.read_table(DATA / "queue-dlq.gaps-gaps.parquet")
    for name in ("key", "value"):
        nothing = pa.nulls(queue.num_rows, pa.binary())
        queue = queue.set_column(queue.schema.names.index(name), name, nothing)
    answer = bench.dead_letters("gaps", queue)
    assert {row["status"] for row in answer.table.to_pylist()} == {"written"}
    assert any("markers of transactions" in one for one in answer.unknown)


def test_records_that_are_no_dead_letters_are_counted_by_what_is_wrong() -> None:
    text = [("__dlq.errors.group", b"G1"), ("__dlq.errors.topic", b"orders")]
    given: list[Any] = [
        {"headers": None},
        {"headers": []},
        {"headers": [("other", b"x")]},
        {"headers": [*text, ("__dlq.errors.partition", b"0"), ("__dlq.errors.offset", b"-1")]},
        {"headers": [*text, ("__dlq.errors.partition", b"9" * 30), ("__dlq.errors.offset", b"1")]},
        {"headers": [("__dlq.errors.group", b"\xff\xfe"), *text[1:]]},
        letter(10),
    ]
    found, _ = ledger([(-1, [(10, 10, 4, 1)])], queue_table(given))
    rows = found.to_pylist()
    wrong = {row["reason"]: row["letters"] for row in rows if row["status"] == "unreadable"}
    assert wrong == {
        "no header __dlq.errors.group": 3,
        "__dlq.errors.group is not UTF-8": 1,
        "__dlq.errors.offset is not a number": 1,
        "__dlq.errors.partition is not a number": 1,
    }
    assert [row["status"] for row in rows if row["offsets"]] == ["written"]


def test_letters_of_other_groups_and_topics() -> None:
    mine = letter(10)
    given = [mine, mine._replace(group="other"), mine._replace(topic="payments")]
    given.append(mine._replace(topic=KEY.topic_id))  # a broker that knew no name
    letters = letters_arrow(queue_table(given))
    every = count_letters(letters, NAMES)
    assert every.column("topic_id").to_pylist() == [KEY.topic_id] * 2 + ["payments", KEY.topic_id]
    of_mine = count_letters(letters, NAMES, frozenset([KEY.group_id]))
    assert of_mine.column("group_id").to_pylist() == [KEY.group_id] * 3
    found, _ = ledger([(-1, [(10, 10, 4, 1)])], queue_table(given))
    said = {(r["group_id"], r["topic"]): (r["status"], r["letters"]) for r in found.to_pylist()}
    assert said == {
        (KEY.group_id, "orders"): ("duplicate", 2),
        ("other", "orders"): ("unexpected", 1),
        (KEY.group_id, "payments"): ("unexpected", 1),
    }


def test_letters_in_two_partitions_of_a_queue_that_grew_are_duplicates() -> None:
    before, after = queue_table([letter(11), letter(10)]), queue_table([letter(10)])
    after = with_column(after, "partition", pa.array([1], pa.int32()))
    found, _ = ledger([(-1, [(10, 11, 4, 1)])], pa.concat_tables([after, before]))
    names = ("status", "letters", "queue_partition", "first_queue_offset")
    said = [tuple(row[name] for name in names) for row in found.to_pylist()]
    assert said == [("duplicate", 2, 0, 1), ("written", 1, 0, 0)]


def test_a_batch_that_no_window_can_have_is_an_error() -> None:
    records = decode(state_records([(-1, [StateBatch(0, 1 << 60, 4, 1)])]))
    with pytest.raises(InputError, match="3:101 has a batch of 1,152,921,504,606,846,977 offsets"):
        archived_arrow(records)


def test_nothing() -> None:
    found, _ = ledger([(-1, [(10, 12, 2, 1)])], queue_table([]))
    assert (found.num_rows, summary_words(sums_of(found))) == (0, [])
    kinds = {"group_id": pa.string(), "delivery_limit": pa.int64(), "patience_ms": pa.int64()}
    limits = pa.schema(kinds | {"nameless": pa.bool_()}).empty_table()
    letters = count_letters(letters_arrow(queue_table([])), NAMES)
    archived = archived_arrow(decode(state_records([])))
    nothing = ledger_arrow(archived, letters, schemas.LAG.empty_table(), limits, 0)
    assert nothing.schema.names == found.schema.names


# ---- offset by offset ----------------------------------------------------------------------------
def expected(
    writes: list[tuple[int, Any]], given: list[Letter], window: dict[str, Any], now: int
) -> dict[int, Any]:
    """Go through all writes and letters one by one."""
    known: dict[int, tuple[int, int, int]] = {}  # state, count, time
    for time, (_, batches) in enumerate(writes, 1):
        for first, last, state, count in batches:
            for offset in range(first, last + 1):
                if state in (3, 4) and known.get(offset, (0,))[0] != 4:
                    is_same = known.get(offset, (0,))[0] == state
                    known[offset] = known[offset] if is_same else (state, count, time)
    letters = defaultdict(list)
    for one in given:
        letters[one.offset].append(one)
    # What retention has deleted is behind the group, too.
    past = max(window["start_offset"], window["effective_start_offset"], LOG_START)
    said = {}
    for offset in known.keys() | letters.keys():
        state, told, time = known.get(offset, (None, None, 0))
        mine = letters[offset]
        if state == 4 or (state is not None and offset < past):
            status = ["missing", "written", "duplicate"][min(len(mine), 2)]
        elif state == 3:
            status = "stuck" if now - time > PATIENCE else "archiving"
        elif len(mine) > 1:
            status = "duplicate"
        else:
            status = "passed" if offset < past else "unexpected"
        count = mine[0].deliveries if told is None else told
        reason = LIMIT if count is not None and count >= LIMIT_OF_GROUP else EITHER
        if mine and mine[0].message:
            reason = REJECTED if mine[0].message.startswith("Offset rejected") else LIMIT
        said[offset] = (status, reason, count, len(mine), LOG_START <= offset < END)
    return said


def test_random_histories_and_queues_are_compared_offset_by_offset(cases: Cases) -> None:
    random = Random("dead letters")
    statuses = set()
    for _ in range(cases(50, 1000)):
        start, writes = 0, []
        for _ in range(random.randint(1, 8)):
            start += random.choice([0, 0, 3])
            at, batches = start, []
            for _ in range(random.randint(0, 3)):
                at += random.randint(0, 3)
                last = at + random.randint(0, 4)
                batches.append((at, last, random.choice([0, 2, 3, 4, 4]), random.randint(1, 5)))
                at = last + 1
            writes.append((start if random.random() < 0.5 else -1, batches))
        said = [None, EXCEEDED, "Offset rejected by client."]
        reasons = {n: random.choice(said) for n in range(40)}
        some = random.choices(range(40), k=random.randint(0, 25))
        given = [letter(offset, 1 + offset % 5, reasons[offset]) for offset in some]
        now = random.choice([10, PATIENCE + 4])
        found, windows = ledger(writes, queue_table(given), now)
        (window,) = windows.to_pylist()
        wanted = expected(writes, given, window, now)
        assert by_offset(found) == wanted
        statuses |= {row[0] for row in wanted.values()}
        runs = [row for row in found.to_pylist() if row["offsets"]]
        assert all(row["offsets"] == row["last_offset"] - row["first_offset"] + 1 for row in runs)
        assert sum(row["letters"] for row in runs) == len(given)
    archived, others = {"missing", "written", "duplicate"}, {"archiving", "stuck", "passed"}
    assert statuses == archived | others | {"unexpected"}


# ---- sending them again --------------------------------------------------------------------------
def test_a_redrive_takes_the_source_while_its_log_has_it_then_the_copy() -> None:
    writes = [(-1, [(2, 2, 4, 1), (3, 4, 4, 1), (10, 12, 4, 5), (20, 20, 3, 5)])]
    given = [letter(3, value=b"v"), letter(4, value=b"v"), letter(10), letter(20)]
    found, _ = ledger(writes, queue_table(given))
    plan = {row["first_offset"]: row for row in redrive_arrow(found, server="b:1").to_pylist()}
    places = {first: row["from"] for first, row in plan.items()}
    assert places == {2: "lost", 3: "queue", 10: "source", 11: "source"}
    assert plan[2]["command"] is None
    assert plan[3]["command"] == (
        "kafka-console-consumer.sh --bootstrap-server b:1 --topic dlq.orders --partition 0 "
        "--offset 0 --max-messages 2 --formatter-property print.key=true | "
        "kafka-console-producer.sh --bootstrap-server b:1 --topic orders "
        "--reader-property parse.key=true"
    )
    assert "--topic orders --partition 0 --offset 11 --max-messages 2 " in plan[11]["command"]
    secured = redrive_arrow(found, server="b:1", command_config="a b.properties").to_pylist()
    client = "--bootstrap-server b:1 --command-config 'a b.properties'"
    assert [one["command"].count(client) for one in secured if one["command"]] == [2, 2, 2]
    only = redrive_arrow(found, ("archiving",)).to_pylist()
    assert [row["first_offset"] for row in only] == [20]
    with pytest.raises(InputError, match="unknown status 'lost': choose one of unknown, missing"):
        redrive_arrow(found, ("lost",))
    # Between copies that others lie between, nothing is sent by one command.
    apart = [letter(3, value=b"v"), letter(3)._replace(group="x"), letter(4, value=b"v")]
    found, _ = ledger([(-1, [(3, 4, 4, 1)])], queue_table(apart))
    rows = redrive_arrow(found, ("written",)).to_pylist()
    assert [(row["from"], row["command"]) for row in rows] == [("queue", None)]
