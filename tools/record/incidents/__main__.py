"""Play incidents on three brokers, each as it was and with its change, and keep what came of it.

``python -m tools.record.incidents data/incidents`` takes forty minutes; names choose some.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.support.kafka.cluster import KafkaCluster
from tests.support.kafka.jars import KAFKA_VERSION
from tools.record.incidents.judge import FOLDER
from tools.record.incidents.play import SETTINGS, Played, play, prepare
from tools.record.incidents.table import BROKERS, Incident, incidents

#: Of the arrivals, and of the work in each record.
SEED = 0


def record(incident: Incident, folder: Path) -> None:
    """Play an incident on a cluster of its own, capture that, then play it with the change."""
    found: dict[str, Played] = {}
    for name, scenario in (("as_it_was", incident.scenario), ("changed", incident.changed)):
        begun = time.monotonic()
        with KafkaCluster(BROKERS, SETTINGS) as cluster:
            prepare(cluster)
            found[name] = play(
                cluster, incident, scenario, SEED, folder if name == "as_it_was" else None
            )
        one = found[name]
        print(
            f"{incident.name:18} {name:10} lag {max(one.lag):5d} at most, {one.lag[-1]:5d} at the "
            f"end, drained {one.drained_ms}, {one.deliveries} deliveries, load {one.load:.1f}, "
            f"took {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    about = {"kafka": KAFKA_VERSION, "date": datetime.now(UTC).date().isoformat()}
    kept = about | {name: asdict(one) for name, one in found.items()}
    (folder / "played.json").write_text(json.dumps(kept) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Play incidents, and play them again changed.")
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(incidents()))
    options = parser.parse_args()
    for name in options.names or incidents():
        record(incidents()[name], options.folder / name)
