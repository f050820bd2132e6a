"""Do windows that go on from batch to batch equal those of all records together?"""

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sharelag import schemas
from sharelag.compiled import compile_kernel
from sharelag.model import StateBatch
from sharelag.replay import replay_arrow, state
from sharelag.replay.kernels import replay_rows
from sharelag.replay.moment import filter_groups, up_to
from sharelag.replay.state import RunningStates, latest_windows, replay_at
from sharelag.wire import GROUP_TOPIC, STATE_KINDS, STATE_TOPIC, decode_arrow, decode_columns
from tests.support import generators
from tests.support.cases import Cases
from tests.support.records import raw, state_records


def replayed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return replay_arrow(decode_arrow(batch).records)


def cut(batch: pa.RecordBatch, random: Random) -> list[pa.RecordBatch]:
    places = sorted(random.choices(range(batch.num_rows + 1), k=random.randrange(6)))
    ends = zip([0, *places], [*places, batch.num_rows], strict=True)
    return [batch.slice(begin, end - begin) for begin, end in ends]


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where the records become tables after all."""

    def refuse(*_: object) -> None:
        raise AssertionError("tables")

    monkeypatch.setattr(state, "is_worth_it", lambda *_, **__: True)
    monkeypatch.setattr(state, "_by_tables", refuse)


@pytest.mark.usefixtures("streamed")
def test_random_records_cut_anywhere_give_the_same_windows() -> None:
    for seed in range(60):
        random = Random(seed)
        batch = raw(generators.sequence(random, keys=5, length=80))
        found = latest_windows(cut(batch, random))
        assert found.windows.equals(replayed(batch))
        assert found.records + found.rejected == batch.num_rows


@pytest.mark.usefixtures("streamed")
def test_long_lists_grow_and_move_on_from_batch_to_batch() -> None:
    for seed in range(60):
        random = Random(f"ordered {seed}")
        batch = raw(state_records(generators.ordered_sequence(random)))
        assert latest_windows(cut(batch, random)).windows.equals(replayed(batch))


@pytest.mark.usefixtures("streamed")
def test_recorded_clusters_have_the_same_windows() -> None:
    captures = Path(__file__).parents[3] / "data" / "captures"
    random, found = Random("captures"), 0
    for path in captures.glob("**/records/*.parquet"):
        (batch,) = pq.read_table(path).cast(schemas.RAW).combine_chunks().to_batches()
        windows = latest_windows(cut(batch, random)).windows
        assert windows.equals(replayed(batch))
        found += windows.num_rows
    assert found


@pytest.mark.usefixtures("streamed")
def test_records_are_chosen_and_counted() -> None:
    batch = raw(generators.sequence(Random("chosen"), keys=4, length=120))
    records = decode_arrow(batch).records
    group = records.column("group_id")[0].as_py()

    def choose(some: schemas.Arrow) -> schemas.Arrow:
        return filter_groups(some, frozenset([group]))

    def until(some: schemas.Arrow) -> schemas.Arrow:
        return up_to(some, {3: 180})

    found = latest_windows([batch.slice(0, 50), batch.slice(50)], choose, until=until)
    chosen = choose(until(records))
    assert found.windows.equals(replay_arrow(chosen))
    assert found.records == chosen.num_rows > 0
    # The times are those of all groups, up to the moment.
    times = until(records).column("timestamp").view(pa.int64()).to_numpy()
    assert (found.first, found.last) == (times.min(), times.max())
    # Neither waits for the compiler once more: both are replayed by one form of the kernel.
    forms: Any = compile_kernel(replay_rows)
    latest_windows([batch])
    known = [*forms.signatures]
    latest_windows([batch], until=until)
    assert forms.signatures == known


@pytest.mark.parametrize("worth_it", [True, False])
def test_version_boundaries(worth_it: bool, monkeypatch: pytest.MonkeyPatch, cases: Cases) -> None:
    monkeypatch.setattr(state, "is_worth_it", lambda *_, **__: worth_it)
    apart = 0
    for seed in range(cases(20, 400)):
        random = Random(f"version {seed}")
        batch = raw(state_records(generators.ordered_sequence(random)))
        records = decode_arrow(batch).records
        last = np.array([batch.num_rows], np.int64)
        found = {}
        for version in ("4.3.1", "4.4"):
            expected = replay_arrow(records, version)
            pieces = cut(batch, random)
            found[version] = latest_windows(pieces, kafka_version=version).windows
            assert found[version].equals(expected)
            then = replay_at(records, last, version).select(expected.schema.names)
            assert then.equals(pa.Table.from_batches([expected]))
        apart += found["4.3.1"] != found["4.4"]
    assert apart > 0


@pytest.mark.parametrize("worth_it", [True, False])
def test_what_is_no_stream_becomes_tables(worth_it: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "is_worth_it", lambda *_, **__: worth_it)
    ordered = raw(generators.sequence(Random(2), keys=2, length=200))
    backward = ordered.take(pa.array(np.arange(len(ordered))[::-1]))
    moved = ordered.set_column(3, "partition", pa.array([n % 2 for n in range(len(ordered))], "i4"))
    topics = pa.array([("eu." if n % 2 else "") + STATE_TOPIC for n in range(len(ordered))])
    mixed = ordered.set_column(2, "topic", topics)
    endless = raw([generators.record(Random(2), STATE_KINDS[n % 2]) for n in range(300)])
    for batch in (ordered, backward, moved, mixed, endless):
        pieces = [batch.slice(0, 70), batch.slice(70)]
        found = latest_windows(pieces)
        assert found.windows.equals(replayed(batch))
        assert found.records == batch.num_rows


def test_no_records_no_windows() -> None:
    assert latest_windows([]).windows.num_rows == 0
    assert latest_windows([raw([(b"", b"")], GROUP_TOPIC)]).windows.num_rows == 0


def test_memory_follows_share_partitions_not_records() -> None:
    states = RunningStates()
    writes = [(-1, [StateBatch(n % 50, n % 50, 2, 1)]) for n in range(2000)]
    sizes = []
    for at in range(0, 2001, 200):
        found = decode_columns(raw(state_records(writes)).slice(at, 200), states.keys)
        states.apply(found, np.arange(len(found.key)))
        sizes.append(states.nbytes)
    assert sizes[0] == sizes[-1]


def test_what_can_be_read_once_alone_is_refused() -> None:
    with pytest.raises(TypeError, match="iterated twice"):
        latest_windows(iter([raw([(b"", b"")], GROUP_TOPIC)]))
