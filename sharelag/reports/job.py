"""Scheduled jobs as command lines: parameters to arguments and back."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharelag.errors import InputError
from sharelag.monitoring.checks.yaml_places import parse_yaml
from sharelag.sources.open import capture_folder, log_directories

#: Parameters that hold a path on this machine.
LOCAL = ("capture", "segments", "rules", "previous", "command_config")


@dataclass(frozen=True)
class Job:
    """A report to be made regularly."""

    path: Path  # of the notebook
    is_own: bool  # the user's notebook, not one of sharelag's
    cron: str  # as `sharelag.reports.cron.cron_for_all` writes it
    zone: str | None  # None: not specified
    params: Mapping[str, Any]
    options: Sequence[str]  # of ``sharelag report``, except parameters and --out
    out: Path  # absolute

    def command(self, params: Mapping[str, Any], out: str) -> list[str]:
        """Return the arguments of ``sharelag``."""
        name = str(self.path.resolve()) if self.is_own else self.path.stem
        pairs = [word for key, value in params.items() for word in ("-p", key, as_word(value))]
        return ["report", name, *pairs, *self.options, "--out", out]

    def here(self) -> list[str]:
        """Return the command for this machine, with the full path of this environment's script."""
        script = Path(sys.executable).with_name("sharelag")
        return [
            str(script) if script.exists() else "sharelag",
            *self.command(self.params, str(self.out)),
        ]


def absolute(params: Mapping[str, Any]) -> dict[str, Any]:
    """Make the paths among the parameters absolute: notebooks and schedulers run elsewhere."""
    return {
        name: _absolute(name, value) if _is_place(name, value) else value
        for name, value in params.items()
    }


def as_word(value: Any) -> str:
    """Write a value so that `from_word` reads the same value."""
    is_plain = isinstance(value, str) and from_word(value) == value
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def from_word(text: str) -> Any:
    """Parse an argument as YAML, so 3600 is a number; mappings and times stay texts."""
    try:
        value, _ = parse_yaml(text, "")
    except InputError:
        return text
    quoted = isinstance(value, str) and text[:1] in "\"'"
    return (
        value if quoted or isinstance(value, bool | int | float | list) or value is None else text
    )


def _is_place(name: str, value: Any) -> bool:
    # Raw records may also be a table's name or a URL.
    return (
        isinstance(value, str)
        and bool(value)
        and (name in LOCAL or (name == "raw" and Path(value).exists()))
    )


def _absolute(name: str, value: str) -> str:
    if name == "segments":
        return ",".join(_resolve(folder) for folder in log_directories(value))
    return _resolve(capture_folder(value) if name == "capture" else Path(value))


def _resolve(place: Path) -> str:
    return str(place.expanduser().resolve())
