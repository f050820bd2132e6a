"""`sharelag settings`: what is in force, what Kafka would refuse, and the lint of a consumer."""

import csv
import io
import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import sharelag as package
from sharelag.inputs.recorded import folder_of
from sharelag.metrics.settings import lint_rows
from sharelag.schemas import MEMBER_ROWS
from tests.support.chapters import CAPTURE
from tests.support.command import refused, rows_of, sharelag
from tests.support.records import assert_fields

_LOCK, _LOCK_MAX = "group.share.record.lock.duration.ms", "group.share.record.lock.duration.max.ms"
_SHARE, _ISOLATION = "group.share.", ("read_uncommitted", "read_uncommitted, read_committed")
_SESSION, _HEARTBEAT = "session.timeout.ms", "heartbeat.interval.ms"


def row(name: str) -> pytest.MarkDecorator:
    return pytest.mark.row(name)


def rows(*arguments: str) -> list[dict[str, Any]]:
    answer = sharelag("settings", *arguments, "-o", "json")
    found: list[dict[str, Any]] = rows_of(answer)
    problems = [one["problem"] for one in found if one.get("problem")]
    if "--consumer-config" not in arguments:
        problems = [one for one in problems if not one.startswith("Kafka accepts it, but ")]
    is_check = "--set" in arguments or "--consumer-config" in arguments
    assert answer.returncode == int(is_check and bool(problems))
    return found


def consumer(folder: Path, *properties: str) -> tuple[str, str]:
    file = folder / "consumer.properties"
    file.write_text("\n".join(properties))
    return "--consumer-config", str(file)


def of_draft(name: str, value: object) -> dict[str, Any]:
    """What is said of a value that KIP-932 proposed the setting for."""
    found = rows("--set", f"{name}={value}", "--kafka-version", "draft")
    return {one["name"]: one for one in found}[name]


#: KIP-932: name, default, what it accepts, values that are refused, values that are not.
_DRAFT = [
    ("CFG-02", "group.share.delivery.attempt.limit", "5", "2..10", (1, 11), (2, 5, 10)),
    ("CFG-03", _LOCK, "30000", "1000..60000", (999, 60_001), (1000, 60_000)),
    ("CFG-04", _LOCK_MAX, "60000", "1000..3600000", (999, 3_600_001), (1000, 3_600_000)),
    (
        "CFG-05",
        "group.share.record.lock.partition.limit",
        "200",
        "100..10000",
        (99, 10_001),
        (100,),
    ),
    ("CFG-06", f"group.share.{_SESSION}", "45000", "45000..60000", (44_999, 60_001), (60_000,)),
    ("CFG-07", f"group.share.{_SESSION}", "45000", "45000..60000", (30_000,), (45_000,)),
    ("CFG-08", f"group.share.{_SESSION}", "45000", "45000..60000", (70_000,), (60_000,)),
    ("CFG-09", f"group.share.{_HEARTBEAT}", "5000", "5000..15000", (4999,), (5000, 15_000)),
    ("CFG-10", f"group.share.{_HEARTBEAT}", "5000", "5000..15000", (4000,), (5000,)),
    ("CFG-11", f"group.share.{_HEARTBEAT}", "5000", "5000..15000", (16_000,), (15_000,)),
    ("", "group.share.max.groups", "10", "1..100", (0, 101), (1, 100)),
    ("", "group.share.max.size", "200", "10..1000", (9, 1001), (10, 1000)),
    # The draft's text has no name for it.
    ("CFG-15", "group.share.max.share.sessions", "1000", "1..", (0,), (1, 5000)),
]


@pytest.mark.parametrize(
    ("name", "default", "accepts", "bad", "good"),
    [pytest.param(*case, marks=[row(number)] * bool(number)) for number, *case in _DRAFT],
)
def test_bounds_of_the_draft(
    name: str, default: str, accepts: str, bad: tuple[int, ...], good: tuple[int, ...]
) -> None:
    for value in bad:
        said = of_draft(name, value)
        assert said["problem"], value
        assert said["value"] == str(value)
    for value in good:
        said = of_draft(name, value)
        assert (said["default"], said["range"]) == (default, accepts)
        assert said["problem"] is None, value


@pytest.mark.row("ASG-07", "CFG-14")
def test_of_several_assignors_the_first_is_used() -> None:
    said = of_draft("group.share.assignors", "A,B")
    assert said["problem"] == "Kafka accepts it, but only the first is used: A"
    assert said["default"] == "org.apache.server.group.share.SimpleAssignor"
    assert of_draft("group.share.assignors", "A")["problem"] is None


@pytest.mark.parametrize(
    ("name", "default", "accepts", "wrong"),
    [
        pytest.param(name, default, accepts, wrong, marks=row(number))
        for number, name, default, accepts, wrong in (
            ("CFG-16", f"{_SHARE}isolation.level", *_ISOLATION, "serializable"),
            ("CFG-17", f"{_SHARE}auto.offset.reset", "latest", "latest, earliest", "none"),
            ("CFG-19", "group.type", None, "consumer, share", "streams"),
        )
    ],
)
def test_words_no_group_may_have(name: str, default: str | None, accepts: str, wrong: str) -> None:
    said = of_draft(name, wrong)
    assert (said["default"], said["range"]) == (default, accepts)
    assert said["problem"] == f"{wrong!r} is not one of {accepts}"
    assert not any(of_draft(name, word)["problem"] for word in accepts.split(", "))


def commands(*arguments: str) -> list[list[str]]:
    """Kafka's commands that `sharelag settings` prints, in words."""
    said = sharelag("settings", *arguments).stderr.splitlines()
    return [shlex.split(line.split(": ", 2)[2]) for line in said if "kafka-configs.sh" in line]


@pytest.mark.row("CLI-11")
def test_a_type_is_pinned_by_a_command_that_kafkas_tool_can_read() -> None:
    """GL-19e, which is printed with ``--entity-name group`` and ``--addconfig``."""
    server = ("--bootstrap-server", "HOST:PORT")
    pinned = ("--entity-type", "groups", "--entity-name", "G1", "--alter", "--add-config")
    draft = ("--set", "group.type=share", "--group", "G1", "--kafka-version", "draft")
    assert commands(*draft) == [["kafka-configs.sh", *server, *pinned, "group.type=share"]]
    assert "as KIP-932 proposed: kafka-configs.sh" in sharelag("settings", *draft).stderr
    assert commands(*draft[:4]) == []  # no release has the setting
    assert rows(*draft[:4])[0]["problem"] == "Kafka 4.4 has no such setting"


def test_commands_are_of_groups_and_of_what_kafka_accepts() -> None:
    lock, count = "share.record.lock.duration.ms=30000", "share.delivery.count.limit=7"
    (words,) = commands("--set", lock, "--set", count)
    assert (words[-1], words[words.index("--entity-name") + 1]) == (f"{lock},{count}", "GROUP")
    names = [words[6] for words in commands("--set", lock, "--group", "a b", "--group", "-c")]
    assert names == ["-c", "a b"]
    assert commands("--set", lock, "--set", "share.delivery.count.limit=1") == []
    assert commands("--set", "group.share.delivery.count.limit=7") == []  # of brokers
    (words,) = commands("--set", count, "--capture", str(CAPTURE), "--group", "orders")
    assert (words[6], words[-1]) == ("orders", count)


@pytest.mark.row("CFG-20", "CFG-23")
def test_a_file_with_properties_of_consumers_is_gone_through(tmp_path: Path) -> None:
    moved = ["auto.offset.reset", "isolation.level"]
    others = ["enable.auto.commit", "auto.commit.interval.ms", "partition.assignment.strategy"]
    others.append("interceptor.classes")
    given = consumer(tmp_path, *(f"{name}=x" for name in (*moved, *others, "group.id")))
    found = {one["name"]: one["hint"] for one in rows(*given)}
    assert list(found) == [*moved, *others]
    for name in moved:
        assert "must be the same for all members" in found[name]
        assert f"--add-config share.{name}=" in found[name]
    assert all("kafka-configs" not in found[name] for name in others)


@pytest.mark.row("CFG-21")
def test_the_lock_of_a_consumer_moved_to_its_group(tmp_path: Path) -> None:
    (found,) = rows(*consumer(tmp_path, "record.lock.duration.ms=5000"))
    assert found["problem"] == "moved to group config"
    answer = sharelag("settings", *consumer(tmp_path, "max.poll.records=10"))
    assert (answer.returncode, answer.stdout) == (0, "")
    assert "share consumers accept every property" in answer.stderr


@pytest.mark.row("GRP-14")
def test_a_static_member_is_a_finding(tmp_path: Path) -> None:
    (found,) = rows(*consumer(tmp_path, "group.id=g", "group.instance.id=x"))
    assert (found["name"], found["value"]) == ("group.instance.id", "x")
    assert "no static members" in found["hint"]
    # What brokers answer about members has none either.
    assert not [name for name in MEMBER_ROWS.names if "instance" in name]


@pytest.mark.row("REJ-01")
def test_no_property_makes_a_consumer_a_share_consumer(tmp_path: Path) -> None:
    (found,) = rows(*consumer(tmp_path, "group.type=share"))
    assert found["problem"] == "has no effect on share consumers"
    assert found["hint"] == "the class of the consumer decides (KafkaShareConsumer): remove it"


def test_what_is_in_force_of_a_group_and_its_brokers() -> None:
    found = rows("--capture", str(CAPTURE), "--group", "billing", "--engine", "local")
    mine = {one["name"]: one for one in found if one["group_id"] == "billing"}
    brokers = {one["name"]: one for one in found if one["group_id"] is None}
    reset = mine["share.auto.offset.reset"]
    assert (reset["value"], reset["source"], reset["default"]) == ("earliest", "group", "latest")
    heartbeat = mine["share.heartbeat.interval.ms"]
    assert (heartbeat["value"], heartbeat["source"]) == ("250", "broker")
    assert heartbeat["range"] == "250..15000"  # as these brokers have it
    assert brokers["share.coordinator.state.topic.num.partitions"]["value"] == "4"
    assert not any(one["problem"] for one in found)
    everybody = rows("--capture", str(CAPTURE), "--engine", "local")
    assert len({one["group_id"] for one in everybody}) == 7 + 1
    assert [one for one in everybody if one["group_id"] in ("billing", None)] == found


def test_what_a_consumer_refuses_or_misses_is_found_with_its_fix(tmp_path: Path) -> None:
    given = consumer(
        tmp_path,
        "group.id=billing",
        "share.acknowledgement.mode=EXPLICIT",
        "share.acquire.mode=foo",
        "enable.auto.commit=false",
        "max.poll.interval.ms=60000",
        "ssl.keystore.pasword=hunter2",
        "schema.registry.url=http://r",
    )
    found = {one["name"]: one for one in rows(*given)}
    names = ["share.acknowledgement.mode", "share.acquire.mode", "enable.auto.commit"]
    assert list(found) == [*names, "max.poll.interval.ms", "ssl.keystore.pasword"]
    mode = found["share.acknowledgement.mode"]["problem"]
    assert mode.endswith("refuse it: 'EXPLICIT' is not one of implicit, explicit")
    assert "set share.acknowledgement.mode=explicit" in found["enable.auto.commit"]["hint"]
    assert "= 30000 (Kafka's default)" in found["max.poll.interval.ms"]["problem"]
    typo = found["ssl.keystore.pasword"]
    assert (typo["value"], typo["hint"]) == (None, "did you mean ssl.keystore.password?")
    answer = sharelag("settings", *given)
    assert "hunter2" not in answer.stdout + answer.stderr
    assert answer.stderr.endswith("or ignored: schema.registry.url\n")


def test_a_consumer_is_checked_with_the_settings_of_its_group(tmp_path: Path) -> None:
    own = ("max.poll.interval.ms=60000", "auto.offset.reset=latest")
    given = consumer(tmp_path, "group.id=billing", *own)
    here = ("--capture", "demo")
    locks = {
        one["group_id"]: int(one["value"])
        for one in rows(*here, "--engine", "local")
        if one["name"] == "share.record.lock.duration.ms"
    }
    for group, lock in locks.items():
        found = {one["name"]: one for one in rows(*given, *here, "--group", group)}
        assert ("max.poll.interval.ms" in found) == (lock < 60_000)
        assert "share.auto.offset.reset=... (now earliest)" in found["auto.offset.reset"]["hint"]
    assert rows(*given, *here) == rows(*given, *here, "--group", "billing")
    nameless = consumer(tmp_path, "max.poll.interval.ms=60000")
    assert "name it with --group" in sharelag("settings", *nameless, *here).stderr


@pytest.mark.parametrize(
    ("group", "word"),
    [("billing", "billing"), ("it's late", "'it'\"'\"'s late'"), ("a\nb", r"$'a\012b'")],
)
def test_commands_for_a_consumers_group_name_it(tmp_path: Path, group: str, word: str) -> None:
    moved = ("auto.offset.reset=latest", "record.lock.duration.ms=1", "max.poll.interval.ms=900000")
    escaped = group.replace("\n", "\\n")
    here = ("--capture", "demo", "--group", group)
    for own, more in ((f"group.id={escaped}", ()), ("", here), ("group.id=x", here)):
        given = consumer(tmp_path, *moved, own)
        found = rows(*given, *more)
        assert len(found) == len(moved)
        assert {f" --entity-name {word} --add-config " in one["hint"] for one in found} == {True}
        shown = sharelag("settings", *given, *more).stdout
        assert shown.count(f"--entity-name {word} --add-config") == len(moved)
    nameless = rows(*consumer(tmp_path, *moved))
    assert {" --entity-name GROUP --add-config " in one["hint"] for one in nameless} == {True}


@pytest.mark.parametrize("content", [b"", bytes(range(256)), b"hello world\n"])
def test_what_is_no_consumers_file_is_not_accepted(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "consumer.properties"
    file.write_bytes(content)
    said = refused("settings", "--consumer-config", str(file))
    assert "give a consumer's properties file" in said


def test_copies_of_the_state_topic_that_the_brokers_cannot_hold() -> None:
    state = "share.coordinator.state.topic"
    factor, least = f"{state}.replication.factor", f"{state}.min.isr"
    demo = ("--capture", "demo", "--group", "billing", "--problems")  # of three brokers

    def problems(*given: str) -> dict[str, str]:
        arguments = [argument for one in given for argument in ("--set", one)]
        return {one["name"]: one["problem"] for one in rows(*demo, *arguments)}

    assert problems(f"{factor}=3", f"{least}=3") == {}
    assert problems(f"{factor}=5") == {
        factor: "Kafka accepts it, but it is more than the brokers that are up, 3: "
        "no state topic can be created, where there is none yet"
    }
    assert problems(f"{least}=4") == {
        least: f"Kafka accepts it, but it is more than {factor} = 3: no write to the state topic succeeds"
    }
    # Without an input nobody knows how many brokers there are.
    (alone,) = rows("--set", f"{factor}=5")
    assert alone["problem"] is None


def test_settings_of_others_are_not_said_to_be_missing_in_kafka() -> None:
    names = ("share.acquire.mode", "auto.offset.reset", "offsets.topic.replication.factor")
    given = [argument for name in names for argument in ("--set", f"{name}=1")]
    found = {one["name"]: one for one in rows(*given)}
    told = {found[name]["problem"] for name in names}
    assert told == {"not a setting of share groups or their brokers"}
    assert "--consumer-config" in found["share.acquire.mode"]["hint"]
    assert "share.auto.offset.reset" in found["auto.offset.reset"]["hint"]
    assert found["offsets.topic.replication.factor"]["hint"] is None


def test_what_is_wrong_comes_first_for_people() -> None:
    limit = "share.delivery.count.limit"
    arguments = ("settings", "--capture", "demo", "--engine", "local", "--set", f"{limit}=11")
    shown = [line.split() for line in sharelag(*arguments).stdout.splitlines() if line[:1] != " "]
    wrong = [line[1] == limit for line in shown[1:]]
    assert sum(wrong) > 1
    assert wrong == sorted(wrong, reverse=True)
    only = sharelag(*arguments, "--problems").stdout
    assert only.count(limit) >= sum(wrong)
    assert "heartbeat" not in only
    none = sharelag("settings", "--capture", "demo", "--group", "billing", "--problems", code=0)
    assert "no setting conflicts" in none.stderr
    assert "no setting conflicts" not in sharelag(*arguments, "--problems").stderr


def test_what_differs_from_an_earlier_capture() -> None:
    both = ("--before", str(CAPTURE), "--engine", "local")
    both_rows = (rows("--capture", where, *both[2:]) for where in ("demo", str(CAPTURE)))
    now, then = ({(one["group_id"], one["name"]): one for one in each} for each in both_rows)
    found = {(one["group_id"], one["name"]): one for one in rows("--capture", "demo", *both)}
    differing = {
        key
        for key in now.keys() & then.keys()
        if any(now[key][name] != then[key][name] for name in ("value", "source"))
    }
    assert set(found) == differing != set()
    for key, one in found.items():
        assert_fields(one, value_before=then[key]["value"], source_before=then[key]["source"])
        assert_fields(one, value=now[key]["value"], source=now[key]["source"])
    assert rows("--capture", "demo", "--before", "demo") == []


def test_a_value_is_checked_with_what_the_brokers_have() -> None:
    name = "share.heartbeat.interval.ms"
    here = ("--capture", str(CAPTURE), "--group", "billing", "--engine", "local")
    for value, problem in (("300", None), ("249", "less than group.share.min.heartbeat")):
        (said,) = (one for one in rows(*here, "--set", f"{name}={value}") if one["name"] == name)
        assert (said["value"], said["source"]) == (value, "given")
        assert (said["problem"] or "").startswith(problem or "")
        assert (said["problem"] is None) == (problem is None)
    (alone,) = rows("--set", f"{name}=300")  # without an input: Kafka's own minimum
    assert alone["problem"] == "less than group.share.min.heartbeat.interval.ms = 5000"


def test_a_property_without_a_value_names_no_group() -> None:
    """As in Python, where a client's properties may have None."""
    moved = {"auto.offset.reset": "latest"}
    (none,) = lint_rows(moved | {"group.id": None}).to_pylist()
    (without,) = lint_rows(moved).to_pylist()
    assert none == without
    assert "None" not in none["hint"]


def test_a_group_without_state_and_a_name_that_is_wrong() -> None:
    here = ("--capture", str(CAPTURE), "--group", "nobody", "--engine", "local")
    both = sharelag("settings", *here, "--group", "none").stderr
    assert both.count("not known: the settings of share groups 'nobody', 'none' (a new group") == 1
    done = sharelag("settings", *here, "--set", "share.delivery.count.limits=7", "-o", "csv")
    assert "not known: the settings of share group 'nobody' (a new group has these)" in done.stderr
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    (wrong,) = (line for line in lines if line["problem"])
    assert wrong["problem"] == "not a setting of share groups or their brokers"
    assert wrong["hint"] == "did you mean share.delivery.count.limit?"
    assert any(line["group_id"] == "nobody" for line in lines)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "x"], "--set takes NAME=VALUE"),
        (["--consumer-config", __file__, "--set", "a=b"], "cannot be used with --set"),
        (
            ["--consumer-config", __file__, "--group", "g"],
            "--consumer-config ignores --group: remove",
        ),
        (["--capture", "demo", "--before", "demo", "--problems"], "--before compares what is in"),
        (["--capture", "x", "--kafka-version", "draft"], "--kafka-version draft is for --set"),
        (["--set", "a=1", "--topic", "t", "--engine", "local"], "--topic and --engine only with"),
        (["--set", "a=1", "--topic", "t"], "--topic only with an input: add one, or remove"),
        ([], "--bootstrap-server"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    assert said in refused("settings", *arguments, code=2)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert refused("settings", "--consumer-config", str(tmp_path / "none")).endswith(
        "none: No such file or directory\n"
    )
    file = tmp_path / "consumer.properties"
    file.write_bytes(rb"a=\uZZZZ")
    assert "is not a Java properties file" in refused("settings", "--consumer-config", str(file))


@pytest.mark.row("LCK-08", "CFG-18")
def test_the_lock_of_a_group_is_that_of_the_cluster_or_within_its_bounds() -> None:
    lock = "share.record.lock.duration.ms"
    least, most = (f"group.share.{side}.record.lock.duration.ms" for side in ("min", "max"))

    def problem(value: int, *more: str) -> str | None:
        given = [argument for one in (f"{lock}={value}", *more) for argument in ("--set", one)]
        return {one["name"]: one["problem"] for one in rows(*given)}[lock]

    assert problem(1000, f"{least}=1000") is None
    assert problem(999, f"{least}=1000") == "less than the minimum 1000"
    assert problem(60_000) is None
    assert problem(60_001) == f"greater than {most} = 60000"
    assert problem(60_001, f"{most}=3600000") is None
    said = {one["name"]: one["problem"] for one in rows("--set", f"{most}=3600001")}
    assert said == {most: "greater than the maximum 3600000"}
    group = ("--capture", str(CAPTURE), "--group", "shipping")
    in_force = {one["name"]: one for one in rows(*group)}[lock]
    assert (in_force["value"], in_force["source"]) == ("30000", "default")  # of the brokers


def test_where_the_version_is_not_known_those_that_differ_are_named(tmp_path: Path) -> None:
    name = "errors.deadletterqueue.topic.name"
    differs = f"Kafka 4.3, 4.2, 4.1 would refuse that ({name}: only Kafka 4.4 and newer have it)\n"
    answer = sharelag("settings", "--set", f"{name}=dlq.orders", code=0)
    assert "checked as Kafka 4.4, which is assumed without --kafka-version" in answer.stderr
    assert differs in answer.stderr
    answer = sharelag("settings", "--set", f"{name}=dlq.orders", "--kafka-version", "4.4")
    assert "would refuse" not in answer.stderr

    shutil.copytree(folder_of("poison"), tmp_path / "capture")
    about = json.loads((tmp_path / "capture" / "capture.json").read_text())
    assert "kafka_version" not in about
    words = ("settings", "--capture", str(tmp_path / "capture"), "--set", f"{name}=dlq.orders")
    for version, code, said in (
        (None, 1, "checked as Kafka 4.3, by the settings that are known"),
        ("4.4", 0, "checked as Kafka 4.4, of the input"),
        ("4.2", 1, "checked as Kafka 4.2, of the input"),
        ("4.0", 1, "checked as Kafka 4.1, the oldest known, instead of 4.0 of the input"),
        ("4.9", 0, "checked as Kafka 4.4, the newest known, instead of 4.9 of the input"),
    ):
        given = {} if version is None else {"kafka_version": version}
        (tmp_path / "capture" / "capture.json").write_text(
            json.dumps({key: about[key] for key in about if key != "crc32"} | given)
        )
        answer = sharelag(*words, code=code)
        assert said in answer.stderr
        assert ("Kafka 4.4 would accept that" in answer.stderr) == (version is None)
        notes = bench_notes(tmp_path / "capture", {name: "dlq.orders"})
        assert notes[0].startswith(said.capitalize().replace("kafka", "Kafka"))
        # What is in force is that version's, too.
        there = {row["name"] for row in rows(*words[1:3])}
        assert ("share.renew.acknowledge.enable" in there) == (version not in ("4.0", "4.2"))
        with package.open(tmp_path / "capture", engine="local") as bench:
            assert set(bench.settings().table.column("name").to_pylist()) == there


def bench_notes(
    capture: Path | str, given: dict[str, str], version: str | None = None
) -> tuple[str, ...]:
    bench = package.open(capture, engine="local")
    return bench.settings(given=given, kafka_version=version).notes


@pytest.mark.parametrize(
    ("version", "code", "said"),
    [
        ("4.4.0", 0, "4.4.0"),
        ("8.1.2-ccs", 1, "4.1, which is 8.1.2-ccs"),
        ("4.9", 0, "4.4, the newest known, instead of 4.9"),
    ],
)
def test_values_are_checked_by_any_version(version: str, code: int, said: str) -> None:
    """With an input and without one: what people ask for is what it is judged by."""
    name = "errors.deadletterqueue.topic.name"
    given = ("settings", "--set", f"{name}=dlq.orders", "--kafka-version", version)
    for more in ((), ("--capture", "demo", "--engine", "local")):
        done = sharelag(*given, *more, code=code)
        assert f"checked as Kafka {said}\n" in done.stderr
        assert "would" not in done.stderr
    shown = sharelag("settings", "--capture", "demo", "--group", "billing", *given[3:])
    assert (shown.returncode, f"checked as Kafka {said}\n" in shown.stderr) == (0, True)
    assert bench_notes("demo", {}, version)[0] == f"Checked as Kafka {said}."
    assert bench_notes("demo", {name: "dlq.orders"}, version)[0] == f"Checked as Kafka {said}."


@pytest.mark.parametrize(
    ("name", "value", "code", "said"),
    [
        ("topic.name", "bad name!", 0, "Kafka accepts it, but no topic can be called bad name!"),
        ("topic.name", "orders", 0, "Kafka accepts it, but orders does not begin with"),
        ("topic.name", "__dlq", 1, "a topic whose name begins with __ is Kafka's own"),
        ("topic.name", "dlq.orders", 0, None),
        ("topic.name.prefix", "bad/x", 0, "Kafka accepts it, but no topic that groups may name"),
        ("topic.name.prefix", "__dlq.", 0, "Kafka accepts it, but no topic that groups may name"),
        ("topic.name.prefix", "d" * 250, 0, "Kafka accepts it, but no topic that groups may name"),
        ("topic.name.prefix", "..", 0, None),
        ("topic.name.prefix", "_dlq.", 0, None),
        ("topic.name.prefix", "", 0, None),
    ],
)
def test_what_kafka_loses_is_accepted(name: str, value: str, code: int, said: str | None) -> None:
    given = ("--set", f"errors.deadletterqueue.{name}={value}")
    (row,) = rows(*given)
    assert sharelag("settings", *given).returncode == code
    assert row["problem"] is None if said is None else row["problem"].startswith(said)
    assert row["problem"] is None or code or "Kafka accepts it" in row["problem"]
