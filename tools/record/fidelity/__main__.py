"""Run the experiments on a broker and compare the simulator with it.

``python -m tools.record.fidelity`` compares with what is recorded, ``--record`` runs all on a
broker first: half an hour on a quiet machine. Names choose experiments; those that are not chosen
stay as they were recorded.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.support.kafka.broker import KafkaBroker
from tools.record.fidelity import recorded
from tools.record.fidelity.compare import compared, table
from tools.record.fidelity.experiments import experiments
from tools.record.fidelity.live import prepare, run_live
from tools.record.fidelity.measure import simulated
from tools.record.fidelity.script import PROPERTIES, digest, script

#: Seeds that are simulated.
SEEDS = 10


def record(folder: Path, names: list[str], repeats: int) -> None:
    """Run experiments on a broker in turn, so that a busy minute does not hit one of them alone."""
    runs = recorded.read(folder) if (folder / "runs.parquet").exists() else {}
    runs = {
        key: run for key, run in runs.items() if key[0] in experiments() and key[0] not in names
    }
    with KafkaBroker(properties=PROPERTIES) as broker:
        prepare(broker)
        run_live(broker, experiments()["release-and-reject"].scenario, 0)  # the broker is cold, too
        for seed in range(repeats):
            for name in names:
                begun, scenario = time.monotonic(), experiments()[name].scenario
                run = run_live(broker, scenario, seed)
                runs[name, seed] = digest(script(scenario, seed)), run
                print(
                    f"{name:20} {seed} {run.drain_ms:8.0f} ms, "
                    f"took {time.monotonic() - begun:5.1f} s",
                    flush=True,
                )
            recorded.write(folder, runs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Hold the simulator against a broker.")
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"all, or of: {', '.join(experiments())}"
    )
    parser.add_argument(
        "--record", type=Path, metavar="FOLDER", help="run on a broker first, and write what it did"
    )
    parser.add_argument("--repeats", type=int, default=10, help="how often each, when recording")
    options = parser.parse_args()
    chosen = options.names or list(experiments())
    if options.record:
        record(options.record, chosen, options.repeats)
    known = recorded.read(options.record or recorded.FOLDER)
    print(
        table(
            [
                compared(
                    experiments()[name],
                    [simulated(experiments()[name].scenario, seed) for seed in range(SEEDS)],
                    [run for (of, _), (_, run) in known.items() if of == name],
                )
                for name in chosen
            ]
        )
    )
