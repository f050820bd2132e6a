"""`explain` names the right cause first, and nothing where nothing is wrong."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sharelag import explain, schemas
from sharelag.engine import engines
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput, TableInput
from sharelag.metrics.causes import CAUSES
from sharelag.metrics.evidence import Evidence
from sharelag.reports.blocks import merge_findings
from sharelag.tables.words import moment, shell_word
from sharelag.wire import GROUP_TOPIC
from sharelag.workbench.verdicts import summarize_groups, summary_lines
from tests.support.chapters import CAPTURE
from tests.support.columns import with_column
from tests.support.readings import open_once

SCENARIOS = sorted(path.parent for path in (CAPTURE.parent / "scenarios").glob("*/expected.json"))
#: Hours are pressed into seconds in the stories, so the length of a lock says nothing there.
PATIENCE = timedelta(seconds=2.5)
NOTHING = schemas.CAUSES.empty_table()
NOW = datetime(2026, 11, 21, 3, 10, tzinfo=UTC)


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
    assert explain(Evidence(as_of=NOW, lag=schemas.LAG.empty_table())).num_rows == 0


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
