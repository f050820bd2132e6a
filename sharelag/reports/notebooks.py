"""The report notebooks and their parameters."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nbformat

from sharelag.durations import parse_duration
from sharelag.errors import InputError, meant
from sharelag.model import iso
from sharelag.reports.secrets import is_secret_name
from sharelag.tables.words import is_number

_HERE = Path(__file__).resolve().parent
#: In a wheel, notebooks are next to this module, in a checkout in notebooks/reports.
_HOMES = (_HERE / "notebooks", _HERE.parents[1] / "notebooks" / "reports")


def names() -> dict[str, str]:
    """List the reports that come with sharelag, each with the question that it answers."""
    return {path.stem: _about(path) for home in _HOMES for path in sorted(home.glob("*.ipynb"))}


def notebook(name: str) -> Path:
    """Return the notebook of a report: one of `names`, or the path of another notebook."""
    places = [Path(name)]
    if not name.endswith(".ipynb"):
        places = [home / f"{name}.ipynb" for home in _HOMES]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InputError(
            f"unknown report {name!r}: choose one of {', '.join(names())}, "
            f"or the path of a notebook (.ipynb){meant(name, list(names()))}"
        )
    if found.stem.startswith("."):
        raise InputError(
            f"a report's name must not begin with a dot, and {name!r} does: rename the notebook"
        )
    return found


def read_parameters(path: Path) -> dict[str, Any]:
    """Read the parameters of a notebook, with defaults, from its cell tagged ``parameters``.

    Papermill's own inference has no values, and omits lines with another ``=``; its findings are
    included here. A default that is known only after running the cell is ``...``.
    """
    every = _read(path).cells
    cells = [cell for cell in every if "parameters" in (cell.metadata.get("tags") or [])]
    if not cells:
        why = "has no cell with the tag parameters: tag the cell that assigns them"
        raise InputError(f"{path} {why}")
    try:
        trees = [ast.parse(_python(str(cell.source))) for cell in cells]
    except (SyntaxError, ValueError) as error:
        raise InputError(
            f"the cell with the tag parameters of {path} is not Python ({error}): correct it"
        ) from None
    return {
        name.id: _literal(node.value) if name is target else ...  # one of several in it
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        for name in ast.walk(target)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }


#: Parameters that are texts although their default does not show it: a folder may be called 7.
_TEXTS = (
    *("bootstrap_server", "command_config", "capture", "raw", "segments", "group", "topic"),
    *("as_of", "since", "rules", "ledger", "previous", "alert"),
)


def texts(path: Path) -> frozenset[str]:
    """Return the parameters of a notebook that are texts, but not durations."""
    return frozenset(
        name
        for name, value in read_parameters(path).items()
        if (isinstance(value, str) and not _is_duration(value))
        or (name in _TEXTS and value in (None, []))
    )


def check_parameters(path: Path, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Validate parameters: the notebook must declare them, and none may be a secret.

    Messages contain names, never values.
    """
    known = read_parameters(path)
    for name in parameters:
        if is_secret_name(name):
            raise InputError(
                f"the parameter {name!r} looks like a secret, and parameters are written into the "
                "notebook: pass client settings by --command-config or --command-property, and "
                "others in the environment"
            )
        if name not in known:
            those = f"choose from {', '.join(known)}"
            raise InputError(
                f"report {path.stem} has no parameter {name!r}: "
                f"{those if known else 'its cell tagged parameters assigns none'}"
            )
    given = {name: _as_json(name, value) for name, value in parameters.items()}
    for name, value in given.items():
        if _is_duration(known[name]) and not (is_number(value) or _is_duration(value)):
            raise InputError(
                f"the parameter {name!r} must be a duration such as 30s, 5m or 2h, "
                "or a number of seconds"
            )
        if is_number(known[name]) and not is_number(value):
            raise InputError(f"the parameter {name!r} must be a number")
        if name in _TEXTS and known[name] is None and not isinstance(value, str | None):
            raise InputError(f"the parameter {name!r} must be a text")
    return {name: value for name, value in given.items() if value != known[name]}


def require_units(path: Path, typed: Mapping[str, Any]) -> None:
    """Reject a typed duration without a unit; Python's numbers are seconds, as everywhere."""
    for name, default in read_parameters(path).items():
        if _is_duration(default) and is_number(typed.get(name)):
            raise InputError(
                f"the parameter {name!r} is a duration and needs a unit, such as 30s, 5m or 2h: "
                f"{typed[name]} has none"
            )


def _is_duration(value: Any) -> bool:
    with suppress(InputError):
        return isinstance(value, str) and parse_duration(value) >= timedelta()
    return False


#: Cell magics that leave the cell's variables defined.
_RUNS_THE_CELL = re.compile(r"\A\s*(?:%%(?:time|capture)\b[^\n]*\n)+")


def _python(source: str) -> str:
    """Return the source of a cell as Python, without IPython's magics."""
    from IPython.core.inputtransformer2 import TransformerManager

    source = _RUNS_THE_CELL.sub("", source)
    # IPython has no type annotations for this.
    return str(TransformerManager().transform_cell(source))  # type: ignore[no-untyped-call]


def _literal(value: ast.expr | None) -> Any:
    with suppress(ValueError, TypeError):
        return ast.literal_eval(value) if value else ...
    return ...


def _as_json(name: str, value: Any) -> Any:
    """Convert a value to JSON's types; YAML parses times as datetime."""
    try:
        return json.loads(json.dumps(value, default=_moment, allow_nan=False))
    except (TypeError, ValueError):
        raise InputError(
            f"the parameter {name!r} cannot be written as JSON: use a string, a number or a list"
        ) from None


def _moment(value: Any) -> str:
    if not isinstance(value, datetime):
        raise TypeError
    return iso(value if value.tzinfo else value.replace(tzinfo=UTC))


def _about(path: Path) -> str:
    """Return the first line below the title."""
    first = next((cell.source for cell in _read(path).cells if cell.cell_type == "markdown"), "")
    lines = [one.strip() for one in first.splitlines() if one.strip() and not one.startswith("#")]
    return lines[0] if lines else ""


def _read(path: Path) -> Any:
    try:
        return nbformat.read(path, as_version=4)
    except Exception as error:  # nbformat, json and the disk share no base class
        raise InputError(
            f"{path} is not a valid notebook ({type(error).__name__}): save it again in Jupyter"
        ) from None
