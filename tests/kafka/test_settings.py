"""The catalogue and its rules are Kafka's, and a broker has the settings we say are in force."""

import subprocess
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from sharelag.inputs.kafka.brokers import _agree, _in_force, settings
from sharelag.inputs.kafka.config import client_config
from sharelag.model.settings import (
    Setting,
    catalogue,
    check_all,
    effective,
    in_force,
    lint_consumer,
)
from sharelag.model.settings.catalogue import CONSUMER, Property, Typed
from sharelag.model.versions import has_reached
from tests.support.cases import Cases
from tests.support.command import sharelag
from tests.support.kafka.broker import KafkaBroker
from tests.support.kafka.jars import COMPARED, EARLIER_VERSION, KAFKA_VERSION
from tests.support.kafka.oracles import Oracle
from tests.support.kafka.since import since
from tests.support.kafka.workload import create_topics, set_group_config

pytestmark = since("4.3", "the catalogue has the classes, bounds and defaults of that version")


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle("SettingsOracle") as running:
        yield running


@pytest.fixture(scope="module", params=COMPARED)
def each(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle("SettingsOracle", version=request.param) as running:
        yield running


@pytest.fixture
def profile(each: Oracle) -> str:
    """The version that is asked."""
    return each.version


KINDS = {"INT": "int", "SHORT": "short", "BOOLEAN": "bool", "STRING": "text", "LIST": "list"}


def test_the_catalogue_is_kafkas(each: Oracle, profile: str) -> None:
    theirs = {(s["scope"], s["name"]): s for s in each.ask({"list": True})["settings"]}
    ours = [one for one in catalogue(profile) if one.scope != "topic"]
    assert {(s.scope, s.name) for s in ours} == set(theirs)
    for setting in ours:
        kafkas = theirs[setting.scope, setting.name]
        assert setting.kind == KINDS[kafkas["type"]]
        assert as_text(setting.default) == kafkas["default"]
        assert setting.internal == kafkas["internal"]
        if setting.scope == "group":
            assert setting.broker == kafkas["synonym"]
        # Of this one the definition has no range, and the broker refuses what it does not know all
        # the same.
        if setting.kind in ("int", "short") and not setting.name.endswith("compression.codec"):
            assert ranged(setting) == kafkas["range"]


def as_text(value: Typed) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def ranged(setting: Setting) -> str | None:
    if setting.least is None:
        return None
    return f"[{setting.least},...{'' if setting.greatest is None else f',{setting.greatest}'}]"


def test_what_we_accept_is_what_kafka_accepts(each: Oracle, profile: str, cases: Cases) -> None:
    random = Random("accepts")
    requests = [
        (some(random, "group", profile), some(random, "broker", profile))
        for _ in range(cases(80, 20_000))
    ]
    answers = each.ask_many({"validate": group, "broker": broker} for group, broker in requests)
    outcomes = []
    for (group, broker), answer in zip(requests, answers, strict=True):
        refused = answer.get("refused", answer.get("error"))
        # Kafka takes a name of a queue without the brokers' prefix, and never writes to that queue.
        problems = [
            one for one in check_all(group | broker, profile) if not one.why.startswith("does not ")
        ]
        told = list(map(str, problems))
        assert bool(problems) == (refused is not None), (group, broker, refused, told)
        outcomes.append(refused is None)
    assert 0.1 < sum(outcomes) / len(outcomes) < 0.9


def test_what_is_in_force_is_what_kafka_works_with(each: Oracle, profile: str) -> None:
    random = Random("in force")
    requests: list[tuple[dict[str, str], dict[str, str]]] = []
    while len(requests) < 500:
        group, broker = some(random, "group", profile), some(random, "broker", profile)
        # Brokers do not start on settings that contradict each other, and store only what can be
        # read.
        if not check_all(broker, profile) and not any(
            problem.why.startswith("'") for problem in check_all(group, profile)
        ):
            requests.append((group, broker))
    answers = each.ask_many({"stored": group, "broker": broker} for group, broker in requests)
    clamped = 0
    for (group, broker), answer in zip(requests, answers, strict=True):
        if "error" in answer:  # the definition itself refuses it: no broker stores it
            continue
        ours = effective(group, broker, profile)
        of_group = {n: as_text(v.value) for n, v in ours.items() if not n.startswith("group.")}
        assert of_group == answer["effective"], (group, broker)
        for name, value in ours.items():
            assert (value.source == "group") <= (name in group)
            clamped += name in group and value.source == "broker"
    assert clamped > 50


def some(random: Random, scope: str, profile: str) -> dict[str, str]:
    """A few settings at, near and beyond their bounds; most of them are fine."""
    there = [setting for setting in catalogue(profile) if setting.scope == scope]
    chosen = random.sample(there, random.randint(0, 3))
    return {setting.name: value(random, setting) for setting in chosen}


def value(random: Random, setting: Setting) -> str:
    if setting.kind == "bool":
        return random.choice(["true", "false", "TRUE", " true", "yes"])
    if setting.kind == "list":
        return random.choice(["simple", "simple,simple", " simple ", ""])
    if setting.kind == "text":
        durations = ["PT1H", "P1D", "p1dt2h3m4.5s", "PT", "P", "-PT1H", "PT-1H", "P1Y"]
        durations += ["PT1.1234567891S", "pt0s", ""]
        resets = [f"by_duration:{text}" for text in durations]
        more = resets if setting.pattern else ["read_committed", "READ_COMMITTED", "serializable"]
        return random.choice(
            [*setting.choices, *(more if setting.choices else ["a.B"]), *setting.choices]
        )
    assert isinstance(setting.default, int)
    edges = [setting.default, setting.least or 0, setting.greatest or setting.default * 2]
    number = random.choice([*edges, 45_000, 60_000, 15_000, 5000]) + random.choice([0, 0, 0, -1, 1])
    return random.choice(
        [str(number)] * 20 + [f" {number} ", f"+{abs(number)}", "x", "1e3", "99999999999", "1_0"]
    )


def test_what_share_consumers_refuse_is_found(oracle: Oracle) -> None:
    properties: dict[str, Any] = {
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "session.timeout.ms": "45000",
        "heartbeat.interval.ms": "3000",
        "enable.auto.commit": "false",
        "auto.commit.interval.ms": "100",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor",
        "group.remote.assignor": "uniform",
        "interceptor.classes": "",
        "group.instance.id": "a",
        "group.protocol": "consumer",
        "max.poll.records": "10",
        "share.acknowledgement.mode": "explicit",
        "client.id": "c",
    }
    for name, text in properties.items():
        refused = oracle.ask({"client": {name: text}})["refused"] is not None
        assert refused == is_refused(name, text), name


def is_refused(name: str, text: str) -> bool:
    return any(p.why.startswith("share consumers refuse it") for p in lint_consumer({name: text}))


NUMBERS = {"int", "long", "short", "double"}


def test_values_that_share_consumers_refuse_are_found(oracle: Oracle, cases: Cases) -> None:
    random = Random("consumers")
    known = {name: one for name, one in CONSUMER.items() if has_reached(KAFKA_VERSION, one.since)}
    checked = [name for name, one in known.items() if one.kind in {*NUMBERS, "boolean"}]
    checked += [name for name, one in known.items() if one.choices]
    names = [random.choice(checked) for _ in range(cases(80, 20_000))]
    drawn = [(name, a_text(random, CONSUMER[name])) for name in names]
    answers = oracle.ask_many({"client": {name: text}} for name, text in drawn)
    refused = [answer["refused"] is not None for answer in answers]
    both = zip(drawn, refused, strict=True)
    assert [(case, theirs) for case, theirs in both if is_refused(*case) != theirs] == []
    assert 0.2 < sum(refused) / len(refused) < 0.8
    reported = {
        "share.acknowledgement.mode": ("Explizit", "EXPLICIT"),
        "share.acquire.mode": ("foo",),
        "max.poll.records": ("-1", "abc"),
        "fetch.max.wait.ms": ("99999999999",),
    }
    for name, texts in reported.items():
        assert all(is_refused(name, text) for text in texts)


def a_text(random: Random, known: Property) -> str:
    """A value at, near or beyond the bounds of a property, or no such value at all."""
    if known.choices:
        word = random.choice(known.choices)
        return random.choice([word, word, word.upper(), word.lower(), f" {word} ", f"{word}x", ""])
    if known.kind == "boolean":
        return random.choice(["true", "FALSE", " true ", "yes", "1", ""])
    edges = [int(known.least or 0), int(known.greatest or 60_000)]
    near = random.choice(edges) + random.choice([0, 0, 1, -1])
    wide = random.choice([2**15, 2**31, 2**63]) + random.choice([0, -1])
    more = ["0.5", "1e3", "x", "", "1_0", f"+{abs(near)}", f" {near} "]
    return random.choice([str(near)] * 6 + [str(wide), str(-wide), *more])


@pytest.fixture(scope="module")
def configured() -> Iterator[KafkaBroker]:
    """A broker with settings at every level, whose bounds were narrowed after a group's was set."""
    name = "group.share.max.record.lock.duration.ms"
    with KafkaBroker(properties={name: "90000"}, secure=True) as broker:
        servers = broker.bootstrap_servers
        create_topics(
            servers, {"kept": 1}, {"retention.ms": "1234567", "cleanup.policy": "compact,delete"}
        )
        create_topics(servers, {"plain": 1})
        own = {"share.record.lock.duration.ms": "80000", "share.delivery.count.limit": "7"}
        set_group_config(servers, HOSTILE, **own, **{"share.renew.acknowledge.enable": "false"})
        assert in_table(broker, HOSTILE)["share.record.lock.duration.ms"] == ("80000", "group")
        broker.stop()
        broker.settings[name] = "60000"
        broker.start()
        yield broker


HOSTILE = "settings <b>&'quoted'"
#: What a group has of dead-letter queues.
QUEUES = {"errors.deadletterqueue.copy.record.enable": ("false", "default")}
QUEUES["errors.deadletterqueue.topic.name"] = ("", "default")


def in_table(
    broker: KafkaBroker, group: str, scope: str = "group"
) -> dict[str, tuple[str | None, str | None]]:
    table = settings(client_config(broker.bootstrap_servers), [group], ["kept", "plain", "gone"])
    entity = None if scope == "broker" else group
    rows = [row for row in table.to_pylist() if (row["scope"], row["entity"]) == (scope, entity)]
    return {row["name"]: (row["value"], row["source"]) for row in rows}


@pytest.mark.exhaustive  # `settings` of `test_every_command.py`
def test_a_groups_settings_are_values_with_where_they_come_from(configured: KafkaBroker) -> None:
    found = in_table(configured, HOSTILE)
    assert found == {
        # Stored are 80000, and the bound is lower now.
        "share.record.lock.duration.ms": ("60000", "broker"),
        "share.delivery.count.limit": ("7", "group"),
        "share.renew.acknowledge.enable": ("false", "group"),
        "share.heartbeat.interval.ms": ("250", "broker"),
        "share.assignment.interval.ms": ("0", "broker"),
        "share.session.timeout.ms": ("45000", "default"),
        "share.partition.max.record.locks": ("2000", "default"),
        "share.auto.offset.reset": ("latest", "default"),
        "share.isolation.level": ("read_uncommitted", "default"),
    } | (QUEUES if has_reached(KAFKA_VERSION, "4.4") else {})
    table = settings(client_config(configured.bootstrap_servers), [HOSTILE, "nobody"], [])
    typed = in_force(table, HOSTILE)
    assert typed["share.record.lock.duration.ms"] == (60_000, "broker")
    assert typed["share.renew.acknowledge.enable"] == (False, "group")
    assert typed["group.share.min.record.lock.duration.ms"] == (1000, "broker")
    assert in_force(table, "nobody")["share.delivery.count.limit"] == (5, "default")


@pytest.mark.exhaustive
def test_kafkas_tool_sets_what_was_checked_by_the_printed_command(configured: KafkaBroker) -> None:
    group, where = "a group's\x1b[1m name", ("--bootstrap-server", configured.bootstrap_servers)
    checked = ("share.delivery.count.limit=7", "share.auto.offset.reset=by_duration:PT1H")
    given = [word for pair in checked for word in ("--set", pair)]
    said = sharelag("settings", *where, "--group", group, *given).stderr
    line = said.partition("Kafka's command: ")[2].splitlines()[0]
    in_bash = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {line}"], capture_output=True, text=True, check=True
    )
    tool, *arguments = in_bash.stdout.split("\0")[:-1]
    assert tool == "kafka-configs.sh"
    done = configured.run_configs(*arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    found = in_table(configured, group)
    assert found["share.delivery.count.limit"] == ("7", "group")
    assert found["share.auto.offset.reset"] == ("by_duration:PT1H", "group")


def test_what_an_older_broker_knows_for_itself_only_holds_for_groups_too() -> None:
    found: dict[str, tuple[str | None, str]] = {"share.record.lock.duration.ms": ("45000", "group")}
    brokers: dict[str, tuple[str | None, str]] = {
        "group.share.delivery.count.limit": ("4", "broker"),
        "group.share.max.record.lock.duration.ms": ("40000", "broker"),
    }
    assert _in_force(found, brokers) == {
        "share.record.lock.duration.ms": ("40000", "broker"),
        "share.delivery.count.limit": ("4", "broker"),
    }
    # Where the brokers' bounds are hidden from us, what is stored is all we know.
    assert _in_force(found, None) == found


def test_brokers_that_disagree_have_no_value(caplog: pytest.LogCaptureFixture) -> None:
    name = "group.share.max.size"
    with caplog.at_level("WARNING", logger="sharelag"):
        same = _agree([{name: ("200", "default"), "x": ("1", "broker")}, {name: ("300", "broker")}])
    assert same == {name: (None, "broker"), "x": ("1", "broker")}
    assert "brokers have different values of group.share.max.size (200, 300)" in caplog.text
    assert _agree([{name: ("200", "default")}, None]) is None
    # During an upgrade, whichever broker is asked first.
    for newer in (0, 1):
        caplog.clear()
        brokers: list[Any] = [{}, {}]
        brokers[newer] = {name: ("200", "default")}
        assert _agree(brokers) == {name: (None, "broker")}
        assert "(200, missing): the value is unknown" in caplog.text


@pytest.mark.exhaustive  # a broker of its own
def test_a_setting_that_a_brokers_version_lacks_is_left_out() -> None:
    with KafkaBroker(version=EARLIER_VERSION) as broker:  # its file sets the interval
        found = settings(client_config(broker.bootstrap_servers), ["g"], []).to_pylist()
    assert "group.share.assignment.interval.ms" in broker.settings
    names = {row["name"] for row in found if row["value"] is not None}
    assert len(names) == len({row["name"] for row in found})
    assert "share.delivery.count.limit" in names
    assert not any("assignment.interval.ms" in name for name in names)
