"""Secrets of files, the environment, options and parameters are in no part of a report."""

import base64
import gzip
import html
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from sharelag.replay.moment import parse_time
from sharelag.reports import report
from sharelag.reports.blocks import PLOTLY_MIME
from sharelag.reports.execute import scrub_notebook
from sharelag.reports.secrets import MASK, PROPERTIES, scrub, secrets_of
from sharelag.tables.level import CHECKED
from tests.support.chapters import CAPTURE
from tests.support.command import sharelag

#: Kernels, processes or many random runs: left out of `make check`.
pytestmark = pytest.mark.slow

IN_FILE, IN_JAAS, IN_OPTION, IN_ENVIRONMENT, IN_PARAMETER = (
    "f1le-s3cret+/=", "j&as<\"'s3cret>", "0ption-s3cret", "env-s3cret-12", "param-s3cret",
)  # fmt: skip
ALL = (IN_FILE, IN_JAAS, IN_OPTION, IN_ENVIRONMENT, IN_PARAMETER)


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """Client properties with secrets, of a cluster that nobody runs."""
    path = tmp_path / "client.properties"
    quoted = IN_JAAS.replace('"', '\\\\"')
    path.write_text(
        "bootstrap.servers=127.0.0.1:1\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"sasl.password={IN_FILE}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="u" '
        f'password="{quoted}";\n'
    )
    return path


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A notebook that says all it knows, and then fails with it."""
    path = tmp_path / "telling.ipynb"
    cells = [
        new_markdown_cell("# Telling\n\nAll it knows."),
        new_code_cell('command_config = None\nplace = "x"', metadata={"tags": ["parameters"]}),
        new_code_cell(
            "import os, sys, json, html, urllib.parse\n"
            "from pathlib import Path\n"
            "told = Path(command_config).read_text() + repr(dict(os.environ)) + "
            "json.dumps(dict(os.environ))\n"
            "print(told)\n"
            "print(told, file=sys.stderr)\n"
            "from IPython.display import HTML, JSON, display\n"
            "display(HTML(html.escape(told)), JSON(dict(os.environ)))\n"
            "display(urllib.parse.quote(told, safe=''))"
        ),
        new_code_cell("raise ValueError(told)"),
    ]
    nbformat.write(new_notebook(cells=cells), path)
    return path


def leaks(folder: Path, *more: str) -> list[tuple[str, str]]:
    """Which secrets are in which files, also in what a page has packed."""
    found = []
    files = [path for path in folder.rglob("*") if path.is_file()]
    texts = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    assert texts
    for name, content in list(texts.items()):
        for number, packed in enumerate(
            re.findall(rb'<script type="text/plain"[^>]*>([^<]+)<', content)
        ):
            texts[f"{name}#{number}"] = gzip.decompress(base64.b64decode(packed))
    texts |= {f"output {number}": text.encode() for number, text in enumerate(more)}
    for name, content in texts.items():
        for secret in ALL:
            forms = {secret, json.dumps(secret)[1:-1], html.escape(secret)}
            found += [(name, secret) for form in forms if form.encode() in content]
    return found


def test_a_notebook_that_shows_everything(
    own: Path, properties: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_TOKEN", IN_ENVIRONMENT)
    said: list[str] = []
    made = report(
        str(own),
        {"command_config": str(properties), "place": f"Zürich {IN_OPTION}"},
        tmp_path / "out",
        properties={"ssl.key.password": IN_OPTION},
        figures=False,
        tell=said.append,
    )
    assert made.run.error is not None
    assert made.run.error.startswith("unexpected ValueError")
    text = (made.folder / "notebook.ipynb").read_text()
    # It did reach the kernel, and was printed there.
    assert PROPERTIES in text
    assert text.count(MASK) > 10
    assert "Zürich" in made.html.read_text()
    assert made.run.parameters["place"] == f"Zürich {MASK}"
    assert leaks(tmp_path / "out", *said, repr(made)) == []


@pytest.mark.exhaustive
def test_of_the_command_against_a_silent_cluster(properties: Path, tmp_path: Path) -> None:
    given = ["--command-config", str(properties), "-v"]
    given += ["--command-property", f"ssl.key.password={IN_OPTION}"]
    out = ["--out", str(tmp_path / "out"), "--no-figures"]
    done = sharelag(
        "report", "daily", "--engine", "local", *given, *out, env={"SHARELAG_TOKEN": IN_ENVIRONMENT}
    )
    assert done.returncode == 1
    assert done.stdout.startswith("FAILED: ")
    refused = sharelag(
        "report", "daily", "--engine", "local", "-p", "sasl_password", IN_PARAMETER, *out
    )
    assert refused.returncode == 2
    assert "looks like a secret" in refused.stderr
    assert leaks(tmp_path / "out", done.stdout, done.stderr, refused.stdout, refused.stderr) == []
    assert str(properties) in (tmp_path / "out" / "ledger.jsonl").read_text()


def test_what_counts_as_a_secret(properties: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_PASSWORD", "eight-or-more")
    monkeypatch.setenv("USE_TOKEN", "true")
    monkeypatch.setenv("TOKEN_FILE", str(properties))
    found = secrets_of(
        properties, {"sasl.oauthbearer.client.secret": "abcd", "client.id": "not-secret"}
    )
    assert {IN_FILE, "abcd", "eight-or-more"} <= found
    assert not {"true", "not-secret", str(properties), "PLAIN", "u"} & found
    kept = {"a": [f"x {MASK} y", 3], MASK: None}
    assert scrub({"a": ["x abcd y", 3], "abcd": None}, found) == kept
    assert scrub("untouched", frozenset()) == "untouched"


#: Called like what a notebook, a verdict, a figure and a widget are made of.
STRUCTURE = (
    "cells", "cell_type", "code", "data", "execute_result", "metadata", "outputs", "output_type", "source", "state",
    "application", "groups", "headline", "layout", "level", "warning", "level_before", "buffers", "model_id", "_esm",
    "2026", "python3", "nbformat", "parameters", "import", "function",
)  # fmt: skip


@pytest.mark.exhaustive
def test_a_secret_named_as_notebook_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is taken out of texts; the notebook, the page, its windows and its charts stay whole."""
    monkeypatch.setattr(
        "sharelag.reports.run.secrets_of", lambda *_: frozenset([*STRUCTURE, "shipping"])
    )
    made = report("daily", {"capture": str(CAPTURE), "engine": "local"}, tmp_path, figures=False)
    assert made.run.error is None
    assert made.run.level in CHECKED
    nbformat.validate(nbformat.read(made.folder / "notebook.ipynb", as_version=4))
    page = made.html.read_text()
    data = re.search(r'id="sr-data">([^<]+)<', page)
    assert data
    packed = json.loads(gzip.decompress(base64.b64decode(data[1])))
    assert (len(packed["charts"]), len(packed["widgets"])) == (2, 1)
    (widget,) = packed["widgets"].values()
    assert f'id="{widget["script"]}"' in page
    assert MASK in (made.folder / "verdict.json").read_text()
    assert "shipping" not in (made.folder / "verdict.json").read_text()
    assert parse_time(made.run.as_of or "")


def test_texts_are_masked_and_structure_is_not() -> None:
    shown = {"application/json": {"data": ["data"]}, "text/plain": "some data", "image/png": "data"}
    shown |= {PLOTLY_MIME: {"data": [{"type": "data", "name": "data"}]}}
    stream = new_output("stream", name="stdout", text="data\n")
    outputs = [new_output("display_data", shown), stream]
    outputs += [new_output("error", ename="data", evalue="no data", traceback=["data"])]
    notebook = new_notebook(
        cells=[new_code_cell("data = 1", outputs=outputs, metadata={"data": "data", "tags": []})]
    )
    notebook.cells[0].id = "data"
    clean = scrub_notebook(notebook, ["data"])
    nbformat.validate(clean)
    (cell,) = clean.cells
    assert (cell.id, cell.source, cell.metadata["data"]) == ("data", f"{MASK} = 1", MASK)
    assert cell.outputs[0].data == {
        "application/json": {MASK: [MASK]},
        "text/plain": f"some {MASK}",
        "image/png": "data",
        PLOTLY_MIME: {"data": [{"type": "data", "name": MASK}]},
    }
    assert cell.outputs[1].text == f"{MASK}\n"
    found = [cell.outputs[2][name] for name in ("ename", "evalue", "traceback")]
    assert found == [MASK, f"no {MASK}", [MASK]]
