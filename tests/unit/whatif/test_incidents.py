"""What was foretold of recorded incidents is what came of them when they were played again."""

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import pytest

import sharelag
from sharelag.whatif import Otherwise
from sharelag.whatif.otherwise import AS_IT_WAS
from tests.support.cases import few_of
from tools.incidents_page import BEGIN, END, PAGE, table
from tools.record.incidents.judge import FOLDER, WITHIN, foretold, gather, judged
from tools.record.incidents.table import Incident, incidents

#: Those that are played here in every run: members and polls, and a record that is slow.
_FEW = ("burst", "poison")
#: One of them ended a third of a second before its interval, as an interval of 95 % allows.
_OUTSIDE = "large-polls"


@cache
def _foretold(name: str) -> Otherwise:
    return foretold(incidents()[name], FOLDER / name)


@pytest.fixture(autouse=True)
def _foretold_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def known(incident: Incident, _: Path) -> Otherwise:
        return _foretold(incident.name)

    monkeypatch.setattr("tools.record.incidents.judge.foretold", known)


@pytest.mark.parametrize("name", few_of(list(incidents()), _FEW))
def test_what_was_foretold_came_when_it_was_played_again(name: str) -> None:
    found = judged(incidents()[name], FOLDER / name)
    if found.outcome is None:
        assert incidents()[name].is_later, "it was answered before"
        return
    assert found.outcome.is_inside or name == _OUTSIDE
    if found.drain is not None:
        assert abs(found.drain.off) <= WITHIN


def test_a_capture_tells_polls_and_work() -> None:
    """Neither is written anywhere: 15 ms a record, polls of 50 and record batches of 5."""
    for member in _foretold("burst").past.scenario.members:
        assert member.max_poll_records == 50
        assert member.service.mean_ms == pytest.approx(15, rel=0.05)
    of_poison = _foretold("poison").past.scenario
    assert all(producer.batch_records == 5 for producer in of_poison.producers)
    assert {one.offset for one in of_poison.poison} == {100, 250, 400, 550, 700, 850}
    assert all(one.work_ms == pytest.approx(2000, rel=0.05) for one in of_poison.poison)


@pytest.mark.exhaustive
def test_a_past_is_simulated_with_the_brokers_of_the_capture() -> None:
    """Of a moment before the capture metadata tells no leaders; those of its end are taken."""
    past = _foretold("burst").past.scenario
    bench = sharelag.open(FOLDER / "burst")
    then = bench.at(datetime.fromtimestamp(past.begins_ms / 1000, UTC) + timedelta(seconds=20))
    assert set(then.brokers().table.column("leader_id").to_pylist()) == {None}
    rows = bench.brokers(past.group_id).table.to_pylist()
    assert past.brokers == 3
    assert past.topics[0].leaders == tuple(row["leader_id"] - 1 for row in rows)
    said = f"; 3 brokers without racks, leaders as of {rows[0]['as_of']:%Y-%m-%d %H:%M:%S}"
    assert said in " ".join(past.assumed)


def test_a_capture_tells_that_records_of_one_partition_are_more_work() -> None:
    """Its member did full polls all the time, the others more than so much work allows."""
    service = gather(FOLDER / "slow-partition").scenario.members[0].service
    work = {place[1]: factor * service.mean_ms for place, factor in service.by_partition}
    assert work[0] == pytest.approx(54, rel=0.05)
    assert service.mean_ms < 54 / 2


def test_a_capture_tells_how_long_a_record_that_several_members_try_takes() -> None:
    """Between two attempts it waits for a member, too; each attempt takes 3 s."""
    poison = gather(FOLDER / "shared-poison").scenario.poison
    assert {one.offset for one in poison} == {150, 460, 770, 1080, 1390}
    assert [one.work_ms for one in poison] == pytest.approx([3000] * 5, rel=0.15)


def test_lag_beyond_what_windows_hold_tells_the_work() -> None:
    """Members may poll 400 records, and the two windows hold 200: that they wait tells of work."""
    past = gather(FOLDER / "greedy-polls").scenario
    assert past.members[0].service.mean_ms == pytest.approx(18, rel=0.15)


@pytest.mark.parametrize(("name", "kind"), [("killed-member", "crash"), ("hung-member", "hang")])
def test_a_capture_tells_when_a_member_died_or_stopped(name: str, kind: str) -> None:
    """It left the group a session timeout later."""
    past = _foretold(name)
    (fault,) = past.past.scenario.faults
    assert fault.kind == kind
    assert fault.at_ms == pytest.approx(8000, abs=300)
    assert not past.past.scenario.poison, "its records come back by themselves"


def test_locks_that_end_since_polls_are_long_are_no_property_of_their_records() -> None:
    past = _foretold("short-locks")
    assert not past.past.scenario.poison
    assert past.past.scenario.members[0].max_poll_records == 60
    assert past.explained.is_close
    expired = past.comparison.runs.to_pandas().groupby("variant")["expired"].mean()
    assert expired[AS_IT_WAS] > 10 * expired[incidents()["short-locks"].change_text]


@pytest.mark.exhaustive
def test_the_page_has_what_is_foretold_now() -> None:
    made = table(judged(one, FOLDER / name) for name, one in incidents().items())
    assert PAGE.read_text().split(BEGIN)[1].split(END)[0].strip() == made
