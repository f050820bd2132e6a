"""Bounds of drafts and of Kafka, which value wins, and what is assumed."""

from typing import Any

import pyarrow as pa
import pytest

from sharelag import schemas
from sharelag.errors import InputError
from sharelag.metrics.settings import ACCEPTED, check_given, settings_in_force
from sharelag.model.settings import (
    CATALOGUE,
    catalogue,
    check,
    check_all,
    differing,
    effective,
    in_force,
)
from sharelag.model.settings.catalogue import FIRST
from sharelag.model.settings.queues import Queues
from sharelag.model.versions import basis

GROUP, MAX = "group.share.record.lock.duration.ms", "group.share.record.lock.duration.max.ms"


def test_a_duration_beyond_its_maximum_is_refused() -> None:
    assert check_all({GROUP: 50_000, MAX: 40_000}, "draft")
    assert not check_all({GROUP: 40_000, MAX: 40_000}, "draft")
    (problem,) = check(GROUP, 50_000, "draft", {MAX: 40_000})
    assert str(problem) == f"{GROUP} = 50000: greater than {MAX} = 40000"
    # The brokers' value is bounded by 60 s whatever the maximum; only a group's may be longer.
    assert check(GROUP, 60_001, "draft", {MAX: 3_600_000})


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("14000", (15_000, "broker")),
        ("15000", (15_000, "group")),
        ("20000", (20_000, "group")),
        ("20001", (20_000, "broker")),
        (None, (30_000, "default")),
    ],
)
def test_brokers_bound_what_is_stored_of_it(stored: str | None, expected: tuple[int, str]) -> None:
    name, bound = "share.record.lock.duration.ms", "group.share.{}.record.lock.duration.ms"
    brokers = {bound.format("min"): "15000", bound.format("max"): "20000"}
    assert effective({name: stored} if stored else {}, brokers)[name] == expected


def test_older_brokers_lack_settings() -> None:
    new = {setting.name for setting in CATALOGUE} - {setting.name for setting in catalogue("4.2")}
    assert {
        "share.delivery.count.limit",
        "share.partition.max.record.locks",
        "share.renew.acknowledge.enable",
    } <= new
    assert len(new) == 12
    (problem,) = check("share.delivery.count.limit", 5, "4.2")
    assert problem.why == "only Kafka 4.3 and newer have it"
    (typo,) = check("share.delivery.count.limits", 5)
    assert typo.hint == "did you mean share.delivery.count.limit?"
    with pytest.raises(InputError, match=r"'drafts' is not a version of Kafka: give one such as"):
        catalogue("drafts")


def test_what_is_in_force_comes_from_the_table_or_is_marked_as_assumed() -> None:
    def row(
        scope: str, entity: str | None, name: str, value: str | None, source: str | None
    ) -> dict[str, Any]:
        return {"scope": scope, "entity": entity, "name": name, "value": value, "source": source}

    lock, limit = "share.record.lock.duration.ms", "share.delivery.count.limit"
    locks = "share.partition.max.record.locks"
    schema = schemas.SETTINGS
    table = pa.Table.from_pylist(
        [
            row("group", "g", lock, "20000", "group"),
            row("group", "other", limit, "7", "group"),
            row("group", "g", "share.renew.acknowledge.enable", "false", "group"),
            row("group", "g", locks, None, None),
            row("broker", None, "group.share.delivery.count.limit", "4", "broker"),
        ],
        schema=schema,
    )
    found = in_force(table, "g")
    assert found[lock] == (20_000, "group")
    assert found[limit] == (4, "broker")  # a broker before 4.3 tells no such setting of groups
    assert found[locks] == (2000, "assumed")
    assert found["share.renew.acknowledge.enable"] == (False, "group")
    assert in_force(table, "other")[limit] == (7, "group")
    empty = in_force(schemas.SETTINGS.empty_table(), "g")
    assert set(empty) == {setting.name for setting in CATALOGUE}
    assert ({value.source for value in empty.values()}, empty[lock].value) == ({"assumed"}, 30_000)


def test_settings_of_dead_letter_queues_are_in_force_where_brokers_have_them() -> None:
    name = "errors.deadletterqueue.topic.name"
    row = {"scope": "group", "entity": "g", "name": name, "value": "dlq.g", "source": "group"}
    found = in_force(pa.Table.from_pylist([row], schema=schemas.SETTINGS), "g")
    assert found[name] == ("dlq.g", "group")
    assert found["errors.deadletterqueue.topic.name.prefix"] == ("dlq.", "assumed")
    assert name not in in_force(schemas.SETTINGS.empty_table(), "g")


QUEUE = "errors.deadletterqueue"


def table_of(*rows: tuple[str, str | None, str, str | None, str | None]) -> pa.Table:
    """``sharelag.schemas.SETTINGS`` of a group ``g`` with these names of queues, topics and brokers."""
    return pa.Table.from_pylist(
        [dict(zip(schemas.SETTINGS.names, row, strict=True)) for row in rows], schemas.SETTINGS
    )


def test_a_version_that_nobody_gives_is_the_newest() -> None:
    name = "errors.deadletterqueue.topic.name"
    assert catalogue() == catalogue("4.4")
    assert check(name, "dlq.orders") == check_all({name: "dlq.orders"}) == []


@pytest.mark.parametrize(
    ("version", "judged", "said"),
    [
        (None, "4.4", "4.4, which is assumed without --kafka-version"),
        ("4.4.0", "4.4", "4.4.0"),
        ("4.3", "4.3", "4.3"),
        ("4.3.0", "4.3", "4.3.0"),
        ("4.2.1", "4.2", "4.2.1"),
        ("8.1.2-ccs", "4.1", "4.1, which is 8.1.2-ccs"),
        ("2.13-4.4.0", "4.4", "4.4.0, which is 2.13-4.4.0"),
        ("4.9", "4.4", "4.4, the newest known, instead of 4.9"),
        ("4.10.0", "4.4", "4.4, the newest known, instead of 4.10.0"),
        ("4.0", "4.1", "4.1, the oldest known, instead of 4.0"),
    ],
)
def test_settings_of_any_version(version: str | None, judged: str, said: str) -> None:
    found = basis(version, oldest=FIRST)
    assert (str(found), catalogue(found.version)) == (said, catalogue(judged))
    assert version is None or catalogue(version) == catalogue(judged)
    # Of an input the same words say that it told.
    whose = str(basis(version, oldest=FIRST, whose="of the input"))
    assert whose.endswith(" of the input") == (version is not None)


def test_versions_that_differ_about_a_value_are_named() -> None:
    locks = "share.partition.max.record.locks"
    said = differing({locks: 500}, "4.4")
    assert said == [f"Kafka 4.2, 4.1 would refuse that ({locks}: only Kafka 4.3 and newer have it)"]
    assert differing({locks: 500}, "4.2.1") == ["Kafka 4.4, 4.3 would accept that"]
    assert differing({"share.session.timeout.ms": 50_000}, "4.4") == []
    assert differing({"share.session.timeout.ms": 1}, "4.4") == []  # all refuse it


@pytest.mark.parametrize(
    ("topic", "enabled", "brokers", "said"),
    [
        ("dlq.g", ("true", "topic"), {}, []),
        ("dlq.g", None, {}, []),  # an earlier capture: nothing is known of the topic
        ("dlq.g", (None, None), {}, []),  # it may not be described
        ("dlq.g", ("false", "default"), {}, ["brokers write no letters to dlq.g"]),
        ("dlq.g", ("false", "missing"), {}, ["the topic dlq.g does not exist"]),
        ("dlq.g", ("false", "missing"), {"auto.create.topics.enable": "true"}, []),
        ("dlq.g", ("true", "topic"), {"share.version": "1"}, ["while share.version is 1"]),
        ("dlq.g", ("true", "topic"), {"topic.name.prefix": "dead."}, ["does not begin with"]),
        ("g", ("true", "topic"), {"topic.name.prefix": ""}, []),
        ("g", ("true", "topic"), {}, ["does not begin with"]),
        ("dlq.no name", ("false", "missing"), {}, ["no topic can be called dlq.no name"]),
        ("dlq." + "g" * 246, ("false", "missing"), {}, ["no topic can be called dlq.ggg"]),
        ("..", None, {"topic.name.prefix": "."}, ["no topic can be called .."]),
    ],
)
def test_a_queue_that_takes_no_letters_is_a_problem(
    topic: str, enabled: tuple[str, str] | None, brokers: dict[str, str], said: list[str]
) -> None:
    known = {"topic.name.prefix": "dlq.", "auto.create.topics.enable": "false"} | brokers
    of_brokers = [
        ("broker", None, name if name.startswith("share") else f"{QUEUE}.{name}", value, "default")
        for name, value in known.items()
    ]
    rows = [("group", "g", f"{QUEUE}.topic.name", topic, "group"), *of_brokers]
    if enabled is not None:
        rows.append(("topic", topic, f"{QUEUE}.group.enable", *enabled))
    table = table_of(*rows)
    seen = settings_in_force(table, ["g", "other"]).to_pylist()
    (row,) = [one for one in seen if (one["group_id"], one["name"]) == ("g", f"{QUEUE}.topic.name")]
    words = Queues.of(table).refusals(["g", "other"])
    if said:
        assert f"{row['problem']}: {row['hint']}" == ACCEPTED + words["g"]
        assert all(one in words["g"] for one in said)
    else:
        assert (row["problem"], words) == (None, {})
    assert not [one for one in seen if one["group_id"] == "other" and one["problem"]]


def test_a_queue_that_is_given_is_checked_as_if_it_were_set() -> None:
    name, prefix = f"{QUEUE}.topic.name", f"{QUEUE}.topic.name.prefix"
    (row,) = check_given({name: "letters"}, "4.4").to_pylist()
    assert row["problem"] == (
        f"Kafka accepts it, but letters does not begin with {prefix} = dlq., so letters are lost"
    )
    rows = check_given({name: "letters", prefix: ""}, "4.4").to_pylist()
    assert [row["problem"] for row in rows] == [None, None]
    missing = ("topic", "dlq.new", f"{QUEUE}.group.enable", "false", "missing")
    shown = settings_in_force(table_of(missing), ["g"], {name: "dlq.new"}).to_pylist()
    (why,) = [row["problem"] for row in shown if row["name"] == name]
    assert why == "Kafka accepts it, but the topic dlq.new does not exist"
