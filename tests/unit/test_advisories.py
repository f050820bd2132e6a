"""A copy of advisories answers as osv.dev does, and `pip-audit` takes its answers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tools.advisories import Advisories, read, server


def advisory(name: str, *events: dict[str, str], versions: tuple[str, ...] = ()) -> dict[str, Any]:
    affected = {
        "package": {"name": name, "ecosystem": "PyPI"},
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}],
        "versions": list(versions),
    }
    modified = "2026-11-20T10:00:00Z"
    return {"id": f"X-{name}", "modified": modified, "summary": "a fault", "affected": [affected]}


@pytest.mark.parametrize(
    ("events", "affected", "not_affected"),
    [
        (
            [{"introduced": "0"}, {"fixed": "2.0"}],
            ["0.1", "1.9.9", "2.0rc1"],
            ["2.0", "2.0.0", "3"],
        ),
        ([{"introduced": "1.1"}], ["1.1", "1.10", "2.0"], ["1.0", "1.1.dev0"]),
        ([{"introduced": "1.0"}, {"last_affected": "1.5"}], ["1.0", "1.5"], ["1.5.1", "0.9"]),
        (
            [{"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "10.0"}, {"fixed": "10.2"}],
            ["0.5", "10.0", "10.1"],
            ["1.0", "2.0", "9.9", "10.2"],
        ),
        ([{"fixed": "1.0"}, {"introduced": "0"}], ["0.5"], ["1.0"]),  # in no order
    ],
)
def test_a_range_is_from_what_introduced_it_to_what_fixed_it(
    events: list[dict[str, str]], affected: list[str], not_affected: list[str]
) -> None:
    known = Advisories([advisory("Some.Package", *events)])
    assert [version for version in affected if not known.of("some-package", version)] == []
    assert [version for version in not_affected if known.of("some-package", version)] == []


def test_versions_that_are_named_are_affected_and_other_packages_are_not() -> None:
    known = Advisories(
        [advisory("one", versions=("1.0", "2004d")), advisory("two", versions=("3",))]
    )
    assert [one["id"] for one in known.of("one", "1.0.0")] == ["X-one"]
    assert [known.of("one", "3"), known.of("two", "1.0"), known.of("three", "1.0")] == [[], [], []]


def test_pip_audit_takes_its_answers(tmp_path: Path) -> None:
    """Of a zip file, over HTTP: one package has a fault, and the other has none."""
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as packed:
        packed.writestr(
            "X.json", json.dumps(advisory("click", {"introduced": "0"}, {"fixed": "99"}))
        )
    wanted = tmp_path / "requirements.txt"
    hashed = f"--hash=sha256:{'0' * 64}"
    wanted.write_text(f"click==8.1.0 {hashed}\nidna==3.7 {hashed}\n")
    with server(Advisories(read(tmp_path / "all.zip"))) as serving:
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        where = f"http://127.0.0.1:{serving.server_address[1]}/v1/query"
        command = [str(Path(sys.executable).with_name("pip-audit")), "--strict", "--disable-pip"]
        command += ["--cache-dir", str(tmp_path / "cache"), "-r", str(wanted), "-f", "json"]
        done = subprocess.run(
            [*command, "--vulnerability-service", "osv", "--osv-url", where],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        serving.shutdown()
    assert done.returncode == 1, done.stderr
    told = {one["name"]: one["vulns"] for one in json.loads(done.stdout)["dependencies"]}
    assert [one["id"] for one in told["click"]] == ["X-click"]
    assert told["click"][0]["fix_versions"] == ["99"]
    assert told["idna"] == []


@pytest.mark.parametrize("content", [None, b"", b"no zip", b"{"])
def test_what_is_no_copy_is_refused(content: bytes | None, tmp_path: Path) -> None:
    place = tmp_path / "all.zip"
    if content == b"{":
        with zipfile.ZipFile(place, "w") as packed:
            packed.writestr("X.json", content)
    elif content is not None:
        place.write_bytes(content)
    with pytest.raises(SystemExit, match=r"use osv.dev's export of PyPI, all\.zip"):
        read(place)


def test_an_empty_folder_is_no_copy(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has no advisories"):
        read(tmp_path)
