"""Groups that were foretold and then played live: what was kept of them, and what the page says."""

import pytest

from sharelag.whatif import Scenario, simulate
from tools.groups_page import BEGIN, END, PAGE, table
from tools.record.incidents.groups import ASSIGNORS, BACKLOG, GROUPS, RUNS, kept, measured


def test_the_page_has_what_was_kept() -> None:
    assert PAGE.read_text().split(BEGIN)[1].split(END)[0].strip() == table()


def test_the_assignor_won_in_each_live_pair() -> None:
    """What was foretold stays as it was said then, whatever the simulator says today."""
    live = kept("assignors")[BACKLOG.name]["live"]
    assert {len(runs) for runs in live.values()} == {RUNS["assignors"]}
    for usual, other in zip(*(live[name] for name in ASSIGNORS), strict=True):
        for measure in ("drain_ms", "age_p95_ms"):
            assert other[measure] < usual[measure]


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_ages_by_state_records_are_those_of_the_simulator(group: Scenario) -> None:
    (told,) = simulate(group, 0).summary.to_pylist()
    found = measured(group, 0)["age_p95_ms"]
    # one begins with the members, the other with the first record
    assert found == pytest.approx(told["age_p95_ms"], rel=0.01)
