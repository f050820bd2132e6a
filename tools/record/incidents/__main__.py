"""Play incidents on three brokers, each as it was and with its change, and store the results.

``python -m tools.record.incidents data/incidents`` takes forty minutes; names choose some.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.support.kafka.broker import KafkaCluster
from tests.support.kafka.jars import KAFKA_VERSION
from tools.record.incidents.judge import FOLDER, told
from tools.record.incidents.play import SETTINGS, play, prepare
from tools.record.incidents.table import BROKERS, Incident, incidents

#: Seed of arrivals, and of the work of each record.
SEED = 0
PARTS = ("as_it_was", "changed")


def record(incident: Incident, folder: Path, parts: Sequence[str] = PARTS) -> None:
    """Play an incident on a separate cluster, capture that, then play it with the change."""
    place = folder / "played.json"
    kept = told(folder) if place.exists() and set(parts) != set(PARTS) else {}
    if not kept and folder.exists():
        shutil.rmtree(folder)  # a capture only replaces captures
    for name, scenario in zip(PARTS, (incident.scenario, incident.changed), strict=True):
        if name not in parts:
            continue
        begun = time.monotonic()
        with KafkaCluster(BROKERS, SETTINGS) as cluster:
            prepare(cluster)
            one = play(cluster, incident, scenario, SEED, folder if name == PARTS[0] else None)
        kept[name] = asdict(one)
        print(
            f"{incident.name:18} {name:10} lag {max(one.lag):5d} at most, {one.lag[-1]:5d} at the "
            f"end, drained {one.drained_ms}, {one.deliveries} deliveries, load {one.load:.1f}, "
            f"took {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    kept |= {"kafka": KAFKA_VERSION, "date": datetime.now(UTC).date().isoformat()}
    place.write_text(json.dumps(kept) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Play incidents, and play them again changed.")
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(incidents()))
    parser.add_argument("--part", choices=PARTS, help="play only this again")
    options = parser.parse_args()
    for name in options.names or incidents():
        parts = (options.part,) if options.part else PARTS
        record(incidents()[name], options.folder / name, parts)
