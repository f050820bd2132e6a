"""Make and score forecasts in recorded and simulated histories, and write the results.

    python -m tools.forecasts_page          # some ten minutes; into docs/forecasts.md

Each history is read as `sharelag forecasts` reads a cluster: as of successive moments, with a
ledger. A run knows nothing that is later than its moment.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

import sharelag
from sharelag import schemas
from sharelag.durations import duration
from sharelag.metrics.forecasts import calibration
from sharelag.whatif import simulate
from sharelag.whatif.scenario import Burst, Fault, Member, Producer, Scenario, Service, Topic
from sharelag.workbench import Workbench
from sharelag.workbench.questions.forecasts import read_ledger
from tools.page import with_part

PAGE = Path(__file__).resolve().parent.parent / "docs" / "forecasts.md"
BEGIN, END = "<!-- table: python -m tools.forecasts_page -->", "<!-- end of table -->"
SECOND, MINUTE, MS = timedelta(seconds=1), timedelta(minutes=1), timedelta(milliseconds=1)
HORIZON, EVERY = MINUTE, 30 * SECOND
#: Number of simulated groups for the page, and the duration of each.
SIMULATED = 16
_LASTS = 10 * MINUTE


class History(NamedTuple):
    """A history that is read as of successive moments."""

    name: str
    open_at: Callable[..., Workbench]
    moments: Sequence[datetime]


def main() -> None:
    """Make forecasts in all histories, and write the table of the page."""
    ledgers = {
        "recorded shop": make_forecasts([open_recorded()]),
        "simulated groups": make_forecasts(map(simulate_group, range(SIMULATED))),
    }
    PAGE.write_text(with_part(PAGE.read_text("utf-8"), BEGIN, END, table(ledgers)), "utf-8")


def make_forecasts(histories: Iterable[History]) -> pa.Table:
    """Make and score forecasts at all moments of histories; return the ledger of all."""
    with TemporaryDirectory() as folder:
        for history in histories:
            for at in history.moments:
                with history.open_at(as_of=at) as bench:
                    bench.forecasts(folder, HORIZON)
            print(history.name, file=sys.stderr, flush=True)
        return read_ledger(folder)


def open_recorded() -> History:
    """Return the recorded shop."""
    with sharelag.open(engine="local") as bench:
        first, last = bench.reading.record_counts.first, bench.evidence().as_of
    return History("recorded shop", partial(sharelag.open, engine="local"), _moments(first, last))


def simulate_group(seed: int) -> History:
    """Return a simulated group."""
    scenario = draw_scenario(Random(seed))  # noqa: S311
    result = simulate(scenario, seed)
    ends = _ends(scenario, result.timeline)
    opened = partial(
        sharelag.open,
        raw=pa.Table.from_batches([result.records()]),
        offsets=ends,
        groups=scenario.group_id,
        engine="local",
    )
    times = pc.min_max(ends.column("as_of")).as_py()
    return History(f"simulated group {seed}", opened, _moments(times["min"], times["max"]))


def _moments(first: Any, last: datetime) -> list[datetime]:
    return [first + EVERY * n for n in range(4, int((last - first) / EVERY) + 1)]


def draw_scenario(random: Random) -> Scenario:
    """Draw a group that keeps up, falls behind or catches up, and its incidents."""
    members, mean_ms = random.randint(2, 5), random.choice([20.0, 50.0, 100.0])
    lasts = _LASTS // MS
    bursts = tuple(
        Burst(at, at + random.randint(20_000, 120_000), random.uniform(1.5, 5))
        for at in (random.randint(0, lasts) for _ in range(random.randint(0, 4)))
    )
    faults = tuple(
        Fault(random.randint(60_000, lasts), "hang", f"member-{number}", 60_000)
        for number in range(random.randint(0, 2))
    )
    service = Service(mean_ms, random.choice(["exponential", "lognormal"]))
    backlog = random.choice([0, 0, 500, 3000])
    rate = random.uniform(0.5, 1.15) * members * 1000 / mean_ms
    return Scenario(
        topics=(Topic("orders", random.randint(6, 12), backlog=backlog),),
        members=(Member(count=members, max_poll_records=random.choice([10, 50]), service=service),),
        producers=(Producer("orders", rate, bursts=bursts),),
        faults=faults,
        duration_ms=lasts,
        step_ms=2000,
        settled=True,
        group_id=f"drawn-{random.getrandbits(32)}",
    )


def _ends(scenario: Scenario, timeline: pa.Table) -> pa.Table:
    """Return end offsets at all moments of a simulation."""
    times = pc.add(timeline.column("time_ms").cast(pa.int64()), scenario.begins_ms)
    ids = [scenario.topics[0].id] * timeline.num_rows
    made = timeline.select(["topic", "partition", "log_start_offset", "end_offset"])
    made = made.append_column("topic_id", pa.array(ids))
    made = made.append_column("leader_epoch", pa.nulls(timeline.num_rows, pa.int32()))
    made = made.append_column("as_of", times.cast(schemas.TIMESTAMP))
    return made.select(schemas.OFFSETS.names).cast(schemas.OFFSETS)


def table(ledgers: dict[str, pa.Table]) -> str:
    """Return the results of forecasts as a table in Markdown."""
    names = "histories, forecast of, scored, came true, CRPS, of lag / rate, interval score"
    lines = [f"| {' | '.join(names.split(', '))} | not known |", "|---|---" + "|--:" * 6 + "|"]
    for name, rows in (ledgers | {"all": pa.concat_tables(ledgers.values())}).items():
        for row in calibration(rows).to_pylist():
            if row["scored"]:
                far = (duration(row[one]) for one in _SCORES)
                covered = f"{100 * row['covered']:.1f} %"
                lines.append(
                    f"| {name} | {row['forecast']} | {row['scored']:,} | {covered} | "
                    f"{' | '.join(far)} | {row['untold']:,} |"
                )
    return "\n".join(lines)


_SCORES = ("crps_ms", "rate_crps_ms", "interval_score_ms")


if __name__ == "__main__":
    main()
