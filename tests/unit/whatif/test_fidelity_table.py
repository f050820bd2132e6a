"""The table of fidelity separates tests from what the simulator was fitted to."""

from __future__ import annotations

from tools.record.fidelity.compare import compared, table
from tools.record.fidelity.experiments import experiments
from tools.record.fidelity.measure import Run


def test_experiments_that_costs_were_fitted_to_are_marked() -> None:
    found = experiments()
    assert {name: one.calibration for name, one in found.items() if one.calibration} == {
        "small-polls": "fetch_ms",
        "commit-each": "write_ms",
    }
    runs = [Run(1000, 100, 0, (100, 50, 0))]
    result = table([compared(one, runs, runs) for one in found.values()])
    marked = [line.split()[1] for line in result.splitlines() if " (calibration) " in line]
    assert marked == ["small-polls", "commit-each"]
    assert "small-polls: calibration, Costs.fetch_ms was fitted to it" in result
    assert len([line for line in result.splitlines() if "calibration" in line]) == 4
    assert all(name in result for name in found)
