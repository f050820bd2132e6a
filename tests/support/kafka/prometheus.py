"""A real Prometheus, which ``python -m tests.support.kafka.prometheus`` gets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.support.kafka.jars import build_once, cache_dir
from tests.support.kafka.jvm import RigError
from tests.support.ports import free_port

_CONFIG = """\
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: sharelag
    authorization: {{credentials: {token}}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def prometheus_bin() -> Path:
    """Find ``prometheus`` and ``promtool``: in ``$PROMETHEUS_BIN``, the PATH or the cache."""
    if given := os.environ.get("PROMETHEUS_BIN"):
        return Path(given)
    if installed := shutil.which("prometheus"):
        return Path(installed).parent
    return build_once(cache_dir() / "prometheus", _fetch) / "usr" / "bin"


@contextmanager
def prometheus(folder: Path, target: int, token: str) -> Iterator[Prometheus]:
    """Prometheus with one target on this machine, in a separate folder and on a free port."""
    config = folder / "prometheus.yml"
    config.write_text(_CONFIG.format(token=token, port=target))
    address = f"127.0.0.1:{free_port()}"
    command = [str(prometheus_bin() / "prometheus"), f"--config.file={config}"]
    command.append(f"--storage.tsdb.path={folder}/tsdb")
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, f"--web.listen-address={address}"], stdout=log, stderr=log
        )
        try:
            yield Prometheus(address, process, folder / "prometheus.log")
        finally:
            process.terminate()
            process.wait(timeout=30)


class Prometheus:
    """Asks a Prometheus over its API."""

    def __init__(self, address: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self._address, self._process, self._log = address, process, log

    def scraped(self) -> dict[str, Any]:
        """The target, once what it was scraped for is stored, rightly or not."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                targets = self._get("targets")["activeTargets"]
            except (urllib.error.URLError, ConnectionError):
                targets = []  # it is still starting
            # A target is up a moment before its samples are stored; `up` is stored with them.
            if targets and targets[0]["health"] != "unknown" and self.values("up"):
                target: dict[str, Any] = targets[0]
                return target
            time.sleep(0.1)
        raise RigError(
            f"Prometheus has not scraped within a minute; its log:\n{self._log.read_text()[-2000:]}"
        )

    def values(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """What an expression of PromQL gives now: labels and value of each series."""
        found = self._get("query", query=expression)["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def _get(self, path: str, **query: str) -> Any:
        with urllib.request.urlopen(
            f"http://{self._address}/api/v1/{path}?{urlencode(query)}", timeout=30
        ) as answer:
            return json.load(answer)["data"]


def _fetch(folder: Path) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise RigError(
            "a test needs Prometheus, which is only fetched on Debian: "
            "install it, or set PROMETHEUS_BIN"
        )
    print("fetching Prometheus ...", flush=True)
    _run(["apt-get", "download", "-qq", "prometheus"], folder)
    (package,) = folder.glob("prometheus_*.deb")
    _run(["dpkg-deb", "-x", package.name, "."], folder)
    package.unlink()


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    # Its lists may be old, or not there.
    if done.returncode and command[0] == "apt-get" and os.geteuid() == 0:
        subprocess.run(["apt-get", "update", "-qq"], capture_output=True, check=False)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RigError(
            f"{' '.join(command)} failed: install Prometheus, or set PROMETHEUS_BIN\n{done.stderr}"
        )


if __name__ == "__main__":
    try:
        prometheus_bin()
    except RigError as error:
        sys.exit(str(error))
