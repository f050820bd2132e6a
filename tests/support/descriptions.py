"""Captures and archives whose description says something else."""

import json
from pathlib import Path


def describe(folder: Path, **changes: object) -> None:
    """Change fields of a capture's description, which then has no checksum; None removes one."""
    path = folder / "capture.json"
    about = json.loads(path.read_text("utf-8")) | {"crc32": None} | changes
    kept = {name: value for name, value in about.items() if value is not None}
    path.write_text(json.dumps(kept), "utf-8")
