"""Write ``docs/schemas``: a JSON Schema for the rows of each command's ``-o json``.

``python tools/json_schemas.py`` generates them from the declared tables: names, types and order
from their schemas, descriptions from `sharelag.tables.declared`. The version is in the folder's
name and in each ``$id``, but not in rows. A version may get new columns, so readers must ignore
unknown ones; a column that is removed or changes its type needs a new version.
"""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa

from sharelag import schemas
from sharelag.metrics.imbalance import SKEW
from sharelag.monitoring.checks.judge import CHECKED
from sharelag.reports.store import Run
from sharelag.schemas import GROUP_STATES, LEDGER, MEMBER_ROWS, RECONCILED, REDRIVE, SCHEMA_VERSION
from sharelag.tables import declared
from sharelag.tables.declared import meaning_of
from sharelag.tables.table import Table
from sharelag.whatif.comparison.tables import DIFFERENCES, MEASURES, RUNS
from sharelag.whatif.consumer_group import ANSWERS
from sharelag.whatif.horizon import WANTED
from sharelag.whatif.ranking import RANKED
from sharelag.whatif.search import PROBES
from sharelag.whatif.simulation.tables import SUMMARY, TIMELINE
from sharelag.whatif.tune import TRADED, TUNED

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "schemas" / f"v{SCHEMA_VERSION}"
_DECLARED = [module for module in vars(declared).values() if isinstance(module, ModuleType)]
_TOPIC = pa.field("topic", pa.string())
#: A state batch in Kafka's coordinator: first and last offset, state, delivery count.
_BATCH = {
    "type": "array",
    "prefixItems": [{"type": "integer"}] * 4,
    "minItems": 4,
    "maxItems": 4,
}
#: Properties of rows of an incomplete answer, which rows of a complete one lack.
_LACKING = {
    "complete": {
        "description": "false: something is missing; absent in a whole answer",
        "const": False,
    },
}
#: The same if state partitions may be missing.
_IN_PART = _LACKING | {
    "unread_state_partitions": {
        "description": "state partitions that nobody answered for, where the missing ones are",
        "type": "array",
        "items": {"type": "integer"},
    },
}
#: Answers from records that may be partial, in addition to those with `_IN_PART`.
_FROM_RECORDS = (
    *("windows-since", "history", "history-events", "history-every", "explain", "progress"),
    "forecasts",
    *("imbalance", "imbalance-verdict", "reconcile", "groups", "members", "brokers"),
    *("plan-reset", "plan-delete", "dlq", "dlq-redrive", "settings", "settings-drift"),
    *("health", "health-findings", "health-snapshots"),
    *("simulate", "simulate-compare", "simulate-timeline"),  # if times rest on an assumption
)
#: Fields of a window, which have Kafka's values: what is unknown is this number.
_WINDOW = {
    **dict.fromkeys(("snapshot_epoch", "state_epoch", "leader_epoch", "start_offset"), -1),
    "delivery_complete_count": -1,
    **dict.fromkeys(("create_timestamp", "write_timestamp"), 0),
}


def rows() -> dict[str, dict[str, Any]]:
    """Return the properties of one row, by the name of the output."""
    windows = properties(schemas.WINDOWS)
    batches = {"type": "array", "items": _BATCH}
    for name, unknown in _WINDOW.items():
        meaning = windows[name]["description"].partition("; null")[0]
        unit = ", in milliseconds since 1970" if name.endswith("timestamp") else ""
        description = f"{meaning}{unit}; {unknown}: unknown"
        windows[name] = {"description": description, "type": "integer"}
    windows |= {name: windows[name] | batches for name in ("batches", "runs")}
    for name in schemas.WINDOWS.names[-4:]:
        del windows[name]
    history = properties(schemas.HISTORY)
    topic = properties(pa.schema([_TOPIC]))
    made = {
        "lag": properties(schemas.LAG) | _IN_PART,
        "lag-sums": properties(schemas.ROLLUP),
        "windows": windows | topic | {"notes": properties(schemas.LAG)["notes"]} | _IN_PART,
        "windows-since": properties(schemas.DIFF),
        "history": history | topic,
        "history-events": properties(schemas.EVENTS),
        "history-every": properties(schemas.TIMELINE),
        "explain": properties(schemas.CAUSES),
        "progress": properties(schemas.PROGRESS),
        "forecasts": properties(schemas.FORECASTS),
        "imbalance": properties(schemas.IMBALANCE),
        "imbalance-verdict": properties(SKEW),
        "reconcile": properties(RECONCILED),
        "groups": properties(GROUP_STATES),
        "members": properties(MEMBER_ROWS),
        "brokers": properties(schemas.BROKERS),
        "metrics": properties(schemas.BROKER_METRICS),
        "plan-reset": properties(schemas.RESET_PLAN),
        "plan-delete": properties(schemas.RESET_PLAN),
        "dlq": properties(LEDGER),
        "dlq-redrive": properties(REDRIVE),
        "health": properties(schemas.HEALTH),
        "health-findings": properties(schemas.FINDINGS),
        "health-snapshots": properties(schemas.SNAPSHOTS) | topic,
        "settings": properties(schemas.IN_FORCE),
        "settings-drift": properties(schemas.SETTINGS_DRIFT),
        "settings-lint": properties(schemas.LINT),
        "lint": properties(schemas.LINT),
        "check": properties(CHECKED),
        "doctor-rights": properties(schemas.RIGHTS),
        **_simulated(),
        "report-list": _reports(),
    }
    return made | {name: made[name] | _LACKING for name in _FROM_RECORDS}


def _simulated() -> dict[str, dict[str, Any]]:
    """Return the properties of a row of each answer of ``simulate``."""
    variant, text = pa.field("variant", pa.string()), pa.string()
    differences = [
        DIFFERENCES.field(name).with_name(shown)
        for name, shown in {
            "baseline": "baseline",
            "difference": "difference",
            "low": "difference_low",
            "high": "difference_high",
            "ratio": "ratio",
            "ratio_low": "ratio_low",
            "ratio_high": "ratio_high",
            "better": "better",
        }.items()
    ]
    verdict = [pa.field("winner", pa.bool_()), pa.field("confidence", pa.float64())]
    of_run = [SUMMARY.field(name) for name in ("assignor", "members", "seed")]
    steps = [field for field in TIMELINE if field.name != "members"]
    fetching = TIMELINE.field("members").with_name("fetching")
    over = SUMMARY.field("duration_ms")
    goal, answer = pa.field("goal", text), pa.field("answer", pa.bool_())
    about = [pa.field("scenario", text), pa.field("about", text)]
    tables = {
        "simulate": [field for field in RUNS if field.name != "run"],
        "simulate-compare": [*MEASURES, *differences, over, *verdict],
        "simulate-fewest-members": [variant, goal, over, *PROBES, answer],
        "simulate-timeline": [variant, *of_run, *steps, fetching],
        "simulate-against": [variant, over, *ANSWERS],
        "simulate-members-wanted": list(WANTED),
        "simulate-tune": list(TUNED),
        "simulate-tune-front": list(TRADED),
        "simulate-suite": list(RANKED),
        "simulate-scenarios": about,
    }
    return {name: properties(pa.schema(fields)) for name, fields in tables.items()}


def _reports() -> dict[str, dict[str, Any]]:
    """Return the properties of a row of ``report list``."""
    kinds: dict[object, dict[str, Any]] = {
        "str": {"type": "string"},
        "str | None": {"type": ["string", "null"]},
        "float": {"type": "number"},
        "dict[str, Any]": {"type": "object"},
    }
    found = {one.name: _described(one.name) | kinds[one.type] for one in fields(Run)}
    found["notebook"] |= _described("notebook", "SHA-256 of its notebook")
    return found | {"kept": _described("kept") | {"type": "boolean"}}


def properties(schema: pa.Schema) -> dict[str, Any]:
    """Return the columns of a table as properties of an object."""
    tables = (one for module in _DECLARED for one in vars(module).values())
    own = next((one for one in tables if isinstance(one, Table) and one.schema is schema), None)
    means = {column.name: column.meaning for column in own.columns} if own else {}
    return {
        field.name: _described(field.name, means.get(field.name)) | _null_or(_kind(field.type))
        for field in schema
    }


def of_row(name: str, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a row with these columns."""
    return _head(name) | _object(columns)


def decode() -> dict[str, Any]:
    """Return the schema of the output of ``decode``: records of Kafka's formatters, or rejects."""
    text = {"type": ["string", "null"]}
    place = {
        "topic": text,
        "partition": {"type": ["integer", "null"]},
        "offset": {"type": ["integer", "null"]},
    }
    key = _object({"type": {"type": "integer"}, "data": {"type": "object"}})
    value = _object({"version": {"type": "integer"}, "data": {"type": "object"}})
    reject = _object({"reason": {"type": "string"}, "key": text, "value": text})
    record = {"key": key, "value": value | {"type": ["object", "null"]}}
    return _head("decode") | {
        "oneOf": [_object(record | place), _object({"reject": reject} | place)]
    }


def _head(name: str) -> dict[str, Any]:
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:sharelag:v{SCHEMA_VERSION}:{name}",
        "title": f"A line of {name}",
    }


def _object(columns: dict[str, Any]) -> dict[str, Any]:
    required = [name for name in columns if name not in _IN_PART]
    return {"type": "object", "properties": columns, "required": required}


def _described(name: str, own: str | None = None) -> dict[str, str]:
    meaning = own or meaning_of(name)
    return {"description": meaning} if meaning else {}


def _null_or(kind: dict[str, Any]) -> dict[str, Any]:
    return kind | {"type": [kind["type"], "null"]}


def _kind(kind: pa.DataType) -> dict[str, Any]:
    if pa.types.is_timestamp(kind):
        return {"type": "string", "format": "date-time"}
    if pa.types.is_boolean(kind):
        return {"type": "boolean"}
    if pa.types.is_integer(kind):
        return {"type": "integer"}
    if pa.types.is_floating(kind):
        return {"type": "number"}
    if pa.types.is_list(kind):
        return {"type": "array", "items": _null_or(_kind(kind.value_type))}
    if pa.types.is_struct(kind):
        return _object({field.name: _null_or(_kind(field.type)) for field in kind})
    return {"type": "string"}


def files() -> dict[Path, str]:
    """Return the contents of all files."""
    made = {name: of_row(name, columns) for name, columns in rows().items()} | {"decode": decode()}
    return {
        FOLDER / f"{name}.json": json.dumps(one, indent=2, ensure_ascii=False) + "\n"
        for name, one in made.items()
    }


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
