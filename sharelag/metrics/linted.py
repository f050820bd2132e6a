"""A checked command line as a table."""

from __future__ import annotations

import pyarrow as pa

from sharelag.metrics.settings_in_force import LINT
from sharelag.model.kafka_commands import Checked


def linted_arrow(checked: Checked) -> pa.Table:
    """Return the options of a command line with what is wrong with each, as `LINT`.

    Options that were not given and have a default of Kafka are among them, and say so.
    """
    problems: dict[str, list[tuple[str, str]]] = {}
    for one in checked.problems:
        problems.setdefault(one.name, []).append((one.why, one.hint))
    rows = []
    for name, values in checked.given.items():
        value = " ".join(text for text in values if text is not None) or None
        rows.append({"name": f"--{name}", "value": value})
    rows += [{"name": f"--{name}", "value": value} for name, value in checked.in_force.items()]
    named = {row["name"] for row in rows}
    rows += [{"name": name, "value": None} for name in problems if name not in named]
    for row in rows:
        found = problems.get(str(row["name"]), [])
        row["problem"] = "; ".join(why for why, _ in found) or None
        row["hint"] = "; ".join(hint for _, hint in found if hint) or None
        name = str(row["name"]).removeprefix("--")
        if name in checked.in_force:
            kip = checked.tool.of_the_kip.get(name)
            row["hint"] = "not given: Kafka's default" + (f"; {kip} in KIP-932" if kip else "")
    return pa.Table.from_pylist(rows, schema=LINT)
