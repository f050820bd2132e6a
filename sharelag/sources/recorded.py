"""The recorded clusters that come with sharelag, to learn on without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
#: In a wheel within the package, in a checkout beside it.
_PLACES = (_PACKAGE / "captures", _PACKAGE.parent / "data" / "captures")
CAPTURES = next((place for place in _PLACES if place.is_dir()), _PLACES[0])
DEMO = "demo"
_STORY = (
    "A shop with eight share groups: releases, rejects, time-outs, a poison record, resets, "
    "and a deleted group."
)


def samples() -> dict[str, str]:
    """The recorded clusters by the names that `sharelag.open` takes, with what happens in each.

    Returns
    -------
    dict of str to str
        The demo first.
    """
    stories = sorted(CAPTURES.glob("scenarios/*/expected.json"))
    return {DEMO: _STORY} | {
        path.parent.name: json.loads(path.read_text("utf-8"))["story"] for path in stories
    }


def folder_of(name: str) -> Path:
    """The capture of a sample, which need not be there."""
    return CAPTURES / name if name == DEMO else CAPTURES / "scenarios" / name
