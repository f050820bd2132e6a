"""`make env`: uv installs what is locked, from where pip was told to look."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tools import make_env

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


def test_the_environment_counts_more_than_pips_files(
    only_these: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "pip.conf"
    settings.write_text("[global]\nfind-links = /old\nno-index = true\ncert = /pip.pem\n")
    only_these.setenv("PIP_CONFIG_FILE", str(settings))
    only_these.setenv("PIP_FIND_LINKS", "/new /it's")
    only_these.setenv("SSL_CERT_FILE", "/mine.pem")
    places, ways = make_env.as_pip_was_told(PYTHON)
    assert places == ["--find-links", "/new", "--find-links", "/it's", "--no-index"]
    assert ways["SSL_CERT_FILE"] == "/mine.pem"


@pytest.mark.usefixtures("only_these")
def test_without_settings_uv_looks_where_it_always_does() -> None:
    assert make_env.as_pip_was_told(PYTHON)[0] == []


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
