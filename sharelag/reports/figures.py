"""Charts of an executed notebook as SVG and PNG files, drawn by a browser on this machine."""

from __future__ import annotations

import gzip
import logging
import shutil
from importlib import resources
from pathlib import Path
from typing import Any

from sharelag.reports.blocks import PLOTLY_MIME

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
    charts = [
        output.data[PLOTLY_MIME] for output in outputs if PLOTLY_MIME in output.get("data", {})
    ]
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
