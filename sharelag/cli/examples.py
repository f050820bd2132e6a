"""The examples that come with sharelag: a rule file, a Grafana dashboard, a KEDA ScaledObject."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])
_HERE = Path(__file__).resolve()
#: In a wheel within the package, in a checkout where people look for data.
_SHELVES = (_HERE.parents[1] / "examples", _HERE.parents[2] / "data" / "examples")


def example(name: str) -> Path:
    """Return the path of an example."""
    return next(shelf / name for shelf in _SHELVES if (shelf / name).is_file())


def example_option(name: str, about: str) -> Callable[[_Command], _Command]:
    """Return an option ``--example`` that prints one and ends."""

    def tell(ctx: click.Context, _: click.Parameter, requested: bool) -> None:
        if requested and not ctx.resilient_parsing:
            click.echo(example(name).read_text("utf-8"), nl=False)
            ctx.exit()

    return click.option(
        "--example",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=tell,
        help=f"Print {about}, and exit.",
    )
