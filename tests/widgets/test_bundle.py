"""anywidget gets one module, light and free of Spark."""

import re
from pathlib import Path

import pytest

from sharelag.errors import SetupError
from sharelag_widgets import bundle
from tests.support.own_process import run_code

SCRIPTS = ["assignment_editor", "window_strip", "partition_grid", "lag_table", "plot_view"]
SCRIPTS += ["dashboards/header"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_imports_nothing_and_exports_one_thing(name: str) -> None:
    lines = bundle.script(f"{name}.js").splitlines()
    assert not [line for line in lines if line.startswith("import ")]
    assert [line for line in lines if line.startswith("export ")] == [lines[-1]]
    assert sum(map(len, lines)) < 53_000


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_and_styles_name_no_address(name: str) -> None:
    assert "http" not in bundle.script(f"{name}.js") + bundle.style(f"{name}.css")


@pytest.mark.parametrize("name", [f"{name}.css" for name in SCRIPTS])
def test_the_rules_of_a_view_are_stronger_than_those_that_all_bring(name: str) -> None:
    """Each view brings the common rules, so that those of another view can come after its own."""
    own = (Path(bundle.__file__).parent / name).read_text("utf-8")
    rules = re.findall(r"[^{}]+(?=\{[^{}]*\})", re.sub(r"/\*.*?\*/|@[^{]+", "", own, flags=re.S))
    selectors = [
        one.strip() for rule in rules for one in re.split(r",(?![^(]*\))", rule) if one.strip()
    ]
    assert selectors
    assert [one for one in selectors if not one.startswith((".sl.sl-", ".sl-head.sl-level"))] == []


def test_an_element_that_is_added_costs_the_page_little() -> None:
    """With `*` or `:not` in an argument of `:has`, it took 10 ms in a page of dashboards."""
    here = Path(bundle.__file__).parent
    for file in [*here.rglob("*.css"), here / "still.py"]:
        told = re.sub(r"/\*.*?\*/|^#.*?$", "", file.read_text("utf-8"), flags=re.S | re.M)
        arguments = re.findall(r":has\(((?:[^()]|\([^()]*\))*)\)", told)
        assert not [one for one in arguments if "*" in one or ":not(" in one], file


def test_two_files_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.js").write_text(
        'import { b } from "./b.js";\nfunction one() {}\nexport default { b };\n'
    )
    (tmp_path / "b.js").write_text("export const b = 1;\nconst one = 2;\n")
    monkeypatch.setattr(bundle, "_HERE", tmp_path)
    with pytest.raises(SetupError, match=r"b.js and a.js both declare one"):
        bundle.script("a.js")


def test_importing_the_widgets_pulls_in_neither_spark_nor_plotly() -> None:
    code = "import sys, sharelag_widgets; print(*sys.modules)"
    loaded = {name.partition(".")[0] for name in run_code(code).split()}
    assert not loaded & {"pyspark", "plotly", "pandas", "confluent_kafka", "numba"}
