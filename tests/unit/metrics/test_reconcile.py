"""Every difference between two ways of measuring lag is explained, to the last offset."""

from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.inputs.kafka.described import parse_offsets
from sharelag.metrics import reconcile as why
from sharelag.metrics.lag import lag_arrow
from sharelag.metrics.reconcile import reconcile_arrow
from sharelag.replay import replay_arrow
from sharelag.schemas import RECONCILED, SCANNED
from sharelag.wire import SHARE_SNAPSHOT, decode_arrow, encode_record
from tests.support import generators
from tests.support.records import KEY, NOW, assert_fields, offsets, raw, row

ACKNOWLEDGED, ARCHIVED = 2, 4
HEADER = "GROUP           TOPIC           PARTITION  LEADER-EPOCH  START-OFFSET  LAG"
#: It starts at 2, and offset 10 is the last.
EXAMPLE = [(3, 3, 0, 2), (5, 5, ACKNOWLEDGED, 1), (6, 6, ARCHIVED, 1)]


def lag_table(snapshot: dict[str, Any], end: int | None, log_start: int | None = 0) -> pa.Table:
    records = decode_arrow(raw([encode_record(SHARE_SNAPSHOT, snapshot)])).records
    return pa.Table.from_batches([lag_arrow(replay_arrow(records), offsets(end, log_start))])


def example(end: int = 11) -> pa.Table:
    return lag_table(row(2, EXAMPLE, delivery_complete_count=2), end)


def printed(
    lag: int | str, start: int | str = 2, as_of: datetime | None = NOW, group: str = KEY.group_id
) -> pa.Table:
    return parse_offsets(f"\n{HEADER}\n{group}  orders  0  0  {start}  {lag}\n", as_of)


BEFORE_4_2 = parse_offsets(f"GROUP TOPIC PARTITION START-OFFSET\n{KEY.group_id} orders 0 2", NOW)


def scanned(**counts: int) -> pa.Table:
    place = KEY._asdict() | {"topic": "orders", "as_of": NOW}
    kinds = dict.fromkeys(("records", "undecided", "aborted", "no_record", "deleted"), 0) | counts
    return pa.Table.from_pylist([place | kinds | {"unfinished": sum(kinds.values())}], SCANNED)


def only(table: pa.RecordBatch) -> dict[str, Any]:
    assert table.schema == RECONCILED
    (line,) = table.to_pylist()
    return line  # type: ignore[no-any-return]


def reasons(line: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    return [tuple(difference.values()) for difference in line["differences"]]


def sums(line: dict[str, Any]) -> dict[str, int]:
    """What the differences of each number come to."""
    total = dict.fromkeys((why.DESCRIBED_LAG, why.NAIVE, why.EFFECTIVE, why.TRUE), 0)
    for number, _, size in reasons(line):
        total[number] += size or 0
    return total


# ---- worked examples -----------------------------------------------------------------------------
@pytest.mark.row("LAG-05")
def test_the_classic_lag_is_nine_where_the_share_lag_is_seven() -> None:
    line = only(reconcile_arrow(example()))
    assert_fields(line, lag=7, effective_lag=7, naive_lag=9)
    assert reasons(line) == [(why.NAIVE, why.COMPLETE_IN_WINDOW, 2)]
    assert line["described_lag"] is line["true_lag"] is line["matches"] is None


@pytest.mark.row("LAG-11")
def test_two_paths_agree_or_there_is_a_row_that_says_so() -> None:
    line = only(reconcile_arrow(example(), printed(7)))
    assert_fields(line, described_lag=7, matches=True)
    assert [reason for reason in reasons(line) if reason[0] == why.DESCRIBED_LAG] == []
    line = only(reconcile_arrow(example(end=12), printed(7)))
    assert_fields(line, described_lag=7, lag=8, matches=False)
    assert reasons(line)[-1] == (why.DESCRIBED_LAG, why.UNKNOWN, -1)


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        (printed(9, as_of=NOW + timedelta(seconds=1)), (why.ANOTHER_MOMENT, 2)),
        (printed(9, start=0), (why.ANOTHER_MOMENT, 2)),
        (printed(9, as_of=None), (why.UNKNOWN, 2)),
        (printed("-"), (why.NO_LAG, None)),
        (BEFORE_4_2, (why.NO_LAG, None)),
        (printed(7, group="other"), (why.NOT_DESCRIBED, None)),
    ],
)
def test_why_kafka_said_otherwise(theirs: pa.Table, reason: tuple[str, int | None]) -> None:
    lines = {line["group_id"]: line for line in reconcile_arrow(example(), theirs).to_pylist()}
    assert reasons(lines[KEY.group_id])[-1] == (why.DESCRIBED_LAG, *reason)
    is_known = reason[0] not in (why.NOT_DESCRIBED, why.NO_LAG)
    assert lines[KEY.group_id]["matches"] is (False if is_known else None)


def test_what_only_kafka_knows_is_a_row_too() -> None:
    other, ours = reconcile_arrow(example(), printed(3, group="A: b")).to_pylist()
    assert_fields(other, group_id="A: b", described_lag=3, lag=None, matches=False)
    assert_fields(other, topic="orders", topic_id=None, as_of=NOW)
    assert (reasons(other), ours["lag"]) == ([(why.DESCRIBED_LAG, why.NO_STATE, None)], 7)


def test_neither_knows() -> None:
    unknown = lag_table(row(-1, [], delivery_complete_count=-1), 11)
    line = only(reconcile_arrow(unknown, printed("-", start="-")))
    assert_fields(line, lag=None, described_lag=None, matches=None)
    assert reasons(line) == [(why.DESCRIBED_LAG, why.NO_LAG, None)]


def test_each_reason_by_itself() -> None:
    line = only(reconcile_arrow(lag_table(row(100, []), 200, log_start=150)))
    assert reasons(line) == [(why.EFFECTIVE, why.BELOW_LOG_START, -50)]
    line = only(reconcile_arrow(lag_table(row(2, EXAMPLE, delivery_complete_count=3), 11)))
    differs = (why.EFFECTIVE, why.COUNT_DIFFERS, 1)
    assert reasons(line) == [(why.NAIVE, why.COMPLETE_IN_WINDOW, 3), differs]
    line = only(reconcile_arrow(lag_table(row(50, []), 40), printed("-", start=50)))
    assert_fields(line, naive_lag=-10, lag=None, effective_lag=None)
    no_lag = (why.DESCRIBED_LAG, why.NO_LAG, None)
    assert reasons(line) == [(why.NAIVE, why.STALE_END_OFFSET, -10), no_lag]
    line = only(reconcile_arrow(lag_table(row(50, []), 40), printed(3, start=50)))
    assert (why.DESCRIBED_LAG, why.STALE_END_OFFSET, None) in reasons(line)
    assert not line["matches"]


@pytest.mark.row("WIN-15")
def test_gaps_are_offsets_and_no_records() -> None:
    line = only(reconcile_arrow(lag_table(row(0, []), 10), None, scanned(records=8, no_record=2)))
    assert_fields(line, lag=10, effective_lag=10, true_lag=8)
    assert reasons(line) == [(why.TRUE, why.MARKERS_OR_COMPACTED, -2)]


def test_a_scan_of_something_else_is_not_passed_off_as_explained() -> None:
    line = only(reconcile_arrow(example(), None, scanned(records=4, aborted=1)))
    assert reasons(line)[1:] == [(why.TRUE, why.ABORTED, -1), (why.TRUE, why.UNKNOWN, -2)]
    (counts,) = scanned(records=6).to_pylist()
    later = pa.Table.from_pylist([counts | {"as_of": NOW + timedelta(1)}], SCANNED)
    line = only(reconcile_arrow(example(), None, later))
    assert reasons(line)[1:] == [(why.TRUE, why.ANOTHER_MOMENT, -1)]


def test_every_reason_has_its_words() -> None:
    named = {name: value for name, value in vars(why).items() if isinstance(value, str)}
    names = {value for name, value in named.items() if name.isupper()}
    assert names - set(why.REASONS) == {why.DESCRIBED_LAG, why.NAIVE, why.EFFECTIVE, why.TRUE}


def test_nothing_to_reconcile() -> None:
    nothing = schemas.LAG.empty_table(), printed(7).slice(0, 0), scanned().slice(0, 0)
    assert reconcile_arrow(*nothing).num_rows == 0
    with pytest.raises(InputError, match="described"):
        reconcile_arrow(example(), offsets(11))


# ---- always --------------------------------------------------------------------------------------
@given(st.integers(0, 10**6))
def test_the_differences_add_up_to_the_last_offset(seed: int) -> None:
    random = Random(seed)
    start, end, log_start = random.randint(0, 40), random.randint(30, 70), random.randint(0, 60)
    batches = generators.state_batches(random)
    count = random.choice([-1, 0, 3, random.randint(0, 60)])
    table = lag_table(row(start, batches, delivery_complete_count=count), end, log_start)
    lag = table.to_pylist()[0]
    left = lag["effective_lag"] or 0
    kinds = [random.randint(0, left) for _ in range(4)]
    cuts = [0, *sorted(kinds), left]
    names = ("records", "undecided", "aborted", "no_record", "deleted")
    counts = {name: cuts[i + 1] - cuts[i] for i, name in enumerate(names)}
    line = only(reconcile_arrow(table, printed(random.randint(0, 99), start), scanned(**counts)))
    total = sums(line)
    assert line["true_lag"] == counts["records"] + counts["undecided"]
    if line["effective_lag"] is None:  # the log ends before the start offset
        assert end < start
        assert total[why.TRUE] == 0
    else:
        assert line["true_lag"] == line["effective_lag"] + total[why.TRUE]
    assert line["naive_lag"] == end - start
    if count >= 0 and count > end - start:  # Kafka prints a dash
        assert line["lag"] is None
        assert line["naive_lag"] == count + total[why.NAIVE]
    elif count >= 0:
        assert line["naive_lag"] == line["lag"] + total[why.NAIVE]
        assert line["effective_lag"] == line["lag"] + total[why.EFFECTIVE]
        assert line["described_lag"] == line["lag"] + total[why.DESCRIBED_LAG]
    assert all(size for _, _, size in reasons(line) if size is not None)
    # The terms are what their names say, by counting the offsets one by one.
    states = generators.state_by_offset(batches)
    finished = {o for o, s in states.items() if s in (ACKNOWLEDGED, ARCHIVED) and o >= start}
    found = {(number, reason): size for number, reason, size in reasons(line)}
    assert (why.EFFECTIVE, why.UNKNOWN) not in found
    if line["lag"] is not None:
        window_end = lag["window_end_offset"] or 0
        # If Kafka counts the whole window, offsets without a batch are finished, too.
        if lag["window_available"] == 0 and count == window_end - start > 0:
            finished = {*range(start, window_end)}
        deleted = [o for o in range(start, log_start) if o not in finished]
        if log_start <= max(end, window_end):
            assert found.get((why.EFFECTIVE, why.BELOW_LOG_START), 0) == -len(deleted)
        differs = count - len(finished)
        assert found.get((why.EFFECTIVE, why.COUNT_DIFFERS), 0) == differs


_CHARACTERS = st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"])


@given(st.lists(st.text(_CHARACTERS, min_size=1)))
def test_rows_find_their_partners_whatever_the_groups_are_called(names: list[str]) -> None:
    groups = sorted({*names, "0:t", "t:0", ":"})
    place = {"topic": "orders", "partition": 0, "as_of": NOW, "leader_epoch": 0, "start_offset": 0}
    rows = [place | {"group_id": group, "lag": n} for n, group in enumerate(groups)]
    theirs = pa.Table.from_pylist(rows, schema=schemas.DESCRIBED)
    ours = pa.Table.from_pylist([row | {"topic_id": "A" * 22} for row in rows[::-1]], schemas.LAG)
    table = reconcile_arrow(ours, theirs)
    assert table.column("matches").to_pylist() == [True] * len(groups)


# ---- what the command prints ---------------------------------------------------------------------
LAYOUTS = {
    "GROUP TOPIC PARTITION START-OFFSET": ("g t 0 2", (None, 2, None)),
    "GROUP TOPIC PARTITION LEADER-EPOCH START-OFFSET": ("g t 0 5 2", (5, 2, None)),
    "GROUP TOPIC PARTITION START-OFFSET LAG": ("g t 0 2 7", (None, 2, 7)),
    "GROUP TOPIC PARTITION LEADER-EPOCH START-OFFSET LAG": ("g t 0 5 2 7", (5, 2, 7)),
}


@pytest.mark.row("LAG-14", "LAG-15", "CLI-07", "ADM-07", "CMP-04")
@pytest.mark.parametrize("header", LAYOUTS)
def test_old_and_new_layouts(header: str) -> None:
    line, (epoch, start, lag) = LAYOUTS[header]
    (found,) = parse_offsets(f"\n{header}\n{line}\n").to_pylist()
    assert_fields(found, leader_epoch=epoch, start_offset=start, lag=lag)
    assert_fields(found, group_id="g", topic="t", partition=0, as_of=None)


@pytest.mark.row("LAG-13", "LAG-14")
def test_a_dash_is_not_zero() -> None:
    (found,) = parse_offsets(f"{HEADER}\ng  t  0  -  -  -").to_pylist()
    assert_fields(found, leader_epoch=None, start_offset=None, lag=None)


def test_many_groups_some_with_blanks_some_with_nothing() -> None:
    text = f"""
{HEADER}
a group of us   orders          0          0             2             7
a group of us   orders          1          0             -             -

Share group 'it's empty' has no offset information.

{HEADER.replace("GROUP    ", "GROUP                  ")}
 GROUP TOPIC PARTITION x      pay.ments_-1    12         3             10000000000   0
"""
    rows = parse_offsets(text, NOW).to_pylist()
    names = ("group_id", "topic", "partition", "start_offset", "lag")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("a group of us", "orders", 0, 2, 7),
        ("a group of us", "orders", 1, None, None),
        (" GROUP TOPIC PARTITION x", "pay.ments_-1", 12, 10**10, 0),
    ]
    assert {row["as_of"] for row in rows} == {NOW}


@pytest.mark.parametrize(
    "text",
    [
        "g t 0 5 2 7",
        "Error: Executing share group command failed due to timeout",
        f"{HEADER}\ng t 0 5 2",
        f"{HEADER}\ng t 0 5 2 seven",
        "GROUP CONSUMER-ID HOST CLIENT-ID #PARTITIONS ASSIGNMENT\ng c h i 1 t:0",
    ],
)
def test_what_is_no_offset_is_refused_with_its_line(text: str) -> None:
    words = f"line {len(text.splitlines())} has no share group offset|line 1 has no"
    with pytest.raises(InputError, match=words):
        parse_offsets(text)
