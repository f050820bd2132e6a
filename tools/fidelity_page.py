"""Write the table of ``docs/fidelity.md``: experiments on brokers, compared with simulations.

``python -m tools.fidelity_page`` needs no broker: it reads ``data/fidelity``.
"""

from __future__ import annotations

from pathlib import Path

from tools.page import with_part
from tools.record.fidelity import recorded
from tools.record.fidelity.__main__ import compare_all
from tools.record.fidelity.compare import BOUNDS, Comparison, table
from tools.record.fidelity.experiments import experiments

PAGE = Path(__file__).resolve().parent.parent / "docs" / "fidelity.md"
BEGIN, END = "<!-- table: python -m tools.fidelity_page -->", "<!-- end of table -->"


def part(found: list[Comparison]) -> str:
    """Return the part of the page that is generated from all experiments."""
    tests = [one for one in found if not one.experiment.calibration]
    near = sum(not one.misses for one in tests)
    bounds = ", ".join(f"{name} {100 * bound:.0f} %" for name, bound in BOUNDS.items())
    runs = [run for _, run in recorded.read().values()]
    played = sorted({f"{run.kafka} on {run.date}" for run in runs})
    return "\n\n".join(
        (
            (
                f"**{near} of {len(tests)} experiments to which nothing was fitted are near in all "
                f"measures** ({bounds}): {_of(tests, 1)}, and {_of(tests, 3)}."
            ),
            table(found),
            (
                f"{len(runs)} runs on Kafka {' and '.join(played)}, "
                "and as many simulated with the same draws."
            ),
        )
    )


def _of(tests: list[Comparison], brokers: int) -> str:
    mine = [one for one in tests if one.experiment.scenario.brokers == brokers]
    near = sum(not one.misses for one in mine)
    return f"{near} of {len(mine)} on {'one broker' if brokers == 1 else 'three brokers'}"


if __name__ == "__main__":
    PAGE.write_text(with_part(PAGE.read_text(), BEGIN, END, part(compare_all(experiments()))))
