"""Which versions of Kafka have which known defect, and who says so."""

import json
import shutil
from pathlib import Path

import pytest

from sharelag import explain
from sharelag.cli import doctor
from sharelag.cli.doctor import checks
from sharelag.errors import InputError
from sharelag.inputs.kafka.brokers import Features
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.recorded import folder_of
from sharelag.metrics.causes import CAUSES
from sharelag.model.defects import BY_CAUSE, DEFECTS, known_defects
from sharelag.model.versions import release_of, version_of
from tests.support.captures import describe
from tests.support.command import sharelag
from tests.support.share_evidence import Wrote, evidence

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
        with pytest.raises(InputError, match=r"not a version of Kafka: give one such as 4\.3\.1"):
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
