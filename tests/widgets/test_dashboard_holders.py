"""Dashboards name who holds offsets, where a log of requests says so."""

from pathlib import Path

import pytest

import sharelag
from sharelag_widgets.dashboards import PoisonHunt, WindowExplorer
from tests.support.request_lines import TOPIC, fetch, log_of

#: Topic `orders` of the recorded demo.
ORDERS = "sKsPW6TOQnKQg0plb_HCDA"


@pytest.mark.parametrize("kind", [WindowExplorer, PoisonHunt])
def test_the_strip_names_who_holds_offsets(
    kind: type[WindowExplorer | PoisonHunt], tmp_path: Path
) -> None:
    lines = [fetch(1_000, "m-<b>7</b>", 0, [(680, 699, 1)]), fetch(50_000, "m-8", 0)]
    log = log_of(
        tmp_path,
        *[
            one.replace("2026-11-23 00:00:", "2026-11-21 11:45:")
            .replace(TOPIC, ORDERS)
            .replace('"groupId":"g"', '"groupId":"billing"')
            for one in lines
        ],
    ).log.path
    known = kind(sharelag.open("chapters", engine="local", requests=log), "billing")
    (said,) = known.strip.header.notes
    assert said.startswith("orders:0: 680-699 acquired by m-<b>7</b> since 2026-11-21 11:45:00 UTC")
    without = kind(sharelag.open("chapters", engine="local"), "billing")
    assert without.strip.header.notes == []
