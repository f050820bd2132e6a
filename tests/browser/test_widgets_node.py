"""The widgets' scripts pass their tests in Node's test runner."""

import json
import shutil
import subprocess
from itertools import product

from sharelag.tables.lines import lines
from tests.support.browser.desk import ROOT


def node() -> str:
    found = shutil.which("node")
    assert found, "the tests of the widgets' scripts need node 20 or newer: apt install nodejs"
    return found


def test_rows_are_copied_as_commands_print_csv() -> None:
    parts = [
        "=",
        "\t",
        "\n",
        "\r",
        "\\",
        "n",
        "x1b",
        "\x1b",
        "\u202e",
        "\xa0",
        "\U000e0041",
        ",",
        '"',
        " ",
    ]
    texts = ["".join(pair) for pair in product(parts, repeat=2)]
    script = f"""
        import {{ readFileSync }} from "node:fs";
        import {{ csvLine }} from "{ROOT}/widgets/sharelag_widgets/table_math.js";
        const lineOf = (text) => csvLine([text, text], ["group_id", "topic"]);
        console.log(JSON.stringify(JSON.parse(readFileSync(0)).map(lineOf)));
    """
    command = [node(), "--input-type=module", "--eval", script]
    done = subprocess.run(
        command, input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    _, *printed = lines([{"group_id": text, "topic": text} for text in texts], "csv")
    assert json.loads(done.stdout) == printed


def test_the_scripts_pass_their_own_tests() -> None:
    tests = sorted(str(path) for path in (ROOT / "widgets/tests").glob("*.test.js"))
    done = subprocess.run(
        [node(), "--test", *tests],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT / "widgets",
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    counts = dict(
        r[2:].split() for r in done.stdout.splitlines() if r.startswith(("# tests", "# pass"))
    )
    assert counts["tests"] == counts["pass"]
    assert int(counts["tests"]) >= len(tests)
