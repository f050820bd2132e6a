"""The widgets' scripts pass their tests in Node's test runner."""

import shutil
import subprocess

from tests.support.browser.desk import ROOT


def test_the_scripts_pass_their_own_tests() -> None:
    node = shutil.which("node")
    assert node, "the tests of the widgets' scripts need node 20 or newer: apt install nodejs"
    tests = sorted(str(path) for path in (ROOT / "widgets/tests").glob("*.test.js"))
    done = subprocess.run(
        [node, "--test", *tests], capture_output=True, text=True, check=False, cwd=ROOT / "widgets"
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    counts = dict(
        r[2:].split() for r in done.stdout.splitlines() if r.startswith(("# tests", "# pass"))
    )
    assert counts["tests"] == counts["pass"]
    assert int(counts["tests"]) >= len(tests)
