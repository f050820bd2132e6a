"""Regular jobs as words on a command line: parameters as arguments, and the other way."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

#: Parameters that name a place on this machine.
LOCAL = ("capture", "segments", "rules", "previous", "command_config")


@dataclass(frozen=True)
class Job:
    """A report that is made again and again."""

    path: Path  # of the notebook
    is_own: bool  # it does not come with sharelag
    cron: str  # for all schedulers, see `sharelag.reports.cron.cron_for_all`
    zone: str | None  # None: nobody said
    params: Mapping[str, Any]
    options: Sequence[str]  # of ``sharelag report``, besides parameters and --out
    out: Path  # absolute

    def command(self, params: Mapping[str, Any], out: str) -> list[str]:
        """The arguments of ``sharelag``."""
        name = str(self.path.resolve()) if self.is_own else self.path.stem
        pairs = [word for key, value in params.items() for word in ("-p", key, as_word(value))]
        return ["report", name, *pairs, *self.options, "--out", out]

    def here(self) -> list[str]:
        """The command for this machine, by the script of this environment: a scheduler has another PATH."""
        script = Path(sys.executable).with_name("sharelag")
        return [
            str(script) if script.exists() else "sharelag",
            *self.command(self.params, str(self.out)),
        ]


def absolute(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with whole paths, since a notebook or a scheduler runs elsewhere."""
    return {
        name: _absolute(value) if _is_place(name, value) else value
        for name, value in params.items()
    }


def as_word(value: Any) -> str:
    """A value as `from_word` reads it again."""
    is_plain = isinstance(value, str) and from_word(value) == value
    return value if is_plain else json.dumps(value, ensure_ascii=False)


def from_word(text: str) -> Any:
    """A word of the command line as a parameter: read as YAML, so 3600 is a number; a mapping or a time is a text."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    quoted = isinstance(value, str) and text[:1] in "\"'"
    return (
        value if quoted or isinstance(value, bool | int | float | list) or value is None else text
    )


def _is_place(name: str, value: Any) -> bool:
    # Raw records may also be the name of a table, or lie behind a URL.
    return (
        isinstance(value, str)
        and bool(value)
        and (name in LOCAL or (name == "raw" and Path(value).exists()))
    )


def _absolute(value: str) -> str:
    return str(Path(value).expanduser().resolve())
