"""Every row against its rival: ``make bench``, or ``python -m benchmarks [--quick] [P6 P7 ...]``.

Without names all rows run, and docs/benchmarks.md and the README's figures are written; with names
those rows, or extras by name (`--list`), and the page goes to out/benchmarks.md. Results are kept
in out/benchmarks.json until their rows run again; `--publish` writes the documents from these. The
exit code is 1 if the answers of a row were wrong.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from benchmarks import results, rows, yardsticks
from benchmarks.harness import Bench, Row, run_row, told

_ROOT = Path(__file__).parents[1]
_OUT = _ROOT / "out"
#: Measurements of another form: modules with a `run`.
EXTRAS = (
    *("dashboards", "notebooks", "widgets", "scrapes"),
    *("archive_memory", "spark_scale", "assignors"),
)


def every_row() -> list[Row]:
    """Return the rows of all modules of `benchmarks.rows`, in the order of their numbers."""
    modules = [import_module(f"benchmarks.rows.{one.name}") for one in iter_modules(rows.__path__)]
    found = [row for module in modules for row in module.ROWS]
    return sorted(found, key=lambda row: (int(row.id[1:]), row.case))


def main(arguments: list[str]) -> int:
    """Run what was asked for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="ids of rows, or extras; default: all rows")
    parser.add_argument("--quick", action="store_true", help="smaller inputs")
    parser.add_argument("--list", action="store_true", help="what there is")
    parser.add_argument("--publish", action="store_true", help="write docs and README, run nothing")
    asked = parser.parse_args(arguments)
    known = every_row()
    if asked.publish:
        _publish(results.merged(_OUT / "benchmarks.json", [], []))
        return 0
    if asked.list:
        for row in known:
            print(f"{row.name:<12} {row.work}, against {row.against}")
        for name in EXTRAS:
            print(f"{name:<12} {import_module(f'benchmarks.{name}').__doc__.splitlines()[0]}")
        return 0
    unknown = set(asked.names) - {row.id for row in known} - set(EXTRAS)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; --list shows what there is")
    for name in (name for name in asked.names if name in EXTRAS):
        module = import_module(f"benchmarks.{name}")
        print(f"== {name}: {module.__doc__}")
        module.run()
    chosen = [row for row in known if row.id in asked.names or not asked.names]
    return _measure(chosen, asked.quick, is_all=not asked.names) if chosen else 0


def _measure(chosen: list[Row], quick: bool, is_all: bool) -> int:
    """Measure rows; what is done is kept if a later one is interrupted."""
    bench = Bench(_OUT / "benchmarks", quick)
    failed = 0
    try:
        kept = results.merged(_OUT / "benchmarks.json", [], yardsticks.measured(bench))
        for row in chosen:
            found = run_row(row, bench)
            failed += bool(found.error)
            print("\n".join(told(found)), flush=True)
            kept = results.merged(_OUT / "benchmarks.json", [results.entry(found)], [])
            (_OUT / "benchmarks.md").write_text(results.page(kept))
    finally:
        bench.close()
    print("written: out/benchmarks.json, out/benchmarks.md")
    if is_all and not quick:
        _publish(kept)
    return int(failed > 0)


def _publish(kept: Mapping[str, Any]) -> None:
    """Write the documents that show figures."""
    (_ROOT / "docs" / "benchmarks.md").write_text(results.page(kept))
    readme = _ROOT / "README.md"
    readme.write_text(results.with_figures(readme.read_text(), kept))
    print("written: docs/benchmarks.md, README.md")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
