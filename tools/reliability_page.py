"""Write ``docs/reliability.md``: faults that tests injected, and what came of them.

``python -m tools.reliability_page`` takes over what test runs wrote (``out/reliability.json``) into
``docs/reliability.json``, test by test, and makes the tables of the page of that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parent.parent
PAGE, KEPT = _ROOT / "docs" / "reliability.md", _ROOT / "docs" / "reliability.json"
WRITTEN = _ROOT / "out" / "reliability.json"
BEGIN, END = "<!-- tables: python -m tools.reliability_page -->", "<!-- end of tables -->"
AREAS = {
    "brokers": "Brokers and what they hold",
    "rights": "Rights and logins",
    "records": "Records and files",
    "processes": "Our own processes",
    "clients": "Clients of the exporter",
    "load": "Load and endurance",
}
_HEAD = (
    "| fault | times | what happened | records lost | wrong answers |",
    "|---|---|---|---|---|",
)


def tables(kept: Mapping[str, Any]) -> str:
    """Return the part of the page that is made, of what was kept of each test."""
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
            numbers = f"{row['lost']:,} | {row['wrong']:,}"
            fault = row["fault"].replace("|", bar)
            yield f"| {fault} | {row['times']:,} | {_happened(row)} | {numbers} |"
        yield ""
    dates = sorted({test["as_of"] for test in kept.values()})
    failed = sorted(name for name, test in kept.items() if not test["passed"])
    total = sum(row["times"] for row in rows.values())
    yield (
        f"In all {total:,} faults by {len(kept)} tests, which ran from {dates[0]} to {dates[-1]}; "
        f"{len(failed)} of them failed{': ' * bool(failed)}{', '.join(failed)}."
    )
    yield ""


def _by_fault(kept: Mapping[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """Add up what several tests injected of the same kind."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for _, test in sorted(kept.items()):
        for one in test["faults"]:
            key = (one["area"], one["fault"])
            row = rows.setdefault(
                key,
                {"fault": key[1], "times": 0, "lost": 0, "wrong": 0, "happened": {}, "most": {}},
            )
            for name in ("times", "lost", "wrong"):
                row[name] += one[name]
            for what, count in one["happened"].items():
                row["happened"][what] = row["happened"].get(what, 0) + count
            for what, value in one["measured"].items():
                row["most"][what] = max(row["most"].get(what, value), value)
    return rows


def _happened(row: Mapping[str, Any]) -> str:
    counted = [f"{count:,} {what}" for what, count in row["happened"].items() if count]
    measured = [f"at most {value:,g} {what}" for what, value in sorted(row["most"].items())]
    return "; ".join([*counted, *measured]).replace("|", "\\|")


def written(page: str, kept: Mapping[str, Any]) -> str:
    """Return the page with the tables of what was kept."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(kept)}\n{END}{after}"


def _is_there(test: str) -> bool:
    """Whether a test, by the id that pytest gives it, still exists."""
    file, _, name = test.partition("::")
    place = _ROOT / file
    return place.exists() and f"def {name.partition('[')[0]}(" in place.read_text("utf-8")


def main() -> None:
    """Take over what the latest runs wrote, and write the page."""
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() else {}
    if WRITTEN.exists():
        kept |= json.loads(WRITTEN.read_text("utf-8"))
    # Tests that are no more, or have another name now, show nothing.
    kept = {test: one for test, one in kept.items() if _is_there(test)}
    KEPT.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", "utf-8")
    PAGE.write_text(written(PAGE.read_text("utf-8"), kept), "utf-8")


if __name__ == "__main__":
    main()
