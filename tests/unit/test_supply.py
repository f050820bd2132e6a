"""What is built can be built again, and says what is in it; the image writes only to /tmp."""

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
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import pytest

from sharelag.version import __version__
from tools import make_env
from tools.advisories import Advisories, read, server

ROOT = Path(__file__).parents[2]
#: Endings of files that others wrote: minified scripts, fonts, packed libraries.
FOREIGN = re.compile(r"\.min\.(js|css)|\.woff2?$|\.ttf$|\.jar$|\.so$")
CONTAINERFILE = ROOT / "Containerfile"
TEXT = CONTAINERFILE.read_text()


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
    """pip-audit skips advisories that it cannot read; only --strict makes that a failure."""
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


def instructions() -> list[tuple[str, str]]:
    """Every instruction with its arguments, continued lines joined."""
    kept = "\n".join(line for line in TEXT.splitlines() if not line.startswith("#"))
    joined = kept.replace("\\\n", " ")
    return [
        (word, rest.strip())
        for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)
    ]


def hadolint(text: str) -> subprocess.CompletedProcess[str]:
    found = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    assert found, "hadolint is missing: make env"
    return subprocess.run([found, "-"], input=text, capture_output=True, text=True, timeout=60)


def test_hadolint_has_no_complaint() -> None:
    answer = hadolint(TEXT)
    assert (answer.returncode, answer.stdout) == (0, "")
    unpinned = hadolint(TEXT.replace("=17.*", "").replace("# hadolint ignore=DL3008\n", ""))
    assert "DL3008" in unpinned.stdout


def test_it_runs_as_a_user_that_is_not_root() -> None:
    users = [rest for word, rest in instructions() if word == "USER"]
    assert users == ["65532:65532"]
    last = [word for word, _ in instructions()]
    assert last.index("USER") < last.index("ENTRYPOINT")


def test_packages_come_from_the_lock_by_their_hashes() -> None:
    (run,) = [rest for word, rest in instructions() if word == "RUN" and "locked.py" in rest]
    installs = [part for part in run.split("&&") if "pip install" in part]
    assert (len(installs), [part for part in installs if "--require-hashes" not in part]) == (2, [])
    for image in re.findall(r"PYTHON_IMAGE=(\S+)", TEXT)[1:]:
        assert re.fullmatch(r"docker\.io/library/python:3\.\d+\.\d+-slim-\w+", image)


def test_what_it_copies_is_there_and_is_what_the_wheel_is_made_of() -> None:
    lines = [rest for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    copied = [rest.split()[:-1] for rest in lines]
    names = {name for some in copied for name in some}
    assert [name for name in names if not (ROOT / name).exists()] == []
    wheel = re.findall(
        r'^"((?:notebooks|data)/[\w/]+)" = ', (ROOT / "pyproject.toml").read_text(), re.M
    )
    assert {"sharelag", "widgets", "pyproject.toml", *wheel} <= names
    assert f"sharelag:{__version__}" in TEXT


def test_the_image_gets_what_reports_need_and_no_tools_of_developers() -> None:
    tool = [sys.executable, "tools/locked.py", "spark", "report", "mcp"]
    lines = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = {line.partition("==")[0] for line in lines.splitlines() if re.match(r"\w.*==", line)}
    assert {"pyspark", "py4j", "papermill", "mcp", "crc32c", "numba", "llvmlite"} <= names
    assert not names & {"mypy", "playwright", "pytest", "voila", "jupyterlab", "mkdocs"}
    assert lines.count("--hash=sha256:") > len(names)
    unknown = subprocess.run([*tool, "none"], cwd=ROOT, capture_output=True, check=False)
    assert unknown.returncode != 0


def bill_of_materials() -> tuple[list[str], str]:
    """The words of the command that lists what is in the image, and the file it writes."""
    (run,) = [rest for word, rest in instructions() if word == "RUN" and "sbom" in rest]
    (command,) = [shlex.split(part) for part in run.split("&&") if "sbom" in part]
    return command, command[command.index("-o") + 1]


def test_the_image_holds_its_bill_of_materials_where_it_is_promised() -> None:
    command, written = bill_of_materials()
    assert f"`{written}`" in (ROOT / "SECURITY.md").read_text()
    (copied,) = [rest.split() for word, rest in instructions() if "--from=build" in rest]
    assert Path(written).is_relative_to(copied[1])
    assert copied[1] == copied[2] == str(Path(command[-1]).parents[1])  # of the Python it has
    (made,) = [rest for word, rest in instructions() if word == "RUN" and "sbom" in rest]
    assert made.index("pip install") < made.index("cyclonedx-py")  # when all is installed
    tool = str(Path(sys.executable).with_name(Path(command[0]).name))
    known = subprocess.run(
        [tool, command[1], "--help"], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert "(virtual) environment" in known
    assert [word for word in command if word.startswith("--") and word not in known] == []


@pytest.mark.exhaustive
def test_a_bill_of_materials_has_all_that_is_installed(tmp_path: Path) -> None:
    """By the image's own command, of the packages that this Python has."""
    command, written = bill_of_materials()
    places = {command[0]: str(Path(sys.executable).with_name(Path(command[0]).name))}
    places |= {command[-1]: sys.executable, written: str(tmp_path / "sbom.json")}
    subprocess.run(
        [places.get(word, word) for word in command],
        cwd=ROOT, check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    told = json.loads((tmp_path / "sbom.json").read_text())
    listed = [told["metadata"]["component"], *told["components"]]
    installed = {(one.name, one.version) for one in distributions()}
    assert {(one["name"], one["version"]) for one in listed} == installed
    assert [one for one in told["components"] if one.get("licenses")] != []


def kernels() -> tuple[dict[str, str], str]:
    """The settings and the code by which the image compiles kernels."""
    (run,) = [rest for word, rest in instructions() if word == "RUN" and "use_kernels" in rest]
    words = shlex.split(run.split("&&")[-1])
    return dict(word.split("=", 1) for word in words[:2]), words[-1]


def test_the_image_compiles_the_kernels_that_make_env_compiles() -> None:
    settings, code = kernels()
    assert code.replace(";", " ").split() == make_env.KERNELS.split()
    (start,) = [rest for word, rest in instructions() if word == "ENTRYPOINT"]
    assert f"cp -r {settings['NUMBA_CACHE_DIR']} /tmp/" in start


@pytest.mark.exhaustive
def test_what_is_compiled_is_all_that_answers_and_simulations_need(tmp_path: Path) -> None:
    settings, code = kernels()
    env = os.environ | settings | {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ask = "from sharelag.replay import prepared; from sharelag.whatif.compiled import ready; "
    ask += "print(prepared.are_compiled(), ready.is_ready())"
    for wanted, command in (("False False", ask), ("", code), ("True True", ask)):
        said = subprocess.run(
            [sys.executable, "-c", command],
            env=env, check=True, capture_output=True, text=True, timeout=600,
        ).stdout  # fmt: skip
        assert said.strip() == wanted


#: A root file system that nothing can be written to, but for one folder in the place of /tmp.
_READ_ONLY = """
mount --make-rprivate / && mount -t tmpfs tmpfs "$1" && mount -o remount,ro,bind / || exit 77
touch /.sharelag-probe 2>/dev/null && exit 78
shift; exec "$@"
"""


@pytest.mark.timeout(960)
@pytest.mark.exhaustive
@pytest.mark.parametrize("command", ["check", "report"])
def test_a_read_only_root_is_enough(command: str, tmp_path: Path) -> None:
    last = [rest for word, rest in instructions() if word == "ENV"][-1]
    environment = dict(line.split("=", 1) for line in last.split())
    assert set(environment) >= {"HOME", "NUMBA_CACHE_DIR", "SPARK_LOCAL_DIRS"}
    scratch = {name: value.replace("/tmp", str(tmp_path), 1) for name, value in environment.items()}
    scratch["PATH"] = os.environ["PATH"]
    arguments = {
        "check": ["check", "--rules", str(ROOT / "data/examples/rules.yaml"), "--engine", "local"],
        "report": [
            *("report", "daily", "--no-figures", "--engine", "local"),
            *("--out", str(tmp_path / "reports")),
        ],
    }[command]
    answer = subprocess.run(
        ["unshare", "--mount", "sh", "-c", _READ_ONLY, "sh", str(tmp_path), sys.executable, "-c",
         "from sharelag.cli import main; main()", *arguments, "--capture", str(ROOT / "data/captures/demo")],
        env=scratch | {"TMPDIR": str(tmp_path), "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "widgets")])},
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=900,
    )  # fmt: skip
    if answer.returncode == 77 or "unshare" in answer.stderr:
        pytest.skip(f"no file system of its own can be mounted here: {answer.stderr[-200:]}")
    assert answer.returncode == {"check": 2, "report": 0}[command], answer.stderr
    assert "CRITICAL" in answer.stdout
