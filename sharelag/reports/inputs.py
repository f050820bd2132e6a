"""The input of a report: what was gathered about share groups, and the previous verdict."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from sharelag.durations import parse_duration
from sharelag.engine.engines import without_records
from sharelag.errors import InputError
from sharelag.inputs import KafkaInput
from sharelag.inputs.open import open_named, require_there
from sharelag.inputs.texts import read_text
from sharelag.metrics.evidence import Evidence
from sharelag.monitoring.checks.judge import CHECKED, check_reading, completeness
from sharelag.monitoring.checks.rules import read_rules
from sharelag.replay.moment import parse_since, parse_time
from sharelag.reports.secrets import PROPERTIES
from sharelag.wire.generations import require_generation
from sharelag.workbench import Workbench, open_workbench

#: The parameters of a notebook that name its input; one with all of them reads it by `read`.
PLACES = ("bootstrap_server", "command_config", "capture", "raw", "segments")


@dataclass(frozen=True)
class Case:
    """Share groups as of one moment, and the time before it that the report covers."""

    bench: Workbench
    evidence: Evidence
    #: The outcome of rules, if any, and what the records lack.
    checked: pa.Table = field(default_factory=CHECKED.empty_table)
    previous: Mapping[str, Any] | None = None  # the previous verdict

    @property
    def begin(self) -> datetime:
        """The beginning of the time covered, or of the records if they begin later."""
        earliest = self.evidence.as_of - self.bench.over
        begins = [at for at in self.evidence.observed.column("begin").to_pylist() if at is not None]
        return max(min(begins, default=earliest), earliest)

    @property
    def known_span(self) -> timedelta:
        """The part of that time that the records cover."""
        return self.evidence.as_of - self.begin


def read(
    *,
    bootstrap_server: str | None = None,
    command_config: str | None = None,
    capture: str | None = None,
    raw: str | None = None,
    segments: str | None = None,
    group: str | Sequence[str] = (),
    topic: str | Sequence[str] = (),
    generation: int | None = None,
    as_of: str | None = None,
    since: str | None = None,
    over: float | str = 86_400,
    rules: str | None = None,
    engine: str = "spark",
    previous: str | None = None,
) -> Case:
    """Gather what a report needs, from the parameters of its notebook.

    Parameters
    ----------
    bootstrap_server, command_config, capture, raw, segments : str, optional
        One input: a cluster (with a file of client properties), or the path of a capture, an
        archive, raw records or a broker's log directory. Single client properties come from the
        environment (`PROPERTIES`), set by `sharelag.reports.report`.
    group, topic : str or sequence of str
        Report on these only.
    generation : int, optional
        As for `sharelag.open`.
    as_of : str, optional
        A time with its zone.
    since : str, optional
        A time with its zone, or a duration before ``as_of`` such as ``2h``.
    over : str or float
        Without ``since``, how far the report looks back: ``24h``, or a number of seconds.
    rules : str, optional
        A rule file of `sharelag check`; broken rules count beside the causes.
    engine : {"spark", "local", "auto"}
    previous : str, optional
        The ``verdict.json`` of the previous report.

    Raises
    ------
    InputError
        There is nothing to report on, or a parameter is not valid.
    """
    source = open_named(
        bootstrap_server=bootstrap_server,
        command_config=command_config,
        properties=json.loads(os.environ.get(PROPERTIES, "{}")),
        capture=capture,
        raw=raw,
        segments=segments,
        generation=generation,
    )
    requested = parse_time(as_of) if as_of else None
    bench = open_workbench(
        source,
        as_of=requested,
        groups=group,
        topics=topic,
        generation=generation,
        engine=engine,
        over=parse_duration(over),
        bars=False,
    )
    if since:
        # What was recorded ended when it did, however long ago.
        is_live = isinstance(bench.source, KafkaInput)
        end = requested or (datetime.now(UTC) if is_live else bench.reading.now)
        looked_at = end - parse_since(since, lambda: end, parse_time)
        if looked_at <= timedelta():
            raise InputError(
                f"since ({since}) must be earlier than the moment of the report: "
                "choose an earlier time"
            )
        bench = replace(bench, over=looked_at)
    evidence = bench.evidence()
    if not evidence.lag.num_rows:
        why = without_records(bench.source, requested)
        raise InputError(
            f"nothing to report on: {why} (sharelag capture --follow keeps what Kafka prunes)"
        )
    if rules:
        judged = check_reading(bench.reading, read_rules(Path(rules))).table
    else:
        judged = pa.Table.from_pylist(completeness(bench.reading), schema=CHECKED)
    return Case(bench, evidence, judged, _previous(previous))


def require_valid(
    parameters: Mapping[str, Any],
    properties: Mapping[str, str],
    spelled: Callable[[str], str] = str,
) -> None:
    """Refuse what `read` would refuse, as far as that shows without reading records.

    ``parameters`` are all of a notebook that declares `PLACES`, ``properties`` the Kafka client's;
    ``spelled`` is how messages write the name of an input.
    """
    require_there(
        open_named(
            **{name: parameters[name] for name in PLACES}, properties=properties, spelled=spelled
        )
    )
    require_generation(parameters.get("generation"))
    requested = parse_time(as_of) if (as_of := parameters.get("as_of")) else datetime.now(UTC)
    if since := parameters.get("since"):
        parse_since(since, lambda: requested, parse_time)
    if rules := parameters.get("rules"):
        read_rules(Path(rules))
    _previous(parameters.get("previous"))


def _previous(path: str | None) -> dict[str, Any] | None:
    if not path:
        return None
    try:
        previous: dict[str, Any] = json.loads(read_text(path))
        if not isinstance(previous, dict):
            raise ValueError("it is not a JSON object")
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} is not the verdict of an earlier report ({error}): remove previous"
        ) from None
    return previous
