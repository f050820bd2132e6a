"""Kafka in our words: settings with their bounds, errors, and versions with known defects."""

import json
import shutil
from pathlib import Path
from shlex import quote
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

from sharelag import errors, explain, schemas
from sharelag.cli import doctor
from sharelag.cli.doctor import checks
from sharelag.errors import InputError
from sharelag.inputs.kafka.brokers import Features
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.kafka.failures import first_refusal, latest_reason, translate_error
from sharelag.inputs.recorded import folder_of
from sharelag.metrics.causes import CAUSES
from sharelag.metrics.settings import ACCEPTED, check_given, settings_in_force
from sharelag.model.defects import BY_CAUSE, DEFECTS, known_defects
from sharelag.model.kafka_errors import ANSWERS, ERRORS, Kind, in_words
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
from sharelag.model.versions import basis, release_of, version_of
from tests.support.captures import describe
from tests.support.command import sharelag
from tests.support.share_evidence import Wrote, evidence
from tools import errors_page

GROUP, MAX = "group.share.record.lock.duration.ms", "group.share.record.lock.duration.max.ms"
CONFIG = client_config("broker:9092")
RAISED = {Kind.REACH: errors.BrokerUnreachableError, Kind.LOGIN: errors.AuthenticationError}
RAISED |= {Kind.RIGHTS: errors.AuthorizationError, Kind.LEADERS: errors.NoLeaderError}
#: Which versions have an issue, which do not, and of which that is not known.
AFFECTED: dict[str, dict[bool | None, str]] = {
    "KAFKA-20505": {True: "4.2.0", False: "4.1.2 4.2.1 4.3.0 4.3", None: "4.2"},
    "KAFKA-21096": {True: "4.2.1 4.3.1", False: "4.2.2 4.3.2 4.4.0-rc2"},
    # 4.2.1 is a release between two that were fixed: nobody fixed it.
    "KAFKA-20034": {True: "4.2.1 4.2"},
    "apache/kafka#23112": {True: "4.3.1", False: "4.1.1 4.4.0 5.0", None: "4.0 4.0.1"},
    "apache/kafka#23190": {True: "4.4.0"},
    "KAFKA-20910": {True: "4.4.0 4.4", None: "4.5.0 4.5"},
}


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
    """`sharelag.schemas.SETTINGS` of a group ``g``: names of queues, topics and brokers."""
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


def test_the_client_library_has_the_same_codes() -> None:
    local = {code: error.name for code, error in ERRORS.items() if code < -1}
    assert local == {code: KafkaError(code).name() for code in local}


def test_every_error_is_one_clause_with_what_to_do() -> None:
    for error in ERRORS.values():
        assert error.meaning[0].islower() or error.meaning.startswith("READ")
        assert not error.meaning.endswith(".")
        assert "\n" not in error.meaning + error.advice
        assert len(error.advice) > len("read")
    names = [error.name for error in ERRORS.values()]
    assert len(set(names)) == len(names)


def test_every_answer_of_a_request_is_explained() -> None:
    named = {error.name for error in ERRORS.values()}
    assert set().union(*ANSWERS.values()) <= named


def test_messages_have_these_words() -> None:
    for code, known in ERRORS.items():
        raised = translate_error(KafkaError(code), "it's", CONFIG)
        assert known.advice.format(name=quote("it's")) in str(raised)
        assert known.kind not in RAISED or type(raised) is RAISED[known.kind], known.name


def test_the_error_that_says_why_is_shown() -> None:
    down, tls = KafkaError(KafkaError._ALL_BROKERS_DOWN), KafkaError(KafkaError._SSL)
    assert latest_reason([down, tls, down]) is tls
    assert latest_reason([down]) is down
    assert latest_reason([]) is None
    assert "the certificate names this host" in str(translate_error(tls, "orders", CONFIG))


def test_a_broker_that_goes_away_during_a_login_has_refused_nobody() -> None:
    """What the client library said while a broker was restarted: its code is that of refusals."""
    away = KafkaError(
        KafkaError._AUTHENTICATION,
        "sasl_ssl://b:1/bootstrap: SASL SCRAM-SHA-256 mechanism handshake failed: Local: Broker "
        "transport failure: broker's supported mechanisms: (n/a) (after 0ms in state DOWN)",
    )
    wrong = KafkaError(KafkaError._AUTHENTICATION, "b:1: SASL authentication error: invalid")
    assert first_refusal([away]) is None
    assert first_refusal([away, wrong]) is wrong
    assert isinstance(translate_error(away, "orders", CONFIG), errors.BrokerUnreachableError)
    assert isinstance(translate_error(wrong, "orders", CONFIG), errors.AuthenticationError)


def test_an_error_that_is_not_there_keeps_the_clients_words() -> None:
    code = KafkaError.PRODUCER_FENCED
    assert code not in ERRORS
    assert "PRODUCER_FENCED" in str(translate_error(KafkaError(code), "orders", CONFIG))
    assert in_words(code) == f"error {code}"


def test_the_page_has_them_all() -> None:
    page = errors_page.PAGE.read_text("utf-8")
    assert errors_page.written(page) == page, "run `python -m tools.errors_page`"
    for code, error in ERRORS.items():
        assert f"| `{error.name}` ({code}) | {error.meaning} |" in page


def test_a_broker_that_leaves_before_it_answers_is_away() -> None:
    """What ended `lag --watch` while all brokers were restarted, one by one."""
    left = translate_error(KafkaError(KafkaError._DESTROY_BROKER), "the list of topics", CONFIG)
    assert errors.are_away(left)


@pytest.mark.parametrize("issue", AFFECTED)
def test_versions(issue: str) -> None:
    (defect,) = [one for one in DEFECTS if one.issue == issue]
    for expected, versions in AFFECTED[issue].items():
        found = {one: defect.affects(one) for one in versions.split()}
        assert found == dict.fromkeys(versions.split(), expected)


def test_the_table_is_in_order() -> None:
    assert len({one.issue for one in DEFECTS}) == len(DEFECTS)
    for one in DEFECTS:
        fixes = [version_of(fix) for fix in one.fixed]
        assert fixes == sorted(fixes)
        assert not fixes or version_of(one.since) < fixes[0]
        assert one.url.startswith("https://github.com/apache/kafka/pull/")
        assert one.affects(one.since)
        assert not any(one.affects(fix) for fix in one.fixed)
    assert set(BY_CAUSE) <= {cause.name for cause in CAUSES}


def test_what_is_not_a_version_is_an_error() -> None:
    long = "kafka-4.4-" * 99_999 + "\n4"
    for wrong in ("four", "4", "4.3.1.2", "", "4.9999", "kafka", "4.4.0 or so", long):
        with pytest.raises(InputError, match=r"not a version of Kafka: give one such as '4\.3\.1'"):
            known_defects(wrong)


def test_a_release_is_known_by_what_it_supports() -> None:
    levels: dict[int, str | None] = {25: "4.0", 26: "4.0", 27: "4.1", 28: "4.1", 29: "4.2"}
    levels |= {30: "4.3", 31: "4.4"}
    levels |= {33: "4.4", 24: None, 34: None}
    assert {level: release_of(level) for level in levels} == levels


def test_the_doctor_names_those_of_a_version() -> None:
    done = sharelag("doctor", "--kafka-version", "4.2.0")
    assert "warn  defect KAFKA-20505: Kafka 4.2.0: fetches" in done.stdout
    assert "restart the broker that hangs, and upgrade; fixed in 4.2.1 and 4.3.0" in done.stdout
    assert "KAFKA-20505" not in sharelag("doctor", "--kafka-version", "4.2.1").stdout
    two = sharelag("doctor", "--kafka-version", "4.4.0").stdout
    assert two.count("warn  defect ") == 2
    assert "warn  defect KAFKA-20910: Kafka 4.4.0: a reset of offsets does not raise" in two
    assert "warn  defect apache/kafka#23190: Kafka 4.4.0: a request to initialise" in two
    assert two.count("; fixed in no release yet (") == 2
    wrong = sharelag("doctor", "--kafka-version", "new", code=1)
    assert "'new' is not a version of Kafka" in wrong.stderr
    sharelag("doctor", "--rights", "--bootstrap-server", "b:1", "--kafka-version", "4.3.1", code=2)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        *(("v4.4.0", (4, 4, 0)), ("kafka_2.13-4.3.1", (4, 3, 1)), ("4.4.0-SNAPSHOT", (4, 4, 0))),
        *(("4.1.0.redhat-00001", (4, 1, 0)), ("4.3-IV0", (4, 3)), ("4.1.0-ccs", (4, 1, 0))),
        *(("8.1.2-ccs", (4, 1)), ("8.0.0", (4, 0)), ("4.5.0", (4, 5, 0)), ("5.0.0", (5, 0, 0))),
        *(("2.13-4.4.0", (4, 4, 0)), ("kafka_2.13-4.4.0.tgz", (4, 4, 0))),
        *(("kafka-4.4.0", (4, 4, 0)), ("0.48.0-kafka-4.1.0", (4, 1, 0))),
        ("quay.io/strimzi/kafka:0.48.0-kafka-4.1.0", (4, 1, 0)),
        *(("latest-kafka-4.1.0", (4, 1, 0)), ("apache/kafka:4.4.0", (4, 4, 0))),
        *(("confluentinc/cp-kafka:8.1.2", (4, 1)), ("4.4.0 (Commit:abc)", (4, 4, 0))),
        *(("8.1.2-ccs (Commit:abc)", (4, 1)), (" 4.4.0 ", (4, 4, 0)), ("4.10.1", (4, 10, 1))),
    ],
)
def test_versions_as_distributions_write_them(text: str, version: tuple[int, ...]) -> None:
    assert version_of(text) == version


@pytest.mark.parametrize(
    ("text", "is_newer"),
    [("kafka_2.13-4.4.0.tgz", False), ("8.1.2-ccs", False), ("8.0.0", False), ("4.10.1", True)],
)
def test_commands_say_which_release_stands_for_a_version(text: str, is_newer: bool) -> None:
    said = sharelag("doctor", "--kafka-version", text).stdout
    assert ("unknown: Kafka" in said) == is_newer or text == "8.0.0"
    line = ("kafka-share-groups.sh", "--bootstrap-server", "b:1", "--group", "g", "--describe")
    told = sharelag("lint", "--kafka-version", text, *line).stderr
    assert (f"of Kafka 4.4, the newest known, instead of {text}," in told) == is_newer
    assert "accepts it" in told


@pytest.mark.parametrize("text", ["3.9", "3.9.1", "7.9.1", "7.9.1-ce", "2.13", "0.48.0", "v2.8.2"])
def test_a_release_without_share_groups_is_an_error_everywhere(text: str, tmp_path: Path) -> None:
    lint = ("lint", "kafka-share-groups.sh", "--bootstrap-server", "b:1", "--list")
    for command, *more in (
        ("doctor",),
        lint,
        ("settings", "--set", "share.auto.offset.reset=latest"),
        ("plan-reset", "--capture", "chapters", "--group", "billing", "--to-latest"),
        ("plan-delete", "--capture", "chapters", "--group", "billing"),
    ):
        done = sharelag(command, "--kafka-version", text, *more, code=1)
        assert f"{text!r} is Kafka " in done.stderr
        assert "which has no share groups: they exist from Kafka 4.0 on" in done.stderr
    copy = tmp_path / "older"
    shutil.copytree(folder_of("chapters"), copy)
    describe(copy, kafka_version=text)
    done = sharelag("lag", "--capture", str(copy))
    assert f"kafka_version: {text!r} is Kafka " in done.stderr


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (
            "4.0",
            "unknown: Kafka 4.0 is older than the releases whose defects are known, 4.1 to 4.4",
        ),
        ("4.0.2", "unknown: Kafka 4.0.2 is older than"),
        ("8.0.0", "unknown: Kafka 8.0.0 is older than"),
        ("4.9", "unknown: Kafka 4.9 is newer than the releases whose defects are known"),
        ("4.10.0", "unknown: Kafka 4.10.0 is newer than"),
    ],
)
def test_unknown_defects_are_not_told_as_none(version: str, said: str) -> None:
    (found,) = [one for one in checks(None, version) if "defect" in one.what]
    assert (found.verdict, found.what) == ("warn", "known defects")
    assert found.found.startswith(said)
    assert known_defects(version) is None


def test_the_doctor_names_those_of_a_brokers_release(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(level: int) -> dict[str, str]:
        features = Features({85: 1}, {"share.version": 1}, {"metadata.version": level})
        monkeypatch.setattr("sharelag.inputs.kafka.brokers.broker_features", lambda _: features)
        found = doctor._features(client_config("b:1"))
        return {one.what: one.found for one in found if one.what.startswith("defect ")}

    assert said(29)["defect KAFKA-20505"].startswith("some versions of 4.2: ")
    assert said(29)["defect KAFKA-20034"].startswith("Kafka 4.2: ")
    assert "defect KAFKA-20505" not in said(30)
    assert said(33)["defect KAFKA-20910"].startswith("Kafka 4.4: ")
    assert "defect apache/kafka#23074" not in said(33)
    assert said(34) == {}
    features = Features({85: 1}, {"share.version": 1}, {"metadata.version": 34})
    monkeypatch.setattr("sharelag.inputs.kafka.brokers.broker_features", lambda _: features)
    (newer,) = [one for one in doctor._features(client_config("b:1")) if "defects" in one.what]
    assert newer.verdict == "warn"
    assert newer.found.startswith("unknown: the brokers are newer than the releases")
    assert "--kafka-version" in newer.advice


@pytest.mark.parametrize(
    ("cause", "last"),
    [
        ("start_went_back", Wrote(60, 90, 0)),
        ("count_regressed", Wrote(60, 100, 3, [(110, 111, 2, 1)])),
    ],
)
def test_a_defect_that_bit_is_named_with_the_record_that_shows_it(cause: str, last: Wrote) -> None:
    """The record is one that ``--as-of`` takes: state partition and offset."""
    steps = [Wrote(90, 100, 0), Wrote(80, 100, 10, [(100, 109, 2, 1)]), last]
    given = evidence(*steps, end=120)
    (row,) = [one for one in explain(given).to_pylist() if one["cause"] == cause]
    said = {one["name"]: one["value"] for one in row["evidence"]}
    issue = BY_CAUSE[cause].issue
    assert said["defect"] == f"{issue}, fixed in 4.4.0"
    (window,) = given.windows.to_pylist()
    assert said["record"] == f"{window['record_partition']}:{window['record_offset']}"
    assert f"({issue}): upgrade them to 4.4.0" in row["advice"]
    assert json.dumps(row, default=str)
