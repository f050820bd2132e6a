"""Print the requirement rows that the last full test run showed; `rows.csv` lists all.

A row that nothing can show says why in its last column, and is counted apart.
"""

import csv
import json
from pathlib import Path

ROWS = Path("out/rows.json")
LISTED = Path(__file__).with_name("rows.csv")


def main() -> None:
    last = json.loads(ROWS.read_text())
    with LISTED.open(newline="") as file:
        listed = {row["id"]: row for row in csv.DictReader(file)}
    shown = {row for row, tests in last["rows"].items() if all(tests.values())}
    failing = set(last["rows"]) - shown
    hidden = {row for row, one in listed.items() if one["why_nothing_shows_it"]}
    hidden -= set(last["rows"])
    for row, one in listed.items():
        tests = last["rows"].get(row, {})
        mark = "shown" if row in shown else "FAILS" if row in failing else "-"
        if row in hidden:
            mark = "cannot"
        print(f"{row:<8}{mark:<7}{len(tests) or '':<4}{one['name']}")
        if row in hidden:
            print(f"{'':<19}{one['why_nothing_shows_it']}")
    print(
        f"\n{len(shown)} of {len(listed) - len(hidden)} rows shown, {len(failing)} failing, "
        f"by the tests of {last['as_of']}; {len(hidden)} more are rows that nothing can show"
    )
    unknown = set(last["rows"]) - set(listed)
    if unknown:
        raise SystemExit(
            f"tests are tagged with rows that do not exist: {', '.join(sorted(unknown))}"
        )


if __name__ == "__main__":
    main()
