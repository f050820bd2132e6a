"""What is built can be built again, says what it is made of, and carries its licences."""

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tools import make_env
from tools.advisories import Advisories, read, server

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
    assert (one.name, one.read_bytes()) == (other.name, other.read_bytes())


def test_it_holds_both_packages_and_their_data(wheels: list[Path]) -> None:
    names = set(zipfile.ZipFile(wheels[0]).namelist())
    assert {
        *("sharelag/__init__.py", "sharelag/py.typed"),
        *("sharelag/captures/demo/records/part-0.parquet", "sharelag/examples/rules.yaml"),
        *("sharelag/inputs/spark/log4j2.properties", "sharelag/reports/notebooks/daily.ipynb"),
        *("sharelag_widgets/__init__.py", "sharelag_widgets/py.typed"),
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
        command += ["--vulnerability-service", "osv", "--osv-url", where]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        serving.shutdown()
    assert done.returncode == 1, done.stderr
    told = {one["name"]: one["vulns"] for one in json.loads(done.stdout)["dependencies"]}
    assert [one["id"] for one in told["click"]] == ["X-click"]
    assert (told["click"][0]["fix_versions"], told["idna"]) == (["99"], [])


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
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit, match="has no advisories"):
        read(tmp_path / "empty")


PYTHON = Path(sys.executable)


@pytest.fixture
def only_these(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Keep the settings of this machine's pip out."""
    pips = ("PIP_FIND_LINKS", "PIP_CERT", "PIP_INDEX_URL")
    for name in (*pips, *make_env.WAYS.values()):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return monkeypatch


def test_uv_is_told_what_pip_was_told(only_these: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = tmp_path / "pip.conf"
    settings.write_text(
        "[global]\nindex-url = https://me:hunter2@mirror.example/simple\ncert = /ours.pem\n"
        "extra-index-url =\n    https://one.example/simple\n    https://two.example/simple\n"
        "[install]\nfind-links = /wheels\n"
    )
    only_these.setenv("PIP_CONFIG_FILE", str(settings))
    only_these.setenv("PIP_PROXY", "http://proxy.example:3128")
    places, ways = make_env.as_pip_was_told(PYTHON)
    assert places == ["--find-links", "/wheels"]
    # Not as arguments, which everybody on the machine can see: addresses may have passwords.
    assert {name: ways[name] for name in make_env.WAYS.values()} == {
        "UV_DEFAULT_INDEX": "https://me:hunter2@mirror.example/simple",
        "UV_INDEX": "https://one.example/simple https://two.example/simple",
        "ALL_PROXY": "http://proxy.example:3128",
        "SSL_CERT_FILE": "/ours.pem",
    }


def test_the_environment_beats_pips_files(only_these: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert make_env.as_pip_was_told(PYTHON)[0] == []  # uv looks where it always does
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nfind-links = /old\nno-index = true\ncert = /pip.pem\n")
    only_these.setenv("PIP_CONFIG_FILE", str(settings))
    only_these.setenv("PIP_FIND_LINKS", "/new /it's")
    only_these.setenv("SSL_CERT_FILE", "/mine.pem")
    places, ways = make_env.as_pip_was_told(PYTHON)
    assert places == ["--find-links", "/new", "--find-links", "/it's", "--no-index"]
    assert ways["SSL_CERT_FILE"] == "/mine.pem"


def test_a_file_that_is_not_the_locked_one_is_not_installed(tmp_path: Path) -> None:
    wheel = tmp_path / "wheels" / "locked-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as parts:
        parts.writestr("locked.py", "")
        parts.writestr("locked-1.0.dist-info/METADATA", "Name: locked\nVersion: 1.0\n")
        parts.writestr("locked-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        parts.writestr("locked-1.0.dist-info/RECORD", "")
    right = hashlib.sha256(wheel.read_bytes()).hexdigest()
    places = ["--no-index", "--find-links", str(wheel.parent)]
    outcomes = {}
    for name, digest in {"right": right, "wrong": "0" * 64, "without": ""}.items():
        lock = tmp_path / f"{name}.lock"
        lock.write_text("locked==1.0" + (f" --hash=sha256:{digest}" if digest else ""))
        command = [*make_env.installing(PYTHON), *make_env.locked(lock), *places]
        command += ["--target", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        outcomes[name] = done.returncode == 0
    assert outcomes == {"right": True, "wrong": False, "without": False}
