"""Record the scenarios from a real broker, each with Kafka's own answer.

``python -m tools.record.scenarios data/captures/scenarios`` records all of them, which takes
some ten minutes; names after the folder select some. Each is played on a separate broker, so that
a capture has only one group.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from sharelag.inputs.kafka.config import ClientConfig
from sharelag.workbench.capture import capture_kafka
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.jvm import RigError
from tests.support.kafka.workload import end_offsets
from tools.record.stage import Stage
from tools.record.state_tail import STATE_TOPIC
from tools.record.stories import SCENARIOS, Scenario

GROUP_TOPIC = "__consumer_offsets"
_PROPERTIES = {
    # Keep the whole history.
    "share.coordinator.state.topic.prune.interval.ms": "86400000",
    # Compact without delay: only a topic of a scenario rolls its segments in time.
    "log.cleaner.backoff.ms": "500",
}
_TRIES = 5
#: The scenarios compress hours into seconds, so the lock duration is meaningless there.
PATIENCE = timedelta(seconds=2.5)


class Told(NamedTuple):
    """Kafka's description of a group, and the sum of its lags; None if it is unknown."""

    text: str
    lag: int | None


def record(name: str, folder: Path) -> Told:
    """Play a scenario on a separate broker and write the capture to ``folder``, replacing any.

    Raises
    ------
    RigError
        The group's lag is not what the scenario promises, or something was written while Kafka
        described it.
    """
    scenario = SCENARIOS[name]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix=".recording-", dir=folder.parent) as scratch,
        KafkaBroker(properties=_PROPERTIES) as broker,
        Stage(broker.bootstrap_servers, name) as stage,
    ):
        draft = Path(scratch) / folder.name
        scenario.play(stage)
        result = _capture_quietly(broker, stage, draft)
        check(scenario, result)
        story = " ".join((scenario.play.__doc__ or "").split())
        expected = {"group": stage.group, "cause": scenario.cause, "story": story}
        (draft / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
        (draft / "describe.txt").write_text(result.text)
        if folder.exists():
            shutil.rmtree(folder)
        draft.rename(folder)
    return result


def tell(broker: KafkaBroker, stage: Stage) -> Told:
    """Have Kafka describe the group of a stage."""
    text = broker.share_groups_describe(stage.group)
    lags = [row["lag"] for row in parse_describe(text)]
    known = [lag for lag in lags if lag is not None]
    return Told(text, sum(known) if known else None)


def check(scenario: Scenario, result: Told) -> None:
    """Check that the group's lag is as the scenario promises.

    Raises
    ------
    RigError
        It does not.
    """
    if not (result.lag is None if scenario.lag is None else result.lag in scenario.lag):
        raise RigError(
            f"{scenario.play.__name__}: expected the lag {scenario.lag}, "
            f"but Kafka says:\n{result.text}"
        )


def _capture_quietly(broker: KafkaBroker, stage: Stage, folder: Path) -> Told:
    """Capture, then describe; again if anything was written meanwhile."""
    for _ in range(_TRIES):
        before = _ends(broker, stage)
        config = ClientConfig({"bootstrap.servers": broker.bootstrap_servers})
        capture_kafka(config, folder, patience=PATIENCE)
        result = tell(broker, stage)
        if _ends(broker, stage) == before:
            return result
        shutil.rmtree(folder)
    raise RigError(f"something was written each of {_TRIES} times that a capture was taken")


def _ends(broker: KafkaBroker, stage: Stage) -> dict[tuple[str, int], int]:
    return end_offsets(broker.bootstrap_servers, [STATE_TOPIC, GROUP_TOPIC, stage.topic])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Record scenarios from a real broker.")
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"all, or of: {', '.join(SCENARIOS)}"
    )
    options = parser.parse_args()
    for scenario_name in options.names or SCENARIOS:
        begun = time.monotonic()
        outcome = record(scenario_name, options.folder / scenario_name)
        print(f"{scenario_name:18} lag {outcome.lag!s:>5} {time.monotonic() - begun:6.1f} s")
