"""Recorded runs of brokers in one small file, with their script, machine and versions."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sharelag.inputs.files import parquet
from tests.support.kafka.jvm import FAST_JVM, java_version
from tools.record.fidelity.measure import STEP_MS, Run
from tools.record.fidelity.script import PROPERTIES

#: The folder of the recorded runs.
FOLDER = Path(__file__).parents[3] / "data" / "fidelity"
_RUNS = pa.schema(
    [
        ("experiment", pa.string()),
        ("seed", pa.int32()),
        ("told", pa.string()),  # digest of all that brokers, producers and members were given
        ("drain_ms", pa.float64()),
        ("deliveries", pa.int64()),
        ("archived", pa.int64()),
        ("lag", pa.list_(pa.int32())),  # every `step_ms` from the first arrival on
        ("poll_ms", pa.float64()),
        ("commit_ms", pa.float64()),
        ("kafka", pa.string()),
        ("date", pa.string()),
    ]
)


def write(folder: Path, runs: Mapping[tuple[str, int], tuple[str, Run]]) -> None:
    """Write runs by experiment and seed, each with the digest of its script."""
    rows = [
        {"experiment": name, "seed": seed, "told": result, **asdict(run)}
        for (name, seed), (result, run) in runs.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.Table.from_pylist(rows, schema=_RUNS), folder / "runs.parquet")
    about = {
        "java": java_version(),
        "jvm": FAST_JVM,
        "broker": PROPERTIES,
        "step_ms": STEP_MS,
        "machine": _machine(),
    }
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n")


def read(folder: Path = FOLDER) -> dict[tuple[str, int], tuple[str, Run]]:
    """Read the recorded runs."""
    rows = pq.read_table(folder / "runs.parquet", schema=_RUNS).to_pylist()
    return {(row.pop("experiment"), row.pop("seed")): (row.pop("told"), _run(row)) for row in rows}


def _run(row: dict[str, Any]) -> Run:
    return Run(**(row | {"lag": tuple(row["lag"])}))


def _machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = Path("/proc/meminfo").read_text().split()[1]
    return {
        "cpu": models[0],
        "cores": len(models),
        "memory_gib": int(memory) >> 20,
        "system": platform.platform(),
    }
