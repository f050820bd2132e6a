"""Write the leaderboard and the contract of ``docs/assignors.md``, and the figures elsewhere.

python -m tools.assignors_page          # from the runs in data/studies
python -m tools.assignors_page --anew   # measure again: some twenty minutes
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from sharelag.inputs.files import parquet
from sharelag.whatif import rank_assignors, suite
from sharelag.whatif.assignors.contract import RULES
from sharelag.whatif.ranking import ALL, FAMILIES, Ranking, rank_runs
from tools.page import with_part

_ROOT = Path(__file__).resolve().parent.parent
PAGE = _ROOT / "docs" / "assignors.md"
RUNS = _ROOT / "data" / "studies" / "assignors.parquet"
MARKS = {
    name: (f"<!-- {name}: python -m tools.assignors_page -->", f"<!-- end of {name} -->")
    for name in ("leaderboard", "families", "contract")
}
BASELINE = "simple"
ASSIGNORS = (
    *(BASELINE, "simple-4.1", "all-to-all", "round-robin", "sticky", "rack-aware", "balanced"),
    *("lag-proportional", "lag-aware-sticky", "sticky-spread", "optimal"),
)
#: Parts of a run that a ranking needs, and that are stored.
_KEPT = (
    *("scenario", "assignor", "duration_ms", "drain_ms", "age_p95_ms"),
    *("moves_per_minute", "pairs"),
)


def main(arguments: list[str]) -> int:
    """Update the page, from new runs if requested."""
    if "--anew" in arguments:
        found = rank_assignors(ASSIGNORS, baseline=BASELINE, progress=_tell)
        parquet.write_table(found.runs.select(_KEPT), RUNS)
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
    return 0


def _tell(done: int, runs: int) -> None:
    if done % 100 == 0:
        print(f"{done} of {runs} runs", file=sys.stderr, flush=True)


def page(text: str) -> str:
    """Return the page with its current tables."""
    ranking = rank_runs(pq.read_table(RUNS), suite(), BASELINE)
    made = {"leaderboard": _leaderboard(ranking), "families": _families(ranking)}
    for name, part in (made | {"contract": _contract()}).items():
        text = with_part(text, *MARKS[name], part)
    return text


def _leaderboard(ranking: Ranking) -> str:
    counts = "better / same / worse"
    head = ["assignor", "drain time", counts, "p95 age", counts]
    head += ["never drained", "moves a minute", "of all pairs"]
    rows = [
        [
            f"`{row['assignor']}`",
            *(row["drain_ratio"], _counts(row, "drain")),
            *(row["age_p95_ratio"], _counts(row, "age_p95")),
            *(str(row["never_drained"]), row["moves_per_minute"], row["pairs_share"]),
        ]
        for row in ranking.for_people()
    ]
    return _table(head, rows)


def _counts(row: dict[str, object], of: str) -> str:
    return " / ".join(str(row[f"{of}_{name}"]) for name in ("better", "same", "worse"))


def _families(ranking: Ranking) -> str:
    cells = {(row["assignor"], row["family"]): row for row in ranking.ranked.to_pylist()}
    names = [name for name, family in cells if family == ALL]
    rows = [
        [
            f"`{name}`",
            *(
                f"{cells[name, one]['drain_ratio']:.2f}, {cells[name, one]['age_p95_ratio']:.2f}"
                for one in FAMILIES
            ),
        ]
        for name in names
    ]
    return _table(["assignor", *FAMILIES], rows)


def _contract() -> str:
    return _table(["rule", "what breaks it"], [[f"`{rule}`", what] for rule, what in RULES.items()])


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
