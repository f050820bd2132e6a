"""Each sentence of a report is true: which groups keep up, what is wrong, and where."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sharelag
from sharelag import schemas
from sharelag.metrics.causes import CAUSES
from sharelag.reports import cells
from sharelag.reports.blocks import VERDICT_MIME
from sharelag.reports.capacity import headroom, keeping_up
from sharelag.reports.findings import group_findings
from sharelag.reports.inputs import Case, read
from sharelag.reports.ledger import Run
from sharelag.reports.mail import mail
from sharelag.reports.verdict import verdict
from sharelag.tables.reasons import NO_START_OFFSET
from sharelag.workbench.charts import lag_over_time_figure, lag_over_time_records
from sharelag.workbench.investigate import gather
from sharelag.workbench.judged import CLUSTER
from tests.support.chapters import CAPTURE
from tests.support.written_input import NOW, Write, WrittenInput

RUN = Run(
    "20261121T000000000Z-0",
    "daily",
    {},
    "1",
    "",
    "2026-11-21T00:00:00.000Z",
    1.0,
    "ok",
    "",
    None,
    None,
)
NEVER_STARTED = next(cause for cause in CAUSES if cause.name == "not_started")


def scenario(name: str, **requested: Any) -> Case:
    return read(capture=str(CAPTURE.parent / "scenarios" / name), **requested, engine="local")


def reviewed(case: Case) -> str:
    return str(cells.keeping_up(case, verdict(case)).data[VERDICT_MIME]["headline"])


def rated(
    group: str, arrival: float | None, completion: float | None, how: str | None, **more: Any
) -> dict[str, Any]:
    row = {
        "group_id": group,
        "arrival_rate": arrival,
        "completion_rate": completion,
        "members": 1,
        "lag": 5,
    }
    return row | {"falls_behind": how} | more


# ---- who keeps up --------------------------------------------------------------------------------


def test_groups_whose_rates_are_not_known_are_counted() -> None:
    fine, dark = rated("a", 1.0, 2.0, "no"), rated("b", None, 1.0, None)
    assert keeping_up([fine, fine, dark, dark]) == (
        "All 2 share groups kept up. The rates of 2 more are unknown."
    )
    slow = rated("c", 2.0, 0.5, "clearly")
    assert keeping_up([slow, dark]) == (
        "c fell behind: it finished 0.5 of 2 records/s. The rates of 1 more are unknown."
    )
    assert (
        keeping_up([dark])
        == "The rates at which records arrive and are finished are unknown for every group."
    )
    alone = rated("a", 1.0, 2.0, "no", members=0)
    assert keeping_up([alone, dark]).endswith(
        " The rates of 1 more are unknown. a has no members now and lags."
    )
    assert keeping_up([alone, alone]).endswith(" a and 1 more have no members now and lag.")


def test_a_review_that_finds_nothing_says_what_else_is_wrong() -> None:
    assert reviewed(scenario("poison")) == (
        "The share group kept up. "
        "poison: some records fail at every delivery, up to the delivery limit."
    )
    assert reviewed(scenario("healthy")) == "The share group kept up."
    wrong = "1 of 2 share groups needs attention."
    assert wrong not in keeping_up([rated("c", 2.0, 0.5, "clearly")], wrong), "it names somebody"
    assert wrong not in keeping_up([rated("c", 1.0, 1.0, "no", members=0)], wrong)
    assert keeping_up([rated("b", None, 1.0, None)], wrong).endswith(
        f"unknown for every group. {wrong}"
    )


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("keeping_up", "maybe"),  # 46 of 46.4, which chance may turn
        ("open_transaction", "clearly"),  # nothing can be delivered until it ends
        ("slow", "clearly"),
        ("lock_expiry", "clearly"),  # stalled
        ("no_members", "clearly"),
        ("not_started", "clearly"),  # there is no lag to forecast
    ],
)
def test_chance_is_no_shortfall(name: str, how: str) -> None:
    case = scenario(name)
    (row,) = headroom(case)
    assert row["completion_rate"] < row["arrival_rate"]
    assert row["falls_behind"] == how
    said = reviewed(case)
    assert ("fell behind: it finished " in said) == (how == "clearly")
    assert ("The share group has not clearly fallen behind." in said) == (how == "maybe")


def test_chance_beside_those_who_clearly_fall_behind() -> None:
    slow, maybe = rated("c", 2.0, 0.5, "clearly"), rated("d", 2.0, 1.9, "maybe")
    assert keeping_up([slow, maybe]) == (
        "1 of 2 share groups clearly fell behind: c, finished 0.5 of 2 records/s."
    )
    assert keeping_up([maybe, maybe]) == "None of 2 share groups clearly fell behind."


def test_less_than_arrived_is_not_known_where_records_are_missing() -> None:
    """At least so much was finished."""
    case = scenario("slow")
    progress = case.evidence.progress
    place = progress.schema.get_field_index("breaks")
    broken = pa.array([1] * progress.num_rows, progress.schema.field(place).type)
    gap = replace(
        case, evidence=replace(case.evidence, progress=progress.set_column(place, "breaks", broken))
    )
    assert [row["falls_behind"] for row in headroom(gap)] == [None]


# ---- what is wrong, and where --------------------------------------------------------------------


def never(group: str, topic: str) -> dict[str, Any]:
    return {
        "cause": "not_started",
        "severity": NEVER_STARTED.severity,
        "summary": NEVER_STARTED.summary,
        "advice": NEVER_STARTED.advice,
        "group_id": group,
        "topic": topic,
    }


def judged(level: str, **more: Any) -> dict[str, Any]:
    return {"rule": "lag", "level": level, "summary": f"{level} words", "is_own": True} | more


def test_what_never_began_in_two_topics_has_one_level() -> None:
    case = scenario("not_started")

    def halved(table: Any) -> Any:
        """Two of the four topic partitions as another topic."""
        if not {"partition", "topic_id"} <= set(table.schema.names):
            return table
        rows = table.to_pylist()
        for row in rows:
            if row["partition"] in (2, 3):
                row |= {"topic_id": "A" * 22} | ({"topic": "second"} if row.get("topic") else {})
        return type(table).from_pylist(rows, schema=table.schema)

    tables = {field.name: getattr(case.evidence, field.name) for field in fields(case.evidence)}
    made = {
        name: halved(one)
        for name, one in tables.items()
        if isinstance(one, (pa.Table, pa.RecordBatch))
    }
    result = verdict(replace(case, evidence=replace(case.evidence, **made)))
    (one,) = group_findings(result["groups"])
    assert (one["level"], [at["topic"] for at in one["places"]]) == (
        "warning",
        ["not-started-orders", "second"],
    )


def test_a_warning_beside_what_is_not_known() -> None:
    """Nothing was fetched from one topic partition; another has lost its leader."""
    source = WrittenInput(
        [Write(600, -1, count=-1), Write(600, 6600, partition=1)],
        partitions_of_topic=2,
        unreachable=frozenset({1}),
    )
    result = verdict(
        replace(read(capture=str(CAPTURE), engine="local"), evidence=gather(source, "local"))
    )
    (group,) = result["groups"]
    assert [(one["rule"], one["level"]) for one in group["rules"]] == [
        ("lag", "warning"),
        ("lag", "unknown"),
    ]
    first, *others = group_findings(result["groups"])
    assert (first["level"], first["title"]) == ("warning", NEVER_STARTED.summary)
    assert [(one["level"], one["title"][:28]) for one in others] == [
        ("unknown", "the end offset could not be ")
    ]


def test_a_judgement_stays_where_no_cause_explains_it() -> None:
    groups: list[dict[str, Any]] = [
        {
            "group_id": "a",
            "causes": [never("a", "t"), never("a", "u")],
            "rules": [judged("unknown"), judged("warning")],
        },
        {"group_id": "b", "causes": [never("b", "t")], "rules": [judged("unknown")]},
        {"group_id": "c", "causes": [], "rules": [judged("warning")]},
        {"group_id": "d", "causes": [never("d", "t")], "rules": [judged("warning", is_own=False)]},
    ]
    found = {
        (one["level"], one["title"]): [at["group_id"] for at in one["places"]]
        for one in group_findings(groups)
    }
    assert found == {
        ("warning", NEVER_STARTED.summary): ["a", "a"],
        ("warning", "warning words"): ["c"],
        ("warning", "lag"): ["d"],
        ("unknown", "unknown words"): ["a", "b"],
        ("note", NEVER_STARTED.summary): ["b", "d"],
    }
    assert groups[0]["causes"][0]["severity"] == "note", "what was given stays as it was"


def test_a_mail_names_groups_that_differ_in_case_only() -> None:
    result = verdict(read(capture=str(CAPTURE), engine="local"))
    for group in result["groups"]:
        if group["group_id"] == "shipping":
            group["group_id"] = "Billing"
            for cause in group["causes"]:
                cause["advice"] = cause["advice"].replace("--group shipping", "--group Billing")
    written = mail("Daily", RUN, result)
    (places,) = re.findall(r"<li[^>]*>(notifications, .*?)</li>", written)
    assert places == "notifications, billing, Billing, clickstream, fraud-check"


# ---- rules of no group ---------------------------------------------------------------------------


def ruled(tmp_path: Path, rule: str, name: str = "healthy", **requested: Any) -> Case:
    (tmp_path / "rules.yaml").write_text(f"version: 1\nrules:\n  - {rule}\n")
    return scenario(name, rules=str(tmp_path / "rules.yaml"), **requested)


STATE = "{name: state, measure: state_topic, critical: 0}"  # as many findings as there are


def test_a_rule_without_a_group_is_reported_once_and_without_one(tmp_path: Path) -> None:
    case = ruled(tmp_path, STATE)
    result = verdict(case)
    assert [(group["level"], group["rules"], group["why"]) for group in result["groups"]] == [
        ("ok", [], None)
    ]
    (rule,) = result["rules"]
    assert (result["level"], rule["rule"], rule["level"], rule["is_own"]) == (
        "critical",
        "state",
        "critical",
        False,
    )
    assert (
        result["headline"]
        == f"No problems found in 1 share group. The cluster: state: {rule['summary']}."
    )
    (one,) = group_findings(result["groups"], result["rules"])
    assert (one["title"], one["is_rule"], [at["group_id"] for at in one["places"]]) == (
        "state",
        True,
        [CLUSTER],
    )
    assert cells.causes(result).html.count("<bdi>the cluster</bdi></strong>: ") == 1
    assert len(re.findall(r"<li[^>]*>the cluster: ", mail("Daily", RUN, result))) == 1
    assert reviewed(case) == f"The share group kept up. {result['headline']}"


def test_a_rule_of_no_group_does_not_count_groups(tmp_path: Path) -> None:
    """Nor does it hide what is wrong with them."""
    result = verdict(ruled(tmp_path, STATE, "poison"))
    assert [(group["level"], len(group["rules"])) for group in result["groups"]] == [("warning", 0)]
    assert result["level"] == "critical"
    assert result["headline"].startswith(
        "poison: some records fail at every delivery, up to the delivery limit. The cluster: state: "
    )


def test_a_rule_for_a_group_is_reported_for_that_group_only(tmp_path: Path) -> None:
    result = verdict(ruled(tmp_path, "{name: big, measure: lag, warn: 0}"))
    assert [[one["rule"] for one in group["rules"]] for group in result["groups"]] == [["big"]]
    assert (result["level"], result["rules"]) == ("warning", [])
    nobody = verdict(ruled(tmp_path, "{name: big, measure: lag, groups: [none-*], warn: 0}"))
    assert (nobody["level"], nobody["groups"][0]["level"]) == ("unknown", "ok")
    assert nobody["headline"].endswith("The cluster: big: no share group matches none-*.")


def test_a_verdict_before_that_knew_no_such_rules_is_compared(tmp_path: Path) -> None:
    case = scenario("healthy")
    was = verdict(case)
    del was["rules"]
    was["as_of"] = was["begin"]
    result = verdict(replace(case, previous=was))
    assert (result["changes"]["comparable"], result["rules"]) == (True, [])


# ---- a chart -------------------------------------------------------------------------------------


def test_lines_that_are_not_drawn_need_not_have_less_lag() -> None:
    names = schemas.TIMELINE.names

    def moment(partition: int, lag: int | None) -> dict[str, Any]:
        row = dict.fromkeys(names) | {
            "group_id": "g",
            "topic_id": "A" * 22,
            "topic": "t",
            "partition": partition,
        }
        return row | {
            "as_of": NOW,
            "lag": lag,
            "lag_reason": None if lag is not None else NO_START_OFFSET,
        }

    def result(*lags: int | None) -> str:
        rows = [moment(partition, lag) for partition, lag in enumerate(lags)]
        records = lag_over_time_records(pa.Table.from_pylist(rows, schema=schemas.TIMELINE))
        facts = lag_over_time_figure(records, most=1).layout.meta["facts"]
        return next(fact for fact in facts if fact.startswith("Not drawn: "))

    assert result(9, 3, 2) == "Not drawn: 2 share partitions with less lag."
    assert result(9, 3, None) == (
        "Not drawn: 2 share partitions with less lag; 1 of them is gone or without a known lag at the last moment."
    )
    assert result(9, None, None) == (
        "Not drawn: 2 share partitions that are gone or have no known lag at the last moment."
    )


def test_thousands_of_unknown_states_are_counted_as_elsewhere() -> None:
    first = Write(600, 0, partition=0)
    later = [Write(60, 0, partition=partition) for partition in range(1, 1002)]
    for writes, words in (
        ([first, *later], "1,001 share partitions is unknown."),
        ([first, *later[:1]], "1 share partition is unknown."),
    ):
        bench = sharelag.open(WrittenInput(writes), engine="local")
        case = replace(scenario("healthy"), bench=bench, evidence=bench.evidence())
        assert words in cells.moved(case).text
