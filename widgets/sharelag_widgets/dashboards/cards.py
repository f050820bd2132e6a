"""Causes of lag as cards: what holds it, what shows that, what to do, and a command to copy."""

from __future__ import annotations

from typing import Any

import traitlets

from sharelag.workbench import Workbench
from sharelag.workbench.next_steps import input_options, next_command

from ..bundle import script, style
from ..heard import Heard
from ..view import in_other_forms

CAUSES_HELP = {
    "cause": "what holds lag, the most severe first; each with what shows it and what to do",
    "holds": "how many offsets of lag the cause explains",
    "nothing found": "no cause could be shown; with everything known, nothing is wrong",
}
#: What a card says of a cause, as `CauseSummary` names it.
_CARD = ("severity", "cause", "where", "summary", "evidence", "advice")


class CauseCards(Heard):
    """How a group is in a sentence, and a card for each cause, the worst first."""

    _esm = script("dashboards/cards.js")
    _css = style("dashboards/cards.css")

    group = traitlets.Unicode("").tag(sync=True)
    state = traitlets.Unicode("").tag(sync=True)
    #: For each cause: ``severity``, ``cause``, ``where``, ``summary``, ``evidence``, ``advice``,
    #: and ``command``, a line for a shell.
    cards: traitlets.List[dict[str, str]] = traitlets.List().tag(sync=True)

    def show(self, bench: Workbench, group: str) -> None:
        """Show the causes of a group's lag."""
        explained = bench.explain(group)
        (said,) = explained.summaries
        source = input_options(bench.source)
        (members,) = (
            row["members"] for row in bench.overview().table.to_pylist() if row["group_id"] == group
        )
        rows = explained.table.sort_by([("rank", "ascending")]).to_pylist()
        with self.hold_sync():
            self.group, self.state = said.group, said.state
            self.cards = [
                {name: str(getattr(words, name)) for name in _CARD}
                | {"command": next_command(row, source, members)}
                for words, row in zip(said.causes, rows, strict=True)
            ]

    def _repr_mimebundle_(self, **options: Any) -> Any:
        lines = [f"{self.group}  {self.state}"]
        lines += [f"{one['severity']}: {one['cause']} {one['where']}" for one in self.cards]
        return in_other_forms(super()._repr_mimebundle_(**options), plain="\n".join(lines))
