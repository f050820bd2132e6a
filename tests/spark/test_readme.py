"""What the README and the how-to pages show in Python runs as it stands."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/how-to/backlog.md", "docs/how-to/why.md"]


@pytest.mark.parametrize("name", PAGES)
def test_it_runs(name: str, spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / name).read_text("utf-8"), re.M | re.S)
    exec(compile(code, name, "exec"), {})
    shown = re.findall(r"^\|.*\blag\|$", capsys.readouterr().out, re.MULTILINE)
    assert len(shown) == len(re.findall(r"sql\(.*\.show\(\)", code))
