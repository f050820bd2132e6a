"""The simulator, with an assignor in Python, compared with a lean SimPy model of the same group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal

from benchmarks import simpy_model as model
from benchmarks.harness import Bench, Contest, GateError, Measured, Row, Side
from sharelag.whatif import (
    Behaviour,
    Limits,
    Member,
    Producer,
    Scenario,
    Service,
    Settings,
    Topic,
    simulate,
)

Commit = Literal["poll", "record"]
#: Tolerance of completions per second: other random numbers, and no brokers.
_NOISE = 0.05


def scenario(seconds: float, commit: Commit) -> Scenario:
    """Return the group of `benchmarks.simpy_model`, at half of its members' capacity."""
    accept = 1 - model.RELEASE - model.SILENT
    behaviour = Behaviour(accept, model.RELEASE, silent=model.SILENT, commit=commit)
    service = Service(model.SERVICE_S * 1000, "exponential")
    members = model.PARTITIONS * model.CONSUMERS
    limits = Limits(
        delivery_count_limit=model.ATTEMPTS, lock_duration_ms=round(model.LOCK_S * 1000)
    )
    # Like the model's producers: bursts of 10 ms if members acknowledge polls, else single records.
    rate = model.RATE * model.PARTITIONS
    bursts = Producer("t", rate, batch_records=model.BURST, pattern="steady")
    return Scenario(
        (Topic("t", model.PARTITIONS),),
        (Member("m", members, service=service, behaviour=behaviour, max_poll_records=model.POLL),),
        (bursts if commit == "poll" else Producer("t", rate),),
        Settings(limits),
        assignor="simple",
        duration_ms=round(seconds * 1000),
        settled=True,
    )


def completed(chosen: Scenario) -> int:
    """Simulate a scenario to its end, with all of its tables."""
    return int(simulate(chosen, seed=1).summary.column("completed")[0].as_py())


@contextmanager
def against_simpy(bench: Bench, commit: Commit) -> Iterator[Contest]:
    """Compare completions per second of a core; ours also has brokers, sessions, locks, tables."""
    ours_s, theirs_s = bench.size(120, 20), bench.size(20, 5)

    def ours() -> Measured:
        done = completed(scenario(ours_s, commit))
        return Measured(done, units=done)

    def theirs() -> Measured:
        done = model.Model(commit == "record").run(theirs_s)
        return Measured(done, units=done)

    def check(mine: int, other: int) -> None:
        rates = mine / ours_s, other / theirs_s
        if abs(rates[0] / rates[1] - 1) > _NOISE:
            raise GateError(f"{rates[0]:.0f} and {rates[1]:.0f} completions a second")

    yield Contest(
        Side("whatif.simulate", ours, unit="completions"),
        Side("SimPy", theirs, unit="completions"),
        check,
    )


_NOTE = (
    "Members poll one or two records at a time, so one completion takes several of our events: a "
    "poll arrives, is answered and worked on, is written, the partition is unlocked, records "
    "come; 3.2 a completion, 6.1 where each record is acknowledged by itself, of some 0.1 "
    "microseconds each. These events are 64 and 68 % of the CPU time: without all the rest it "
    "would be 12x, so 25x takes half of the events' work as well. The rest is drawing random "
    "numbers (10 and 7 %), heartbeats and what else Python does between events (10 and 7 %), "
    "latencies (6 and 7 %), taking rows out (4 %), arrivals (3 and 4 %). Within the events no "
    "function has more than a tenth, but for the loop itself and what is inlined there (29 %); a "
    "tenth is waiting at the two places that read random numbers. Fewer events gain less than "
    "their number: a copy that does the work on an answer and the next fetch as one, which is "
    "right in this group only, has 17 % fewer and needs 3 to 6 % less for them, and with the "
    "answer in it, too, 34 % fewer, 17 % less, and 11 % less in all; a member that crashes, "
    "hangs, leaves or gets other partitions meanwhile has to be taken apart again. Tried: memory "
    "as a pointer (an array is counted atomically at every call, which was 40 %), parts of the "
    "loop as LLVM's own, which nobody else calls (some 7 %), near events in buckets in place of a "
    "heap, locks in the order of their ends, no search for records to deliver again while there "
    "are none, windows as large as locks need, memory of the last run, heartbeats in the loop (3 "
    "to 10 %; in groups with little to do four fifths of all), a look for events only where there "
    "is one before what Python does next, optimising until no call checks for failures (6 % of "
    "the events), latencies in ever finer bins and none sorted (2 to 4 %, 13 to 14 % where all "
    "records take the same time). Tried, and left: a written run as four numbers in place of "
    "eight, and no look for locks that hold nothing while an end is awaited (both together 0 to 2 "
    "%), rows taken out in larger or smaller parts (nothing). Smaller windows alone save 8 % at "
    "most. Of 632 times that numbers are drawn, 512 are outcomes of 4,096 records, most of them "
    "of second and later deliveries, of which few are needed. Next: outcomes seeded and drawn "
    "within the loop (numpy's seeding is the half of each time), outcomes packed into a few bits "
    "each, an answer and the work on it as one event."
)
ROWS = (
    Row("P11", "simulate a busy group", "a lean SimPy model", 10, 25,
        partial(against_simpy, commit="poll"), "poll", by=("cpu",), note=_NOTE),
    Row("P11", "simulate a busy group", "a lean SimPy model", 10, 25,
        partial(against_simpy, commit="record"), "record", by=("cpu",), note=_NOTE),
)  # fmt: skip
