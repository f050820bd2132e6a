"""Serve a copy of OSV's advisories on this machine, for ``make audit`` without a network.

``python -m tools.advisories all.zip`` takes osv.dev's export of the advisories for PyPI (a zip
file, or a folder with its JSON files), answers OSV's ``/v1/query`` on loopback, and prints the
address and the age of the copy. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import json
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

_ECOSYSTEM = "PyPI"
_PATH = "/v1/query"


def read(place: Path) -> list[dict[str, Any]]:
    """Return all advisories of a zip file or a folder.

    Raises
    ------
    SystemExit
        No advisories were found, or a file is not valid JSON.
    """
    try:
        found = [json.loads(text) for text in _texts(place)]
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise SystemExit(
            f"cannot read advisories of {place} ({error}): use osv.dev's export of PyPI, all.zip, "
            "or a folder with its JSON files"
        ) from error
    if not found:
        raise SystemExit(f"{place} has no advisories: use osv.dev's export of PyPI, all.zip")
    return found


def _texts(place: Path) -> Iterator[bytes]:
    if place.is_dir():
        yield from (path.read_bytes() for path in sorted(place.rglob("*.json")))
        return
    with zipfile.ZipFile(place) as packed:
        yield from (packed.read(name) for name in packed.namelist() if name.endswith(".json"))


class Advisories:
    """Known advisories by package and version.

    Parameters
    ----------
    advisories : iterable of mapping
        In OSV's schema, version 1.
    """

    def __init__(self, advisories: Iterable[Mapping[str, Any]]) -> None:
        self._of: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = defaultdict(list)
        self.count, self.newest = 0, ""
        for one in advisories:
            self.count += 1
            self.newest = max(self.newest, one.get("modified", ""))
            for affected in one.get("affected", ()):
                package = affected.get("package", {})
                if package.get("ecosystem") == _ECOSYSTEM:
                    self._of[canonicalize_name(package["name"])].append((one, affected))

    def of(self, name: str, version: str) -> list[Mapping[str, Any]]:
        """Return the advisories for one version of a package."""
        found = self._of.get(canonicalize_name(name), ())
        about = {one["id"]: one for one, affected in found if _is_in(version, affected)}
        return list(about.values())


def _is_in(version: str, affected: Mapping[str, Any]) -> bool:
    """Return whether an advisory affects a version, by name or by one of its ranges."""
    asked = Version(version)
    if any(_version(each) == asked for each in affected.get("versions", ())):
        return True
    ranges = [one for one in affected.get("ranges", ()) if one.get("type") == "ECOSYSTEM"]
    return any(_is_between(asked, one.get("events", ())) for one in ranges)


def _is_between(asked: Version, events: Iterable[Mapping[str, str]]) -> bool:
    """Follow a range's events in version order up to a version."""
    known = ((_version(at), what) for event in events for what, at in event.items())
    order = {"introduced": 0, "last_affected": 1, "fixed": 2}
    ordered = [(at, order[what], what) for at, what in known if at is not None and what in order]
    inside = False
    for at, _, what in sorted(ordered):
        if at > asked or (at == asked and what == "last_affected"):
            break
        inside = what == "introduced"
    return inside


def _version(text: str) -> Version | None:
    """Return a version, or None for one that predates PyPI's rules."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def server(known: Advisories, port: int = 0) -> ThreadingHTTPServer:
    """Return a loopback server that answers OSV's query for one version of a package."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if self.path != _PATH:
                self.send_error(404, f"only {_PATH} is answered")
                return
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = known.of(asked["package"]["name"], asked["version"])
            body = json.dumps({"vulns": found} if found else {}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Do not log requests that were answered."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


def main(arguments: list[str]) -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("place", type=Path, help="all.zip, or a folder with its JSON files")
    parser.add_argument("--port", type=int, default=0, help="by default one that is free")
    asked = parser.parse_args(arguments)
    known = Advisories(read(asked.place))
    with server(known, asked.port) as serving:
        where = f"http://127.0.0.1:{serving.server_address[1]}{_PATH}"
        print(f"{known.count:,} advisories, the newest of {known.newest}")
        print(f"make audit ADVISORIES={where}", flush=True)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            print("ended")


if __name__ == "__main__":
    main(sys.argv[1:])
