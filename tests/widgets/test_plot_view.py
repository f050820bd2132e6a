"""A figure is sent small, whole, and as often as it changes."""

import gzip
import json
import re
from base64 import b64decode
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

import sharelag
from sharelag.errors import InputError
from sharelag_widgets import PlotView
from tests.support.readings import open_once
from tests.support.widgets.unpacked import unpacked


def figure(points: int = 1000) -> go.Figure:
    made = go.Figure(layout={"title": {"text": "Lag"}})
    made.add_scatter(x=np.arange(points), y=np.linspace(0, 1, points), name="lag")
    return made


def test_arrays_cross_as_bytes_and_the_rest_as_json() -> None:
    columns = unpacked(PlotView(figure()).data)
    spec = json.loads(columns["spec"][0])
    assert spec["data"][0]["y"] == {"dtype": "f8", "shape": None, "array": 1}
    assert np.frombuffer(bytes(columns["1"])).tolist() == np.linspace(0, 1, 1000).tolist()


def test_a_view_weighs_little_however_many_there_are() -> None:
    view = PlotView(figure())
    weight = sum(
        len(str(value)) for name, value in view.get_state().items() if name != "data"
    ) + len(view.data)
    assert weight < 51_500


def test_the_figure_is_what_was_given_and_can_be_another() -> None:
    view = PlotView(figure(5))
    assert view.figure.data[0].y.tolist() == [0, 0.25, 0.5, 0.75, 1]
    view.figure = figure(2)
    assert (len(view.figure.data[0].x), view.alt, view.summary()) == (2, "Lag", "Lag: lag")


def test_a_summary_is_plain_text_and_says_each_name_once() -> None:
    made = go.Figure(layout={"title": {"text": "<b>Lag</b> of a &amp; b,<br>now"}})
    for name in ("<i>lag</i>", "age", "<i>lag</i>"):
        made.add_scatter(x=[1], y=[1], name=name)
    assert PlotView(made).summary() == "Lag of a & b, now: lag, age"
    nameless = go.Figure(go.Heatmap(z=[[1]]), layout={"title": {"text": "Lag"}})
    assert PlotView(nameless).summary() == "Lag"  # and no kind of trace
    ours = sharelag.open(engine="local").lag()
    assert PlotView.of(ours).alt == ours.figure(None, "light").layout.meta["title"]


def test_a_saved_line_has_the_gaps_of_the_figure() -> None:
    made = go.Figure()
    made.add_scatter(x=[0, 1, 2, 3, 4], y=[1, 2, None, 3, 4])
    drawing = b64decode(PlotView(made).drawing.partition("base64,")[2]).decode()
    (path,) = re.findall(r'<path d="([^"]+)"', drawing)
    assert re.sub(r"[\d ]", "", path) == "MLML"  # two points, and two behind the gap


def test_plotly_is_sent_when_it_is_needed() -> None:
    view, sent = PlotView(figure(2)), []
    view.send = lambda content, buffers=None: sent.append((content, buffers))  # type: ignore[method-assign]
    view._handle_custom_msg({"want": "plotly"}, [])
    ((content, (library,)),) = sent
    assert content == {"plotly": True}
    assert b"plotly.js v" in gzip.decompress(library)[:200]


@pytest.mark.parametrize("wrong", [None, [1], "figure"])
def test_what_is_no_figure_is_said(wrong: Any) -> None:
    with pytest.raises(InputError, match="is not a plotly figure"):
        PlotView(wrong)


def test_a_figure_without_traces_says_so() -> None:
    view = PlotView(go.Figure())
    assert (view.note, view.data) == ("There is nothing to draw: the figure has no traces.", b"")
    forecast = PlotView.of(open_once("slow").progress(), "drain")
    assert forecast.note.startswith("slow: at these rates it never drains in 4 of 4 share partiti")
    said = "4 share partitions: never, more arrives than is finished, so the lag grows."
    assert said in forecast.note
    assert forecast.data == b""


def test_a_result_is_drawn_for_light_pages_and_for_dark_ones() -> None:
    result = open_once("slow").lag()
    columns = unpacked(PlotView.of(result, "decomposition").data)
    light, dark = (json.loads(columns[name][0]) for name in ("spec", "dark"))
    colours = [[trace["marker"]["color"] for trace in spec["data"]] for spec in (light, dark)]
    assert colours[0] != colours[1]
    assert [trace["name"] for trace in light["data"]] == [trace["name"] for trace in dark["data"]]
    view = PlotView.of(result)
    view.figure = figure(2)
    assert "dark" not in unpacked(view.data)
