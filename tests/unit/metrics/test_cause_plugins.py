"""A cause is one declaration: here, or in another installed package by an entry point."""

import json

import numpy as np
import pytest

import sharelag
from sharelag.errors import InputError
from sharelag.metrics import causes
from sharelag.metrics.causes import CAUSES, known_causes
from sharelag.monitoring.checks.rules import parse_rules
from sharelag.reports.case import read, verdict
from sharelag.tables.level import WARNING
from sharelag.whatif import members_wanted
from sharelag.workbench.next_steps import next_command
from tests.support.chapters import CAPTURE
from tests.support.command import refused
from tests.support.command import sharelag as command
from tests.support.packages import Packages
from tests.support.records import assert_fields
from tools import causes_page

GROUP = "sharelag.causes"
STUCK = str(CAPTURE.parent / "scenarios" / "head_of_line")
POINT = "quota_reached = our_quota:CAUSE"
CODE = """
import numpy as np
from sharelag.metrics.causes import Cause, Found

def find(facts):
    lag = facts.lag("effective_lag")
    return Found(facts.behind, lag, np.full(len(lag), np.nan), {"lag": lag})

CAUSE = Cause(
    "quota_reached", "critical", "the quota is reached", "buy more", find,
    frozenset({"head_of_line", "of_a_package_that_is_not_there"}),
)
NUMBER = 3
"""


def install(packages: Packages, points: str = POINT, code: str = CODE) -> None:
    packages.install("our-quota", GROUP, points, code)


def test_without_packages_there_are_the_built_in_causes() -> None:
    assert known_causes() == CAUSES


def test_a_cause_declared_in_one_place_is_in_every_output(monkeypatch: pytest.MonkeyPatch) -> None:
    @causes.cause(
        WARNING,
        "the lag is odd",
        f"even it out; sharelag lag {causes.OF_GROUP} shows it",
        includes={"head_of_line"},
        command="progress",
    )
    def odd_lag(given: causes.CauseInputs) -> causes.Found:
        lag = given.lag("effective_lag")
        return causes.Found(lag % 2 == 1, lag, np.full(len(lag), np.nan), {"lag": lag})

    monkeypatch.setattr(causes, "CAUSES", (*CAUSES, odd_lag))
    answer = sharelag.open(STUCK, engine="local", patience="2s").explain()
    (row,) = answer.table.to_pylist()  # it explains the head of the line
    advice = f"even it out; sharelag lag --group {row['group_id']} shows it"
    assert_fields(row, cause="odd_lag", severity="warning", summary="the lag is odd", advice=advice)
    shown = command("explain", "--capture", STUCK, "--patience", "2s").stdout
    printed = command("explain", "--capture", STUCK, "--patience", "2s", "-o", "json").stdout
    for text in (str(answer), answer._repr_html_(), shown, printed):
        assert "the lag is odd" in text
        assert "even it out" in text
    assert json.loads(printed)["cause"] == "odd_lag"
    assert next_command(row, "--capture x").startswith("sharelag progress --capture x --group ")
    assert "| `odd_lag` | warning | the lag is odd | even it out;" in causes_page.table()


def test_the_page_of_causes_is_up_to_date() -> None:
    page = causes_page.PAGE.read_text("utf-8")
    assert causes_page.page(page) == page, "run `python tools/causes_page.py`"


def test_a_workbench_finds_ranks_and_words_it(packages: Packages) -> None:
    install(packages)
    bench = sharelag.open(STUCK, engine="local", patience="2s")
    answer = bench.explain()
    assert "the quota is reached" in str(answer)
    rows = answer.table.to_pylist()
    first = rows[0]
    assert_fields(first, cause="quota_reached", rank=1, severity="critical", held=1)
    assert {"name": "lag", "value": "1"} in first["evidence"]
    assert "head_of_line" not in [row["cause"] for row in rows]  # the new cause explains it


def test_the_command_takes_it(packages: Packages) -> None:
    install(packages)
    answer = command("explain", "--capture", STUCK, "--patience", "2s", "-o", "json", code=0)
    assert json.loads(answer.stdout.splitlines()[0])["cause"] == "quota_reached"
    words = command("explain", "--capture", STUCK, "--patience", "2s").stdout
    assert "the quota is reached" in words
    assert "buy more" in words


def test_what_members_do_not_finish_is_stuck(packages: Packages) -> None:
    install(packages, code=CODE.replace("}),\n)", "}),\n    members_help=False,\n)"))
    bench = sharelag.open("slow", engine="local")  # where no other cause holds any
    wanted = members_wanted(bench.evidence())
    assert (wanted.waiting, wanted.stuck) == (0, sum(bench.lag().table.column("lag").to_pylist()))


def test_reports_and_rules_take_it(packages: Packages) -> None:
    install(packages)
    judged = verdict(read(capture=STUCK, engine="local"))
    assert (judged["level"], judged["groups"][0]["causes"][0]["advice"]) == ("critical", "buy more")
    rule = "version: 1\nrules: [{name: q, measure: cause, causes: [quota_reached], critical: 0}]"
    assert parse_rules(rule).rules[0].causes == ("quota_reached",)
    with pytest.raises(InputError, match=r"unknown cause 'other': choose from .*quota_reached"):
        parse_rules(rule.replace("quota_reached", "other"))


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("quota_reached = not_there:any", r"cannot be loaded from .*not_there"),
        ("quota_reached = our_quota:NUMBER", r"is not a Cause: .*type int"),
        ("quota = our_quota:CAUSE", r"is named 'quota_reached': give it the name of its entry"),
    ],
)
def test_a_broken_one_is_named(packages: Packages, point: str, message: str) -> None:
    install(packages, point)
    with pytest.raises(InputError, match=rf"the cause '\w+' of the package 'our-quota' {message}"):
        sharelag.open(STUCK, engine="local").explain()


@pytest.mark.parametrize(
    ("was", "becomes", "message"),
    [
        ('"critical"', '"awful"', r"has the severity 'awful': choose one of critical, warning"),
        ('"buy more"', "None", r"needs a summary and advice that are text"),
        (
            "}),\n)",
            '}), what_if="luck")',
            r"has the what-if 'luck': choose one of members, lag-aware",
        ),
        ('lag("effective_lag")', 'lag("nothing")', r"failed \(KeyError: .*nothing.*repair or"),
        ("return Found(", "return (", r"returned a value of type tuple: .*Found is needed"),
        ("Found(facts.behind,", "Found(lag,", r"returned 'where' as float64 of shape"),
        ("np.full(len(lag)", "np.full(9", r"returned 'since' as float64 of shape \(9,\)"),
        ('{"lag": lag}', '{"lag": 3}', r"returned 'lag' as int64 of shape \(\)"),
        ('{"lag": lag}', '{}, {"why": ["a"] * 9}', r"returned 9 texts as 'why'"),
    ],
)
def test_a_wrong_cause_is_told(packages: Packages, was: str, becomes: str, message: str) -> None:
    install(packages, code=CODE.replace(was, becomes))
    said = refused("explain", "--capture", STUCK)
    error = " ".join(said.split())
    assert "Traceback" not in error
    with pytest.raises(InputError, match=f"'quota_reached' of the package 'our-quota' {message}"):
        sharelag.open(STUCK, engine="local").explain()
    assert "the package 'our-quota'" in error


def test_built_in_names_are_no_others(packages: Packages) -> None:
    install(packages, "window_full = our_quota:CAUSE")
    with pytest.raises(InputError, match=r"'window_full' is built in, but the package 'our-quota'"):
        known_causes()


def test_who_does_not_ask_for_causes_looks_for_no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_path: object) -> None:
        raise AssertionError("packages were looked for")

    monkeypatch.setattr("sharelag.plugins._find_installed", refuse)
    assert command("lag", "--capture", STUCK).returncode == 0
    with pytest.raises(AssertionError, match="packages were looked for"):
        known_causes()
