"""What is built can be built again, says what it is made of, and carries its licences."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Endings of files that others wrote: minified scripts, fonts, packed libraries.
FOREIGN = re.compile(r"\.min\.(js|css)|\.woff2?$|\.ttf$|\.jar$|\.so$")


def tracked() -> list[str]:
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [name for name in done.stdout.split("\0") if name and (ROOT / name).is_file()]


def built(folder: Path, names: list[str], *, mode: int, at: int, zone: str) -> Path:
    """A wheel of a copy of the sources, whose files have other modes and times."""
    for name in names:
        target = folder / "sources" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
        target.chmod(mode)
        os.utime(target, (at, at))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")],
        cwd=folder / "sources",
        env=os.environ | {"TZ": zone, "PYTHONHASHSEED": str(at % 1000)},
        check=True,
        capture_output=True,
    )
    (wheel,) = (folder / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    names = tracked()
    return [
        built(tmp_path_factory.mktemp("a"), names, mode=0o644, at=1_700_000_000, zone="UTC"),
        built(tmp_path_factory.mktemp("b-longer"), names[::-1], mode=0o600, at=1_790_000_123,
              zone="Asia/Kolkata"),
    ]  # fmt: skip


def test_two_builds_are_equal_byte_by_byte(wheels: list[Path]) -> None:
    one, other = wheels
    assert one.name == other.name
    assert one.read_bytes() == other.read_bytes()


def test_it_holds_both_packages_and_their_data(wheels: list[Path]) -> None:
    names = set(zipfile.ZipFile(wheels[0]).namelist())
    assert {
        "sharelag/__init__.py",
        "sharelag/py.typed",
        "sharelag/captures/demo/records/part-0.parquet",
        "sharelag/examples/rules.yaml",
        "sharelag/inputs/spark/log4j2.properties",
        "sharelag/reports/notebooks/daily.ipynb",
        "sharelag_widgets/__init__.py",
        "sharelag_widgets/py.typed",
    } <= names
    assert not [name for name in names if name.startswith(("tests/", "data/", "widgets/"))]
    assert wheels[0].stat().st_size < 5_000_000


def test_what_others_wrote_has_its_licence_beside_it(wheels: list[Path]) -> None:
    foreign = [name for name in tracked() if FOREIGN.search(name)]
    assert foreign
    packed = set(zipfile.ZipFile(wheels[0]).namelist())
    for name in foreign:
        folder = (ROOT / name).parent
        licences = list(folder.glob("*LICENSE*"))
        assert licences, f"{name} has no licence beside it"
        assert Path(name).name.removesuffix(".gz") in (folder / "README.md").read_text()
        for path in (ROOT / name, *licences):
            assert str(path.relative_to(ROOT)) in packed
    assert any(name.endswith("/licenses/LICENSE") for name in packed)


def tool(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent))
    assert found, f"{name} is missing: make env"
    return found


def made_by_dist() -> list[str]:
    """The words of the command by which `make dist` writes the bill of materials."""
    said = subprocess.run(
        ["make", "-n", "dist", "READY=", f"BIN={Path(sys.executable).parent}"],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    ).stdout  # fmt: skip
    (line,) = [one for one in said.replace("\\\n", " ").splitlines() if "cyclonedx-py" in one]
    return shlex.split(line)


def test_make_dist_asks_for_what_the_tool_knows() -> None:
    tool, kind, *rest = made_by_dist()
    known = subprocess.run(
        [tool, kind, "--help"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "Pip requirements" in known
    assert [word for word in rest if word.startswith("--") and word not in known] == []
    assert rest[-1] == "requirements.lock"


@pytest.mark.exhaustive
def test_the_bill_of_materials_has_every_pin_with_its_hashes(tmp_path: Path) -> None:
    command = made_by_dist()
    bills = [tmp_path / "one.json", tmp_path / "two.json"]
    for bill in bills:
        command[command.index("-o") + 1] = str(bill)
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120)
    assert bills[0].read_bytes() == bills[1].read_bytes()
    told = json.loads(bills[0].read_text())
    lock = (ROOT / "requirements.lock").read_text()
    pins = set(re.findall(r"^([\w.-]+)==([^\s;]+)", lock, re.MULTILINE))
    assert {(one["name"], one["version"]) for one in told["components"]} == pins
    hashes = {
        one["content"]
        for component in told["components"]
        for reference in component.get("externalReferences", [])
        for one in reference.get("hashes", [])
    }
    assert hashes == set(re.findall(r"sha256:([0-9a-f]{64})", lock))
    assert told["metadata"]["component"]["name"] == "sharelag"


def test_an_audit_without_answers_is_no_pass() -> None:
    """Where PyPI's advisories cannot be read, pip-audit skips; only --strict makes that a failure."""
    rule = re.search(r"^audit:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert rule is not None
    assert {"--strict", "--require-hashes", "--disable-pip"} <= set(rule[1].split())
    known = subprocess.run(
        [tool("pip-audit"), "--help"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    for option in re.findall(r"--[a-z-]+", rule[1]):
        assert option in known
