"""Sentences count as a reader does: one share partition, and 1,001 with a separator."""

import re
from pathlib import Path

import pytest

from sharelag.tables import gaps
from sharelag.tables.words import THOUSANDS, lag_sum
from sharelag.workbench import Workbench
from tests.support.written_input import Write, WrittenInput


def of(count: int, unreachable: frozenset[int] = frozenset()) -> Workbench:
    """A group with so many share partitions."""
    writes = [Write(9, 100, partition=number) for number in range(count)]
    made = WrittenInput(writes, partitions_of_topic=count, unreachable=unreachable)
    return Workbench(made, engine="local")


@pytest.mark.parametrize(
    ("count", "words"), [(1, "1 share partition"), (1001, "1,001 share partitions")]
)
def test_titles_and_plans_count(count: int, words: str, tmp_path: Path) -> None:
    number = f"{count:,}"
    with of(count) as bench:
        assert bench.lag().title == f"Lag of {words}"
        assert bench.windows().title == f"Windows of {words}"
        assert bench.history().title == f"History of {words}, record by record"
        assert bench.snapshots().title == f"Last snapshots: {words}"
        assert bench.brokers().title == f"Brokers of {words}"
        assert bench.health().title == "State topic: 1 partition"
        deleted = bench.plan_delete("billing")
        assert any(f"forgets the state of {words}. " in note for note in deleted.notes)
        beyond = bench.plan_reset("billing", 10_000).notes
        logs = "1 log" if count == 1 else "1,001 logs"
        assert any(f"beyond the end of {number} of {logs}. " in note for note in beyond)
        local = tmp_path / "local.txt"
        local.write_text("".join(f"orders:{place}:5000\n" for place in range(count)))
        far = bench.plan_reset("billing", 100, local_offsets=local).notes
        total = f"Remote reads: {4900 * count:,} offsets in {number} of {words} are in remote"
        assert any(note.startswith(total) for note in far)
        assert any("orders:0, 4,900 from 100 on" in note for note in far)
    with of(count, frozenset(range(count))) as bench:
        unknown = bench.plan_reset("billing", "latest").unknown
        assert f"the new start offset in {number} of {words}" in unknown
        assert bench.lag().unknown[0].startswith(f"the lag in {number} of {words}")


def test_a_timeline_that_left_something_out_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharelag.workbench.questions.timeline.MOST_TIMELINE_ROWS", 1)
    with of(2) as bench:
        assert bench.timeline(every="2min").notes == (
            "the 1 share partition with the most lag; to_spark() has all",
        )


def test_rejects_and_unknown_lags_count() -> None:
    one, many = (gaps.of_rejected(count)[0] for count in (1, 1001))
    assert one == "1 record that could not be decoded; `sharelag decode` shows it"
    assert many == "1,001 records that could not be decoded; `sharelag decode` shows them"
    assert (gaps.of_rejected(0), lag_sum(5000, 1001)) == ((), "5,000 (+1,001 unknown)")
    assert lag_sum(5000, 1001, THOUSANDS) == "5,000 (+1,001 unknown)"


def test_a_lag_that_is_not_known_is_no_number_in_a_sentence() -> None:
    for dark, said in (
        ({0, 1}, "lag not known in 2 of 2 share partitions, "),
        ({1}, "lag 7,100 (+1 unknown) in 2 share partitions, "),
    ):
        (group,) = of(2, frozenset(dark)).explain().summaries
        assert group.state.startswith(said)


# ---- what shows a cause, in words that people read -----------------------------------------------
def test_evidence_has_no_names_of_fields(demo: Workbench) -> None:
    said = [one.evidence for group in demo.explain().summaries for one in group.causes]
    assert any("led by broker 2: over 99 % of the group's lag" in one for one in said)
    assert not [one for one in said if re.search(r"\b[a-z]+_[a-z]+\b", one)]
    # What members hold beyond the window no state shows, so nothing says how much that is at most.
    assert any("unknown in the window 0" in one for one in said)


def test_of_several_partitions_it_says_what_is_about_one_of_them(demo: Workbench) -> None:
    """The numbers of one partition stand beside the sum over all that is held."""
    causes = {group.group: group.causes[0] for group in demo.explain().summaries if group.causes}
    nobody, one = causes["returns-desk"], causes["billing"]
    assert "holds 915" in nobody.where
    assert nobody.evidence == "members 0, in the partition with the most: lag 459"
    assert "in the partition" not in one.evidence


def test_counts_stand_as_in_tables_and_offsets_as_in_commands(demo: Workbench) -> None:
    causes = {group.group: group.causes[0] for group in demo.explain().summaries if group.causes}
    assert "given back 2,659" in causes["notifications"].evidence
    assert "offset 4142, stuck" in causes["billing"].evidence
    assert "end offset 3614" in causes["invoicing"].evidence
