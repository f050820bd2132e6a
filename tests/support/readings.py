"""Answers of a whole input, by one reading that is closed again."""

from datetime import datetime, timedelta
from functools import cache

import pyarrow as pa

import sharelag
from sharelag import Result
from sharelag.engine import Rows
from sharelag.engine.engines import read
from sharelag.inputs import Input
from sharelag.replay.moment import Choice, Moment
from sharelag.workbench import Workbench
from sharelag.workbench.questions.state_topic import judge_state_topic
from sharelag.workbench.questions.timeline import regular_moments, timeline_of


@cache
def open_once(sample: str) -> Workbench:
    """A recorded cluster, which this process reads once for all tests that leave it as it is."""
    return sharelag.open(sample, engine="local")


def history(source: Input, engine: str, since: datetime | None = None) -> Rows:
    with read(source, engine) as begun:
        return begun.history(since)


def timeline(source: Input, every: timedelta, engine: str) -> Rows:
    with read(source, engine) as begun:
        moments = regular_moments(begun, every)
        return timeline_of(begun, moments, every)


def health(source: Input, engine: str) -> tuple[pa.Table, pa.Table]:
    with read(source, engine, health=True) as begun, begun.whole() as whole:
        return judge_state_topic(whole)


def lag(
    source: Input,
    engine: str = "auto",
    as_of: Moment = None,
    choice: Choice | None = None,
    by: str | None = None,
) -> Result:
    """What the workbench says of the lag of an input."""
    return Workbench(source, as_of, choice or Choice(), engine).lag(by=by)


def windows(
    source: Input, engine: str = "auto", as_of: Moment = None, choice: Choice | None = None
) -> Result:
    """What the workbench says of the windows of an input."""
    return Workbench(source, as_of, choice or Choice(), engine).windows()
