"""One place turns what people name into an input, for the command line, reports and notebooks."""

import sys
from pathlib import Path
from typing import Any

import pytest

import sharelag
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput, KafkaInput, RawInput, SegmentsInput
from sharelag.inputs.open import ChoiceError, is_cluster_named, open_input, open_named
from sharelag.inputs.recorded import DEMO, folder_of
from sharelag.reports.case import read
from tests.support.command import ask, refused
from tests.support.packages import Packages

_SERVERS = "KAFKA_BOOTSTRAP_SERVERS"
_CHOOSE = "choose one input: bootstrap_server, capture, raw or segments"


def test_each_option_names_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    demo = folder_of(DEMO)
    assert open_named(capture=demo) == CaptureInput(demo) == open_input(demo) == open_input(DEMO)
    assert open_named(raw="lake.state") == RawInput("lake.state")
    assert open_named(segments="/var/kafka") == SegmentsInput((Path("/var/kafka"),))
    cluster = open_named(bootstrap_server="broker:9092", timeout=3)
    assert isinstance(cluster, KafkaInput)
    assert (cluster.config.bootstrap_servers, cluster.config.timeout) == ("broker:9092", 3)
    assert not is_cluster_named(None)
    monkeypatch.setenv(_SERVERS, "other:9092")
    assert is_cluster_named(None)
    assert open_named().describe() == "cluster at other:9092"
    assert open_named(capture=demo) == CaptureInput(demo)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, _CHOOSE),
        ({"capture": "a", "raw": "b"}, f"{_CHOOSE}, not capture and raw"),
        (
            {"capture": "a", "properties": {"x": "y"}},
            f"{_CHOOSE}, not bootstrap_server and capture",
        ),
    ],
)
def test_none_or_several_are_refused_in_one_wording(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ChoiceError) as raised:
        open_named(**given)
    assert str(raised.value) == message


def test_reports_and_the_command_line_say_it_in_their_own_names() -> None:
    with pytest.raises(InputError, match=f"^{_CHOOSE}$"):
        read()
    with pytest.raises(InputError, match=f"^{_CHOOSE}, not capture and segments$"):
        read(capture="a", segments="b")
    flags = "--bootstrap-server, --capture, --raw or --segments, not --capture and --raw."
    assert f"choose one input: {flags}" in refused("lag", "--capture", "a", "--raw", "b", code=2)


GROUP = "sharelag.inputs"
POINT = "s3state = our_store:open_store"
CODE = f"""
from pathlib import Path
from sharelag.errors import InputError
from sharelag.inputs import CaptureInput, RecordsOnly

class Store(CaptureInput):
    def describe(self):
        return "a bucket"

class Half(RecordsOnly):
    pass

def open_store(where):
    name = where.removeprefix("s3state:")
    if name == "half":
        return Half()
    if name == "nobody":
        raise InputError("there is no bucket 'nobody'")
    return {{"demo": Store(Path({str(folder_of(DEMO))!r})), "//minio:9000": "text"}}[name]

NUMBER = 3
"""


def install(packages: Packages, points: str = POINT) -> None:
    packages.install("our-store", GROUP, points, CODE)


def test_a_workbench_opens_an_address_of_an_installed_package(packages: Packages) -> None:
    install(packages)
    assert sharelag.open(folder_of(DEMO), engine="local").lag().table.num_rows
    assert "our_store" not in sys.modules  # nothing is imported before it is asked for
    bench = sharelag.open("s3state:demo", engine="local")
    assert bench.source.describe() == "a bucket"
    assert bench.lag().table == sharelag.open(folder_of(DEMO), engine="local").lag().table


def test_the_command_and_reports_take_it_as_raw(packages: Packages) -> None:
    install(packages)
    same = ask("lag", "--capture", str(folder_of(DEMO)))
    assert ask("lag", "--raw", "s3state:demo") == same
    assert read(raw="s3state:demo", engine="local").bench.source.describe() == "a bucket"


def test_what_has_a_meaning_already_keeps_it(
    packages: Packages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(packages)
    monkeypatch.chdir(tmp_path)
    for address in ("s3state:9092", "s3state:9092,other:9092"):
        assert isinstance(open_input(address), KafkaInput)
    assert open_input("s3a://bucket/raw") == RawInput("s3a://bucket/raw")
    assert open_named(raw="s3a://bucket/raw") == RawInput("s3a://bucket/raw")
    Path("s3state:demo").write_bytes(b"")
    assert open_input("s3state:demo") == RawInput(str(tmp_path / "s3state:demo"))
    assert open_named(raw="s3state:demo") == RawInput("s3state:demo")
    assert isinstance(open_input(DEMO), CaptureInput)


@pytest.mark.parametrize(
    ("point", "where", "message"),
    [
        ("s3state = our_store:nothing", "s3state:demo", r"cannot be loaded from .*AttributeError"),
        ("s3state = not_there:any", "s3state:demo", r"cannot be loaded from .*not_there"),
        ("s3state = our_store:NUMBER", "s3state:demo", r"is not a function: .*type int"),
        (POINT, "s3state:other", r"cannot open 's3state:other' \(KeyError: 'other'\): repair or"),
        (POINT, "s3state:half", r"cannot open .* \(TypeError: .*class Half .*batches.*frame.*size"),
        (POINT, "s3state://minio:9000", r"opened .* as a str without holds_both, .*RecordsOnly"),
    ],
)
def test_a_broken_one_is_named(packages: Packages, point: str, where: str, message: str) -> None:
    install(packages, point)
    named = "the input 's3state' of the package 'our-store'"
    with pytest.raises(InputError, match=f"{named} {message}"):
        sharelag.open(where, engine="local")
    assert "the package 'our-store'" in " ".join(refused("lag", "--raw", where).split())


def test_what_the_package_says_of_an_address_is_passed_on(packages: Packages) -> None:
    install(packages)
    with pytest.raises(InputError, match=r"^there is no bucket 'nobody'$"):
        sharelag.open("s3state:nobody")


@pytest.mark.parametrize("where", ["s3state:demo", "s3state://minio:9000"])
def test_client_settings_are_for_clusters_only(packages: Packages, where: str) -> None:
    install(packages)
    with pytest.raises(InputError, match="client settings only apply to a cluster"):
        sharelag.open(where, properties={"client.id": "x"})


def test_a_prefix_that_is_built_in_is_not_for_others(packages: Packages) -> None:
    install(packages, "s3a = our_store:open_store")
    with pytest.raises(InputError, match=r"the input 's3a' is built in, but the package 'our-stor"):
        sharelag.open("s3a://bucket/raw")


def test_two_packages_with_one_prefix_are_both_named(packages: Packages) -> None:
    install(packages)
    packages.install("your-store", GROUP, "s3state = your_store:open_store", CODE)
    with pytest.raises(InputError, match=r"'(our|your)-store' and the package '(our|your)-store'"):
        sharelag.open("s3state:demo")


def test_an_unknown_address_lists_what_is_installed(packages: Packages) -> None:
    with pytest.raises(InputError) as without:
        sharelag.open("s3stat:demo")
    assert "installed package" not in str(without.value)
    install(packages, "s3sate = our_store:open_store\n" + POINT)
    sys.path.append(str(packages.folder / "more"))  # as a new environment would
    try:
        with pytest.raises(InputError, match=r"an address of an installed package \(s3sate:, s3st"):
            sharelag.open("s3stat:demo")
    finally:
        sys.path.pop()
