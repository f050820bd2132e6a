"""Run the experiments on a broker and compare the simulator with it.

``python -m tools.record.fidelity`` compares with the recorded runs, ``--record`` first runs all on
a broker: half an hour on an idle machine. Names select experiments; recordings of the others are
kept.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path

from tests.support.kafka.broker import KafkaBroker, KafkaCluster
from tools.record.fidelity import recorded
from tools.record.fidelity.compare import Comparison, compared, table
from tools.record.fidelity.experiments import experiments
from tools.record.fidelity.live import prepare, run_live
from tools.record.fidelity.measure import simulated
from tools.record.fidelity.script import PROPERTIES, digest, script


def record(folder: Path, names: list[str], seeds: range) -> None:
    """Run experiments on a broker in turn, so that a busy minute does not affect only one."""
    runs = recorded.read(folder) if (folder / "runs.parquet").exists() else {}
    runs = {
        key: run
        for key, run in runs.items()
        if key[0] in experiments() and (key[0] not in names or key[1] < seeds.start)
    }
    for count in (1, 3):
        mine = [name for name in names if experiments()[name].scenario.brokers == count]
        if not mine:
            continue
        cluster: KafkaBroker | KafkaCluster = (
            KafkaBroker(properties=PROPERTIES) if count == 1 else KafkaCluster(count, PROPERTIES)
        )
        with cluster as broker:
            prepare(broker)
            run_live(broker, experiments()[mine[0]].scenario, 0, late_ms=10_000)  # a cold cluster
            for seed in seeds:
                for name in mine:
                    begun, scenario = time.monotonic(), experiments()[name].scenario
                    run = run_live(broker, scenario, seed)
                    runs[name, seed] = digest(script(scenario, seed)), run
                    print(
                        f"{name:20} {seed} {run.drain_ms:8.0f} ms, "
                        f"took {time.monotonic() - begun:5.1f} s",
                        flush=True,
                    )
                recorded.write(folder, runs)


def compare_all(names: Iterable[str], folder: Path = recorded.FOLDER) -> list[Comparison]:
    """Compare the recorded runs in a folder with simulations of the same seeds."""
    known = recorded.read(folder)
    found = []
    for name in names:
        one, real = (
            experiments()[name],
            {n: run for (of, n), (_, run) in known.items() if of == name},
        )
        found.append(compared(one, [simulated(one.scenario, n) for n in real], list(real.values())))
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Hold the simulator against a broker.")
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"all, or of: {', '.join(experiments())}"
    )
    parser.add_argument(
        "--record", type=Path, metavar="FOLDER", help="run on a broker first, and write what it did"
    )
    parser.add_argument("--repeats", type=int, default=10, help="how often each, when recording")
    parser.add_argument("--first", type=int, default=0, help="go on after so many repeats")
    options = parser.parse_args()
    chosen = options.names or list(experiments())
    if options.record:
        record(options.record, chosen, range(options.first, options.repeats))
    print(table(compare_all(chosen, options.record or recorded.FOLDER)))
