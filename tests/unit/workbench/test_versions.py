"""An input's version of Kafka decides where versions differ, and is found out only there."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sharelag
from sharelag import schemas
from sharelag.errors import InputError
from sharelag.replay import replay_arrow
from sharelag.wire import SHARE_SNAPSHOT, SHARE_UPDATE, decode_arrow, encode_record
from tests.support.records import decode, raw, row
from tests.support.written_input import WrittenInput

#: Archived 1, released 2, archived 3, then 2 archived: as a coordinator wrote them.
SEAM = Path(__file__).parents[2] / "data" / "kafka-4.4" / "equal-neighbours.parquet"
APART, JOINED = [[1, 1, 4, 2], [2, 3, 4, 2]], [[1, 3, 4, 2]]


class Cluster(WrittenInput):
    """Records of brokers that tell their version to who asks."""

    def __init__(self, records: pa.RecordBatch, release: str | None) -> None:
        super().__init__([])
        self.records, self.release = records, release
        self.told: list[str | None] = []

    @property
    def kafka_version(self) -> Callable[[], str | None]:
        return self._tell

    def _tell(self) -> str | None:
        self.told.append(self.release)
        return self.release

    def batches(self, topic: str) -> Iterator[pa.RecordBatch]:
        yield self.records


def batches_of(source: Cluster) -> list[list[int]]:
    with sharelag.open(source, engine="local") as bench:
        (batches,) = bench.windows().table.column("batches").to_pylist()
    return [list(batch.values()) for batch in batches]


@pytest.mark.parametrize(("release", "expected"), [("4.3", APART), ("4.4", JOINED), (None, JOINED)])
def test_boundaries_are_the_releases(release: str | None, expected: list[list[int]]) -> None:
    (batch,) = pq.read_table(SEAM).cast(schemas.RAW).combine_chunks().to_batches()
    source = Cluster(batch, release)
    assert (batches_of(source), set(source.told)) == (expected, {release})


def test_a_cluster_is_not_asked_where_all_versions_agree() -> None:
    source = Cluster(raw([encode_record(SHARE_SNAPSHOT, row(0, [(0, 4, 2, 1)]))]), "4.3")
    assert (batches_of(source), source.told) == ([[0, 4, 2, 1]], [])


@pytest.mark.parametrize(("release", "expected"), [("4.3", 5), ("4.4", 0), (None, 0)])
def test_a_negative_number_of_tags_is_read_by_release(release: str | None, expected: int) -> None:
    snapshot = encode_record(SHARE_SNAPSHOT, row(0, [(0, 9, 0, 1)]))
    key, value = encode_record(SHARE_UPDATE, row(5, [], delivery_complete_count=None))
    assert value is not None
    assert value[-1] == 0
    source = Cluster(raw([snapshot, (key, value[:-1] + b"\xff\xff\xff\xff\x0f")]), release)
    with sharelag.open(source, engine="local") as bench:
        (start,) = bench.windows().table.column("start_offset").to_pylist()
    assert (start, set(source.told)) == (expected, {release})


def test_a_list_that_nothing_was_merged_into_is_held_as_it_was_written() -> None:
    batches = [(1, 1, 4, 2), (2, 3, 4, 2)]
    snapshot = encode_record(SHARE_SNAPSHOT, row(0, batches))
    update = encode_record(SHARE_UPDATE, row(-1, []))
    for version in ("4.3.1", "4.4", None):
        (written,) = replay_arrow(decode([snapshot]), version).column("batches").to_pylist()
        assert [tuple(batch.values()) for batch in written] == batches
        (merged,) = replay_arrow(decode([snapshot, update]), version).column("batches").to_pylist()
        assert [tuple(batch.values()) for batch in merged] == [(1, 3, 4, 2)]


def test_a_text_that_is_no_version_is_refused_before_anything_depends_on_it() -> None:
    plain = raw([encode_record(SHARE_SNAPSHOT, row(0, []))])
    for wrong in ("newest", 4.4):
        with pytest.raises(InputError, match=f"{wrong!r} is not a version of Kafka"):
            decode_arrow(plain, kafka_version=wrong)  # type: ignore[arg-type]  # a number is wrong
    with pytest.raises(InputError, match="'newest' is not a version of Kafka"):
        replay_arrow(decode_arrow(plain).records, "newest")
