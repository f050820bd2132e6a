"""Records that fail in every delivery, as the KIPs describe and the dashboard lists them."""

import pytest

from sharelag.whatif.scenario import Member, Poison, Scenario, Service, Topic
from sharelag.whatif.simulate import simulate
from sharelag.workbench import Workbench
from sharelag_widgets.dashboards import PoisonHunt
from tests.support.fields import assert_fields
from tests.support.simulated_input import SimulatedInput


@pytest.mark.row("RST-12")
def test_what_was_given_up_at_the_limit_is_in_the_list_with_its_count() -> None:
    """Of three records the first is never acknowledged, the second always released."""
    scenario = Scenario(
        (Topic("t", 1, backlog=3),),
        (Member(service=Service(10), max_poll_records=1),),
        poison=(Poison("t", 0, 0, "silent"), Poison("t", 0, 1, "release")),
        duration_ms=20_000,
    )
    bench = Workbench(SimulatedInput(simulate(scenario)), engine="local")
    hunt = PoisonHunt(bench, "what-if")
    listed, head = hunt.found.to_pylist()
    assert (listed["first_offset"], listed["last_offset"], listed["delivery_count"]) == (1, 1, 5)
    assert (listed["state"], listed["left"]) == ("archived", None)
    # The first one has no persisted state, so how often it was delivered is not known; it pins the
    # start offset.
    assert_fields(head, first_offset=0, delivery_count=None, why="pins the start offset")
    (why,) = [
        row for row in hunt.bench.explain().table.to_pylist() if row["cause"] == "poison_records"
    ]
    result = {one["name"]: one["value"] for one in why["evidence"]}
    assert (result["archived at the limit"], result["limit"]) == ("1", "5")
    assert any("archived at the limit" in str(card) for card in hunt.cards.cards)
