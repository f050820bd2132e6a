"""An executed notebook as one self-contained HTML file with working charts and widgets, and a mail.

Code is left out; the executed notebook has it. The content security policy allows only the page's
own script, by its hash, so that nothing in a name or a table can run.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import logging
import re
import shutil
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import css_inline
import mistune

from sharelag.charts.figure import CONFIG
from sharelag.reports.blocks import (
    DARK_MIME,
    PLOTLY_MIME,
    VERDICT_MIME,
    VIEW_MIME,
    environment,
    group_findings,
    without_folders,
)
from sharelag.reports.store import Run

_STATE = "application/vnd.jupyter.widget-state+json"
_ANSI = re.compile(r"\x1b\[[\d;]*m")
_TITLE = re.compile(r"^#\s+(.+?)\s*$", re.MULTILINE)
_HEADING = re.compile(r"^##\s+(.+?)\s*$", re.MULTILINE)
_CHART_HEIGHT = 420
ADVICE = (
    "What to do next: fix that, check names and paths and that the cluster answers "
    "(sharelag doctor), and make the report again. The notebook beside this page shows how far "
    "it got."
)
#: Maximum number of groups in a mail, which may be read on a phone; the report has all.
MOST_GROUPS = 12


class _Data(NamedTuple):
    """Data for the page's script, by their number on the page."""

    charts: dict[str, Any]
    widgets: dict[str, Any]
    scripts: dict[str, str]  # by hash
    styles: dict[str, None]


def page(
    notebook: Any, run: Run, outcome: Mapping[str, Any] | None, last_good: str | None = None
) -> str:
    """Render an executed notebook without secrets as an HTML document.

    ``outcome`` is its verdict. ``last_good`` is, for a failed report, the last run that did not
    fail.
    """
    data = _Data({}, {}, {}, {})
    state = notebook.metadata.get("widgets", {}).get(_STATE, {}).get("state", {})
    title, lead = title_of(notebook) or run.report, _lead(notebook)
    cells = _until_failure(notebook.cells[1:] if lead is not None else notebook.cells)
    parts = [part for cell in cells for part in _parts(cell, state, data)]
    folder = resources.files(__package__)
    script = folder.joinpath("templates", "report.js").read_text("utf-8")
    shown = {"charts": data.charts, "widgets": data.widgets}
    bundles = {"sr-data": pack(json.dumps(shown).encode())}
    bundles |= {name: pack(text.encode()) for name, text in data.scripts.items()}
    if data.charts:
        library = folder.joinpath("vendor", "plotly-cartesian.min.js.gz").read_bytes()
        bundles["sr-plotly"] = base64.b64encode(library).decode()
    digest = hashlib.sha256(script.encode()).digest()
    template = environment().get_template("report.html.j2")
    return template.render(
        title=title,
        lead=lead,
        level=run.level,
        headline=run.headline,
        error=run.error,
        advice=ADVICE,
        last_good=last_good,
        about=run,
        facts=facts(run, outcome),
        contents=[part for part in parts if part["kind"] == "heading"],
        parts=parts,
        bundles=bundles,
        css=folder.joinpath("templates", "report.css").read_text("utf-8"),
        widget_css="\n".join(data.styles).replace("</", "<\\/"),
        script=script,
        script_hash=f"'sha256-{base64.b64encode(digest).decode()}'",
    )


def title_of(notebook: Any) -> str | None:
    """Return the first heading of a notebook's first text."""
    first = next((cell.source for cell in notebook.cells if cell.cell_type == "markdown"), "")
    found = _TITLE.search(first)
    return found[1] if found else None


def _lead(notebook: Any) -> str | None:
    """Return the text below the title, if the first cell has a title."""
    first = notebook.cells[0] if notebook.cells else None
    if first is None or first.cell_type != "markdown" or not _TITLE.search(first.source):
        return None
    return _TITLE.sub("", first.source, count=1).strip()


def facts(run: Run, outcome: Mapping[str, Any] | None) -> list[tuple[str, dict[str, Any]]]:
    """List the facts about a report: data, source, engine, parameters, times."""

    def text(words: str) -> dict[str, Any]:
        return {"time": None, "text": words}

    rows: list[tuple[str, dict[str, Any]]] = []
    if outcome is not None:
        groups = [group["group_id"] for group in outcome["groups"]]
        more = f" and {len(groups) - 6:,} more" if len(groups) > 6 else ""
        rows += [
            ("data as of", {"time": outcome["as_of"], "live": True}),
            ("data since", {"time": outcome["begin"], "live": False}),
            ("groups", text(", ".join(groups[:6]) + more)),
            ("source", text(without_folders(outcome["source"]))),
            ("computed by", text(f"sharelag {run.version}, the {outcome['engine']} engine")),
        ]
    given = ", ".join(
        f"{name}={without_folders(', '.join(map(str, values)))}"
        for name, value in run.parameters.items()
        for values in [value if isinstance(value, list) else [value]]
        if name != "previous"
    )
    made = {"time": run.started, "live": False}
    return [*rows, ("parameters", text(given or "none")), ("report made", made)]


def pack(content: bytes) -> str:
    """Compress bytes to text that the page unpacks; the same bytes give the same text."""
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()


# ---- cells ---------------------------------------------------------------------------------------


def _until_failure(cells: list[Any]) -> list[Any]:
    """Drop the cells after one that failed: they have no outputs."""
    failed = (any(one.output_type == "error" for one in cell.get("outputs", [])) for cell in cells)
    last = next((place for place, one in enumerate(failed) if one), len(cells))
    return cells[: last + 1]


def _parts(cell: Any, state: Mapping[str, Any], data: _Data) -> Iterator[dict[str, Any]]:
    if cell.cell_type == "markdown":
        yield from _words(cell.source)
    for output in cell.get("outputs", []):
        yield from _output(output, state, data)


def _words(text: str) -> Iterator[dict[str, Any]]:
    """Split text at its headings, for the table of contents."""
    pieces = _HEADING.split(text)
    markdown = mistune.create_markdown(escape=True, plugins=["table", "strikethrough"])
    for place, piece in enumerate(pieces):
        if place % 2:
            anchor = re.sub(r"\W+", "-", piece.lower()).strip("-")
            yield {"kind": "heading", "text": piece, "id": anchor}
        elif piece.strip():
            yield {"kind": "html", "html": markdown(piece)}


def _output(output: Any, state: Mapping[str, Any], data: _Data) -> Iterator[dict[str, Any]]:
    if output.output_type == "stream":
        if output.name == "stdout" and output.text.strip():
            yield {"kind": "text", "text": _ANSI.sub("", output.text)}
        return
    if output.output_type == "error":
        yield {"kind": "trace", "text": _ANSI.sub("", "\n".join(output.traceback))}
        return
    forms = output.data
    if VERDICT_MIME in forms:
        return  # shown at the top of the page
    if output.get("metadata", {}).get("sharelag") == "still":
        return  # the page shows the view itself
    if PLOTLY_MIME in forms:
        yield _chart(forms, data)
    elif VIEW_MIME in forms:
        yield from _widgets(forms[VIEW_MIME]["model_id"], state, data)
    elif "text/html" in forms:
        yield {"kind": "html", "html": forms["text/html"]}
    elif "image/png" in forms:
        image = f'<img alt="" src="data:image/png;base64,{forms["image/png"]}">'
        yield {"kind": "html", "html": image}
    elif "text/markdown" in forms:
        yield from _words(forms["text/markdown"])
    elif forms.get("text/plain", "").strip():
        yield {"kind": "text", "text": forms["text/plain"]}


def _chart(forms: Mapping[str, Any], data: _Data) -> dict[str, Any]:
    layout = forms[PLOTLY_MIME]["layout"]
    meta = layout.get("meta") or {}
    finding, facts = str(meta.get("title", "")), [str(fact) for fact in meta.get("facts", [])]

    def figure(mime: str) -> dict[str, Any]:
        known = {name: forms[mime].get(name) for name in ("data", "layout")}
        if finding:  # shown above the chart as text, which wraps
            known["layout"] = {n: one for n, one in known["layout"].items() if n != "title"}
        return known

    name = str(len(data.charts))
    # The page redraws charts itself when its width changes: a legend may then need more room.
    data.charts[name] = {
        "light": figure(PLOTLY_MIME),
        "dark": figure(DARK_MIME) if DARK_MIME in forms else None,
        "config": CONFIG | {"responsive": False},
    }
    return {
        "kind": "chart",
        "id": name,
        "outcome": " ".join([finding or "Chart", *facts]),
        "finding": finding,
        "facts": facts,
        "height": layout.get("height") or _CHART_HEIGHT,
    }


def _widgets(model: str, state: Mapping[str, Any], data: _Data) -> Iterator[dict[str, Any]]:
    """Yield the views of a widget that work without a kernel; other controls are left out."""
    if model not in state:
        return
    known = state[model]["state"]
    if "_esm" in known:
        script = "sr-" + hashlib.sha256(known["_esm"].encode()).hexdigest()[:16]
        data.scripts[script] = known["_esm"]
        data.styles[known.get("_css", "")] = None
        name = str(len(data.widgets))
        shown = {k: one for k, one in known.items() if not k.startswith("_") and k != "layout"}
        buffers = {one["path"][0]: one["data"] for one in state[model].get("buffers", [])}
        data.widgets[name] = {"script": script, "state": shown, "buffers": buffers}
        yield {"kind": "widget", "id": name}
    for child in known.get("children", []):
        yield from _widgets(child.removeprefix("IPY_MODEL_"), state, data)


def mail(title: str, run: Run, outcome: Mapping[str, Any] | None) -> str:
    """Write the body of a mail: HTML of less than 100 KB, so that mail programs do not clip it.

    ``outcome`` is the verdict; None if the report failed before there was one.
    """
    css = resources.files(__package__).joinpath("templates", "mail.css").read_text("utf-8")
    groups, rules = ([], []) if outcome is None else (outcome["groups"], outcome["rules"])
    shown = groups[:MOST_GROUPS]
    written = environment().get_template("mail.html.j2").render(
        title=title,
        about=run,
        outcome=outcome,
        groups=shown,
        findings=group_findings(shown, rules),
        more=len(groups) - len(shown),
        css=css,
    )  # fmt: skip
    # All styles are in the document, and nothing may be loaded from elsewhere.
    inliner = css_inline.CSSInliner(load_remote_stylesheets=False, keep_style_tags=True)
    return inliner.inline(written)


#: Width of an image in pixels, and the scale of a PNG.
_WIDTH, _SCALE = 960, 2
#: Seconds allowed for an image.
_PATIENCE = 60
_BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome-stable", "google-chrome"),
    *("chrome", "msedge"),
)


def draw(notebook: Any, folder: Path) -> str | None:
    """Draw every chart of an executed notebook as ``chart-1.svg``, ``chart-1.png`` and so on.

    Returns why there are no images; None if there are.
    """
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    charts = [one.data[PLOTLY_MIME] for one in outputs if PLOTLY_MIME in one.get("data", {})]
    if not charts:
        return "the report has no charts"
    try:
        import kaleido
    except ImportError:
        return "kaleido is not installed: pip install 'sharelag[report]'"
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        return "drawing charts needs Chromium or Chrome: install one (apt install chromium)"
    folder = folder.resolve()  # the browser's page is elsewhere
    folder.mkdir()
    logging.getLogger("kaleido").setLevel(logging.ERROR)
    logging.getLogger("choreographer").setLevel(logging.ERROR)
    specs = [
        {
            "fig": {"data": chart["data"], "layout": chart["layout"]},
            "path": folder / f"chart-{number}.{form}",
            "opts": {
                "format": form,
                "width": _WIDTH,
                "height": chart["layout"].get("height"),
                "scale": scale,
            },
        }
        for number, chart in enumerate(charts, 1)
        for form, scale in (("svg", 1), ("png", _SCALE))
    ]
    # The part of plotly.js that reports include; kaleido would fetch MathJax from the network.
    library = folder / "plotly.js"
    packed = resources.files(__package__).joinpath("vendor", "plotly-cartesian.min.js.gz")
    library.write_bytes(gzip.decompress(packed.read_bytes()))
    options = {"plotlyjs": library, "mathjax": False, "path": browser, "timeout": _PATIENCE}

    try:
        write = kaleido.write_fig_from_object_sync
        if errors := write(specs, kopts=options, cancel_on_error=False):
            raise errors[0]
    except Exception as error:  # browsers fail in many ways; the report is valid without images
        shutil.rmtree(folder)
        return (
            f"the browser {browser} could not draw the charts ({type(error).__name__}): "
            "check that it starts"
        )
    library.unlink()
    return None
