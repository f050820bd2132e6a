"""How many partitions the state topic has, by the keys of those that are there."""

from random import Random

import numpy as np
import pyarrow as pa
import pytest

from sharelag.schemas import SHARE_PARTITION
from sharelag.tables.arrow import keys as texts
from sharelag.wire import STATE_TOPIC
from sharelag.wire.placement import abs_hashes, missing_partitions

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

#: Where share partitions are stored.
PLACES = [*SHARE_PARTITION, "record_topic", "record_partition"]


def stored(random: Random, topics: int, partitions: int) -> pa.Table:
    """Return `PLACES` of the share partitions of some groups, in a topic of so many partitions."""
    names = ["g", "order-", "billing"]
    groups = [f"{random.choice(names)}{n}" for n in range(random.choice([1, 4]))]
    width = random.choice([1, 2, 12, 40])
    ids = ["".join(random.choices(LETTERS, k=22)) for _ in range(topics)]
    rows = [(group, topic, p) for group in groups for topic in ids for p in range(width)]
    table = pa.table(dict(zip(SHARE_PARTITION, map(list, zip(*rows, strict=True)), strict=True)))
    place = abs_hashes(texts(table, SHARE_PARTITION)) % partitions
    columns = {"record_topic": pa.repeat(STATE_TOPIC, len(table)), "record_partition": place}
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column))
    return table.select(PLACES)


def within(table: pa.Table, there: range) -> pa.Table:
    return table.filter(np.isin(table.column("record_partition").to_numpy(), there))


@pytest.mark.parametrize("partitions", [1, 2, 3, 4, 5, 10, 16, 31, 32, 50, 64, 100])
def test_a_whole_topic_is_never_said_to_lack_partitions(partitions: int) -> None:
    random = Random(partitions)
    for topics in [1, 1, 1, 2, 2, 3, 5, 10, 20, 30] * 2:
        table = stored(random, topics, partitions)
        assert missing_partitions(table, set(range(partitions))) is None
        assert missing_partitions(table) is None


@pytest.mark.parametrize(("partitions", "there"), [(50, 4), (50, 5), (50, 10), (32, 8), (60, 7)])
def test_what_is_missing_is_a_part_of_what_is_not_there(partitions: int, there: int) -> None:
    random = Random(there)
    found = {True: 0, False: 0}
    for topics in (1, 2, 5, 20, 250, 250):
        table = within(stored(random, topics, partitions), range(there))
        for is_listed in found:
            told = missing_partitions(table, set(range(there)) if is_listed else None)
            if told is not None:
                assert partitions in told.possible
                assert told.missing <= set(range(there, partitions))
                found[is_listed] += told.possible == (partitions,)
    assert min(found.values()) > 1


def test_folders_without_records_are_there() -> None:
    table = within(stored(Random(1), 250, 50), range(4))
    told = missing_partitions(table, set(range(40)))
    assert told is not None
    assert (told.words, told.missing) == ("50 partitions", frozenset(range(40, 50)))
    assert missing_partitions(table, set(range(50))) is None


def test_a_state_where_kafka_would_not_put_it_leaves_all_unknown() -> None:
    table = within(stored(Random(1), 250, 50), range(4))
    moved = pa.array([(table.column("record_partition")[0].as_py() + 1) % 4])
    wrong = table.slice(0, 1).set_column(4, "record_partition", moved)
    assert missing_partitions(pa.concat_tables([table, wrong]), set(range(4))) is None
    assert missing_partitions(table.slice(0, 0), {0}) is None


def test_of_one_key_many_numbers_are_possible() -> None:
    table = pa.table([["billing"], ["A" * 22], [0], [STATE_TOPIC], [0]], names=PLACES)
    (number,) = abs_hashes(texts(table, SHARE_PARTITION)).tolist()
    folders = set(range(next(n for n in range(2, 1000) if number % n)))
    told = missing_partitions(table, folders)
    assert told is None or told.words.startswith("at least ")
