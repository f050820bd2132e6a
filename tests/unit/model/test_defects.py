"""Which versions of Kafka have which known defect, and who says so."""

from __future__ import annotations

import json

import pytest

from sharelag.cli import doctor
from sharelag.cli.doctor import checks
from sharelag.errors import InputError
from sharelag.metrics.causes import CAUSES
from sharelag.metrics.explain import explain
from sharelag.model.defects import BY_CAUSE, DEFECTS, known_defects
from sharelag.model.versions import is_newer, release_of, version_of
from sharelag.sources.kafka.config import client_config
from sharelag.sources.kafka.features import Features
from tests.support.command import sharelag
from tests.support.share_evidence import Wrote, evidence


def has(issue: str, version: str) -> bool | None:
    (defect,) = [one for one in DEFECTS if one.issue == issue]
    return defect.affects(version)


@pytest.mark.parametrize(
    ("issue", "version", "expected"),
    [
        ("KAFKA-20505", "4.1.2", False),
        ("KAFKA-20505", "4.2.0", True),
        ("KAFKA-20505", "4.2.1", False),
        ("KAFKA-20505", "4.3.0", False),
        ("KAFKA-20505", "4.2", None),
        ("KAFKA-20505", "4.3", False),
        ("KAFKA-21096", "4.2.1", True),
        ("KAFKA-21096", "4.2.2", False),
        ("KAFKA-21096", "4.3.1", True),
        ("KAFKA-21096", "4.3.2", False),
        ("KAFKA-21096", "4.4.0-rc2", False),
        # A release between two that were mended: nobody mended it.
        ("KAFKA-20034", "4.2.1", True),
        ("KAFKA-20034", "4.2", True),
        ("apache/kafka#23112", "4.1.1", False),
        ("apache/kafka#23112", "4.3.1", True),
        ("apache/kafka#23112", "4.4.0", False),
        ("apache/kafka#23112", "5.0", False),
        ("apache/kafka#23190", "4.4.0", True),
        ("KAFKA-20910", "4.4.0", True),
        ("KAFKA-20910", "4.4", True),
    ],
)
def test_versions(issue: str, version: str, expected: bool | None) -> None:
    assert has(issue, version) is expected


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
    for wrong in ("four", "4", "4.3.1.2", ""):
        with pytest.raises(InputError, match=r"not a version of Kafka: give one such as 4\.3\.1"):
            known_defects(wrong)


def test_a_release_is_known_by_what_it_supports() -> None:
    levels = {
        25: "4.0",
        26: "4.0",
        27: "4.1",
        28: "4.1",
        29: "4.2",
        30: "4.3",
        31: "4.4",
        33: "4.4",
    }
    assert {level: release_of(level) for level in levels} == levels
    assert (release_of(24), release_of(34)) == (None, None)


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
    none = sharelag("doctor", "--kafka-version", "4.0.0").stdout
    assert "ok    known defects: none of share groups in Kafka 4.0.0" in none
    wrong = sharelag("doctor", "--kafka-version", "new")
    assert wrong.returncode == 1
    assert "'new' is not a version of Kafka" in wrong.stderr
    both = sharelag("doctor", "--rights", "--bootstrap-server", "b:1", "--kafka-version", "4.3.1")
    assert both.returncode == 2


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v4.4.0", (4, 4, 0)),
        ("kafka_2.13-4.3.1", (4, 3, 1)),
        ("4.4.0-SNAPSHOT", (4, 4, 0)),
        ("4.1.0.redhat-00001", (4, 1, 0)),
        ("4.3-IV0", (4, 3)),
        ("4.1.0-ccs", (4, 1, 0)),
        ("8.1.2-ccs", (4, 1)),
        ("8.0.0", (4, 0)),
        ("7.9.1-ce", (3, 9)),
        ("4.5.0", (4, 5, 0)),
        ("5.0.0", (5, 0, 0)),
    ],
)
def test_versions_as_distributions_write_them(text: str, version: tuple[int, ...]) -> None:
    assert version_of(text) == version
    assert is_newer(text) == (version >= (4, 5))
    said = sharelag("doctor", "--kafka-version", text).stdout
    assert ("unknown: Kafka" in said) == is_newer(text)
    line = ("kafka-share-groups.sh", "--bootstrap-server", "b:1", "--group", "g", "--describe")
    told = sharelag("lint", "--kafka-version", text, *line).stderr
    assert ("of Kafka 4.4, the newest that is known, accepts it" in told) == is_newer(text)


def test_the_doctor_names_those_of_the_release_that_a_broker_tells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def said(level: int) -> dict[str, str]:
        features = Features({85: 1}, {"share.version": 1}, {"metadata.version": level})
        monkeypatch.setattr("sharelag.sources.kafka.features.broker_features", lambda _: features)
        found = doctor._features(client_config("b:1"))
        return {one.what: one.found for one in found if one.what.startswith("defect ")}

    assert said(29)["defect KAFKA-20505"].startswith("some versions of 4.2: ")
    assert said(29)["defect KAFKA-20034"].startswith("Kafka 4.2: ")
    assert "defect KAFKA-20505" not in said(30)
    assert said(33)["defect KAFKA-20910"].startswith("Kafka 4.4: ")
    assert "defect apache/kafka#23074" not in said(33)
    assert said(34) == {}
    features = Features({85: 1}, {"share.version": 1}, {"metadata.version": 34})
    monkeypatch.setattr("sharelag.sources.kafka.features.broker_features", lambda _: features)
    (newer,) = [one for one in doctor._features(client_config("b:1")) if "defects" in one.what]
    assert (newer.verdict, newer.found) == ("warn", "unknown: the brokers are newer than Kafka 4.4")
    assert "--kafka-version" in newer.advice
    assert [one.what for one in checks(None, "4.0.0") if one.what.startswith("known")] == [
        "known defects"
    ]


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
