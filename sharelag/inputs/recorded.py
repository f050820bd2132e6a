"""The recorded clusters that come with sharelag, to try it without a cluster."""

from __future__ import annotations

import json
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
#: Within the package in a wheel, next to it in a checkout.
_PLACES = (_PACKAGE / "captures", _PACKAGE.parent / "data" / "captures")
CAPTURES = next((place for place in _PLACES if place.is_dir()), _PLACES[0])
DEMO = "demo"
#: Samples with more than one group, and what happens in each.
_SHOPS = {
    DEMO: (
        "Forty minutes of a shop on three brokers, recorded while its members worked: eight share "
        "groups, of which seven are in trouble, each in a different way."
    ),
    "chapters": (
        "Two minutes of a small shop: releases, rejects, time-outs, a poison record, resets, and "
        "a deleted group, with Kafka's own answers at the end of each chapter."
    ),
}


def samples() -> dict[str, str]:
    """Return what happens in each recorded cluster, by the name that `sharelag.open` takes."""
    stories = sorted(CAPTURES.glob("scenarios/*/expected.json"))
    return _SHOPS | {
        path.parent.name: json.loads(path.read_text("utf-8"))["story"] for path in stories
    }


def folder_of(name: str) -> Path:
    """Return the folder of a sample, which need not exist."""
    return CAPTURES / name if name in _SHOPS else CAPTURES / "scenarios" / name
