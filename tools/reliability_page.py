"""Write ``docs/reliability.md``: faults that tests injected, and their effects.

``python -m tools.reliability_page`` merges the results of test runs (``out/reliability.json``) into
``docs/reliability.json``, test by test, and generates the tables of the page from it. A run with
fewer faults does not replace one with more; ``--anew`` discards earlier results.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tools.page import with_part

_ROOT = Path(__file__).resolve().parent.parent
PAGE, KEPT = _ROOT / "docs" / "reliability.md", _ROOT / "docs" / "reliability.json"
WRITTEN = _ROOT / "out" / "reliability.json"
BEGIN, END = "<!-- tables: python -m tools.reliability_page -->", "<!-- end of tables -->"
AREAS = {
    "brokers": "Brokers and what they hold",
    "rights": "Rights and logins",
    "records": "Records and files",
    "processes": "Our own processes",
    "clients": "Clients of the exporter and of the MCP server",
    "load": "Load and endurance",
}
#: The first noun of a counted result.
_PLURAL = re.compile(r"(\w{3,}[^s\W])s\b")
_HEAD = (
    "| fault | times | what happened | records lost | wrong answers |",
    "|---|---|---|---|---|",
)


def tables(kept: Mapping[str, Any]) -> str:
    """Return the generated part of the page, from the stored results of each test."""
    return "\n".join(_lines(kept))


def _lines(kept: Mapping[str, Any]) -> Iterator[str]:
    bar = "\\|"
    rows = _by_fault(kept)
    unknown = {area for area, _ in rows} - AREAS.keys()
    if unknown:
        raise SystemExit(f"unknown area {sorted(unknown)[0]!r}: choose one of {', '.join(AREAS)}")
    for area, heading in AREAS.items():
        of_area = [one for (where, _), one in sorted(rows.items()) if where == area]
        if not of_area:
            continue
        yield from (f"## {heading}", "", *_HEAD)
        for row in of_area:
            numbers = f"{_number(row['lost'])} | {_number(row['wrong'])}"
            fault = row["fault"].replace("|", bar)
            yield f"| {fault} | {row['times']:,} | {_happened(row)} | {numbers} |"
        yield ""
    dates = sorted({test["as_of"] for test in kept.values()})
    failed = sorted(name for name, test in kept.items() if not test["passed"])
    total = sum(row["times"] for row in rows.values())
    ran = f"on {dates[0]}" if len(dates) == 1 else f"from {dates[0]} to {dates[-1]}"
    yield (
        f"In all {total:,} faults by {len(kept)} tests, which ran {ran}; "
        f"{len(failed)} of them failed{': ' * bool(failed)}{', '.join(failed)}."
    )
    yield ""


def _by_fault(kept: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Sum faults of the same kind over several tests; a measure that one lacks is unknown."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for _, test in sorted(kept.items()):
        for one in test["faults"]:
            key = (one["area"], one["fault"])
            row = rows.setdefault(
                key,
                {"fault": key[1], "times": 0, "lost": 0, "wrong": 0, "happened": {}, "most": {}},
            )
            row["times"] += one["times"]
            for name in ("lost", "wrong"):
                is_unknown = row[name] is None or one[name] is None
                row[name] = None if is_unknown else row[name] + one[name]
            for what, count in one["happened"].items():
                row["happened"][what] = row["happened"].get(what, 0) + count
            for what, value in one["measured"].items():
                row["most"][what] = max(row["most"].get(what, value), value)
    return rows


def _number(count: int | None) -> str:
    return "not measured" if count is None else f"{count:,}"


def _happened(row: Mapping[str, Any]) -> str:
    counted = [counts(count, what) for what, count in row["happened"].items() if count]
    measured = [_at_most(value, what) for what, value in sorted(row["most"].items())]
    return "; ".join([*counted, *measured]).replace("|", "\\|")


def counts(value: float, what: str) -> str:
    """Return a number with its noun, which is given in the plural.

    >>> counts(1, "scrapes without numbers"), counts(1.5, "more threads")
    ('1 scrape without numbers', '1.5 more threads')
    """
    if value == 1:
        what = _PLURAL.sub(r"\1", what, count=1)
    return f"{value:,g} {what}" if isinstance(value, float) else f"{value:,} {what}"


def _at_most(value: float, what: str) -> str:
    if what.startswith("more ") and value <= 0:
        return f"no {what}"
    return f"at most {counts(value, what)}"


def written(page: str, kept: Mapping[str, Any]) -> str:
    """Return the page with tables of the stored results."""
    return with_part(page, BEGIN, END, tables(kept))


def with_new(before: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the stored results of each test, updated by a later run of some of them.

    A test that injected the same faults fewer times, as in `make test`, replaces nothing, unless it
    failed or the longer run did.
    """
    shorter = {test for test, one in new.items() if test in before and _is_less(one, before[test])}
    return {**before, **{test: one for test, one in new.items() if test not in shorter}}


def _is_less(new: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    if not (new["passed"] and before["passed"]):
        return False
    now, then = (
        {(one["area"], one["fault"]): one["times"] for one in test["faults"]}
        for test in (new, before)
    )
    return now.keys() == then.keys() and sum(now.values()) < sum(then.values())


def _is_there(test: str) -> bool:
    """Return whether a test, by its pytest id, still exists."""
    file, _, name = test.partition("::")
    place = _ROOT / file
    return place.exists() and f"def {name.partition('[')[0]}(" in place.read_text("utf-8")


def main() -> None:
    """Merge the results of the latest runs, and write the page."""
    anew = sys.argv[1:] == ["--anew"]
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() and not anew else {}
    if WRITTEN.exists():
        kept = with_new(kept, json.loads(WRITTEN.read_text("utf-8")))
    # Tests that were removed or renamed show nothing.
    kept = {test: one for test, one in kept.items() if _is_there(test)}
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
    PAGE.write_text(written(PAGE.read_text("utf-8"), kept), "utf-8")


if __name__ == "__main__":
    main()
