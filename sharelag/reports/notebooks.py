"""The report notebooks, and the parameters they take."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat

from sharelag.durations import parse_duration
from sharelag.errors import InputError
from sharelag.model import iso
from sharelag.reports.secrets import is_secret_name

_HERE = Path(__file__).resolve().parent
#: In a wheel beside this module, in a checkout where people look for notebooks.
_SHELVES = (_HERE / "notebooks", _HERE.parents[1] / "notebooks" / "reports")


def names() -> dict[str, str]:
    """The reports that come with sharelag: name, and what the report answers."""
    return {path.stem: _about(path) for shelf in _SHELVES for path in sorted(shelf.glob("*.ipynb"))}


def notebook(name: str) -> Path:
    """The notebook of a report: one of `names`, or the path of another notebook.

    Raises
    ------
    InputError
        There is none.
    """
    places = (
        [Path(name)] if name.endswith(".ipynb") else [shelf / f"{name}.ipynb" for shelf in _SHELVES]
    )
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InputError(
            f"there is no report {name!r}: choose one of {', '.join(names())}, or name a notebook (.ipynb)"
        )
    if found.stem.startswith("."):
        raise InputError(
            f"{name!r} is no name for a report, whose folder is called like it: rename the notebook"
        )
    return found


def declared(path: Path) -> dict[str, Any]:
    """The parameters of a notebook with their defaults, by the cell with the tag ``parameters``.

    Raises
    ------
    InputError
        It is no notebook, or has no such cell of plain assignments.
    """
    cells = [cell for cell in _read(path).cells if "parameters" in cell.metadata.get("tags", [])]
    if not cells:
        raise InputError(
            f"{path} has no cell with the tag parameters, which says what can be given to it: add one"
        )
    try:
        assigned = [node for cell in cells for node in ast.parse(cell.source).body]
        return {
            target.id: ast.literal_eval(node.value)
            for node in assigned
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
    except (SyntaxError, ValueError) as error:
        raise InputError(
            f"the parameters of {path} are no plain values ({error}): assign numbers and texts"
        ) from None


def checked(path: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, if the notebook takes them and none is a secret.

    Raises
    ------
    InputError
        Otherwise; the message has names, never values.
    """
    known = declared(path)
    for name in parameters:
        if is_secret_name(name):
            raise InputError(
                f"the parameter {name!r} looks like a secret, and parameters are written into the notebook: "
                "give client settings with --command-config or --command-property, and others in the environment"
            )
        if name not in known:
            raise InputError(
                f"{path.stem} has no parameter {name!r}: choose from {', '.join(known)}"
            )
    given = {name: _as_json(name, value) for name, value in parameters.items()}
    for name, value in given.items():
        if _is_duration(known[name]) and not (_is_number(value) or _is_duration(value)):
            raise InputError(
                f"the parameter {name!r} must be a duration such as 30s, 5m or 2h, "
                "or a number of seconds"
            )
        if _is_number(known[name]) and not _is_number(value):
            raise InputError(
                f"the parameter {name!r} is a number, and what was given is none: give one"
            )
    return {name: value for name, value in given.items() if value != known[name]}


def _is_duration(value: Any) -> bool:
    with suppress(InputError):
        return isinstance(value, str) and parse_duration(value) >= timedelta()
    return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _as_json(name: str, value: Any) -> Any:
    """A value as ledger and verdict hold it; YAML makes moments of what looks like one."""
    try:
        return json.loads(json.dumps(value, default=_moment, allow_nan=False))
    except (TypeError, ValueError):
        raise InputError(
            f"the parameter {name!r} is no value of JSON: give a text, a number, or a list of them"
        ) from None


def _moment(value: Any) -> str:
    if not isinstance(value, datetime):
        raise TypeError
    return iso(value if value.tzinfo else value.replace(tzinfo=UTC))


def _about(path: Path) -> str:
    """The first sentence below the title."""
    first = next((cell.source for cell in _read(path).cells if cell.cell_type == "markdown"), "")
    lines = [
        line.strip() for line in first.splitlines() if line.strip() and not line.startswith("#")
    ]
    return lines[0] if lines else ""


def _read(path: Path) -> Any:
    try:
        return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    except Exception as error:  # nbformat, json and the disk have no common one
        raise InputError(
            f"{path} is no notebook ({type(error).__name__}): save it again in Jupyter"
        ) from None
