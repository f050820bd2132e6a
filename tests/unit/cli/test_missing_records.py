"""Files that lack records: commands answer with what is there, and say what is not."""

import json
import shutil
from itertools import groupby, product
from operator import itemgetter
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import sharelag as package
from sharelag import schemas
from sharelag.errors import InputError, NoLeaderError
from sharelag.inputs.recorded import folder_of
from sharelag.model import SharePartition, topic_id_text
from sharelag.wire import GROUP_TOPIC, SHARE_SNAPSHOT, STATE_TOPIC, encode_record, state_partition
from tests.support.captures import with_newer_groups
from tests.support.cases import few_of
from tests.support.command import ask, refused, rows_of, sharelag
from tests.support.log_directory import batch
from tests.support.records import row, with_column

DATA = Path("tests/data")
STATELESS = "the state of 1 share partition that their groups have initialized"


@pytest.fixture
def part(tmp_path: Path) -> str:
    """Raw records without one of two state partitions."""
    shutil.copytree(DATA / "partitioned-by-topic" / "raw", tmp_path / "raw")
    shutil.rmtree(tmp_path / "raw" / f"topic={STATE_TOPIC}" / "partition=3")
    return str(tmp_path / "raw")


def _records() -> pa.Table:
    return pq.read_table(folder_of("poison") / "records").cast(schemas.RAW)


@pytest.mark.parametrize("command", [["windows"], ["lag"], ["lag", "--brief"]])
def test_a_state_that_is_nowhere_makes_the_answer_partial(part: str, command: list[str]) -> None:
    done = sharelag(*command, "--raw", part, "--engine", "local", code=3)
    assert f"INCOMPLETE: not known: {STATELESS}" in done.stdout.splitlines()[-1]
    assert STATELESS not in done.stderr  # it is said once
    done = sharelag(*command, "--raw", part, "--engine", "local", "-o", "json", code=3)
    (row,) = rows_of(done)
    assert (row["complete"], row["partition"]) == (False, 1)
    assert "unread_state_partitions" not in row


def test_a_sum_without_some_of_its_parts_is_refused(part: str) -> None:
    done = sharelag("lag", "--by", "group", "--raw", part, "--engine", "local")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"the sum lacks {STATELESS}" in done.stderr
    for command in ("explain", "progress"):
        done = sharelag(command, "--raw", part, "--engine", "local", code=3)
        assert f"INCOMPLETE: not known: {STATELESS}" in done.stdout


@pytest.mark.parametrize(
    ("unit", "words"), [(1, "are seconds"), (10**6, "are missing, or beyond the year 9999")]
)
def test_times_in_another_unit_make_the_answer_partial(
    unit: int, words: str, tmp_path: Path
) -> None:
    seconds = pc.divide(_records()["timestamp"].cast(pa.int64()), 1000)
    times = pc.multiply(seconds, unit).cast(pa.timestamp("ms", "UTC"))
    raw = tmp_path / "raw.parquet"
    pq.write_table(with_column(_records(), "timestamp", times), raw)
    for one in rows_of(sharelag("progress", "--raw", str(raw), "-o", "json", code=3)):
        assert (one["complete"], one["completion_rate"]) == (False, None)
    for command in (["history"], ["history", "--events"], ["history", "--every", "1h"]):
        done = sharelag(*command, "--raw", str(raw), code=3)
        assert f"timestamps {words}" in done.stdout
    for command in (["windows"], ["lag", "--by", "group"]):  # need no times
        sharelag(*command, "--raw", str(raw))


@pytest.mark.parametrize("brief", [False, True])
def test_offsets_that_are_missing_make_the_answer_partial(tmp_path: Path, brief: bool) -> None:
    records = _records()
    state = records.filter(pc.equal(records.column("topic"), STATE_TOPIC))
    places = state.select(["partition", "offset"]).to_pylist()
    kept = [row for row, place in enumerate(places) if place["offset"] not in (5, 6, 9)]
    pq.write_table(state.take(kept), tmp_path / "raw.parquet")
    command = ["lag", "--raw", str(tmp_path / "raw.parquet"), *(["--brief"] if brief else [])]
    done = sharelag(*command, "--engine", "local", code=3)
    assert "in 4 places of the state topic, whose records are missing" in done.stdout


@pytest.mark.parametrize("command", [["windows"], ["lag"], ["lag", "--brief"]])
@pytest.mark.parametrize(("bad", "is_partial"), [(1, False), (3, True)])
def test_many_rejects(command: list[str], bad: int, is_partial: bool, tmp_path: Path) -> None:
    state = _records().filter(pc.equal(_records().column("topic"), STATE_TOPIC))
    times = 150 // state.num_rows + 1  # the same records of more share partitions
    last = pc.max(state.column("offset")).as_py() + 1
    more = [
        state.set_column(4, "offset", pc.add(state.column("offset"), last * n)).set_column(
            0, "key", pc.replace_substring(state.column("key"), b"poison", f"pois{n:02}".encode())
        )
        for n in range(times)
    ]
    rejects = state.slice(0, bad)
    numbers = pa.array(range(last * times, last * times + bad), pa.int64())
    rejects = rejects.set_column(4, "offset", numbers)
    rejects = rejects.set_column(0, "key", pa.array([b"\x00"] * bad, pa.binary()))
    pq.write_table(pa.concat_tables([*more, rejects]), tmp_path / "raw.parquet")
    arguments = [*command, "--raw", str(tmp_path / "raw.parquet"), "--engine", "local"]
    done = sharelag(*arguments, "-o", "json")
    marks = {json.loads(line).get("complete") for line in done.stdout.splitlines()}
    said = f"{bad} record{'s' * (bad > 1)} that could not be decoded"
    assert done.stderr.count(said) == 1
    how = "this answer is not complete: it lacks " if is_partial else "not known: "
    assert f"{how}{said}" in done.stderr
    if is_partial:
        assert (done.returncode, marks) == (3, {False})


def _with_rejects(path: Path, rejects: int | None) -> str:
    """Records of Kafka 4.4 of which some, or all, have a key that is cut off."""
    rows = pq.read_table(DATA / "kafka-4.4" / "both-gaps.parquet")
    state = rows.filter(pc.equal(rows.column("topic"), STATE_TOPIC))
    rows = rows if rejects is not None else state
    is_state = pc.equal(rows.column("topic"), STATE_TOPIC).to_pylist()
    left = state.num_rows if rejects is None else rejects
    keys = rows.column("key").to_pylist()
    for place in [n for n, one in enumerate(is_state) if one][:left]:
        keys[place] = b"\x00"
    pq.write_table(rows.set_column(0, "key", pa.array(keys, pa.binary())), path)
    return str(path)


QUEUE = ("--queue", str(DATA / "kafka-4.4" / "queue-dlq.gaps-gaps.parquet"))
FROM_RECORDS = [
    "lag", "lag --brief", "windows", "windows --since 2h", "explain", "progress", "groups",
    "members", "history", "history --events", "imbalance", "imbalance --verdict", "settings",
    "health", "health --findings", "health --snapshots", "reconcile", "brokers", "dlq",
    "plan-reset --group gaps --to-earliest", "plan-delete --group gaps",
]  # fmt: skip

#: One of those that each way of printing an answer has: a table, sentences, and many tables.
FOR_PEOPLE = ("lag", "explain", "history --events", "health --findings", "settings", "groups")


@pytest.mark.parametrize("command", FROM_RECORDS)
def test_every_answer_from_records_is_partial_without_many(command: str, tmp_path: Path) -> None:
    name, *options = command.split()
    options += QUEUE if name == "dlq" else ()
    raw = ("--raw", _with_rejects(tmp_path / "raw.parquet", 16), "--engine", "local")
    said = "16 records that could not be decoded; `sharelag decode` shows them"
    done = sharelag(name, *options, *raw, "-o", "json", code=3)
    rows = rows_of(done)
    assert {row["complete"] for row in rows} <= {False}
    # Nothing happened, nothing stands.
    assert rows or command in ("history --events", "explain", "members")
    assert f"this answer is not complete: it lacks {said}" in done.stderr
    assert done.stderr.count("could not be decoded") == 1
    if command not in FOR_PEOPLE:
        return
    people = sharelag(name, *options, *raw, code=3)
    assert f"INCOMPLETE: not known: {said}" in people.stdout
    assert (people.stdout + people.stderr).count("could not be decoded") == 1


# Of one group's few records a reject is a large part.
@pytest.mark.parametrize(
    "command",
    few_of(
        (one for one in FROM_RECORDS if "--group" not in one), ["lag", "lag --brief", "explain"]
    ),
)
def test_a_few_rejects_are_a_note(command: str, tmp_path: Path) -> None:
    name, *options = command.split()
    options += QUEUE if name == "dlq" else ()
    raw = ("--raw", _with_rejects(tmp_path / "raw.parquet", 1), "--engine", "local")
    done = sharelag(name, *options, *raw)
    told = "not known: 1 record that could not be decoded; `sharelag decode` shows it"
    assert f"sharelag: {told}" in done.stderr
    assert done.stderr.count("could not be decoded") == 1
    assert "INCOMPLETE: not known: 1 record" not in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        *("lag", "lag --topic gaps", "lag --group gaps", "lag --group gaps --topic gaps"),
        *("lag --group gaps --as-of 2030-01-01T00:00:00Z", "windows --group gaps"),
        *("explain --group gaps", "members --group gaps", "history --group gaps"),
        *("dlq --group gaps", "plan-reset --group gaps --to-earliest"),
        "plan-delete --group gaps",
    ],
)
def test_without_one_decoded_record_no_spelling_is_to_blame(command: str, tmp_path: Path) -> None:
    raw = _with_rejects(tmp_path / "raw.parquet", None)
    told = "309 records could not be decoded, and there are no others: `sharelag decode` shows them"
    name, *options = command.split()
    options += QUEUE if name == "dlq" else ()
    assert refused(name, *options, "--raw", raw, "--engine", "local") == f"sharelag: {told}\n"
    with pytest.raises(InputError, match=told):
        package.open(raw, engine="local").lag("gaps")


def test_a_misspelt_group_beside_rejects_is_still_named(tmp_path: Path) -> None:
    raw = _with_rejects(tmp_path / "raw.parquet", 16)
    done = sharelag("lag", "--raw", raw, "--engine", "local", "--group", "gips")
    assert "did you mean 'gaps'?" in done.stderr
    bench = package.open(raw, engine="local", groups="gips")
    with pytest.raises(InputError, match="did you mean 'gaps'"):
        bench.lag("gips")


def test_whole_files_are_no_partial_answer_and_nobody_can_tell(tmp_path: Path) -> None:
    pq.write_table(_records(), tmp_path / "raw.parquet")
    done = sharelag("windows", "--raw", str(tmp_path / "raw.parquet"), "--engine", "local", code=0)
    assert "it is not known whether they are all" in done.stderr
    assert "INCOMPLETE" not in done.stdout


def test_group_records_that_cannot_be_decoded_are_no_deleted_groups(tmp_path: Path) -> None:
    capture = str(with_newer_groups(folder_of("no_members"), tmp_path / "newer"))
    asked = ("--capture", capture, "--engine", "local")
    said = "records of groups and members that could not be decoded; `sharelag decode --records"
    (row,) = ask("groups", *asked, code=3)
    assert (row["state"], row["members"], row["complete"]) == (None, None, False)
    for command in ("groups", "members", "explain", "progress", "imbalance"):
        done = sharelag(command, *asked, code=3)
        assert (done.stdout + done.stderr).count(said) == 1, command
        assert "INCOMPLETE: not known: " in done.stdout
        assert "0 members" not in done.stderr
        assert "no records of __consumer_offsets were read" not in done.stderr
    ask("lag", *asked, code=0)  # which rests on none of them
    rules = tmp_path / "rules.yaml"
    for measure, code in (("lag", 0), ("age", 3)):
        rules.write_text(f"version: 1\nrules: [{{name: r, measure: {measure}, warn: 999d}}]")
        if measure == "lag":
            rules.write_text("version: 1\nrules: [{name: r, measure: lag, warn: 99999999}]")
        done = sharelag("check", "--rules", str(rules), *asked, code=code)
        assert (said in done.stdout) == bool(code)
    bench = package.open(capture, engine="local")
    assert any(said in one for one in bench.overview().unknown)


def test_one_brokers_folder_tells_nothing_of_groups_that_are_elsewhere(tmp_path: Path) -> None:
    """A folder with all states may lack partitions of the groups' topic, as others lead those."""
    for name in ("d1", "d2"):
        shutil.copytree(DATA / "two-log-dirs" / name, tmp_path / name)
    folders = ("--segments", f"{tmp_path / 'd1'},{tmp_path / 'd2'}", "--engine", "local")
    before = {row["group_id"]: row["state"] for row in ask("groups", *folders)}
    assert before["billing"] == "Empty"
    for place in tmp_path.glob("*/__consumer_offsets-*"):
        if b"billing" in b"".join(log.read_bytes() for log in place.glob("*.log")):
            shutil.rmtree(place)
    after = {row["group_id"]: row["state"] for row in ask("groups", *folders)}
    assert after["billing"] is None
    assert "Dead" not in after.values()
    said = "the state of {} group{} without group records: deleted, or of records that are not here"
    lost = sum(state is None for state in after.values())
    done = sharelag("members", *folders, code=0)
    assert f"not known: {said.format(lost, 's' * (lost > 1))}" in done.stderr
    assert "0 members" not in done.stderr


def test_repeats_are_told_by_every_command() -> None:
    raw = str(DATA / "records-twice" / "raw")
    for command in ("windows", "lag", "health", "progress", "explain", "history", "members"):
        done = sharelag(command, "--raw", raw, "--engine", "local", "-o", "json", code=0)
        assert "31 records repeat another one; each counts once" in done.stderr, command
        rows = rows_of(done)
        assert rows or command == "explain"  # nothing is wrong
        assert {row["repeated_records"] for row in rows} <= {31}, command
    done = sharelag("decode", "--raw", raw, "--records", "state")
    assert len(done.stdout.splitlines()) == 67


@pytest.fixture
def broker(tmp_path: Path) -> str:
    """A broker's log directory with state partitions 2 and 3, but not 0 and 1."""
    records = _records()
    for topic in (STATE_TOPIC, GROUP_TOPIC):
        mine = records.filter(pc.equal(records.column("topic"), topic))
        for number in pc.unique(mine.column("partition")).to_pylist():
            place = tmp_path / "broker" / f"{topic}-{number}"
            place.mkdir(parents=True)
            rows = mine.filter(pc.equal(mine.column("partition"), number)).sort_by("offset")
            columns = (rows.column(name).to_pylist() for name in ("offset", "key", "value"))
            log = b"".join(batch([one]) for one in zip(*columns, strict=True))
            (place / "00000000000000000000.log").write_bytes(log)
    return str(tmp_path / "broker")


def test_a_brokers_folder_without_some_state_partitions(broker: str) -> None:
    done = sharelag("windows", "--segments", broker, "--engine", "local", "-o", "json", code=3)
    rows = rows_of(done)
    assert len(rows) == 2
    assert all(row["unread_state_partitions"] == [0, 1] for row in rows)
    words = f"lacks partitions 0, 1 of {STATE_TOPIC}, which has at least 4 partitions, judging by"
    assert words in done.stderr
    done = sharelag("lag", "--segments", broker, "--engine", "local", code=3)
    assert "INCOMPLETE: share partitions whose state is in state partitions 0, 1" in done.stdout
    for command in ("explain", "health", "history", "lag --by group"):
        done = sharelag(*command.split(), "--segments", broker, "--engine", "local")
        assert (done.returncode, done.stdout) == (3, ""), command
    with pytest.raises(NoLeaderError, match="lacks partitions 0, 1"):
        package.open(broker, engine="local").lag()
    for number in (0, 1):
        (Path(broker) / f"{STATE_TOPIC}-{number}").mkdir()
    assert sharelag("windows", "--segments", broker, "--engine", "local").returncode == 0


# ---- a log directory that lacks the last state partitions ----------------------------------------
#: Groups and topics of share partitions, and how many partitions each topic has.
KEYS = [
    (group, topic_id_text(uuid5(NAMESPACE_URL, f"topic {n}").bytes), partition)
    for n in range(250)
    for group in ("billing", f"group-{n}")
    for partition in range(2)
]


def _state(*sizes: int) -> pa.Table:
    """A snapshot of each of `KEYS` where Kafka writes it, for each size that the topic had."""
    rows: list[dict[str, Any]] = []
    for partitions, (group, topic_id, partition) in product(sizes, KEYS):
        of = {"group_id": group, "topic_id": topic_id, "partition": partition}
        of["create_timestamp"] = partitions
        key, value = encode_record(SHARE_SNAPSHOT, row(5, [], **of))
        place = state_partition(SharePartition(group, topic_id, partition), partitions)
        rows.append({"key": key, "value": value, "topic": STATE_TOPIC, "partition": place})
    rows.sort(key=itemgetter("partition"))
    placed = [
        row | {"offset": offset}
        for _, mine in groupby(rows, itemgetter("partition"))
        for offset, row in enumerate(mine)
    ]
    return pa.Table.from_pylist(placed, schema=schemas.RAW)


def _directory(folder: Path, partitions: int, there: range) -> str:
    """Write a log directory with some of the state partitions."""
    rows = _state(partitions).to_pylist()
    for number in there:
        place = folder / f"{STATE_TOPIC}-{number}"
        place.mkdir(parents=True)
        mine = [row for row in rows if row["partition"] == number]
        log = b"".join(batch([(row["offset"], row["key"], row["value"])]) for row in mine)
        (place / "00000000000000000000.log").write_bytes(log)
    return str(folder)


def test_a_folder_that_ends_before_its_last_state_partition(tmp_path: Path) -> None:
    """Partitions 0 to 3 of 50 are no whole topic, though none is missing between them."""
    folder = _directory(tmp_path / "part", 50, range(4))
    done = sharelag("lag", "--segments", folder, "--engine", "local", "-o", "json", code=3)
    lacks = f"lacks partitions 4-49 of {STATE_TOPIC}, which has 50 partitions, judging by the"
    assert lacks in done.stderr
    assert "give --segments for each directory" in done.stderr
    rows = rows_of(done)
    assert 0 < len(rows) < len(KEYS)
    assert all(row["unread_state_partitions"] == list(range(4, 50)) for row in rows)
    done = sharelag("windows", "--segments", folder, "--engine", "local")
    assert "whose state is in state partitions 4-49 are missing" in done.stdout
    for command in ("explain", "history", "health"):
        done = sharelag(command, "--segments", folder, "--engine", "local")
        assert (done.returncode, done.stdout) == (3, ""), command
    # Those of one group are as incomplete.
    done = sharelag("lag", "--segments", folder, "--group", "billing", "--engine", "local", code=3)


@pytest.mark.parametrize("partitions", [1, 4, 8, 50])
def test_whole_folders_are_not_said_to_lack_any(tmp_path: Path, partitions: int) -> None:
    folder = _directory(tmp_path / "whole", partitions, range(partitions))
    done = sharelag("windows", "--segments", folder, "--engine", "local", "-o", "json")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, len(KEYS)), done.stderr


@pytest.mark.parametrize("command", [["windows"], ["lag"], ["lag", "--brief"]])
def test_raw_records_of_a_few_state_partitions(tmp_path: Path, command: list[str]) -> None:
    whole = _state(50)
    some = whole.filter(pc.less(whole.column("partition"), 4))
    for name, rows, code in (("whole", whole, 0), ("some", some, 3)):
        file = tmp_path / f"{name}.parquet"
        pq.write_table(rows, file)
        done = sharelag(*command, "--raw", str(file), "--engine", "local", "-o", "json", code=code)
        rows = rows_of(done)
        assert {row.get("complete", True) for row in rows} == {code == 0}
    assert "partitions 4-49 of the state topic, which has 50 partitions" in done.stderr


@pytest.mark.parametrize("command", ["lag", "windows", "progress", "explain"])
def test_a_topic_that_grew_lacks_the_same_in_every_answer(tmp_path: Path, command: str) -> None:
    grown = _state(4, 8)
    some = grown.filter(pc.not_equal(pc.bit_wise_and(grown.column("partition"), 3), 3))
    for rows, lacks in ((grown, False), (some, True)):
        pq.write_table(rows, tmp_path / "raw.parquet")
        done = sharelag(command, "--raw", str(tmp_path / "raw.parquet"), "--engine", "local")
        said = "partitions 3, 7 of the state topic, which has 8 partitions"
        assert (said in done.stdout + done.stderr) is lacks, done.stderr
        count = f"{pc.count_distinct(rows.column('key')).as_py():,} share partitions, "
        assert command in ("progress", "explain") or count in done.stderr


def test_checks_and_causes_of_a_few_state_partitions_are_not_known(tmp_path: Path) -> None:
    whole = _state(50)
    pq.write_table(whole, tmp_path / "whole.parquet")
    pq.write_table(whole.filter(pc.less(whole.column("partition"), 4)), tmp_path / "some.parquet")
    rules = tmp_path / "rules.yaml"
    for rule in ("measure: lag, warn: 1, unknown: ok", "measure: poison, warn: 1, unknown: ok"):
        rules.write_text(f"version: 1\nrules: [{{name: r, {rule}}}]")
        for name, code in (("whole", 0), ("some", 3)):
            raw = ("--raw", str(tmp_path / f"{name}.parquet"), "--engine", "local")
            done = sharelag("check", "--rules", str(rules), *raw, code=code)
        assert "not known: what is in partitions 4-49 of the state topic" in done.stdout
    done = sharelag("explain", "--raw", str(tmp_path / "some.parquet"), "--engine", "local", code=3)
    assert "INCOMPLETE: not known: what is in partitions 4-49 of the state topic" in done.stdout


# ---- a broker with several log directories -------------------------------------------------------
#: Eight state partitions, four in each.
DIRECTORIES = [str(DATA / "two-log-dirs" / name) for name in ("d1", "d2")]


def _rows(*arguments: str) -> list[dict[str, Any]]:
    return ask("lag", *arguments, "--engine", "local")


@pytest.mark.parametrize("order", [1, -1])
def test_all_log_directories_of_a_broker_are_one_input(order: int) -> None:
    first, second = DIRECTORIES[::order]
    rows = _rows("--segments", first, "--segments", second)
    assert (len(rows), _rows("--segments", f"{first},{second}")) == (10, rows)
    assert sum(row["lag"] for row in rows if row["group_id"] == "billing") == 80
    rows_by_group = _rows("--segments", first, "--segments", second, "--by", "group")
    (billing,) = [row for row in rows_by_group if row["group_id"] == "billing"]
    assert billing["lag"] == 80
    bench = package.open(f"{first},{second}", engine="local")
    assert len(bench.lag()) == 10
    assert sorted(bench.groups) == sorted({row["group_id"] for row in rows})


@pytest.mark.parametrize("folder", DIRECTORIES)
def test_one_log_directory_of_several_is_a_partial_answer(folder: str) -> None:
    done = sharelag("lag", "--segments", folder, "--engine", "local", "-o", "json", code=3)
    assert "give --segments for each directory" in done.stderr
    rows = rows_of(done)
    assert 0 < len(rows) < 10
    assert all(row["unread_state_partitions"] for row in rows)
    for by in ("group", "topic"):
        done = sharelag("lag", "--segments", folder, "--by", by, "--engine", "local")
        assert (done.returncode, done.stdout) == (3, "")


def test_log_directories_of_two_brokers_are_refused(tmp_path: Path) -> None:
    first, second = DIRECTORIES
    replica = Path(second) / f"{STATE_TOPIC}-0"
    shutil.copytree(first, tmp_path / "other")
    shutil.copytree(replica, tmp_path / "other" / replica.name)
    said = refused("lag", "--segments", str(tmp_path / "other"), "--segments", second)
    assert f"both have {STATE_TOPIC}-0: give the log directories of one broker" in said


def test_a_log_directory_without_state_goes_with_one_that_has_it(tmp_path: Path) -> None:
    """Kafka deals partitions out by their number: a small disk may have none of the state."""
    first, second = (tmp_path / name for name in ("first", "topics"))
    shutil.copytree(DIRECTORIES[0], first)
    second.mkdir()
    for checkpoint in first.glob("*-checkpoint"):
        shutil.copy2(checkpoint, second)  # with its time, which is the moment
    for place in first.glob("orders-*"):
        shutil.move(place, second)
    three = (str(first), str(second), DIRECTORIES[1])
    rows = _rows(*(word for folder in three for word in ("--segments", folder)))
    assert rows == _rows("--segments", ",".join(DIRECTORIES))


@pytest.mark.parametrize(
    ("given", "instead"),
    [
        ("two-log-dirs", f"the log directories below it, {','.join(DIRECTORIES)}"),
        (
            "two-log-dirs/d1/orders-0",
            f"it is one itself: give the log directory that has it, {DIRECTORIES[0]}",
        ),
        ("texts", "give a broker's log directory, with topic-0/"),
    ],
)
def test_a_folder_above_or_below_log_directories_is_refused(given: str, instead: str) -> None:
    said = refused("lag", "--segments", str(DATA / given))
    assert "has no topic partitions" in said
    assert instead in said
