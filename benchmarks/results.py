"""The results of runs as JSON, and as the page that shows them."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.figures import SHORT, Spread, spread
from benchmarks.harness import Result, Row, Taken
from benchmarks.yardsticks import Yardstick

Entry = Mapping[str, Any]

_HEAD = """# Benchmarks

Written by the run itself; `make bench` measures everything again, `python -m benchmarks P6 P7` some
rows, both with `--quick` (`make bench QUICK=1`) with smaller inputs in minutes, for out/.

Both sides of a row run in turn after a round that does not count. A ratio is the rival's median
over ours: 2x is twice as fast as the rival, 0.5x half as fast. Where the goal is *within*, it is
ours over the other's. Its range is that of the rounds. In the same run the answers of both sides
are compared: a row whose answers are wrong has no ratio. CPU time is that of all processes that do
the work. **Only ratios say something about other machines.**

Our side is what a user calls: functions of `sharelag`, a workbench, a command. A test forbids
everything else, and lists by file what else inputs and rivals need.

* **On Spark** the session is a user's: `local[2]`, Spark's own settings, Java with 1 GB. It is
  warm, as in a notebook; starting it is in P15 and I2.
* **A first ask** begins with new DataFrames (`spark.read.parquet` of the records and of the end
  offsets) and, for `frames`, a new workbench; it ends with the rows in this process. **A second
  ask** is timed alone, after `frames.lag` of such a workbench.
* **The rival that only counts** is a `mapInArrow` over the columns that lag needs
  (`key value partition offset timestamp`) of the same files, also after one exchange by topic and
  partition.
* Answers on Spark are compared, column by column, with those of one process without Spark.
* Commands are whole processes, from their start to their end, as their rivals are in P9 and P10;
  the rivals in P5 and P8 are warm, and have no start to pay for.
"""


def entry(result: Result) -> dict[str, Any]:
    """Return a result as a JSON object."""
    return {
        **_words(result.row),
        "at": result.at.isoformat(timespec="seconds"),
        "quick": result.quick,
        "load": [round(each, 2) for each in result.load],
        "sides": [_side(taken) for taken in result.sides],
        "ratios": {name: found._asdict() for name, found in result.ratios.items()},
        "verdict": result.verdict,
        "error": result.error,
    }


def _words(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "case": row.case,
        "work": row.work,
        "against": row.against,
        "at_least": row.at_least,
        "aim": row.aim,
        "within": row.within,
        "by": list(row.by),
        "note": row.note,
    }


def _side(taken: Taken) -> dict[str, Any]:
    return {
        "name": taken.side.name,
        "unit": taken.side.unit,
        "units": taken.units,
        "rounds": max(map(len, taken.costs.values()), default=0),
        "per_unit": {name: spread(costs)._asdict() for name, costs in taken.costs.items()},
    }


def merged(path: Path, fresh: Iterable[Entry], yardsticks: Iterable[Yardstick]) -> dict[str, Any]:
    """Merge results into a file with those of other rows; return all of it."""
    known = json.loads(path.read_text()) if path.exists() else {"rows": [], "yardsticks": {}}
    rows = {(one["id"], one["case"]): one for one in [*known["rows"], *fresh]}
    order = sorted(rows.values(), key=lambda one: order_of(one["id"], one["case"]))
    known = {
        "machine": machine(),
        "yardsticks": known["yardsticks"] | {one.name: one.entry() for one in yardsticks},
        "rows": order,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(".half")  # an interrupted run leaves a complete file
    half.write_text(json.dumps(known, indent=1) + "\n")
    half.replace(path)
    return known


def order_of(name: str, case: str) -> tuple[bool, int, str]:
    """Return the sort key of a row: those with a P by number, then the interactive ones."""
    return not name.startswith("P"), int(name[1:]), case


def measured_since(path: Path, moment: datetime) -> set[str]:
    """Return the names of rows with a result since a moment."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    return {name_of(row) for row in rows if datetime.fromisoformat(row["at"]) >= moment}


def name_of(row: Entry) -> str:
    """Return the id with the case."""
    return f"{row['id']} {row['case']}".strip()


def current(found: Mapping[str, Any], rows: Iterable[Row]) -> dict[str, Any]:
    """Return results with the current texts and goals of rows; removed rows are left out."""
    known = {row.name: _words(row) for row in rows}
    kept = [one | known[name_of(one)] for one in found["rows"] if name_of(one) in known]
    return {**found, "rows": kept}


def machine() -> dict[str, Any]:
    """Return a description of the machine."""
    import numba
    import numpy as np
    import psutil
    import pyarrow as pa

    return {
        "cpus": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "numba": numba.__version__,
            "pyarrow": pa.__version__,
        },
    }


def page(found: Mapping[str, Any]) -> str:
    """Return docs/benchmarks.md."""
    rows = found["rows"]
    loads = [one for row in rows for one in row["load"]]
    about, versions = found["machine"], found["machine"]["versions"]
    lines = [
        _HEAD,
        f"{about['cpus']} CPUs, {about['memory_gb']} GB, {about['system']}; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + f". Load average beside the rows: {min(loads, default=0):.1f} to "
        f"{max(loads, default=0):.1f}.",
    ]
    if max(loads, default=0) > about["cpus"] + 1:
        lines.append("The machine was shared with other work: see the ranges.")
    lines += ["", "| # | work | against | CPU | wall | goal | verdict |", "|---|" + "---|" * 6]
    lines += [_line(row) for row in rows]
    lines += ["", *_shortfalls(rows), *_yardsticks(found["yardsticks"]), *_details(rows)]
    return "\n".join(lines).rstrip() + "\n"


#: Rows for the README: the ones that users care about.
_SHOWN = (
    *("P6 sharelag.lag", "P6 frames.lag", "P7 sharelag.lag", "P16", "P9 connector", "P8"),
    *("P10", "P10 with 100,000 state records", "P11 poll"),
)
_MARKS = ("<!-- figures -->", "<!-- end of figures -->")


def with_figures(readme: str, found: Mapping[str, Any]) -> str:
    """Return the README with the figures of some rows between its two marks."""
    rows = {name_of(row): row for row in found["rows"]}
    lines = ["", "| work | against | by wall time | by CPU time |", "|---|---|---|---|"]
    for row in (rows[name] for name in _SHOWN if name in rows and not rows[name]["error"]):
        shown = [_ratio(row, measure).partition(" ")[0] for measure in ("wall", "cpu")]
        work = f"{row['work']}, {row['case']}" if row["case"] else row["work"]
        work += " (smaller inputs)" if row["quick"] else ""
        lines.append(f"| {work} | {row['against']} | {shown[0]} | {shown[1]} |")
    before, _, rest = readme.partition(_MARKS[0])
    after = rest.partition(_MARKS[1])[2]
    return "\n".join([before + _MARKS[0], *lines, _MARKS[1]]) + after


def _line(row: Entry) -> str:
    name = name_of(row) + (" (quick)" if row["quick"] else "")
    goal = f"{'within' if row['within'] else 'at least'} {row['at_least']:g}x, aim {row['aim']:g}x"
    goal += "" if len(row["by"]) > 1 else f" ({row['by'][0]})"
    if row["error"]:
        return f"| {name} | {row['work']} | {row['against']} | | | {goal} | **failed** |"
    shown = {measure: _ratio(row, measure) for measure in ("cpu", "wall")}
    if "peak" in row["by"]:
        shown = {"cpu": f"memory: {_ratio(row, 'peak')}", "wall": ""}
    verdict = f"**{row['verdict']}**" if row["verdict"] == SHORT else row["verdict"]
    return (
        f"| {name} | {row['work']} | {row['against']} | {shown['cpu']} | {shown['wall']} | {goal} "
        f"| {verdict} |"
    )


def _ratio(row: Entry, measure: str) -> str:
    if measure not in row["ratios"]:
        return ""
    found = Spread(**row["ratios"][measure])
    return f"{found.median:.3g}x [{found.low:.3g}..{found.high:.3g}]"


def _shortfalls(rows: Iterable[Entry]) -> list[str]:
    short = [row for row in rows if row["verdict"] == SHORT or row["error"]]
    whys: dict[str, list[str]] = {}
    for row in short:
        failed = f"failed: {row['error'].splitlines()[0]}" if row["error"] else ""
        whys.setdefault(failed or row["note"] or "not examined yet", []).append(name_of(row))
    lines = [f"* **{', '.join(names)}**: {why}" for why, names in whys.items()]
    return ["## What falls short", "", *lines, ""] if lines else []


def _yardsticks(found: Mapping[str, Entry]) -> list[str]:
    if not found:
        return []
    lines = ["## The machine's own yardsticks", "", "| what | median | range |", "|---|---|---|"]
    for name, one in found.items():
        rate = Spread(**one["rate"])
        lines.append(
            f"| {name} | {rate.median:,.3g} {one['unit']} | {rate.low:,.3g}..{rate.high:,.3g} |"
        )
    return [*lines, ""]


def _details(rows: Iterable[Entry]) -> list[str]:
    lines = [
        "## Each side",
        "",
        "| # | side | wall a repetition, s | CPU a repetition, s | rate by wall | rounds | load |",
        "|---|" + "---|" * 6,
    ]
    for row in rows:
        for side in row["sides"]:
            wall, cpu = (_seconds(side, measure) for measure in ("wall", "cpu"))
            rate = 1 / side["per_unit"]["wall"]["median"] if "wall" in side["per_unit"] else 0
            lines.append(
                f"| {row['id']} {row['case']} | {side['name']} | {wall} | {cpu} "
                f"| {rate:,.4g} {side['unit']}/s | {side['rounds']} "
                f"| {row['load'][0]:.1f}-{row['load'][1]:.1f} |"
            )
    return lines


def _seconds(side: Entry, measure: str) -> str:
    if measure not in side["per_unit"]:
        return ""
    cost = Spread(**side["per_unit"][measure])
    median, low, high = (side["units"] * each for each in cost)
    return f"{median:.3f} [{low:.3f}..{high:.3f}]"
