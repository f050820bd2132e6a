"""Print the pins that some extras need: the part of requirements.lock that an image installs.

Needs only the standard library. Each pin of the lock names its origin in a comment.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def main(extras: list[str]) -> None:
    """Print pins with their hashes, in the order of the lock."""
    project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
    print(*pins(Path("requirements.lock").read_text("utf-8"), wanted(project, extras)), sep="\n")


def wanted(project: dict[str, object], extras: list[str]) -> set[str]:
    """Return the packages of extras, including extras that they refer to."""
    optional: dict[str, list[str]] = project["optional-dependencies"]  # type: ignore[assignment]
    lines: list[str] = [*project["dependencies"]]  # type: ignore[misc]
    for extra in extras:
        lines += optional[extra]
    found = set()
    for line in lines:
        if own := re.match(r"sharelag\[(.*)\]", line):
            found |= wanted(project, own[1].split(","))
        else:
            found.add(_key(line))
    return found


def pins(lock: str, names: set[str]) -> list[str]:
    """Return the pins of packages and of their dependencies."""
    blocks = [one for one in re.split(r"\n(?=\S)", lock) if "==" in one.partition("\n")[0]]
    came_with = {
        _key(one): {_key(via) for via in re.findall(r"#\s+(?:via\s+)?([\w.-]+)$", one, re.M)}
        for one in blocks
    }
    kept: set[str] = set()
    more = names & came_with.keys()
    while more:
        kept |= more
        more = {name for name, via in came_with.items() if via & kept} - kept
    if missing := names - came_with.keys():
        raise SystemExit(f"requirements.lock does not pin {', '.join(sorted(missing))}: make lock")
    return [one for one in blocks if _key(one) in kept]


def _key(text: str) -> str:
    match = _NAME.match(text)
    assert match is not None  # noqa: S101
    return re.sub(r"[-_.]+", "-", match[0].lower())


if __name__ == "__main__":
    main(sys.argv[1:])
