"""Print the requirement rows that the last full test run showed; `rows.csv` lists all."""

from __future__ import annotations

import csv
import json
from pathlib import Path

ROWS = Path("out/rows.json")


def main() -> None:
    last = json.loads(ROWS.read_text())
    with Path(__file__).with_name("rows.csv").open(newline="") as file:
        names = {row["id"]: row["name"] for row in csv.DictReader(file)}
    shown = {row for row, tests in last["rows"].items() if all(tests.values())}
    failing = set(last["rows"]) - shown
    for row, name in names.items():
        tests = last["rows"].get(row, {})
        mark = "shown" if row in shown else "FAILS" if row in failing else "-"
        print(f"{row:<8}{mark:<7}{len(tests) or '':<4}{name}")
    print(
        f"\n{len(shown)} of {len(names)} rows shown, {len(failing)} failing, "
        f"by the tests of {last['as_of']}"
    )
    unknown = set(last["rows"]) - set(names)
    if unknown:
        raise SystemExit(
            f"tests are tagged with rows that do not exist: {', '.join(sorted(unknown))}"
        )


if __name__ == "__main__":
    main()
