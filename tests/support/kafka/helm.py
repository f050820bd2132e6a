"""Helm, as a library of Maven Central that ``python -m tests.support.kafka.helm`` gets.

It is called in a process of its own: the library brings Go's runtime along.
"""

import ctypes
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.kafka.jars import build_once, cache_dir, retrieve
from tests.support.kafka.jvm import RigError

HELM_JAVA = "0.0.21"
_MODULE = f"""\
<ivy-module version="2.0">
  <info organisation="tests" module="helm"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="com.marcnuri.helm-java" name="linux-amd64" rev="{HELM_JAVA}" conf="default->default"
                transitive="false"/>
  </dependencies>
</ivy-module>
"""
_TEXT, _NUMBER = ctypes.c_char_p, ctypes.c_int


class _Result(ctypes.Structure):
    _fields_ = [(name, _TEXT) for name in ("out", "err", "std_out", "std_err")]


class _Lint(ctypes.Structure):
    _fields_ = [("path", _TEXT), ("strict", _NUMBER), ("quiet", _NUMBER)]


class _Template(ctypes.Structure):
    """The fields of ``struct TemplateOptions`` in the header beside the library."""

    _fields_ = [
        *((name, _TEXT) for name in ("name", "version", "chart", "namespace", "kube_version")),
        ("dependency_update", _NUMBER),
        ("skip_crds", _NUMBER),
        *((name, _TEXT) for name in ("values", "set_files", "values_files")),
        *((name, _TEXT) for name in ("cert_file", "key_file", "ca_file")),
        ("insecure_skip_tls_verify", _NUMBER),
        ("plain_http", _NUMBER),
        ("keyring", _TEXT),
        ("debug", _NUMBER),
        ("repository_config", _TEXT),
    ]


def helm_library() -> Path:
    """Find the library in the cache, or fetch it."""
    return build_once(cache_dir() / f"helm-java-{HELM_JAVA}", _fetch) / "helm-linux-amd64.so"


def lint(chart: Path) -> str:
    """What ``helm lint --strict`` says of a chart."""
    return _ask("lint", str(chart))["out"]


def template(chart: Path, values: dict[str, str], kubernetes: str) -> dict[str, str]:
    """Render a chart as ``helm template --set`` does: ``out`` its documents, ``err`` why not."""
    return _ask("template", str(chart), urlencode(values), kubernetes)


def _ask(*arguments: str) -> dict[str, str]:
    command = [sys.executable, "-m", "tests.support.kafka.helm", str(helm_library()), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    answer: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _fetch(folder: Path) -> None:
    said = retrieve(_MODULE, folder)
    jar = folder / f"linux-amd64-{HELM_JAVA}.jar"
    if not jar.exists():
        raise RigError(
            f"Helm could not be fetched from https://repo1.maven.org/maven2/. With a closed "
            f"network, copy {folder.parent} of a machine that has it. Ivy said:\n{said}"
        )
    with zipfile.ZipFile(jar) as packed:
        packed.extract("helm-linux-amd64.so", folder)
    jar.unlink()


def _run(library: str, command: str, chart: str, values: str = "", kubernetes: str = "") -> Any:
    loaded = ctypes.CDLL(library)
    path = chart.encode()
    if command == "lint":
        options: ctypes.Structure = _Lint(path=path, strict=1)
        call = loaded.Lint
    else:
        options = _Template(
            name=b"release",
            chart=path,
            namespace=b"monitoring",
            values=values.encode(),
            kube_version=kubernetes.encode(),
        )
        call = loaded.Template
    call.restype = _Result
    result = call(ctypes.byref(options))
    return {name: (getattr(result, name) or b"").decode() for name in ("out", "err")}


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(_run(*sys.argv[1:])))
    else:
        print(helm_library())
