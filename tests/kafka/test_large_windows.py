"""Windows of thousands of runs, and groups of as many members as Kafka allows."""

from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag.inputs.kafka.described import parse_groups
from sharelag.model import StateBatch
from sharelag.replay import replay
from tests.support.command import ask, sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.oracles import Oracle, as_kafka, hexed
from tests.support.kafka.workload import create_topics, share_consumer, wait_until
from tests.support.records import KEY, raw, state_records
from tests.support.reliability import Inject
from tests.support.stopwatch import timed

#: The most offsets that a window may hold: each is a run where no neighbours fare the same.
RUNS = 4_000
#: The most members of a share group, by default.
MEMBERS = 200
_AVAILABLE, _ACKNOWLEDGED = 0, 2


def _written(random: Random) -> list[tuple[int, list[StateBatch]]]:
    """Return what is written of a window of single offsets: every second one is finished."""
    one = [StateBatch(n, n, _ACKNOWLEDGED if n % 2 else _AVAILABLE, 1 + n % 5) for n in range(RUNS)]
    later = [[StateBatch(n, n, _AVAILABLE, 6)] for n in random.sample(range(0, RUNS, 2), 40)]
    return [(0, one), *((-1, batches) for batches in later)]


def test_a_window_of_4000_runs_is_the_coordinators(
    oracle_replayer: Oracle, tmp_path: Path, injected: Inject
) -> None:
    records = state_records(_written(Random("runs")))
    theirs = oracle_replayer.ask(hexed(records))
    assert theirs["loadFailedAt"] is None
    ours = replay([(offset, key, value) for offset, (key, value) in enumerate(records)])
    wrong = int(as_kafka(ours) != theirs["states"])
    (state,) = theirs["states"].values()
    assert len(state["batches"]) == RUNS
    file = tmp_path / "state.parquet"
    pq.write_table(pa.Table.from_batches([raw(records)]), file)
    (row,) = ask("windows --raw", str(file))
    assert (row["group_id"], len(row["batches"]), len(row["runs"])) == (KEY.group_id, RUNS, RUNS)
    drawn = sharelag("windows", "--raw", str(file), "--picture", code=0)
    assert len(drawn.stdout) < 20_000  # for people, whatever the window
    happened = {"states like Kafka's": 1 - wrong}
    injected("load", f"a window of {RUNS:,} runs of one offset", 1, happened, wrong=wrong)
    assert as_kafka(ours) == theirs["states"]


@pytest.mark.exhaustive
def test_200_members_are_those_of_kafkas_command(broker: KafkaBroker, injected: Inject) -> None:
    servers, group = broker.bootstrap_servers, "group-of-200"
    create_topics(servers, {group: 50})
    with ExitStack() as ends:
        each = (share_consumer(servers, group, [group]) for _ in range(MEMBERS))
        consumers = [ends.enter_context(closing(one)) for one in each]

        def have_partitions() -> bool:
            for one in consumers:
                one.poll(0.01)
            rows = ask("members --group", group, at=servers)
            return len(rows) == MEMBERS and all(row["assigned"] for row in rows)

        wait_until(have_partitions, f"{MEMBERS} members have partitions", 300)
        ours, seconds = timed(lambda: ask("members --group", group, at=servers))
        said = broker.share_groups("--describe", "--group", group, "--members", "--verbose")
        (shown,) = ask("groups --group", group, at=servers)
    told, kafkas = (
        {(row["member_id"], row["assigned"]) for row in rows}
        for rows in (ours, parse_groups(said).members.to_pylist())
    )
    assert shown["members"] == len(kafkas) == MEMBERS
    injected(
        "load",
        f"a group of {MEMBERS} members",
        1,
        {"members like Kafka's": len(told & kafkas)},
        wrong=len(told - kafkas),
        measured={"seconds for `sharelag members`": round(seconds, 1)},
    )
    assert told == kafkas
