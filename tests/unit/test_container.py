"""The image, by hadolint and its own lines; and that nothing but /tmp has to be writable."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

import pytest

from sharelag.version import __version__
from tools import make_env

ROOT = Path(__file__).parents[2]
CONTAINERFILE = ROOT / "Containerfile"
TEXT = CONTAINERFILE.read_text()


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
