"""The wheel, installed into a separate environment and used in an empty folder."""

import os
import site
import subprocess
import sys
from pathlib import Path

import pytest
from jupyterlab_server.settings_utils import get_settings

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a new environment that sees the dependencies, but no checkout."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    where = subprocess.check_output(
        [python, "-c", "import site; print(site.getsitepackages()[0])"], text=True
    )
    # A folder that a .pth file names is searched, and its own .pth files are not: they would bring
    # the checkout back in.
    Path(where.strip(), "others.pth").write_text("\n".join(site.getsitepackages()))
    install = [sys.executable, "-m", "uv", "pip", "install", "--no-deps", "--offline", "--no-cache"]
    subprocess.run([*install, "--python", python, wheel], check=True, capture_output=True)
    return folder / "bin"


def run(command: Path, *arguments: str, folder: Path) -> str:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    answer = subprocess.run(
        [command, *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


@pytest.mark.exhaustive
def test_its_samples_open_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    code = (
        "import sharelag; print(sharelag.__file__); print(len(sharelag.samples()));"
        "print(sharelag.open('demo', engine='local').lag().table.num_rows);"
        "print(sharelag.open('poison', engine='local').explain().table.num_rows > 0)"
    )
    where, samples, rows, told = run(installed / "python", "-c", code, folder=tmp_path).splitlines()
    assert installed.parent in Path(where).parents
    assert (samples, rows, told) == ("23", "28", "True")


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_its_demo_runs_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    result = run(installed / "sharelag", "demo", "--out", "x", folder=tmp_path)
    assert "hot_partition" in result
    assert (tmp_path / "x" / "reports" / "daily" / "latest" / "report.html").is_file()


@pytest.mark.exhaustive
def test_jupyterlab_beside_it_saves_what_widgets_show(installed: Path) -> None:
    """By the extension's own schema: a default that people can still change."""
    overrides = installed.parent / "share" / "jupyter" / "lab" / "settings"
    found, _ = get_settings(
        str(overrides),
        "",
        str(installed.parent / "no-settings"),
        schema_name="@jupyter-widgets/jupyterlab-manager:plugin",
        labextensions_path=[str(Path(sys.prefix) / "share" / "jupyter" / "labextensions")],
    )
    assert found["schema"]["properties"]["saveState"]["default"] is True
