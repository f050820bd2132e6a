"""Causes on constructed histories, and what `explain` names first in recorded ones."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag import explain, schemas
from sharelag.engine import engines
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput, TableInput
from sharelag.metrics.causes import CAUSES
from sharelag.metrics.evidence import Evidence
from sharelag.metrics.explain import suspect
from sharelag.model.settings.queues import Queues
from sharelag.reports.blocks import merge_findings
from sharelag.tables.words import moment, shell_word
from sharelag.wire import GROUP_TOPIC
from sharelag.workbench import Workbench
from sharelag.workbench.verdicts import headline, judge_groups, summarize_groups, summary_lines
from tests.support.chapters import CAPTURE
from tests.support.readings import open_once
from tests.support.records import assert_fields, with_column
from tests.support.rules import outcome
from tests.support.share_evidence import NOW, Wrote, evidence, only
from tests.support.synthetic import capture_of
from tests.support.written_input import Write, WrittenInput

COMMITTED = {"share.isolation.level": "read_committed"}
HOUR_MS = 3_600_000
SCENARIOS = sorted(path.parent for path in (CAPTURE.parent / "scenarios").glob("*/expected.json"))
#: Hours are pressed into seconds in the stories, so the length of a lock says nothing there.
PATIENCE = timedelta(seconds=2.5)
NOTHING = schemas.CAUSES.empty_table()
PUBLISHED = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)


def finished(ago: float, start: int, first: int, last: int) -> Wrote:
    """Accept offsets at their first delivery, with all before them from the start offset on."""
    return Wrote(ago, start, last + 1 - start, [(first, last, 2, 1)])


def causes(*writes: Wrote, **about: Any) -> list[str]:
    names: list[str] = explain(evidence(*writes, **about)).column("cause").to_pylist()
    return names


@pytest.mark.exhaustive
def test_four_times_the_topics_of_a_group_cost_about_four_times_as_much(tmp_path: Path) -> None:
    def cost(topics: int) -> float:
        source = capture_of(tmp_path / str(topics), topics, 1, per_partition=3, of_one=True)
        found = engines.gather(source, "local")
        ids = found.lag.column("topic_id").to_pylist()
        names = [{"topic_id": one, "topic_name": "t", "partitions": [0]} for one in ids]
        group = {"group_id": "group-00000", "members": 0, "initialized_topics": names}
        of_group = pa.Table.from_pylist([group], schemas.GROUPS)
        begun = process_time()
        assert explain(replace(found, groups=of_group)).num_rows == topics
        return process_time() - begun

    cost(50)  # what is loaded once
    assert cost(4000) < 6 * cost(1000)


# ---- what no recording shows ---------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        # Going on, or a reset by the group coordinator, does not count as a cause.
        ("start_went_back", [Wrote(70, 110, 0), Wrote(60, 100, 0)], [Wrote(70, 110, 0)]),
        ("count_regressed", [Wrote(70, 100, 3, [(110, 111, 2, 1)])], []),
    ],
)
def test_what_went_back(name: str, wrong: list[Wrote], right: list[Wrote]) -> None:
    steps = [Wrote(90, 100, 0), finished(80, 100, 100, 109)]
    assert causes(*steps, *wrong, end=120, age=1)[0] == name
    assert name not in causes(*steps, *right, end=120)
    # It has healed: the start offset has passed what was counted wrongly, and both lags are equal.
    healed = [*steps, *wrong, Wrote(50, 112, 0)]
    assert "count_regressed" not in causes(*healed, end=120, age=1)


def test_records_that_were_deleted_unfinished() -> None:
    steps = [Wrote(90, 100, 0), finished(80, 100, 100, 109)]
    assert only("records_deleted", *steps, log_start=150)["held"] == 40
    assert "records_deleted" not in causes(*steps, log_start=105)
    # All was consumed but a marker at the end, and then retention emptied the log.
    assert causes(*steps, end=111, log_start=111, next_record=None) == []


def test_an_end_offset_older_than_the_window_does_not_say_that_only_markers_are_left() -> None:
    steps = [Wrote(90, 100, 0), Wrote(70, 100, 0, [(100, 100, 0, 1)])]
    assert "markers" in causes(*steps, end=101, members=0, next_record=101)
    assert "markers" not in causes(*steps, end=95, members=0, next_record=100)


def test_a_start_offset_beyond_the_end_of_the_log() -> None:
    steps = [Wrote(90, 100, 0), finished(80, 100, 100, 109), Wrote(70, 5000, 0)]
    found = only("start_beyond_end", *steps, end=110)
    assert_fields(found, severity="critical", held=None, since=NOW - timedelta(seconds=70))
    told = {"start offset": "5000", "end offset": "110", "never delivered": "4890"}
    assert found["evidence"] == told | {"partitions": "0"}
    assert causes(*steps, end=110) == ["start_beyond_end"]
    # At the end, or reached by the log, or so lately that the end may be older than the state.
    assert causes(*steps, end=5000) == []
    assert "start_beyond_end" not in causes(*steps, end=5010)
    assert causes(*steps[:2], Wrote(3, 5000, 0), end=110) == []


def test_letters_that_nobody_writes() -> None:
    queue = "errors.deadletterqueue"
    given = evidence(finished(80, 100, 100, 109), settings={f"{queue}.topic.name": "dlq.g"})
    group = given.lag.column("group_id")[0].as_py()

    def found(value: str | None, source: str | None) -> list[dict[str, Any]]:
        row = {"scope": "topic", "entity": "dlq.g", "name": f"{queue}.group.enable"}
        more = pa.Table.from_pylist([row | {"value": value, "source": source}], schemas.SETTINGS)
        known = replace(given, settings=pa.concat_tables([given.settings, more]))
        rows = [one for one in explain(known).to_pylist() if one["cause"] == "letters_lost"]
        said = Queues.of(known.settings).refusals([group])
        for one in rows:
            assert {"name": "refusal", "value": said[group]} in one["evidence"]
            assert_fields(one, held=None, severity="warning")
            (shown,) = [s for s in summarize_groups(known, explain(known)) if s.causes]
            assert said[group] in " ".join(cause.evidence for cause in shown.causes)
        return rows

    assert (len(found("false", "default")), len(found("false", "missing"))) == (1, 1)
    assert found("true", "topic") == found(None, None) == []
    assert "letters_lost" not in explain(given).column("cause").to_pylist()


def test_records_that_will_be_deleted_soon() -> None:
    steps = [Wrote(90, 100, 0), finished(80, 100, 100, 109)]
    about = {"age": 3600, "cleanup_policy": "delete"}
    assert "retention_near" in causes(*steps, **about, retention_ms=HOUR_MS + 60_000)
    soon = {"cleanup_policy": "compact", "retention_ms": HOUR_MS + 60_000}
    for harmless in ({"retention_ms": 10 * HOUR_MS}, {"retention_ms": -1}, soon):
        assert "retention_near" not in causes(*steps, **(about | harmless))


# ---- what is no cause ----------------------------------------------------------------------------
def test_a_topic_that_was_just_pruned_says_little() -> None:
    """One cold snapshot three seconds ago, and members that take five seconds a batch."""
    assert causes(finished(3, 100, 100, 109), age=4) == []


def test_a_stopped_consumer_of_a_quiet_topic() -> None:
    steps = [Wrote(900, 100, 0), finished(890, 100, 100, 109)]
    assert causes(*steps, end=110, members=0) == []
    # A transaction marker came last.
    assert {*causes(*steps, end=111, members=0, next_record=None)} <= {"markers"}
    # A record has just come, and the consumer restarts.
    assert causes(*steps, end=111, members=0, age=0.3) == []
    assert causes(*steps, end=111, members=0, age=300) == ["no_members"]


def test_a_busy_transactional_topic_has_open_transactions_all_the_time() -> None:
    steps = [Wrote(100, 0, 0), *(finished(99 - n, 0, 2 * n, 2 * n + 1) for n in range(98))]
    about: dict[str, Any] = {"end": 220, "age": 0.05, "settings": COMMITTED}
    about["last_stable_offset"] = 200
    assert causes(*steps, **about, past={90: 20, 0.05: 200}) == []
    stuck = {90: 20, 50: 200, 0.05: 219}
    assert causes(*steps, **(about | {"age": 50}), past=stuck)[0] == "open_transaction"


def test_a_full_window_that_moves() -> None:
    """Ten members hold 2,000 offsets, and the head is 0.2 s old."""
    moving = [Wrote(60, 0, 0), Wrote(0.2, 1000, 1999, [(1001, 2999, 2, 1)])]
    assert causes(*moving, end=9000, age=0.2) == []
    stuck = [Wrote(60, 0, 0), Wrote(59, 1000, 1999, [(1001, 2999, 2, 1)])]
    assert causes(*stuck, end=9000, age=60)[0] == "window_full"


def test_what_explains_little_does_not_hide_what_explains_much() -> None:
    """Members hang for minutes; that a few records were finished out of order is a detail."""
    steps = [Wrote(900, 0, 0), Wrote(300, 0, 3, [(10, 12, 2, 1)])]
    assert causes(*steps, end=100_000, age=300)[0] == "members_idle"


def test_compacted_topics_that_cannot_be_read() -> None:
    """Without a sample of the log nothing is known of holes."""
    steps = [Wrote(900, 0, 0), finished(300, 0, 0, 9)]
    unread = evidence(*steps, end=100_000, age=300, cleanup_policy="compact")
    unread = Evidence(**(vars(unread) | {"times": unread.times.slice(0, 0)}))
    assert "compaction_holes" not in explain(unread).column("cause").to_pylist()


def test_a_burst_that_nobody_saw() -> None:
    steps = [Wrote(600, 0, 0), *(finished(590 - 10 * n, 0, 10 * n, 10 * n + 9) for n in range(58))]
    assert "burst" not in causes(*steps, end=700, age=40, past={600: 0, 30: 650})


@pytest.mark.parametrize(
    ("end", "members", "named"),
    [(650, 2, True), (690, 2, False), (1600, 2, True), (1600, 0, False)],
)
def test_a_burst_is_four_times_what_comes_otherwise(end: int, members: int, named: bool) -> None:
    """270 offsets came in one part of the span, and in the six others 63, 70 or more on average.

    Members that left half a minute ago, which is no cause itself, do not work through one.
    """
    steps = [Wrote(600, 0, 0), *(finished(590 - 10 * n, 0, 10 * n, 10 * n + 9) for n in range(57))]
    past = {600: 0, 330: 270, 300: 300, 30: 570, 25: end, 10: end, 5: end}
    found = causes(*steps, end=end, age=25, past=past, members=members)
    assert ("burst" in found) == named
    assert members == 0 or found == ["burst"] * named


@pytest.mark.parametrize("recent", [True, False])
def test_locks_that_ended_long_ago_explain_nothing(recent: bool) -> None:
    base = 0 if recent else 3000
    releases = [Wrote(base + 100 - 30 * n, 0, 0, [(0, 9, 0, n + 1)]) for n in range(4)]
    later = [] if recent else [finished(30, 0, 0, 5999)]
    about = {"settings": {"share.delivery.count.limit": "10"}, "end": 20_000, "age": 100}
    found = causes(Wrote(base + 131, 0, 0), *releases, *later, **about)
    assert ("lock_expiry" in found) == recent


def test_locks_that_end_one_after_another() -> None:
    """Four members whose locks of 30 s all end, 7.5 s apart."""
    writes = [Wrote(400, 0, 0)]
    for n in range(40):
        first = 10 * (n % 4)
        writes.append(Wrote(300 - 7.5 * n, 0, 0, [(first, first + 9, 0, n // 4 + 1)]))
    settings = {"share.delivery.count.limit": "50"}
    assert causes(*writes, settings=settings, end=5000, age=400, members=4)[0] == "lock_expiry"


def test_poison_is_named_where_it_is() -> None:
    batches = [(101, 149, 2, 1), (150, 150, 0, 4), (151, 160, 2, 1)]
    line = only("poison_records", Wrote(90, 100, 0), Wrote(80, 100, 49, batches), end=200)
    assert (line["evidence"]["offsets"], line["held"]) == ("150", 1)


def test_a_group_from_latest_on_a_quiet_topic_has_not_begun_and_need_not() -> None:
    unknown = Wrote(900, -1, -1)
    assert causes(unknown, end=100) == []
    earliest = {"share.auto.offset.reset": "earliest"}
    assert causes(unknown, end=100, settings=earliest) == ["not_started"]
    assert causes(unknown, end=100, past={800: 40}) == ["not_started"]


def test_steady_work_is_not_slow() -> None:
    """Ten a second arrive and are finished, 40 s later, give or take a little."""
    count = 0
    writes = [Wrote(3600, 0, 0)]
    for n in range(1, 360):
        size = 100 + (n * 37) % 7 - 3
        writes.append(finished(3600 - 10 * n, 0, count, count + size - 1))
        count += size
    past = {3600 - 360 * n: 400 + 3600 * n for n in range(10)}
    found = causes(*writes, end=36_400, age=40, past=past)
    assert "slow_consumers" not in found


def test_a_window_that_ends_in_markers_without_lag_has_no_stuck_head() -> None:
    """Kafka counts no lag; that the offset at the head was finished is not in the topic."""
    about: dict[str, Any] = {"end": 110, "next_record": None}
    stuck = [Wrote(90, 100, 0), Wrote(80, 100, 9, [(101, 109, 2, 1)])]
    assert causes(*stuck, end=110)[0] == "head_of_line"
    done = [Wrote(90, 100, 0), Wrote(80, 100, 10, [(101, 109, 2, 1)])]
    found = evidence(*done, **about)
    assert found.lag.column("lag").to_pylist() == [0]
    assert "head_of_line" not in causes(*done, **about)
    unseen = Evidence(**(vars(found) | {"times": found.times.slice(0, 0)}))
    assert "head_of_line" not in explain(unseen).column("cause").to_pylist()


def test_what_lasts_is_suspected_before_it_counts_as_stuck() -> None:
    def result(ago: float, **about: Any) -> tuple[list[str], list[str]]:
        writes = [Wrote(ago + 1, 100, 0), Wrote(ago, 100, 9, [(101, 109, 2, 1)])]
        found = evidence(*writes, age=ago, end=110, **about)
        suspicions = [one.words() for one in suspect(found).values()]
        return explain(found).column("cause").to_pylist(), suspicions

    assert result(5) == ([], [])
    assert result(12.6) == ([], ["suspected: head of line for 12.6 s; stuck from 30 s on"])
    assert result(31) == (["head_of_line"], [])
    long = {"share.record.lock.duration.ms": "60000"}
    words = "suspected: head of line for 31 s; stuck from 1m on"
    assert result(31, settings=long) == ([], [words])


CAUSE = "start_beyond_end"
SAYS = "the start offset is beyond the end of the log: records before it are never delivered"


def started_beyond_the_end() -> WrittenInput:
    """The log ends at 7200; five minutes ago the start offset was set to 50,000."""
    return WrittenInput([Write(600, 100), Write(300, 50_000)])


@pytest.fixture(name="bench")
def opened() -> Workbench:
    return sharelag.open(started_beyond_the_end(), engine="local")


def test_a_start_beyond_the_end_is_the_cause_wherever_causes_are_told(bench: Workbench) -> None:
    (row,) = bench.explain().table.to_pylist()
    assert (row["cause"], row["severity"]) == (CAUSE, "critical")
    assert f"since {row['since']:%Y-%m-%d %H:%M:%S}" in bench.explain().to_text()
    assert headline(judge_groups(bench.evidence()), []) == f"billing: {SAYS}."
    found = outcome(
        started_beyond_the_end(), f"measure: cause, causes: [{CAUSE}], warn: 1, unknown: ok"
    )
    assert found["level"] == "warning"
    board = bench.dashboard("billing")
    assert board.header.failure == ""
    assert all(SAYS in str(view.get_state()) for view in (board.verdict, board.cards))


def test_where_the_start_is_beyond_the_end_nothing_is_said_to_be_done(bench: Workbench) -> None:
    (lag,) = bench.lag().table.to_pylist()
    assert (lag["lag"], lag["effective_lag"], lag["lag_reason"]) == (None, None, "negative_lag")
    (progress,) = bench.progress().table.to_pylist()
    assert (progress["age_ms"], progress["drain"], progress["drain_ms"]) == (None, "unknown", None)
    (group,) = judge_groups(bench.evidence())
    assert (group["lag"], group["age_ms"], group["drain"]) == (None, None, "unknown")


def expected(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "expected.json").read_text())
    return result


def test_every_cause_has_a_recorded_scenario() -> None:
    """All but the defects of brokers, what needs days, and what a test tries on live brokers."""
    constructed = {"start_went_back", "count_regressed", "records_deleted", "retention_near"}
    constructed |= {"start_beyond_end", "letters_lost"}
    recorded = {expected(folder)["cause"] for folder in SCENARIOS}
    assert recorded - {None} == {cause.name for cause in CAUSES} - constructed
    assert len(SCENARIOS) >= 20


@pytest.mark.parametrize("folder", SCENARIOS, ids=[folder.name for folder in SCENARIOS])
def test_the_right_cause_comes_first(folder: Path) -> None:
    result = expected(folder)
    evidence = engines.gather(CaptureInput(folder), "local")
    lines = explain(evidence, PATIENCE).to_pylist()
    causes = [line for line in lines if line["group_id"] == result["group"]]
    # Nothing else is wrong in a story either, so that no second cause is named.
    assert [line["cause"] for line in causes] == [result["cause"]] * (result["cause"] is not None)
    for cause in causes:
        assert cause["rank"] == 1
        assert cause["topic"]
        assert cause["evidence"][0]["name"] == "partitions"
        if cause["held"] is not None:
            assert 0 < cause["held"] <= sum(evidence.lag.column("effective_lag").to_pylist())


def test_a_past_moment_is_explained_from_what_was_written_by_then() -> None:
    """While members worked nothing was wrong; after they had left, records went on to arrive."""
    source = CaptureInput(CAPTURE.parent / "scenarios" / "no_members")
    now = engines.gather(source, "local")
    left = now.groups.column("emptied")[0].as_py()
    before = engines.gather(source, "local", left - timedelta(seconds=1))
    assert (before.members.num_rows, before.lag.column("effective_lag").null_count) == (2, 0)
    assert "no_members" not in explain(before, PATIENCE).column("cause").to_pylist()
    assert before.as_of == left - timedelta(seconds=1)
    soon = engines.gather(source, "local", now.as_of - timedelta(milliseconds=500))
    assert explain(soon, PATIENCE).column("cause").to_pylist() == ["no_members"]
    with pytest.raises(InputError, match=r"ends at .*, before"):
        engines.gather(source, "local", now.as_of + timedelta(seconds=1))


def test_members_of_the_past_are_those_of_then() -> None:
    """They leave a minute later; as of the capture they are still there."""
    source = CaptureInput(CAPTURE.parent / "scenarios" / "idle_members")
    now = engines.gather(source, "local")

    class Later:
        def batches(self, topic: str) -> Any:
            for batch in source.batches(topic):
                yield batch
                if topic == GROUP_TOPIC:
                    yield _left(batch, now.as_of + timedelta(minutes=1))

        def __getattr__(self, name: str) -> Any:
            return getattr(source, name)

    then = engines.gather(Later(), "local", now.as_of)  # type: ignore[arg-type]
    assert then.members.to_pylist() == now.members.to_pylist()
    assert explain(then, PATIENCE).column("cause").to_pylist() == ["members_idle"]


def _left(batch: pa.RecordBatch, when: datetime) -> pa.RecordBatch:
    """A tombstone for every key."""
    nothing = {"value": pa.nulls(len(batch), pa.binary()), "timestamp": pa.repeat(when, len(batch))}
    nothing["offset"] = pc.add(batch.column("offset"), 100_000)
    for name, column in nothing.items():
        field = batch.schema.field(name)
        batch = with_column(batch, name, column.cast(field.type))
    return batch


def test_what_is_not_known_is_not_called_right() -> None:
    source = CaptureInput(CAPTURE.parent / "scenarios" / "no_members")
    evidence = engines.gather(source, "local", {0: 5, 1: 9})
    assert evidence.lag.column("effective_lag").null_count == evidence.lag.num_rows > 0
    text = "\n".join(summary_lines(summarize_groups(evidence, explain(evidence, PATIENCE))))
    assert "nothing wrong" not in text
    assert "not all is known: the end offset at that moment is unknown" in " ".join(text.split())


def test_only_a_group_begins_at_the_edge_of_a_terminal() -> None:
    evidence = engines.gather(CaptureInput(CAPTURE), "local")
    found = summarize_groups(evidence, explain(evidence, PATIENCE))
    groups = [replace(one, state="lag, " * 60) for one in found]
    lines = [line for line in summary_lines(groups) if not line.startswith("     ")]
    begun = [line for line in lines if not line.startswith("  ")]
    assert [line.split()[0] for line in begun] == [one.group for one in groups]
    assert len(lines) == len(begun) + sum(len(one.causes) for one in groups)


def test_a_group_with_lag_and_nobody_in_it_is_not_called_right() -> None:
    """Everybody left a moment ago, which is too new to be a cause."""
    evidence = engines.gather(CaptureInput(CAPTURE), "local")
    since = {row["group_id"]: moment(row["emptied"]) for row in evidence.groups.to_pylist()}
    state = {group.group: group.state for group in summarize_groups(evidence, NOTHING)}
    assert state["billing"].endswith(f", the group has no members since {since['billing']}")
    assert "drains" not in state["billing"]  # the rates seen were of members who are gone
    nobody = f"the group has no members since {since['analytics']}"
    assert f"{nobody}, but not all is known: " in state["analytics"]
    assert state["refunds"].endswith(", nothing wrong")  # nothing waits there
    never = pa.nulls(len(since), schemas.TIMESTAMP)
    unseen = replace(evidence, groups=with_column(evidence.groups, "emptied", never))
    state = {group.group: group.state for group in summarize_groups(unseen, NOTHING)}
    assert state["billing"].endswith(", the group has no members")
    bare = replace(evidence, groups=schemas.GROUPS.empty_table())
    assert not [group.state for group in summarize_groups(bare, NOTHING) if "nobody" in group.state]


def test_the_order_of_rows_does_not_matter() -> None:
    evidence = engines.gather(CaptureInput(CAPTURE), "local")
    shuffled = {
        name: table.take(pa.array(np.random.default_rng(7).permutation(table.num_rows)))
        for name, table in vars(evidence).items()
        if isinstance(table, pa.Table) and table.num_rows
    }
    once, again = (
        explain(given, PATIENCE).to_pylist() for given in (evidence, replace(evidence, **shuffled))
    )
    assert len(once) > 3
    for line in (*once, *again):
        line["evidence"] = sorted(
            (one["name"], sorted(one["value"].split(","))) for one in line["evidence"]
        )
    assert once == again


def test_what_is_not_known_speaks_for_nothing() -> None:
    evidence = engines.gather(CaptureInput(CAPTURE.parent / "scenarios" / "no_members"), "local")
    bare = Evidence(as_of=evidence.as_of, lag=evidence.lag)
    assert explain(bare, PATIENCE).num_rows == 0
    assert explain(Evidence(as_of=PUBLISHED, lag=schemas.LAG.empty_table())).num_rows == 0


def test_people_read_words_and_escaped_names() -> None:
    evidence = engines.gather(CaptureInput(CAPTURE.parent / "scenarios" / "window_full"), "local")
    hostile = "evil\x1b[31m[bold]<b>"
    renamed = {
        name: table.set_column(0, "group_id", pa.repeat(hostile, table.num_rows))
        for name, table in vars(evidence).items()
        if isinstance(table, pa.Table) and table.column_names[:1] == ["group_id"]
    }
    of = pa.repeat(hostile, evidence.settings.num_rows)
    renamed["settings"] = evidence.settings.set_column(1, "entity", of)
    evidence = replace(evidence, **renamed)
    text = "\n".join(summary_lines(summarize_groups(evidence, explain(evidence, PATIENCE))))
    assert "\x1b" not in text
    for words in (r"evil\x1b[31m[bold]<b>", "critical: window full", "limit 100"):
        assert words in text
    quiet = engines.gather(CaptureInput(CAPTURE.parent / "scenarios" / "quiet"), "local")
    assert "nothing wrong" in "\n".join(summary_lines(summarize_groups(quiet, explain(quiet))))


def test_nothing_wrong_never_stands_beside_growing_lag() -> None:
    scenarios = CAPTURE.parent / "scenarios"
    for name, words in (
        ("slow", "no cause found yet; lag grows 17.3/s"),
        ("idle_members", "stalled, no cause found yet"),
        ("window_full", "suspected: window full for 12.6 s; stuck from 30 s on"),
        ("keeping_up", "nothing wrong"),
    ):
        evidence = engines.gather(CaptureInput(scenarios / name), "local")
        patience = timedelta(seconds=30)  # a lock's, not that of the story
        causes = explain(evidence, patience)
        assert not causes.num_rows
        (group,) = summarize_groups(evidence, causes, patience)
        assert group.state.endswith(words)


def test_a_storm_that_began_lately_is_found_after_a_long_good_time() -> None:
    """Twelve minutes of refused deliveries, of an hour in which most went well."""
    bench = open_once("demo")
    seen = bench.evidence("notifications").observed.to_pylist()
    assert all(row["released"] < row["finished"] for row in seen)
    explained = bench.explain("notifications")
    (storm,) = explained.table.to_pylist()
    assert storm["cause"] == "redelivery_storm"
    given = {one["name"]: one["value"] for one in storm["evidence"]}
    assert int(given["given back"]) > int(given["finished"]) > 1000
    assert explained.as_of is not None
    began = explained.as_of - storm["since"]
    assert timedelta(minutes=10) < began < timedelta(minutes=14)


def test_a_command_in_an_advice_names_the_group() -> None:
    (found,) = open_once("no_members").explain().table.to_pylist()
    assert "--describe --group no-members --members" in found["advice"]
    (one,) = merge_findings([found])
    assert one["advice"] == found["advice"]
    hostile = "a'; rm -rf \x1b[31m"
    advice = found["advice"].replace("no-members", shell_word(hostile))
    quoted = found | {"group_id": hostile, "advice": advice}
    (both,) = merge_findings([found, quoted])
    assert "--describe --group GROUP --members" in both["advice"]
    assert len(both["places"]) == 2


@pytest.mark.parametrize("story", ["lock_expiry", "poison", "redelivery_storm"])
def test_states_of_one_share_partition_in_several_topics_have_one_explanation(story: str) -> None:
    """Nothing tells which of them counts, and each engine finds them in an order of its own."""
    folder = CAPTURE.parent / "scenarios" / story
    records = pq.read_table(folder / "records")
    state = records.filter(pc.ends_with(records.column("topic"), "__share_group_state"))
    named = pa.array(["eu.__share_group_state"] * len(state))
    mirrored = state.set_column(state.schema.names.index("topic"), "topic", named)
    both = pa.concat_tables([records, mirrored.slice(0, len(state) // 3)])
    found = engines.gather(TableInput(both, pq.read_table(folder / "offsets.parquet")), "local")
    assert len(found.observed) > len(found.windows)
    turned = found.observed.take(pa.array(range(len(found.observed))[::-1]))
    assert explain(found).num_rows
    assert explain(replace(found, observed=turned)).equals(explain(found))
