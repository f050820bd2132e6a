"""Write the table of ``docs/frames.md`` of ways from raw records to lag, by version of Spark.

``python -m tools.ways_page`` merges the results of test runs (``out/ways.json``) into
``docs/ways.json``, and generates the table from it; ``--anew`` discards earlier results.
`make test-versions` runs these tests on each supported version of pyspark.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.page import with_part

_ROOT = Path(__file__).resolve().parent.parent
PAGE, KEPT = _ROOT / "docs" / "frames.md", _ROOT / "docs" / "ways.json"
WRITTEN = _ROOT / "out" / "ways.json"
BEGIN, END = "<!-- ways: python -m tools.ways_page -->", "<!-- end of ways -->"
WAYS = ("functions", "frames", "SQL", "stream")
KINDS = ("classic", "Connect")
#: The result of a way whose rows differ, or that ends with an error.
FAILED = "failed"
#: The result of one combination: ``pyspark kind input way saw as_of``, where ``saw`` is the number
#: of equal rows, or the reason why the way does not exist.
Seen = Mapping[str, Any]


def table(kept: Sequence[Seen]) -> str:
    """Return the generated part of the page."""
    return "\n".join(_lines(kept))


def _lines(kept: Sequence[Seen]) -> Iterator[str]:
    runs = sorted(
        {(_minor(one), one["kind"]) for one in kept},
        key=lambda run: ([int(part) for part in run[0].split(".")], KINDS.index(run[1])),
    )
    by_cell = {_key(one): one["saw"] for one in kept}
    yield f"| records from | way | {' | '.join(' '.join(run) for run in runs)} |"
    yield "|---" * (len(runs) + 2) + "|"
    for source in dict.fromkeys(one["input"] for one in kept):
        for way in WAYS:
            cells = [str(by_cell.get((*run, source, way), "not tried")) for run in runs]
            yield f"| {source} | {way} | {' | '.join(cells)} |"
    exact = sorted({one["pyspark"] for one in kept})
    dates = sorted({one["as_of"] for one in kept})
    yield ""
    yield f"pyspark {', '.join(exact)}; tried {' to '.join(dict.fromkeys([dates[0], dates[-1]]))}."


def _key(one: Seen) -> tuple[str, str, str, str]:
    return _minor(one), one["kind"], one["input"], one["way"]


def _minor(one: Seen) -> str:
    return ".".join(one["pyspark"].split(".")[:2])


def with_new(before: Iterable[Seen], new: Iterable[Seen]) -> list[Seen]:
    """Return the stored results, updated by those of a later run."""
    return list({_key(one): one for one in (*before, *new)}.values())


def written(page: str, kept: Sequence[Seen]) -> str:
    """Return the page with a table of the stored results."""
    return with_part(page, BEGIN, END, table(kept))


def main() -> None:
    """Merge the results of the latest runs, and write the page."""
    anew = sys.argv[1:] == ["--anew"]
    kept = json.loads(KEPT.read_text("utf-8")) if KEPT.exists() and not anew else []
    if WRITTEN.exists():
        kept = with_new(kept, json.loads(WRITTEN.read_text("utf-8")))
    KEPT.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    PAGE.write_text(written(PAGE.read_text("utf-8"), kept), "utf-8")


if __name__ == "__main__":
    main()
