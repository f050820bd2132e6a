"""The case of a report: what was gathered of some share groups, and what was said of them before."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from sharelag.durations import parse_duration
from sharelag.errors import InputError
from sharelag.metrics.evidence import Evidence
from sharelag.monitoring.check import CHECKED, check_reading
from sharelag.monitoring.checks.rules import read_rules
from sharelag.replay.moment import parse_since, parse_time
from sharelag.reports.secrets import PROPERTIES
from sharelag.sources.inputs import CaptureInput, Input
from sharelag.sources.open import named_input
from sharelag.workbench import Workbench, open_workbench


@dataclass(frozen=True)
class Case:
    """Some share groups as of one moment, and the time before it that is looked at."""

    bench: Workbench
    evidence: Evidence
    checked: pa.Table = field(default_factory=CHECKED.empty_table)  # by rules, where there are any
    previous: Mapping[str, Any] | None = None  # the verdict before

    @property
    def begin(self) -> datetime:
        """From when on."""
        return self.evidence.as_of - self.bench.over

    @property
    def known_span(self) -> timedelta:
        """How much of that time there are records of."""
        begins = [at for at in self.evidence.observed.column("begin").to_pylist() if at is not None]
        return self.evidence.as_of - max(min(begins, default=self.begin), self.begin)


def read(
    *,
    bootstrap_server: str | None = None,
    command_config: str | None = None,
    capture: str | None = None,
    raw: str | None = None,
    segments: str | None = None,
    group: str | Sequence[str] = (),
    topic: str | Sequence[str] = (),
    as_of: str | None = None,
    since: str | None = None,
    over: float | str = 86_400,
    rules: str | None = None,
    engine: str = "spark",
    previous: str | None = None,
) -> Case:
    """Gather what a report needs, from parameters that a notebook can be given.

    Parameters
    ----------
    bootstrap_server, command_config, capture, raw, segments : str, optional
        One input: a cluster (with a file of client properties), or the path of a capture, an
        archive, raw records or a broker's log directory. Single client properties come from the
        environment (`PROPERTIES`), where `sharelag.reports.report` puts them.
    group, topic : str or sequence of str
        Only these.
    as_of : str, optional
        A time with its zone.
    since : str, optional
        A time with its zone, or a duration before ``as_of`` such as ``2h``.
    over : str or float
        Without ``since``, how far the report looks back: ``24h``, or seconds.
    rules : str, optional
        A file of rules for `sharelag check`; they count beside the causes.
    engine : {"spark", "local", "auto"}
    previous : str, optional
        The ``verdict.json`` of the report before.

    Raises
    ------
    InputError
        There is nothing to report on, or a parameter cannot be used.
    """
    source = named_input(
        bootstrap_server=bootstrap_server,
        command_config=command_config,
        properties=json.loads(os.environ.get(PROPERTIES, "{}")),
        capture=capture,
        raw=raw,
        segments=segments,
    )
    asked = parse_time(as_of) if as_of else None
    bench = open_workbench(
        source,
        as_of=asked,
        groups=group,
        topics=topic,
        engine=engine,
        over=parse_duration(over, bare="s"),
        bars=False,
    )
    if since:
        looked_at = (end := asked or _now(bench.source)) - parse_since(
            since, lambda: end, parse_time
        )
        if looked_at <= timedelta():
            raise InputError(
                f"nothing lies between {since} and the moment of the report: name an earlier time"
            )
        bench = replace(bench, over=looked_at)
    evidence = bench.evidence()
    _require(evidence)
    judged = CHECKED.empty_table()
    if rules:
        judged = check_reading(bench.reading, read_rules(Path(rules))).table
    return Case(bench, evidence, judged, _previous(previous))


def _now(source: Input) -> datetime:
    return source.as_of() if isinstance(source, CaptureInput) else datetime.now(UTC)


def _require(evidence: Evidence) -> None:
    if not evidence.lag.num_rows:
        raise InputError(
            "there are no share-group state records to report on: nothing was consumed by a share group there, not by "
            "that moment, or the records have been pruned (sharelag capture --follow keeps them)"
        )


def _previous(path: str | None) -> dict[str, Any] | None:
    if not path:
        return None
    try:
        told: dict[str, Any] = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} is no verdict of an earlier report ({error}): leave previous out"
        ) from None
    return told
