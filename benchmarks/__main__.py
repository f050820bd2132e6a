"""Every row against its rival: ``make bench``, or ``python -m benchmarks [--quick] [P6 P7 ...]``.

Without names all rows run; names select rows or extras (`--list`). Each result is merged into
docs/benchmarks.json as soon as it is measured, and docs/benchmarks.md and the README's figures are
generated from that file, so rows can be measured again one by one; `--publish` only generates.
Quick results are kept separately, in out/. The exit code is 1 if a row failed: it crashed, or
answers were wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from benchmarks import results, rows, yardsticks
from benchmarks.harness import Bench, Row, run_row, told
from benchmarks.supervisor import supervised

_ROOT = Path(__file__).parents[1]
_OUT = _ROOT / "out"
#: Other measurements: modules with a `run`.
EXTRAS = ("notebooks", "widgets", "scrapes", "archive_memory", "spark_scale")


def every_row() -> list[Row]:
    """Return the rows of all modules of `benchmarks.rows`, in the order of their numbers."""
    modules = [import_module(f"benchmarks.rows.{one.name}") for one in iter_modules(rows.__path__)]
    found = [row for module in modules for row in module.ROWS]
    return sorted(found, key=lambda row: results.order_of(row.id, row.case))


def main(arguments: list[str]) -> int:
    """Run the selected rows and extras; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="ids of rows, or extras; default: all rows")
    parser.add_argument("--quick", action="store_true", help="smaller inputs")
    parser.add_argument("--list", action="store_true", help="what there is")
    parser.add_argument("--publish", action="store_true", help="write the documents, run nothing")
    parser.add_argument("--here", help=argparse.SUPPRESS)  # names of rows, for this process
    asked = parser.parse_args(arguments)
    known = every_row()
    if asked.here:
        wanted = json.loads(asked.here)
        return _measure([row for row in known if row.name in wanted], asked.quick)
    if asked.publish:
        _publish(results.merged(_file(asked.quick), [], []), known, asked.quick)
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
    return _supervise(chosen, asked.quick, known) if chosen else 0


def _supervise(chosen: list[Row], quick: bool, known: list[Row]) -> int:
    """Measure rows in separate processes; write the documents, even for some of the rows."""
    file = _file(quick)
    bench = Bench(_OUT / "benchmarks", quick)
    results.merged(file, [], yardsticks.measured(bench))
    bench.close()
    try:
        supervised(chosen, file, quick)
    finally:
        kept = results.merged(file, [], [])
        _publish(kept, known, quick)
    names = {row.name for row in chosen}
    return int(any(one["error"] for one in kept["rows"] if results.name_of(one) in names))


def _measure(chosen: list[Row], quick: bool) -> int:
    """Measure rows in this process; each result is stored at once."""
    bench = Bench(_OUT / "benchmarks", quick)
    failed = 0
    try:
        for row in chosen:
            found = run_row(row, bench)
            failed += bool(found.error)
            print("\n".join(told(found)), flush=True)
            results.merged(_file(quick), [results.entry(found)], [])
    finally:
        bench.close()
    return int(failed > 0)


def _file(quick: bool) -> Path:
    """Return the file of results: full ones are committed, for rows that are measured alone."""
    return (_OUT if quick else _ROOT / "docs") / "benchmarks.json"


def _publish(found: Mapping[str, Any], known: list[Row], quick: bool) -> None:
    """Write the page beside the results, and the README's figures if they are full ones."""
    kept = results.current(found, known)
    page = _file(quick).with_suffix(".md")
    page.write_text(results.page(kept))
    print(f"written: {page.relative_to(_ROOT)}")
    if not quick:
        readme = _ROOT / "README.md"
        readme.write_text(results.with_figures(readme.read_text(), kept))
        print("written: README.md")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
