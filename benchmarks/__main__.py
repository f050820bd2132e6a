"""Ratios, measured side by side in one run: ``make bench`` or ``python -m benchmarks NAME``."""

from __future__ import annotations

import sys

from benchmarks import (
    archive_memory,
    assignors,
    dashboards,
    decode,
    notebooks,
    quick_look,
    scrapes,
    spark_scale,
    widgets,
)

_ALL = {
    "decode": decode.run,
    "quick_look": quick_look.run,
    "archive_memory": archive_memory.run,
    "scrapes": scrapes.run,
    "widgets": widgets.run,
    "notebooks": notebooks.run,
    "dashboards": dashboards.run,
    "spark_scale": spark_scale.run,
    "assignors": assignors.run,
}


def main(names: list[str]) -> None:
    for name in names or _ALL:
        print(f"== {name}: {sys.modules[f'benchmarks.{name}'].__doc__}")
        _ALL[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
