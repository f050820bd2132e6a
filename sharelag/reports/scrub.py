"""Remove secrets from the texts of an executed notebook without breaking its structure.

A secret may equal a key of nbformat, a MIME type or a level, which must not be masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sharelag.reports.blocks import DARK_MIME, PLOTLY_MIME, VERDICT_MIME
from sharelag.reports.secrets import masked, masker

_VIEW = "application/vnd.jupyter.widget-view+json"
#: JSON with fixed keys; in other JSON a key may be a secret as well.
_OURS = (VERDICT_MIME, PLOTLY_MIME, DARK_MIME)
#: Keys whose values are words of a format or numbers in base64, never input.
_WORDS = frozenset(
    {
        "format",
        "engine",
        "level",
        "severity",
        "level_before",
        "cause",
        "type",
        "mode",
        "dtype",
        "bdata",
    }
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
#: Metadata that tools need to run and show a notebook.
_ABOUT = frozenset({"tags", "kernelspec", "language_info"})

_Mask = Callable[[str], str]


def scrubbed_notebook(notebook: Any, secrets: Iterable[str]) -> Any:
    """Replace secrets in an executed notebook by `sharelag.reports.secrets.MASK`.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
        Of version 4. Sources, outputs, attachments and the values of metadata are searched.
    secrets : iterable of str

    Returns
    -------
    nbformat.NotebookNode
        A valid notebook, whatever the secrets. Images and binary data are unchanged.
    """
    import nbformat

    mask = masker(secrets)
    metadata = dict(notebook.metadata)
    widgets = metadata.pop("widgets", None)
    clean = {
        **notebook,
        "metadata": _about(metadata, mask),
        "cells": [_cell(cell, mask) for cell in notebook.cells],
    }
    if widgets is not None:
        clean["metadata"]["widgets"] = {mime: _widgets(one, mask) for mime, one in widgets.items()}
    return nbformat.from_dict(clean)


def _cell(cell: Mapping[str, Any], mask: _Mask) -> dict[str, Any]:
    clean = {**cell, "source": mask(cell["source"]), "metadata": _about(cell["metadata"], mask)}
    if "attachments" in cell:
        clean["attachments"] = {
            name: _bundle(one, mask) for name, one in cell["attachments"].items()
        }
    if "outputs" in cell:
        clean["outputs"] = [_output(one, mask) for one in cell["outputs"]]
    return clean


def _output(output: Mapping[str, Any], mask: _Mask) -> dict[str, Any]:
    clean = dict(output)
    for name in ("text", "ename", "evalue", "traceback"):
        if name in output:
            clean[name] = masked(output[name], mask)
    if "metadata" in output:
        clean["metadata"] = _values(output["metadata"], mask)
    if "data" in output:
        clean["data"] = _bundle(output["data"], mask)
    return clean


def _bundle(forms: Mapping[str, Any], mask: _Mask) -> dict[str, Any]:
    """Mask the forms of one output, by MIME type."""
    return {mime: _form(mime, form, mask) for mime, form in forms.items()}


def _form(mime: str, form: Any, mask: _Mask) -> Any:
    if mime == _VIEW or (mime.startswith("image/") and not mime.endswith("xml")):
        return form
    return _values(form, mask, _WORDS) if mime in _OURS else masked(form, mask)


def _widgets(state: Mapping[str, Any], mask: _Mask) -> dict[str, Any]:
    """Mask the widgets' models, except the scripts of sharelag's own widgets."""
    models = {}
    for name, model in state.get("state", {}).items():
        values = dict(model.get("state", {}))
        is_ours = str(values.get("_anywidget_id", "")).startswith("sharelag_widgets.")
        fixed = {
            key
            for key in values
            if key.startswith("_") and (is_ours or key not in ("_esm", "_css"))
        }
        clean = {
            key: value if key in fixed else _values(value, mask) for key, value in values.items()
        }
        models[name] = {**model, "state": clean}
    return {**state, "state": models}


def _about(metadata: Mapping[str, Any], mask: _Mask) -> dict[str, Any]:
    return {
        name: value if name in _ABOUT else _values(value, mask) for name, value in metadata.items()
    }


def _values(value: Any, mask: _Mask, words: frozenset[str] = frozenset()) -> Any:
    """Mask every string except keys, times and the values of these keys."""
    if isinstance(value, Mapping):
        return {
            name: item if name in words and isinstance(item, str) else _values(item, mask, words)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_values(item, mask, words) for item in value]
    return mask(value) if isinstance(value, str) and not _TIME.fullmatch(value) else value
