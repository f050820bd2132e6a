"""A span of a group's history, gathered from a workbench for simulation."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from sharelag.errors import InputError
from sharelag.model import iso
from sharelag.replay.moment import parse_time
from sharelag.whatif.past import MOST_WINDOWS, Past, past_of
from sharelag.whatif.scenario import Service
from sharelag.workbench.base import Opened
from sharelag.workbench.questions.timeline import begin_of

#: Number of moments of the span at which lag is read.
MOMENTS = 120
_KEY = ["group_id", "topic_id", "partition"]


def gather_past(
    bench: Opened,
    group: str | None,
    since: str | datetime,
    until: str | datetime | None = None,
    service: Service | None = None,
) -> Past:
    """Gather a group's history between two moments; see `sharelag.whatif.past`.

    Parameters are those of `sharelag.workbench.Workbench.past`; a group may be None.
    """
    if until is not None:
        bench = bench.at(parse_time(until) if isinstance(until, str) else until)
    end = bench.reading.now
    begin = begin_of(since, end)
    if begin is None:
        raise InputError("a past needs its beginning: give since='30m', or a time")
    if begin >= end:
        raise InputError(
            f"the span ends at {iso(end)}, which is not after {iso(begin)}: "
            "name an earlier moment to begin with"
        )
    bench = replace(bench, over=end - begin, asks_once=False)
    if not bench.groups:
        raise InputError(f"no share group had state at {iso(end)}: name a later moment")
    if group is None and len(bench.groups) != 1:
        raise InputError(f"choose one share group: {', '.join(bench.groups)}")
    name = group or bench.groups[0]
    now = bench.evidence(name)
    if now.brokers.column("leader_id").null_count == now.brokers.num_rows:
        # Metadata has no earlier leaders, but they hardly change.
        now = replace(now, brokers=bench.reading.latest_brokers())
    then = bench.at(begin)
    if name not in then.groups:
        known = [at for at in now.observed.column("begin").to_pylist() if at is not None]
        first = f": it is first known at {iso(min(known))}" if known else ""
        raise InputError(f"the group {name} had no state at {iso(begin)}{first}")
    before = then.evidence(name)
    step = (end - begin) / MOMENTS
    timeline = bench.ask(
        "timeline", group=name, every=max(step, timedelta(milliseconds=10)), since=begin
    ).table
    there = now.lag.select(_KEY)
    windows = bench.reading.windows_at(there, MOST_WINDOWS)
    return past_of(before, now, name, timeline, windows, service)
