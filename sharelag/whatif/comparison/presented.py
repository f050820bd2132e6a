"""Comparisons, searches and moves to share groups as the tables that people are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharelag.tables import views
from sharelag.tables.presentation import Presentation
from sharelag.whatif.comparison import rows
from sharelag.whatif.presented import presented

if TYPE_CHECKING:
    from sharelag.whatif.compare import Comparison
    from sharelag.whatif.consumer_group import Moving
    from sharelag.whatif.search import Found


def comparison(found: Comparison) -> Presentation:
    """Variants against a baseline, measure by measure."""
    compared = [rows.for_people(row) for row in rows.compared_rows(found, rows.SHOWN)]
    notes = tuple(rows.sentences(found))
    return presented(f"Compared to {found.baseline}", compared, views.COMPARED, notes)


def search(found: Found) -> Presentation:
    """The numbers of members that were tried."""
    probes = [rows.probe_for_people(row) for row in rows.probe_rows("", found)]
    measure = found.goal.measure
    words = str(found).replace(measure.removesuffix("_ms"), rows.measure_words(measure))
    return presented(f"Fewest members: {words}", probes, views.PROBES.without("variant"))


def moving(found: Moving) -> Presentation:
    """The same work as a consumer group and as a share group."""
    moved = [rows.moving_for_people(row) for row in rows.moving_rows("", found)]
    title = "Consumer group or share group?"
    return presented(title, moved, views.MOVING.without("variant"), (rows.MOVING,))
