"""The capacity report on records that could be deleted, and on those that are too old."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sharelag import gather, schemas
from sharelag.errors import InputError
from sharelag.replay.moment import Choice
from sharelag.reports import capacity, cells, notebooks
from sharelag.reports.case import Case
from sharelag.workbench import Workbench
from tests.support.written_input import Write, WrittenInput

HOSTILE = "<img src=x onerror=1>"
#: A record a second into each of two partitions, 7,200 by now.
WRITES = (Write(600, 6600, group=HOSTILE), Write(600, 7000), Write(600, 6900, partition=1))


def case(*writes: Write, choice: Choice | None = None, **more: Any) -> Case:
    source = WrittenInput(writes or WRITES, partitions_of_topic=2, **more)
    bench = Workbench(source, choice=choice or Choice(), engine="local")
    return Case(bench, gather(source, "local", None, choice))


def test_the_group_that_holds_most_comes_last_and_names_are_escaped() -> None:
    shown = cells.reclaimable(case())
    names = ("partition", "groups", "group_id", "reclaimable")
    rows = [tuple(row[name] for name in names) for row in capacity.reclaimable(case())]
    assert rows == [(1, 1, "billing", 6900), (0, 2, HOSTILE, 6600)]
    assert "6900" in shown.text
    assert "<img" not in shown.html
    assert "&lt;img" in shown.html


def test_what_is_not_known_comes_last() -> None:
    rows = capacity.reclaimable(case(Write(600, -1, count=-1), Write(600, 0, partition=1)))
    assert [(row["partition"], row["reclaimable"]) for row in rows] == [(1, 0), (0, None)]


def test_it_says_who_else_may_read_the_topic() -> None:
    words = "use this for topics that only share groups read"
    assert words in cells.reclaimable(case()).html
    assert "another one may be further back" not in cells.reclaimable(case()).html
    chosen = case(choice=Choice(frozenset({"billing"})))
    assert [row["reclaimable"] for row in capacity.reclaimable(chosen)] == [7000, 6900]
    said = cells.reclaimable(chosen).html
    assert "Only the chosen groups are considered: another one may be further back." in said
    nothing = cells.reclaimable(case(Write(600, 0))).text
    assert nothing == "Share groups still need every log from its start."
    # Unknown is said, not left out.
    assert "-" in cells.reclaimable(case(Write(600, -1, count=-1))).text


def test_what_a_record_ttl_would_archive_of_each_group() -> None:
    """The source knows where the logs ended 300.5 s ago, at 6,899: nothing is estimated."""
    (first, second) = capacity.estimate_archived(case(), timedelta(seconds=300.5))
    assert (first["group_id"], first["effective_lag"]) == (HOSTILE, 600)
    assert second["effective_lag"] == 500
    assert (first["archived"], first["archived_low"], first["archived_high"]) == (299, 299, 299)
    assert second["archived"] == 0  # it has finished all that is so old
    shown = cells.archived(case(), 300.5)
    assert "at least 5m old. Kafka has no such setting yet" in " ".join(shown.html.split())


def test_a_sum_with_something_unknown_is_unknown_and_at_least_what_is_known() -> None:
    blind = case(*WRITES, unreachable=frozenset({1}))
    first, second = capacity.estimate_archived(blind, timedelta(seconds=100.5))
    assert (first["group_id"], first["archived"], first["archived_high"]) == (HOSTILE, 499, 499)
    assert (second["group_id"], second["effective_lag"], second["archived"], second["archived_high"]) == (
        "billing", None, None, None
    )  # fmt: skip
    assert second["archived_low"] == 99


def test_times_of_records_count_as_the_group_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A read_committed group has its own times; no earlier end is known."""
    monkeypatch.setattr(WrittenInput, "past_offsets", lambda *_: schemas.OFFSETS.empty_table())
    for level in ("read_uncommitted", "read_committed"):
        found = case(Write(600, 6600), group_settings={"share.isolation.level": level})
        (row,) = capacity.estimate_archived(found, timedelta(seconds=601))
        assert (row["archived"], row["archived_low"], row["archived_high"]) == (0, 0, 0)


def test_the_capacity_report_takes_the_ttl_and_nothing_else_does() -> None:
    assert notebooks.read_parameters(notebooks.notebook("capacity"))["record_ttl"] == "24h"
    with pytest.raises(InputError, match="the parameter 'record_ttl' must be a duration"):
        notebooks.check_parameters(notebooks.notebook("capacity"), {"record_ttl": "soon"})
    with pytest.raises(InputError, match="must be positive"):
        cells.archived(case(), 0)
    declared = {n: notebooks.read_parameters(notebooks.notebook(n)) for n in notebooks.names()}
    assert [name for name, known in declared.items() if "record_ttl" in known] == ["capacity"]
    text = Path(notebooks.notebook("capacity")).read_text()
    assert "cells.reclaimable(case)" in text
    assert "cells.archived(case, record_ttl)" in text
