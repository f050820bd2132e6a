"""Real consumers and the simulator still agree in a few short experiments, on any machine."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sharelag.whatif import Poison, Scenario
from tests.support.kafka.broker import KafkaBroker
from tools.record.fidelity.experiments import TOPIC, experiments
from tools.record.fidelity.live import prepare, run_live
from tools.record.fidelity.measure import simulated
from tools.record.fidelity.script import PROPERTIES

#: Part of the simulator's drain time within which the real one has to be. A busy machine is slow,
#: but never fast.
_FASTEST, _SLOWEST = 0.85, 2.5


@pytest.fixture(scope="module")
def own_broker() -> Iterator[KafkaBroker]:
    with KafkaBroker(properties=PROPERTIES) as running:
        prepare(running)
        yield running


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["poison", "release-and-reject", "hung"])
def test_members_do_what_the_simulator_says(own_broker: KafkaBroker, name: str) -> None:
    compare(own_broker, experiments()[name].scenario)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "poison"),
    [
        ("hung", Poison(TOPIC, 0, 300, "hold", 1, hold_ms=4500)),
        ("killed", Poison(TOPIC, 0, 120, "crash", 1)),
    ],
)
def test_who_gets_one_holds_it_long(own_broker: KafkaBroker, name: str, poison: Poison) -> None:
    """The same groups without a fault at a certain time."""
    compare(own_broker, replace(experiments()[name].scenario, faults=(), poison=(poison,)))


def compare(broker: KafkaBroker, scenario: Scenario) -> None:
    ours = simulated(scenario, 0)
    real = run_live(broker, scenario, 0, late_ms=10_000, warm_up=200)
    assert ours.deliveries == pytest.approx(real.deliveries, rel=0.05)
    assert ours.archived == pytest.approx(real.archived, rel=0.05)
    assert _FASTEST * ours.drain_ms <= real.drain_ms <= _SLOWEST * ours.drain_ms
