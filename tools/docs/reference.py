"""Pages of the reference, generated from declarations: API, commands, tables, causes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

import click
import pyarrow as pa

from sharelag.cli import cli
from sharelag.engine.spark.reading import TABLES
from sharelag.metrics.causes import CAUSES
from sharelag.model.settings.catalogue import catalogue
from sharelag.model.versions import NEWEST
from sharelag.tables.declared import (
    answers,
    dead_letters,
    groups,
    lag,
    meaning_of,
    records,
    requests,
    unit_of,
    windows,
)
from sharelag.tables.table import Table
from sharelag.whatif.assignors.registry import ASSIGNORS

#: Modules whose public names have pages, and their purposes.
MODULES = {
    "sharelag": "what most people need",
    "sharelag.engine.spark": "the steps of the pipeline as functions of Spark DataFrames",
    "sharelag.engine.spark.stream": "windows and lag that stay current (`sharelag.stream`)",
    "sharelag.engine.spark.sweep": "many what-ifs as one job of Spark (`sharelag.sweep`)",
    "sharelag.wire": "records as bytes and as columns",
    "sharelag.replay": "records to states",
    "sharelag.whatif": "simulations",
    "sharelag.charts": "charts as tidy tables and plotly figures",
    "sharelag.monitoring.checks": "share groups judged by rules (`sharelag.checks`)",
    "sharelag.reports": "reports",
    "sharelag_widgets": "widgets for notebooks",
    "sharelag_widgets.dashboards": "dashboards for notebooks",
}


def pages() -> Iterator[tuple[str, str]]:
    """Yield path on the site and Markdown of every page of the reference."""
    yield "reference/api/index.md", _modules()
    for name, about in MODULES.items():
        yield f"reference/api/{name}.md", _module(name, about)
    yield "reference/errors.md", "# Errors\n\n::: sharelag.errors\n"
    yield "reference/cli/index.md", _commands()
    for path, command in commands(cli, "sharelag"):
        yield f"reference/cli/{path.replace(' ', '-')}.md", _command(path, command)
    yield "reference/tables.md", _tables()
    yield "reference/causes.md", _causes()
    yield "reference/assignors.md", _assignors()
    yield "reference/settings.md", _settings()


def commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    """Yield every command below a group with its command line."""
    for name, command in sorted(group.commands.items()):
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def _modules() -> str:
    rows = [f"| [{name}]({name}.md) | {about} |" for name, about in MODULES.items()]
    return "\n".join(["# Python", "", "| Module | has |", "|---|---|", *rows, ""])


def _module(name: str, about: str) -> str:
    module = import_module(name)
    parts = [f"# {name}", "", f"{about[0].upper()}{about[1:]}."]
    for public in module.__all__:
        one = getattr(module, public)
        if isinstance(one, ModuleType):
            parts += ["", f"## {public}", "", f"Module: [{one.__name__}]({one.__name__}.md)."]
        elif inspect.isclass(one) or inspect.isfunction(one):
            parts += ["", *_documented(one, public)]
        elif isinstance(one, pa.Schema):
            parts += ["", f"## {public}", "", *_columns(one, {})]
    return "\n".join(parts) + "\n"


def _documented(one: Any, name: str) -> Iterator[str]:
    """Yield mkdocstrings' directives for a docstring, under a public name."""
    yield f"::: {one.__module__}.{one.__qualname__}"
    yield "    options:"
    yield f"      heading: '{name}'"
    yield f"      toc_label: '{name}'"


def _commands() -> str:
    rows = [
        f"| [{path}]({path.replace(' ', '-')}.md) | {_first(command.help or '')} |"
        for path, command in commands(cli, "sharelag")
    ]
    head = ["# Commands", "", f"{cli.help}", "", "| Command | does |", "|---|---|"]
    return "\n".join([*head, *rows, ""])


def _first(text: str) -> str:
    """Return the first sentence of a help text, escaped for a table cell."""
    return _cell(re.split(r"(?<=\.)\s", " ".join(text.split("\n\n")[0].split()))[0])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _command(path: str, command: click.Command) -> str:
    context = click.Context(command, info_name=path)
    usage = " ".join(command.collect_usage_pieces(context))
    words = [_cell(part) for part in (command.help or "").split("\n\n")]
    parts = [f"# {path}", "", f"    {path} {usage}", "", "\n\n".join(words)]
    records = [found for one in command.params if (found := one.get_help_record(context))]
    if records:
        parts += ["", "| Option | |", "|---|---|"]
        parts += [
            f"| `{option.replace('|', chr(0x2223))}` | {_cell(about)} |"
            for option, about in records
        ]
    if isinstance(command, click.Group):
        parts += ["", "| Command | does |", "|---|---|"]
        parts += [
            f"| [{one}]({one.replace(' ', '-')}.md) | {_first(child.help or '')} |"
            for one, child in commands(command, path)
        ]
    return "\n".join(parts) + "\n"


def tables() -> dict[str, Table]:
    """Return every declared table by the name of its schema."""
    rooms = (answers, dead_letters, groups, lag, records, requests, windows)
    found = {name: one for room in rooms for name, one in vars(room).items()}
    return {name: one for name, one in sorted(found.items()) if isinstance(one, Table)}


def _tables() -> str:
    parts = ["# Tables", "", "Every table of `sharelag.schemas`, in Arrow's types."]
    for name, table in tables().items():
        frame = f" In Spark: `bench.frames.{table.name}`." if table in TABLES.values() else ""
        parts += ["", f"## {name}", "", f"One row is {_cell(table.row)}.{frame}", ""]
        parts += _columns(table.schema, {column.name: column.meaning for column in table.columns})
    return "\n".join(parts) + "\n"


def _columns(schema: pa.Schema, meanings: Mapping[str, str]) -> Iterator[str]:
    yield "| Column | Type | Unit | Meaning |"
    yield "|---|---|---|---|"
    for field in schema:
        about = _cell(meanings.get(field.name) or meaning_of(field.name))
        yield f"| `{field.name}` | `{field.type}` | {unit_of(field.name)} | {about} |"


def _causes() -> str:
    parts = [
        "# Causes",
        "",
        "What `sharelag explain` can name. A cause hides those that it explains.",
    ]
    for cause in CAUSES:
        hides = ", ".join(f"[{one}](#{one})" for one in sorted(cause.includes)) or "none"
        about = inspect.getdoc(cause.find) or ""
        how = about[:1].lower() + about[1:]
        parts += ["", f"## {cause.name}", "", f"**{cause.severity}**: {cause.summary}.", ""]
        parts += [f"How it is found: {_cell(how)}", "", f"What to do: {cause.advice}.", ""]
        parts += [f"Explains: {hides}."]
    return "\n".join(parts) + "\n"


def _assignors() -> str:
    parts = [
        "# Assignors",
        "",
        "`sharelag simulate --assignor NAME`, `sharelag.whatif.assign(NAME, ...)`.",
    ]
    for name, function in ASSIGNORS.items():
        parts += ["", *_documented(function, name)]
    return "\n".join(parts) + "\n"


def _settings() -> str:
    parts = [
        "# Settings of share groups",
        "",
        "As Kafka 4.4 declares them, each with the first version that has it.",
    ]
    parts += ["", "| Setting | Of | Type | Default | Range | Since |", "|---|---|---|---|---|---|"]
    for one in catalogue(NEWEST):
        if one.status == "current":
            low, high = (
                one.least if one.least is not None else one.least_by,
                one.greatest or one.greatest_by,
            )
            span = f"{'' if low is None else low} .. {'' if high is None else high}"
            span = ", ".join(one.choices) or ("" if span == " .. " else span)
            default = "the broker's" if one.default is None else one.default
            parts.append(
                f"| `{one.name}` | {one.scope} | {one.kind} | {default} | {span} | {one.since} |"
            )
    return "\n".join(parts) + "\n"
