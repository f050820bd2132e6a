"""What a what-if changes: controls that say themselves what is wrong with them, and the Python."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ipywidgets as W  # noqa: N812

from sharelag.durations import duration
from sharelag.errors import InputError
from sharelag.whatif import Scenario, assignor_descriptions, assignor_names
from sharelag.whatif.clearing import ASSIGNORS
from sharelag.whatif.comparison.intervals import enough_seeds
from sharelag.whatif.consumers import require_members
from sharelag.whatif.horizon import SHORTEST_MS, cut_short

from .pieces import Chips, Field
from .trials import BASELINE, numbers, settings_of, shorter, simulate_options

_AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Change:
    """What was chosen, as far as it can be read."""

    assignors: tuple[str, ...]
    members: tuple[int, ...]
    locks: tuple[float, ...]
    limits: tuple[int, ...]
    seconds: float
    seed: int
    runs: int | None  # of each variant; None: as many as tell variants apart

    def seeds_of(self, variants: int) -> range:
        """Return the seeds of so many variants."""
        return range(self.seed, self.seed + (self.runs or enough_seeds(variants)))

    def variants(self, scenario: Scenario) -> dict[str, Scenario]:
        """Return the group as it is, and all combinations; one of them has to differ from it."""
        return simulate_options(
            shorter(scenario, self.seconds), self.assignors, self.members, self.locks, self.limits
        )

    def code(self, group: str, seeds: range) -> str:
        """Return the Python that gives the same comparison of ``bench``."""
        given = {
            "assignors": list(self.assignors),
            "members": list(self.members),
            "settings": settings_of(self.locks, self.limits),
        }
        chosen = ", ".join(f"{name}={value!r}" for name, value in given.items() if value)
        return f"""from dataclasses import replace
from sharelag.whatif import compare, variants
from sharelag import charts
duration_ms = {round(self.seconds * 1000)}
scenario = replace(bench.scenario({group!r}), duration_ms=duration_ms)
tried = variants(scenario, {chosen})
others = {{name: one for name, one in tried.items() if one != scenario}}
comparison = compare({{{BASELINE!r}: scenario}} | others, seeds={seeds!r})
curves = charts.projection_figure(comparison.projected)
display(comparison, curves)"""


class Presets(W.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Members, assignors and locks first; ``advanced`` are the controls that few need."""

    def __init__(self, entered: Callable[[], Any]) -> None:
        self.members = Field("Members", step=True, entered=entered)
        self.locks = Field("Lock duration, s", entered=entered)
        self.assignors = Chips("Assignors", assignor_names(), value=("lag-aware-sticky",))
        self.assignors.about = assignor_descriptions()
        self.limits = Field("Delivery limit", entered=entered)
        self._seconds = SHORTEST_MS // 1000
        self.seconds = _count("Simulated time, s", self._seconds, 1, 86_400)
        self.runs = _count("Runs (0: enough)", 0, 0, 200)
        self.seed = _count("First seed", 0, 0, 2**31)
        for field in (self.members, self.locks, self.limits):
            field.layout.width = "16em"
            field.observe(lambda _: self._checked(), names=["value"])
        self.assignors.observe(lambda _: self._checked(), names=["value"])
        row = W.Layout(flex_flow="row wrap", grid_gap="6px 22px", align_items="flex-start")
        others = [self.limits, self.seconds, self.runs, self.seed]
        below = W.Layout(flex_flow="row wrap", grid_gap="6px 22px", align_items="flex-end")
        self.advanced = W.HBox(others, layout=below)
        self.assignors.layout = W.Layout(flex="1 1 24em", min_width="0")
        super().__init__(
            [W.HBox([self.members, self.locks, self.assignors], layout=row)],
            layout=W.Layout(width="100%"),
        )

    @property
    def fields(self) -> list[W.Widget]:
        """All controls."""
        several = [self.limits, self.runs, self.seed, self.seconds]
        return [self.assignors, self.members, self.locks, *several]

    def begin_with(self, scenario: Scenario) -> None:
        """Say what is in force where nothing is chosen."""
        limits, count = scenario.settings.limits, len(scenario.each_member())
        self.members.start, self.members.hint = count, f"as they are: {count:,}"
        self.locks.hint = f"{_AS_IT_IS}: {duration(limits.lock_duration_ms)}"
        self.limits.hint = f"{_AS_IT_IS}: {limits.delivery_count_limit}"
        self.assignors.now = scenario.assignor
        if self.seconds.value == self._seconds:  # nobody chose another
            self._seconds = cut_short(scenario).duration_ms // 1000
            self.seconds.value = self._seconds

    def read(self) -> Change | None:
        """Return what is chosen; None where a field cannot be read, which says so itself."""
        members, locks, limits = self._checked()
        if members is None or locks is None or limits is None:
            return None
        read = tuple(members), tuple(locks), tuple(limits)
        how = self.seconds.value, self.seed.value, self.runs.value or None
        return Change(self.assignors.value, *read, *how)

    @property
    def seeds(self) -> range:
        """The seeds of a search, or of the group as it is and one change of it."""
        return range(self.seed.value, self.seed.value + (self.runs.value or enough_seeds(2)))

    @property
    def searched(self) -> dict[str, Any]:
        """What a search for what clears the lag is given: what somebody chose."""
        assignors = list(dict.fromkeys([*ASSIGNORS, *self.assignors.value]))
        is_shorter = self.seconds.value != self._seconds
        given = {
            "assignors": assignors if len(assignors) > len(ASSIGNORS) else None,
            "members": self._checked()[0],
            "duration_ms": self.seconds.value * 1000 if is_shorter else None,
            "seeds": self.seeds if self.runs.value else None,
        }
        return {name: value for name, value in given.items() if value}

    def search_code(self, group: str) -> str:
        """Return the Python that finds the same as the search of the lab."""
        given = "".join(f"{name}={value!r}, " for name, value in self.searched.items())
        return f"""from sharelag.whatif import what_clears
from sharelag import charts
scenario = bench.scenario({group!r})
found = what_clears(scenario, {given}baseline={BASELINE!r})
comparison = found.comparison
curves = charts.projection_figure(comparison.projected)
display(found, curves)"""

    def _checked(self) -> tuple[list[int] | None, list[float] | None, list[int] | None]:
        self.assignors.error = ""
        return (
            _read(self.members, _members),
            _read(self.locks, lambda given: numbers(given, "lock durations", float)),
            _read(self.limits, lambda given: numbers(given, "delivery limits")),
        )


def _members(given: str) -> list[int]:
    counts = numbers(given, "members")
    for count in counts:
        require_members(count)
    return counts


def _read(field: Field, act: Callable[[str], list[Any]]) -> list[Any] | None:
    """Return what a field says, or None; then the field says what is wrong."""
    try:
        found = act(field.value)
    except InputError as error:
        field.error = str(error)
        return None
    field.error = ""
    return found


def _count(words: str, value: int, least: int, most: int) -> W.BoundedIntText:
    made = W.BoundedIntText(
        value, min=least, max=most, description=words, layout=W.Layout(width="14em")
    )
    made.style.description_width = "initial"
    return made
