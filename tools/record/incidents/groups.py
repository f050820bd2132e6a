"""Groups that are played twice on brokers: with another assignor, or with settings of the tuner.

``python -m tools.record.incidents.groups foretell`` simulates all, and stores the predictions;
``... play assignors`` and ``... play tuned`` then play them. Existing predictions are not replaced;
``... again`` adds the results of a later simulator for the same runs.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from sharelag.replay.history import history_arrow
from sharelag.tables.arrow import one_batch
from sharelag.whatif.knobs import Value, turn
from sharelag.whatif.scenario import Member, Producer, Scenario, Service, Settings, Topic
from sharelag.whatif.simulate import simulate
from sharelag.whatif.tune import tune
from sharelag.wire.decode import decode_arrow
from sharelag.wire.fields import STATE_TOPIC
from tests.support.kafka.broker import KafkaCluster
from tests.support.kafka.jars import KAFKA_VERSION
from tools.assignors import assignors_jar
from tools.record.fidelity.measure import age_over_time, arrivals, lag_over_time
from tools.record.fidelity.script import script
from tools.record.incidents.play import SETTINGS, Played, appended, play, prepare
from tools.record.incidents.table import BROKERS, START_MS, STEP_MS, TOPIC, Incident

FOLDER = Path(__file__).resolve().parents[3] / "data" / "live"
#: Kafka's own first; the names in `group.share.assignors`.
ASSIGNORS = {"simple": "simple", "sticky-spread": "sharelag.assignor.StickySpreadAssignor"}
#: Live runs of each assignor, and of each group with its settings, by seed.
RUNS = {"assignors": 10, "tuned": 1}
#: Number of simulated seeds; the first of them are played.
SEEDS = 20
DEFAULTS, TUNED = "defaults", "tuned"
GOALS = ("age_p95<8s", "redelivered_share<1%")
_KAFKAS = Settings(
    heartbeat_interval_ms=500,
    session_timeout_ms=6000,
    assignment_interval_ms=0,
    auto_offset_reset="earliest",
)


def _scenario(
    name: str,
    about: str,
    weights: tuple[float, ...],
    member: Member,
    rates: tuple[tuple[float, float, float], ...],
    duration_ms: int,
) -> Scenario:
    """Return a scenario; ``rates`` are records per second, from and until a second."""
    producers = tuple(
        Producer(
            TOPIC,
            rate,
            "steady",
            5,
            weights,
            begin_ms=START_MS + round(begin * 1000),
            end_ms=START_MS + round(end * 1000),
        )
        for rate, begin, end in rates
    )
    return Scenario(
        (Topic(TOPIC, len(weights)),),
        (member,),
        producers,
        settings=_KAFKAS,
        duration_ms=duration_ms,
        step_ms=STEP_MS,
        initialized=False,
        brokers=BROKERS,
        name=name,
        about=about,
    )


#: Half of it is in one of six partitions.
BACKLOG = _scenario(
    "backlog",
    "1,800 records within three seconds, half of them in one of six partitions, and three members",
    (5.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    Member(count=3, service=Service(9, "exponential"), max_poll_records=50),
    ((600, 0, 3),),
    START_MS + 20_000,
)
#: With Kafka's defaults, including polls of 500 records.
GROUPS = (
    _scenario(
        "long-polls",
        "a poll of 500 records takes longer than its locks of 30 s",
        (1.0, 1.0),
        Member(count=2, service=Service(70, "exponential")),
        ((1200, 0, 1),),
        START_MS + 45_000,
    ),
    _scenario(
        "one-takes-all",
        "four members share a partition, and one has got all that came",
        (1.0,),
        Member(count=4, service=Service(30, "exponential")),
        ((800, 0, 1), (40, 1, 20)),
        START_MS + 30_000,
    ),
    _scenario(
        "outgrown",
        "more arrives in three partitions than two members can do",
        (1.0, 1.0, 1.0),
        Member(count=2, service=Service(20, "exponential")),
        ((160, 0, 20),),
        START_MS + 30_000,
    ),
)


def measured(scenario: Scenario, seed: int) -> dict[str, float | None]:
    """Simulate a run, and measure it by its state records, as `of_played` does for a real one."""
    result = simulate(scenario, seed)
    decoded = one_batch(decode_arrow(one_batch(result.records()), STATE_TOPIC).records)
    history = history_arrow(decoded.filter(pc.equal(decoded.column("group_id"), scenario.group_id)))
    begin = scenario.begins_ms + START_MS
    grid = np.arange(0, scenario.duration_ms - START_MS + 1, STEP_MS, dtype=np.float64)
    came = [(scenario.begins_ms + at, size) for at, size in arrivals(scenario, seed)]
    lag = lag_over_time(history, came, begin, grid)
    due = appended(script(scenario, seed)["appends"], scenario.begins_ms)
    row = result.summary.to_pylist()[0]
    return _measures(
        lag, age_over_time(history, due, begin + grid), row["deliveries"], row["redeliveries"]
    )


def of_played(played: Played) -> dict[str, float | None]:
    """Measure a real run."""
    return {
        **_measures(
            np.array(played.lag), np.array(played.age_ms), played.deliveries, played.redeliveries
        ),
        "load": played.load,
    }


def _measures(lag: Any, age: Any, deliveries: int, redeliveries: int) -> dict[str, float | None]:
    largest = int(np.argmax(lag))
    empty = np.flatnonzero(lag[largest:] <= 0)
    return {
        "drain_ms": float(largest + empty[0]) * STEP_MS if len(empty) else None,
        "age_p95_ms": float(np.percentile(age, 95)),
        "redelivered_share": redeliveries / deliveries,
    }


def foretell(kind: str) -> dict[str, Any]:
    """Simulate the runs to be played; the tuner first searches for settings."""
    if kind == "assignors":
        each = _simulated_variants(kind, BACKLOG, {})
        return {BACKLOG.name: {"foretold": _simulated(each)}}
    found = {}
    for group in GROUPS:
        ranges = {"members": (1, 12), "renew": False}  # renewals cannot be played
        tuned = tune(group, GOALS, ranges=ranges, trials=32, margins=False)
        one: dict[str, Any]
        found[group.name] = one = {"changed": dict(tuned.changed)}
        one["foretold"] = _simulated(_simulated_variants(kind, group, one))
        print(group.name, tuned.verdict(), flush=True)
    return found


def _simulated(variants: Mapping[str, Scenario]) -> dict[str, list[dict[str, float | None]]]:
    return {name: [measured(one, seed) for seed in range(SEEDS)] for name, one in variants.items()}


def simulate_again(kind: str) -> dict[str, Any]:
    """Return the stored comparison, with results of today's simulator for its runs."""
    known = kept(kind)
    for scenario in (BACKLOG,) if kind == "assignors" else GROUPS:
        of = known[scenario.name]
        of["afterwards"] = {
            name: [measured(variant, seed) for seed in range(RUNS[kind])]
            for name, variant in _simulated_variants(kind, scenario, of).items()
        }
    return known


def _simulated_variants(
    kind: str, scenario: Scenario, known: Mapping[str, Any]
) -> dict[str, Scenario]:
    if kind == "assignors":
        return {name: replace(scenario, assignor=name) for name in ASSIGNORS}
    return {DEFAULTS: scenario, TUNED: turn(scenario, known["changed"])}


def kept(kind: str) -> dict[str, Any]:
    """Return the stored comparison."""
    found: dict[str, Any] = json.loads((FOLDER / f"{kind}.json").read_text())
    return found


def _keep(kind: str, known: Mapping[str, Any]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{kind}.json").write_text(json.dumps(known, indent=1) + "\n")


def play_all(kind: str) -> None:
    """Play the variants in turn, so that a busy minute does not affect only one."""
    known = kept(kind)
    with ExitStack() as stack:
        clusters = {}
        for name in ASSIGNORS if kind == "assignors" else ("simple",):
            settings = SETTINGS | {"group.share.assignors": ASSIGNORS[name]}
            cluster = KafkaCluster(BROKERS, settings, libraries=[assignors_jar()])
            clusters[name] = stack.enter_context(cluster)
            prepare(cluster)
            play(cluster, Incident(BACKLOG, {}), BACKLOG, SEEDS)  # warms up the brokers
        for seed in range(RUNS[kind]):
            for scenario in (BACKLOG,) if kind == "assignors" else GROUPS:
                of = known[scenario.name]
                for name, (cluster_of, variant) in _variants(kind, scenario, of).items():
                    live = of.setdefault("live", {}).setdefault(name, [])
                    if len(live) > seed:
                        continue
                    played = play(clusters[cluster_of], Incident(variant, {}), variant, seed)
                    live.append(of_played(played))
                    print(f"{scenario.name} {seed} {name:14} {live[-1]}", flush=True)
            known["played"] = {
                "kafka": KAFKA_VERSION,
                "date": datetime.now(UTC).date().isoformat(),
            }
            _keep(kind, known)


def _variants(
    kind: str, scenario: Scenario, known: Mapping[str, Any]
) -> dict[str, tuple[str, Scenario]]:
    """Return cluster and scenario of each variant by name."""
    if kind == "assignors":
        return {name: (name, scenario) for name in ASSIGNORS}
    changed: Mapping[str, Value] = known["changed"]
    return {DEFAULTS: ("simple", scenario), TUNED: ("simple", turn(scenario, changed))}


def main() -> None:
    """Predict, or play."""
    parser = argparse.ArgumentParser(description="Groups played with a change and without.")
    parser.add_argument("what", choices=("foretell", "play", "again"))
    parser.add_argument("kind", nargs="?", choices=tuple(RUNS))
    options = parser.parse_args()
    for kind in [options.kind] if options.kind else RUNS:
        if options.what == "play":
            play_all(kind)
        elif options.what == "again":
            _keep(kind, simulate_again(kind))
        elif not (FOLDER / f"{kind}.json").exists():
            _keep(kind, foretell(kind))


if __name__ == "__main__":
    main()
