"""Answers of a whole input, by one reading that is closed again."""

from __future__ import annotations

from datetime import datetime, timedelta

import pyarrow as pa

from sharelag.sources.inputs import Input
from sharelag.workbench import investigate
from sharelag.workbench.engine import Answer, history_of, reading


def history(source: Input, engine: str, since: datetime | None = None) -> Answer:
    with reading(source, engine) as begun:
        return history_of(begun, since)


def timeline(source: Input, every: timedelta, engine: str) -> Answer:
    with reading(source, engine) as begun:
        moments = investigate.regular_moments(begun, every)
        return investigate.timeline_of(begun, moments, every)


def health(source: Input, engine: str) -> tuple[Answer, pa.Table]:
    with reading(source, engine, health=True) as begun:
        return investigate.health_of(begun)
