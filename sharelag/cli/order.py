"""The order of printed rows: the worst first for people, names for scripts, or as one likes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import click

from sharelag.errors import meant


@dataclass(frozen=True)
class Order:
    """Which rows come first, and how many are shown."""

    sort: str | None = None
    top: int | None = None

    def of(self, rows: Iterable[dict[str, Any]], default: str | None) -> list[dict[str, Any]]:
        """Return the rows in this order; unknown values come last.

        Parameters
        ----------
        rows : iterable of dict
        default : str, optional
            The column to sort by where none was chosen; None: as they are.
        """
        rows = list(rows)
        name, _, way = (self.sort or default or "").partition(":")
        if rows and name and name not in rows[0]:
            known = [key for key, value in rows[0].items() if not isinstance(value, list)]
            raise click.UsageError(
                f"unknown column {name!r} to sort by: choose one of {', '.join(known)}"
                f"{meant(name, known) or '.'}"
            )
        if way not in ("", "up", "down"):
            raise click.UsageError(f"--sort takes COLUMN, COLUMN:up or COLUMN:down, not {way!r}.")
        if name:
            known_rows = [row for row in rows if row[name] is not None]
            unknown = [row for row in rows if row[name] is None]
            rows = sorted(known_rows, key=itemgetter(name), reverse=way != "up") + unknown
        return rows[: self.top]


def order_options(default: str) -> list[Any]:
    """Options for the order of rows, which people get by a column unless they choose another."""
    return [
        click.option(
            "--sort",
            metavar="COLUMN",
            help="Order rows by this column of -o json, the largest first; COLUMN:up for the "
            f"smallest.  [default: {default} for people, names otherwise]",
        ),
        click.option(
            "--top", type=click.IntRange(min=1), metavar="N", help="Show only the first N rows."
        ),
    ]
