"""What was it like on each night? A folder of Parquet files a run, for a lake."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa
import pyarrow.parquet as pq

from sharelag import investigate
from sharelag.errors import InputError
from sharelag.metrics.evidence import Evidence
from sharelag.model import iso
from sharelag.version import __version__


def write_run(evidence: Evidence, folder: Path, source: str) -> Path:
    """Write lag, windows and imbalance as of one moment.

    Parameters
    ----------
    evidence : Evidence
    folder : pathlib.Path
        Where runs are; made if it is not there.
    source : str
        What the numbers are of, as `Input.describe` says it: no secrets.

    Returns
    -------
    pathlib.Path
        The run's own folder, named by its moment: ``FOLDER/20261121T031000.000Z`` with ``lag.parquet``,
        ``windows.parquet``, ``imbalance.parquet`` and ``run.json``. It is there with all of them or not at all.

    Raises
    ------
    InputError
        When a run of that moment is there already, or nothing can be written.
    """
    run = folder / iso(evidence.as_of).replace("-", "").replace(":", "")
    if run.exists():
        raise InputError(f"{run} is there already: a run is never replaced, so name another folder or remove it")
    tables = {"lag": evidence.lag, "windows": evidence.windows, "imbalance": investigate.imbalance(evidence)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(run, tables, {"as_of": iso(evidence.as_of), "source": source, "tool_version": __version__})
    except OSError as error:
        raise InputError(f"cannot write to {folder} ({error.strerror or error}): check the place") from error
    return run


def _write(run: Path, tables: dict[str, pa.Table], about: dict[str, str]) -> None:
    scratch = Path(mkdtemp(prefix=f".{run.name}-", dir=run.parent))
    try:
        half = scratch / "new"
        half.mkdir(mode=0o755)
        for name, table in tables.items():
            pq.write_table(table, half / f"{name}.parquet", compression="zstd")
        (half / "run.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        half.rename(run)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
