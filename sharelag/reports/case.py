"""The case of a report: the evidence on share groups, and the verdict as plain values.

Reports of different clusters are never compared.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sharelag import schemas
from sharelag.durations import parse_duration
from sharelag.engine.engines import without_records
from sharelag.errors import InputError, ShareLagError, not_found
from sharelag.inputs import KafkaInput
from sharelag.inputs.open import open_capture, open_named, require_there
from sharelag.inputs.texts import read_text
from sharelag.metrics.evidence import Evidence
from sharelag.model import iso
from sharelag.monitoring.checks.judge import check_reading, completeness
from sharelag.monitoring.checks.rules import read_rules
from sharelag.replay.moment import parse_since, parse_time
from sharelag.reports.secrets import PROPERTIES
from sharelag.tables import gaps
from sharelag.tables.level import CHECKED, worst
from sharelag.tables.words import sentence
from sharelag.wire.generations import require_generation
from sharelag.workbench import Workbench, open_workbench
from sharelag.workbench.result import Result
from sharelag.workbench.verdicts import headline, judge_groups, rule_of

#: Parameters that name a notebook's input; a notebook with all of them reads it with `read`.
PLACES = ("bootstrap_server", "command_config", "capture", "raw", "segments")


@dataclass(frozen=True)
class Case:
    """Share groups as of one moment, and the time before it that the report covers."""

    bench: Workbench
    evidence: Evidence
    #: The outcome of rules, if any, and gaps in the records.
    checked: pa.Table = field(default_factory=schemas.CHECKED.empty_table)
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
    """Gather the data of a report from the parameters of its notebook.

    Parameters
    ----------
    bootstrap_server, command_config, capture, raw, segments : str, optional
        One input: a cluster (with a file of client properties), or the path of a capture, an
        archive, raw records or a broker's log directory. Single client properties come from the
        environment (`PROPERTIES`), set by `sharelag.reports.report`.
    group, topic : str or sequence of str
        Restrict the report to these.
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
        There is no data to report on, or a parameter is invalid.
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
        # A recording ended at its end, however long ago.
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
        pruned = f"{why} (sharelag capture --follow keeps what Kafka prunes)"
        lacking = bench.choice.lacking(evidence.lag) if requested is None else []
        raise InputError(f"nothing to report on: {not_found(lacking) if lacking else pruned}")
    if rules:
        judged = check_reading(bench.reading, read_rules(Path(rules))).table
    else:
        judged = pa.Table.from_pylist(completeness(bench.reading), schema=schemas.CHECKED)
    return Case(bench, evidence, judged, _previous(previous))


def require_valid(
    parameters: Mapping[str, Any],
    properties: Mapping[str, str],
    spelled: Callable[[str], str] = str,
) -> None:
    """Raise the errors of `read` that are detectable without reading records.

    ``parameters`` are all of a notebook that declares `PLACES`, ``properties`` the Kafka client's;
    ``spelled`` returns the name of an input for messages.
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


FORMAT = 1


def cluster_in(folder: str | Path) -> str | None:
    """Return the cluster id of a capture or an archive; None if it cannot be read."""
    with suppress(ShareLagError, OSError):
        return open_capture(Path(folder)).cluster_id
    return None


def verdict(case: Case) -> dict[str, Any]:
    """Judge the share groups of a report.

    Returns
    -------
    dict
        ``level``, one of `sharelag.tables.level.LEVELS`; ``headline``, a sentence; ``as_of``,
        ``begin`` and ``source``;
        ``groups``, worst first, each with its lag, age, drain, causes and ``why``, the main
        finding in a sentence (None: no problem); ``rules``, the outcome of rules that concern no
        group that is there; ``unknown``, sentences; ``complete``, whether the records lack
        nothing; ``changes``, None for the first report. Names are Kafka's: escape them wherever
        they are shown.
    """
    broken = _broken(case)
    groups = judge_groups(case.evidence, broken=broken)
    judged_groups = {group["group_id"] for group in groups}
    rules = [rule_of(one) for name in broken if name not in judged_groups for one in broken[name]]
    levels = [group["level"] for group in groups] or ["unknown"]
    level = worst([*levels, *(rule["level"] for rule in rules)])
    base = case.bench.base_of(case.evidence)
    judged: dict[str, Any] = {
        "format": FORMAT,
        "level": level,
        "headline": headline(groups, rules),
        "as_of": iso(case.evidence.as_of),
        "begin": iso(case.begin),
        "source": case.bench.source.describe(),
        "cluster_id": case.bench.source.cluster_id,
        "engine": case.evidence.engine,
        "groups": groups,
        "rules": rules,
        "unknown": _list_unknown(case, base, sum(group["unknown_ages"] for group in groups)),
        "complete": not base.lacks,
    }
    was = case.previous
    if was is None or was.get("level") not in CHECKED:
        was = None  # the first report, or that one failed
    elif was.get("format") != FORMAT:
        raise InputError(
            "previous is not a verdict of this version: choose a verdict.json that this version "
            "wrote, or remove previous"
        )
    return judged | {"changes": None if was is None else changes(case, was, judged)}


def _list_unknown(case: Case, base: Result, ages: int) -> list[str]:
    """List in sentences what the report cannot know; ``ages`` is the number of unknown ages."""
    lag, past = case.evidence.lag, case.evidence.past_offsets
    notes = (
        *gaps.of_lag(lag),
        *gaps.of_rows(ages, len(lag), "the age", [gaps.NO_AGE]),
        *(() if past.num_rows else (gaps.NO_PAST_ENDS,)),
        *base.unknown,
    )
    return [sentence(one) for one in notes]


def _broken(case: Case) -> dict[str | None, list[dict[str, Any]]]:
    """Collect broken rules by group; None for those about no group."""
    found: dict[str | None, list[dict[str, Any]]] = {}
    for one in case.checked.to_pylist():
        if one["silenced_until"] is None and one["level"] != "ok":
            found.setdefault(one["group_id"], []).append(one)
    return found


def changes(case: Case, was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Compare the groups with those of the previous report; values unknown then are None.

    ``was`` and ``now`` are verdicts of the current format. The result has ``comparable``, else
    ``why`` not; ``groups``, new and gone ones included; and the causes that are new, gone and
    lasting.
    """
    apart = {"since": was["as_of"], "comparable": False}
    apart |= {"groups": [], "new_causes": [], "gone_causes": []}
    if was.get("cluster_id") != now["cluster_id"]:
        return apart | {"why": "it is about another cluster"}
    if was["as_of"] >= now["as_of"]:
        return apart | {"why": "it is not earlier than this one"}
    before = {group["group_id"]: group for group in was["groups"]}
    moved = _sum_moves(case, was["as_of"])
    present = {group["group_id"]: group for group in now["groups"]}
    rows = [_change(name, before.get(name), present[name], moved.get(name, {})) for name in present]
    gone = {name: group for name, group in before.items() if name not in present}
    rows += [_change(name, group, None, {}) for name, group in gone.items()]
    old, new = _causes(was), _causes(now)
    return {
        "since": was["as_of"],
        "comparable": True,
        "level": was["level"],
        "groups": rows,
        "new_causes": [new[key] for key in new if key not in old],
        "gone_causes": [old[key] for key in old if key not in new],
        "lasting_causes": [new[key] for key in new if key in old],
    }


def _change(
    name: str,
    was: Mapping[str, Any] | None,
    now: Mapping[str, Any] | None,
    moved: Mapping[str, Any],
) -> dict[str, Any]:
    lag_before, lag = (None if one is None else one["lag"] for one in (was, now))
    if was is None or now is None:
        what = "new" if was is None else "gone"
    else:
        what = "same" if was["level"] == now["level"] else "moved"
    change = None if lag is None or lag_before is None else lag - lag_before
    levels = {"level_before": was and was["level"], "level": now and now["level"]}
    lags = {"lag_before": lag_before, "lag": lag, "lag_change": change}
    known = {"finished": moved.get("finished"), "resets": moved.get("resets", 0)}
    return {"group_id": name, "what": what, **levels, **lags, **known}


def _sum_moves(case: Case, since: str) -> dict[str, dict[str, Any]]:
    """Return the offsets that each group finished since then, and its number of resets."""
    table = case.bench.diff(parse_time(since)).table
    found = {"resets": pc.equal(table.column("change"), "reset")}
    found["is_unknown"] = pc.is_null(table.column("finished"))
    for name, column in found.items():
        table = table.append_column(name, column.cast(pa.int64()))
    sums = table.group_by("group_id").aggregate(
        [("finished", "sum"), ("resets", "sum"), ("is_unknown", "sum")]
    )
    return {
        row["group_id"]: {
            "finished": None if row["is_unknown_sum"] else row["finished_sum"],
            "resets": row["resets_sum"],
        }
        for row in sums.to_pylist()
    }


def _causes(verdict: Mapping[str, Any]) -> dict[tuple[Any, ...], dict[str, Any]]:
    names = ("cause", "severity", "topic", "partition", "summary", "held", "since")
    return {
        (group["group_id"], cause["cause"], cause["topic"], cause["partition"]): {
            "group_id": group["group_id"],
            **{name: cause[name] for name in names},
        }
        for group in verdict["groups"]
        for cause in group["causes"]
    }
