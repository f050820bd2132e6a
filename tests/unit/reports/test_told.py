"""Each sentence of a report is true: which groups keep up, what is wrong, and where."""

import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sharelag
from sharelag import gather, schemas
from sharelag.charts import lag_over_time_figure, lag_over_time_records
from sharelag.metrics.causes import CAUSES
from sharelag.reports import cells
from sharelag.reports.blocks import VERDICT_MIME, group_findings
from sharelag.reports.capacity import headroom, keeping_up
from sharelag.reports.case import Case, read, verdict
from sharelag.reports.page import mail
from sharelag.reports.store import Run
from sharelag.tables.gaps import NO_START_OFFSET
from sharelag.workbench.verdicts import CLUSTER
from tests.support.chapters import CAPTURE
from tests.support.records import with_column
from tests.support.written_input import NOW, Write, WrittenInput

RUN = Run("20261121T000000000Z-0", "daily", {}, "1", "", "2026-11-21T00:00:00.000Z", 1, "ok", "", None, None)  # fmt: skip
NEVER_STARTED = next(cause for cause in CAUSES if cause.name == "not_started")


def scenario(name: str, **requested: Any) -> Case:
    return read(capture=str(CAPTURE.parent / "scenarios" / name), **requested, engine="local")


def reviewed(case: Case) -> str:
    return str(cells.keeping_up(case, verdict(case)).data[VERDICT_MIME]["headline"])


# ---- who keeps up --------------------------------------------------------------------------------
def rated(group: str, arrival: Any, completion: Any, how: str | None, members: int = 1) -> Any:
    row = {"group_id": group, "arrival_rate": arrival, "completion_rate": completion, "lag": 5}
    return row | {"falls_behind": how, "members": members}


FINE, DARK = rated("a", 1.0, 2.0, "no"), rated("b", None, 1.0, None)
SLOW, MAYBE = rated("c", 2.0, 0.5, "clearly"), rated("d", 2.0, 1.9, "maybe")
ALONE = rated("a", 1.0, 2.0, "no", members=0)
WRONG = "1 of 2 share groups needs attention."
UNKNOWN = "The rates at which records arrive and are finished are unknown for every group."


@pytest.mark.parametrize(
    ("rows", "wrong", "said"),
    [
        ([FINE], None, "The share group kept up."),
        ([FINE, FINE], None, "All 2 share groups kept up."),
        ([FINE, FINE, DARK, DARK], None, "All 2 share groups kept up. The rates of 2 more are unknown."),
        ([SLOW, DARK], None, "c fell behind: it finished 0.5 of 2 records/s. The rates of 1 more are unknown."),
        ([SLOW, SLOW], None, "2 of 2 share groups fell behind: the worst, c, finished 0.5 of 2 records/s."),
        ([DARK], None, UNKNOWN),
        ([ALONE, DARK], None, "The share group kept up. The rates of 1 more are unknown. a has no members now and lags."),
        ([ALONE, ALONE], None, "All 2 share groups kept up. a and 1 more have no members now and lag."),
        # Chance beside those that clearly fall behind, and alone.
        ([SLOW, MAYBE], None, "1 of 2 share groups clearly fell behind: c, finished 0.5 of 2 records/s."),
        ([MAYBE, MAYBE], None, "None of 2 share groups clearly fell behind."),
        # What else is wrong is said where nobody is named.
        ([SLOW], WRONG, "c fell behind: it finished 0.5 of 2 records/s."),
        ([ALONE], WRONG, "The share group kept up. a has no members now and lags."),
        ([DARK], WRONG, f"{UNKNOWN} {WRONG}"),
    ],
)  # fmt: skip
def test_who_keeps_up(rows: list[Any], wrong: str | None, said: str) -> None:
    assert keeping_up(rows, wrong) == said


def test_a_review_that_finds_nothing_says_what_else_is_wrong() -> None:
    assert reviewed(scenario("poison")) == (
        "The share group kept up. "
        "poison: some records fail at every delivery, up to the delivery limit."
    )
    assert reviewed(scenario("healthy")) == "The share group kept up."


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


def test_less_than_arrived_is_not_known_where_records_are_missing() -> None:
    """At least so much was finished."""
    case = scenario("slow")
    broken = with_column(case.evidence.progress, "breaks", pa.scalar(1))
    gap = replace(case, evidence=replace(case.evidence, progress=broken))
    assert [row["falls_behind"] for row in headroom(gap)] == [None]


def test_a_rate_is_unknown_where_that_of_one_share_partition_is() -> None:
    case = scenario("slow")
    progress = case.evidence.progress
    rates = [None, *progress.column("completion_rate").to_pylist()[1:]]
    dark = replace(case.evidence, progress=with_column(progress, "completion_rate", rates))
    (row,) = headroom(replace(case, evidence=dark))
    known = {name: row[name] for name in ("completion_rate", "per_member", "falls_behind")}
    assert known == dict.fromkeys(known)


# ---- what is wrong, and where --------------------------------------------------------------------
def never(group: str, topic: str) -> dict[str, Any]:
    known = {name: getattr(NEVER_STARTED, name) for name in ("severity", "summary", "advice")}
    return {"cause": "not_started", "group_id": group, "topic": topic} | known


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
    kinds = (pa.Table, pa.RecordBatch)
    made = {name: halved(one) for name, one in tables.items() if isinstance(one, kinds)}
    result = verdict(replace(case, evidence=replace(case.evidence, **made)))
    (one,) = group_findings(result["groups"])
    found = (one["level"], [at["topic"] for at in one["places"]])
    assert found == ("warning", ["not-started-orders", "second"])


def test_a_warning_beside_what_is_not_known() -> None:
    """Nothing was fetched from one topic partition; another has lost its leader."""
    writes = [Write(600, -1, count=-1), Write(600, 6600, partition=1)]
    source = WrittenInput(writes, partitions_of_topic=2, unreachable=frozenset({1}))
    result = verdict(
        replace(read(capture=str(CAPTURE), engine="local"), evidence=gather(source, "local"))
    )
    (group,) = result["groups"]
    found = [(one["rule"], one["level"]) for one in group["rules"]]
    assert found == [("lag", "warning"), ("lag", "unknown")]
    first, *others = group_findings(result["groups"])
    assert (first["level"], first["title"]) == ("warning", NEVER_STARTED.summary)
    told = [(one["level"], one["title"][:28]) for one in others]
    assert told == [("unknown", "the end offset could not be ")]


def test_a_judgement_stays_where_no_cause_explains_it() -> None:
    known: dict[str, tuple[list[Any], list[Any]]] = {
        "a": ([never("a", "t"), never("a", "u")], [judged("unknown"), judged("warning")]),
        "b": ([never("b", "t")], [judged("unknown")]),
        "c": ([], [judged("warning")]),
        "d": ([never("d", "t")], [judged("warning", is_own=False)]),
    }
    groups = [{"group_id": n, "causes": c, "rules": r} for n, (c, r) in known.items()]
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
    assert known["a"][0][0]["severity"] == "note", "what was given stays as it was"


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


def test_a_mail_names_files_and_not_their_folders() -> None:
    result = dict(verdict(read(capture=str(CAPTURE), engine="local")))
    result["source"] = "raw records of /Users/ada/lag data/x.parquet, without topic names"
    assert "raw records of x.parquet, without topic names" in mail("Daily", RUN, result)


def test_pages_show_the_worst_of_thousands_of_groups_and_say_so() -> None:
    result = dict(verdict(scenario("poison")))
    (group,) = result["groups"]
    result["groups"] = [group | {"group_id": f"group-{n}"} for n in range(3000)]
    causes = [{"group_id": one["group_id"], **group["causes"][0]} for one in result["groups"]]
    result["changes"] = {"comparable": True, "since": result["as_of"], "new_causes": causes}
    result["changes"] |= {name: [] for name in ("gone_causes", "lasting_causes", "groups")}
    shown = cells.groups(result).html, cells.causes(result).html, cells.changes(result).html
    for html, rest in zip(shown, ("2,800", "2,980", "2,980"), strict=True):
        assert f"and {rest} more in verdict.json" in html
        assert "group-19<" in html
        assert "group-2999<" not in html
    assert len(sent := mail("Daily", RUN, result)) < 100_000
    assert "2,988 more in verdict.json" in sent
    assert "and 2,980 more</li>" in sent


# ---- rules of no group ---------------------------------------------------------------------------
def ruled(tmp_path: Path, rule: str, name: str = "healthy", **requested: Any) -> Case:
    (tmp_path / "rules.yaml").write_text(f"version: 1\nrules:\n  - {rule}\n")
    return scenario(name, rules=str(tmp_path / "rules.yaml"), **requested)


STATE = "{name: state, measure: state_topic, critical: 0}"  # as many findings as there are


def test_a_rule_without_a_group_is_reported_once_and_without_one(tmp_path: Path) -> None:
    case = ruled(tmp_path, STATE)
    result = verdict(case)
    (group,), (rule,) = result["groups"], result["rules"]
    assert (group["level"], group["rules"], group["why"]) == ("ok", [], None)
    assert (rule["rule"], rule["level"], rule["is_own"]) == ("state", "critical", False)
    assert (result["level"], result["headline"]) == (
        "critical",
        f"No problems found in 1 share group. The cluster: state: {rule['summary']}.",
    )
    (one,) = group_findings(result["groups"], result["rules"])
    assert (one["title"], one["is_rule"]) == ("state", True)
    assert [at["group_id"] for at in one["places"]] == [CLUSTER]
    assert cells.causes(result).html.count("<bdi>the cluster</bdi></strong>: ") == 1
    assert len(re.findall(r"<li[^>]*>the cluster: ", mail("Daily", RUN, result))) == 1
    assert reviewed(case) == f"The share group kept up. {result['headline']}"


def test_a_rule_of_no_group_does_not_count_groups(tmp_path: Path) -> None:
    """Nor does it hide what is wrong with them."""
    result = verdict(ruled(tmp_path, STATE, "poison"))
    assert [(group["level"], len(group["rules"])) for group in result["groups"]] == [("warning", 0)]
    assert result["level"] == "critical"
    assert result["headline"].startswith(
        "poison: some records fail at every delivery, up to the delivery limit. The cluster: "
        "state: "
    )


def test_a_rule_for_a_group_is_reported_for_that_group_only(tmp_path: Path) -> None:
    result = verdict(ruled(tmp_path, "{name: big, measure: lag, warn: 0}"))
    assert [[one["rule"] for one in group["rules"]] for group in result["groups"]] == [["big"]]
    assert (result["level"], result["rules"]) == ("warning", [])
    nobody = verdict(ruled(tmp_path, "{name: big, measure: lag, groups: [none-*], warn: 0}"))
    assert (nobody["level"], nobody["groups"][0]["level"]) == ("unknown", "ok")
    assert nobody["headline"].endswith("The cluster: big: no share group matches none-*.")
    # As `sharelag check` says it, also where the rule judges other groups.
    known = result["groups"][0]["group_id"]
    nobody = verdict(
        ruled(tmp_path, f"{{name: big, measure: lag, groups: [{known}, gone], warn: 9999999}}")
    )
    assert (nobody["level"], [one["level"] for one in nobody["rules"]]) == ("unknown", ["unknown"])
    assert "big: there is no state of share group 'gone'" in nobody["headline"]


def test_a_verdict_before_that_knew_no_such_rules_is_compared(tmp_path: Path) -> None:
    case = scenario("healthy")
    was = verdict(case)
    del was["rules"]
    was["as_of"] = was["begin"]
    result = verdict(replace(case, previous=was))
    assert (result["changes"]["comparable"], result["rules"]) == (True, [])


# ---- a chart -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("lags", "said"),
    [
        ([9, 3, 2], "2 share partitions with less lag."),
        ([9, 3, None], "2 share partitions with less lag; 1 of them is gone or without a known lag at the last moment."),
        ([9, None, None], "2 share partitions that are gone or have no known lag at the last moment."),
    ],
)  # fmt: skip
def test_lines_that_are_not_drawn_need_not_have_less_lag(lags: list[Any], said: str) -> None:
    place = dict.fromkeys(schemas.TIMELINE.names) | {"group_id": "g", "topic_id": "A" * 22}
    rows = [
        place
        | {"topic": "t", "partition": partition, "as_of": NOW, "lag": lag}
        | {"lag_reason": NO_START_OFFSET if lag is None else None}
        for partition, lag in enumerate(lags)
    ]
    records = lag_over_time_records(pa.Table.from_pylist(rows, schema=schemas.TIMELINE))
    facts = lag_over_time_figure(records, most=1).layout.meta["facts"]
    assert [fact for fact in facts if fact.startswith("Not drawn: ")] == [f"Not drawn: {said}"]


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
