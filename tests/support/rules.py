"""Rule files, and what they are judged to be."""

from typing import Any

from sharelag.monitoring.checks.judge import Checked, check
from sharelag.monitoring.checks.rules import Rules, parse_rules
from tests.support.chapters import CAPTURE
from tests.support.written_input import Write

EXAMPLES = CAPTURE.parents[1] / "examples"


def rules(*lines: str, silences: str = "") -> Rules:
    text = "version: 1\nrules:\n" + "".join(
        f"- {{name: rule {n}, {line}}}\n" for n, line in enumerate(lines)
    )
    return parse_rules(text + silences)


def outcome(source: Any, line: str) -> dict[str, Any]:
    (row,) = judged(source, line).table.to_pylist()
    found: dict[str, Any] = row
    return found


def judged(source: Any, *lines: str, silences: str = "") -> Checked:
    return check(source, rules(*lines, silences=silences), "local")


#: A record a second; nobody finishes any since ten minutes ago.
STOPPED = [Write(3600, 3600), Write(600, 6600)]
