"""What answers show themselves in is found among what is installed, and nothing else is needed."""

from __future__ import annotations

import configparser
import sys
import tomllib
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import sharelag_widgets
from sharelag import charts
from sharelag.errors import SetupError
from sharelag.workbench.views import load_view
from sharelag_widgets import dashboards

ROOT = Path(__file__).parents[3]


def test_the_widgets_register_the_views_that_a_workbench_asks_for() -> None:
    assert load_view("PlotView") is sharelag_widgets.PlotView
    assert load_view("WindowStrip") is sharelag_widgets.WindowStrip
    assert load_view("Now") is dashboards.Now


def test_a_checkout_registers_what_the_wheel_does() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    checkout = configparser.ConfigParser()
    checkout.optionxform = str  # type: ignore[assignment,method-assign]  # names have capitals
    checkout.read(ROOT / "widgets" / "sharelag_widgets.dist-info" / "entry_points.txt", "utf-8")
    assert {"sharelag.views": dict(checkout["sharelag.views"])} == wheel


@pytest.mark.parametrize("missing", ["sharelag_widgets", "anywidget"])
def test_without_the_widgets_there_is_advice(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] == "sharelag_widgets":
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SetupError, match=r"the widgets are not installed here: pip install"):
        load_view("PlotView")


def test_a_view_that_nothing_registers_is_no_view() -> None:
    with pytest.raises(SetupError, match="the widgets are not installed here"):
        load_view("PlotViews")


def test_the_former_name_of_the_charts_says_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    former = ".".join(["sharelag", "workbench", "charts"])
    monkeypatch.delitem(sys.modules, former, raising=False)
    with pytest.warns(DeprecationWarning, match=r"is now sharelag\.charts$"):
        found = import_module(former)
    assert found is charts
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(callable(getattr(charts, name)) for name in charts.__all__)
