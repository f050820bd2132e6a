"""The fewest members that keep records young: the sums, what is stuck, what is not known, KEDA."""

import cProfile
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sharelag.engine import engines
from sharelag.errors import InputError
from sharelag.monitoring.exports import Gathered, application
from sharelag.whatif import TargetAge, members_wanted
from sharelag.whatif.autoscale import autoscaler_of, fewest
from tests.support.chapters import CAPTURE
from tests.support.command import ask, refused
from tests.support.command import sharelag as sharelag_command
from tests.support.readings import open_once
from tests.support.synthetic import capture_of
from tests.support.written_input import Write, WrittenInput


def test_members_keep_up_with_what_comes() -> None:
    """45 a second of 100 ms each keep 4.5 busy; a short goal leaves no time to wait for one."""
    assert fewest(45, 10, 0, 30_000).members == 5
    assert fewest(45, 10, 0, 100).members == 7
    assert fewest(50, 10, 0, 30_000).members == 6  # five would be busy for ever
    assert fewest(0, 10, 0, 30_000).members == 0


def test_a_backlog_is_finished_within_the_goal_beside_what_comes() -> None:
    """3,000 records in 30 s are 100 a second, and 20 come: twelve members of 10 each."""
    assert fewest(20, 10, 3000, 30_000) == (3, 12)
    assert fewest(20, 10, 3000, 30_000).members == 12
    assert fewest(20, 10, 3000, 300_000).members == 3


@pytest.mark.parametrize(("goal", "words"), [("30s", "30 s"), ("2m", "2m")])
def test_the_answer_of_a_capture_says_why(goal: str, words: str) -> None:
    bench = open_once("slow")
    wanted = bench.members_wanted(goal=goal)
    assert wanted.members == 5  # (36.3 + 248 / 30) / 9.5
    said = f"248 offsets wait, to be finished within {words} beside 36.3 that arrive per second"
    assert wanted.reason == f"{said}, and a busy member finishes 9.5 per second; 4 would keep up"
    assert (wanted.waiting, wanted.stuck) == (248, 0)
    assert members_wanted(bench.evidence(), "slow", goal) == wanted


def test_what_is_stuck_calls_for_no_member() -> None:
    """400 offsets of clickstream are stuck, and 20 come and go."""
    bench = open_once("chapters")
    wanted = bench.members_wanted("clickstream")
    assert (wanted.members, wanted.stuck, wanted.waiting) == (1, 400, 420)
    assert wanted.reason.endswith("; 400 more are stuck, which no number of members finishes")


def test_nothing_to_do_wants_nobody_and_the_unknown_is_not_nobody() -> None:
    bench = open_once("chapters")
    nothing = bench.members_wanted("refunds")
    assert (nothing.members, nothing.reason) == (0, "nothing waits and nothing arrives")
    unknown = bench.members_wanted("analytics")
    assert unknown.members is None
    assert unknown.reason == "the lag of 3 share partitions is not known"
    assert "not known" in str(unknown)
    with pytest.raises(InputError, match="there is no state of share group 'nobody'"):
        bench.members_wanted("nobody")
    with pytest.raises(InputError, match="cannot stay younger than 0s"):
        bench.members_wanted("billing", "0s")


def ask_server(now: Gathered, path: str, query: str = "") -> tuple[str, dict[str, Any]]:
    told: list[str] = []
    environ = {
        "REQUEST_METHOD": "GET", "PATH_INFO": path, "QUERY_STRING": query, "HTTP_HOST": "localhost",
    }  # fmt: skip
    body = b"".join(application(lambda: now)(environ, lambda status, _: told.append(status)))
    return told[0], json.loads(body)


def test_keda_gets_the_same_number_and_the_reason() -> None:
    evidence = open_once("chapters").evidence()
    now = Gathered(evidence)
    for group in ("billing", "clickstream", "refunds", "analytics"):
        status, numbers = ask_server(now, f"/keda/{group}", "goal=30s&target=100")
        wanted = members_wanted(evidence, group, "30s")
        assert status == "200 OK"
        assert numbers["members_wanted"] == wanted.members
        assert numbers["members_wanted_reason"] == wanted.reason
        assert "consumers" in numbers
    assert "members_wanted" not in ask_server(now, "/keda/billing")[1]
    for goal in ("30", "soon", "0s", "9" * 40 + "s", "%00"):
        status, told = ask_server(now, "/keda/billing", f"goal={goal}")
        said = {"error": "goal must be a duration such as 30s"}
        assert (status, told) == ("400 Bad Request", said)


def test_one_of_many_groups_costs_as_one(tmp_path: Path) -> None:
    """KEDA asks for each group by itself, every half minute."""
    calls, said = [], set()
    for groups in (10, 1000):
        evidence = engines.gather(capture_of(tmp_path / f"{groups}", groups, 1, 6), "local")
        members_wanted(evidence, "group-00001")  # what is imported first
        profile = cProfile.Profile()
        said.add(profile.runcall(members_wanted, evidence, "group-00001"))
        calls.append(sum(one.callcount for one in profile.getstats()))
    assert len(said) == 1
    assert calls[1] < 1.2 * calls[0]


def test_only_lag_tells_no_members() -> None:
    evidence = engines.gather(WrittenInput([Write(600, 6600)]), "local")
    wanted = members_wanted(replace(evidence, lag_only=True), "billing")
    assert (wanted.members, wanted.reason) == (None, "only lag was read")


def test_the_command_prints_the_same_and_says_what_it_lacks() -> None:
    given = ("simulate", "--capture", str(CAPTURE), "--members-wanted", "30s")
    # Of analytics it is not known.
    rows = {row["group_id"]: row for row in ask(*given, code=3)}
    evidence = open_once("chapters").evidence()
    for group, row in rows.items():
        wanted = members_wanted(evidence, group, "30s")
        assert (row["members_wanted"], row["why"]) == (wanted.members, wanted.reason)
    one = sharelag_command(*given, "--group", "clickstream", code=0)
    assert "clickstream: 1 member wanted: " in one.stderr
    assert "remove --members" in refused(*given, "--members", "3", code=2)


def test_an_autoscaler_can_go_by_it() -> None:
    policy = autoscaler_of("target-age:goal=30s,utilization=fewest,max=40")
    assert isinstance(policy, TargetAge)
    assert policy.utilization is None
