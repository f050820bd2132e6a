"""Stage the pages of the site: those of the repository, the notebooks and the reference."""

from __future__ import annotations

import json
import shutil
from pathlib import Path, PurePosixPath
from typing import Any

from tools.docs.links import rewrite
from tools.docs.reference import MODULES, commands, pages

ROOT = Path(__file__).resolve().parents[2]
STAGED = ROOT / "build" / "docs"
_NAMES = sorted(path.stem for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"))

#: Sections with their pages: title (empty: the page's own), path in the repository.
SECTIONS: dict[str, list[str]] = {
    "Learn": [
        "docs/install.md",
        *[f"notebooks/{name}.ipynb" for name in _NAMES],
        "docs/gallery.md",
    ],
    "Solve a problem": [
        *[
            f"docs/how-to/{name}.md"
            for name in (
                "backlog",
                "why",
                "drain",
                "past",
                "streams",
                "poison",
                "peek",
                "files",
                "groups",
                "settings",
                "members",
                "clear",
                "assignor",
                "compare",
                "reset",
                "agents",
                "container",
                "permissions",
                "plugins",
            )
        ],
        "docs/checks.md",
        "docs/reports.md",
        "docs/exports.md",
    ],
    "Look it up": [
        "docs/commands.md",
        "docs/forecasts.md",
        "docs/frames.md",
        "docs/generations.md",
        "docs/requests.md",
        "docs/metrics.md",
        "docs/dead-letters.md",
        "docs/kafka.md",
        "docs/errors.md",
        "docs/benchmarks.md",
        "docs/reliability.md",
        "docs/glossary.md",
    ],
    "Understand it": [
        "docs/explanation/lag.md",
        "docs/explanation/window.md",
        "docs/simulate.md",
        "docs/fidelity.md",
        "docs/assignors.md",
        "docs/incidents.md",
        "docs/live.md",
        "docs/future.md",
        "data/README.md",
    ],
    "Change it": [
        "CONTRIBUTING.md",
        "ARCHITECTURE.md",
        "DECISIONS.md",
        "SECURITY.md",
        "CHANGELOG.md",
    ],
}


def places() -> dict[str, str]:
    """Return paths on the site by paths in the repository, of everything that is copied."""
    found = {"README.md": "index.md", "docs/README.md": "overview.md", "data/README.md": "data.md"}
    found["notebooks"] = "learn/00_start_here.md"
    for picture in (ROOT / "docs" / "screenshots").glob("*.png"):
        found[f"docs/screenshots/{picture.name}"] = f"screenshots/{picture.name}"
    for one in (page for section in SECTIONS.values() for page in section):
        path = PurePosixPath(one)
        if path.suffix == ".ipynb":
            found[one] = f"learn/{path.stem}.md"
        elif one not in found:
            found[one] = one.removeprefix("docs/").lower()
    return found


def stage(folder: Path = STAGED) -> list[Any]:
    """Write all pages, and return the navigation."""
    shutil.rmtree(folder, ignore_errors=True)
    found = places()
    for source, target in found.items():
        path = ROOT / source
        out = folder / target
        out.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".png":
            shutil.copyfile(path, out)
        elif path.is_file():
            text = _notebook(path) if path.suffix == ".ipynb" else path.read_text("utf-8")
            out.write_text(rewrite(text, PurePosixPath(source), target, found), "utf-8")
    shutil.copyfile(Path(__file__).parent / "site.css", folder / "site.css")
    for target, text in pages():
        out = folder / target
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, "utf-8")
    return _navigation(found)


def _navigation(found: dict[str, str]) -> list[Any]:
    from sharelag.cli import cli

    sections: dict[str, list[Any]] = {
        title: [found[one] for one in section] for title, section in SECTIONS.items()
    }
    names = [path for path, _ in commands(cli, "sharelag")]
    sections["Look it up"] += [
        "reference/tables.md",
        "reference/causes.md",
        "reference/assignors.md",
        "reference/settings.md",
        "reference/errors.md",
        {
            "Commands": [
                "reference/cli/index.md",
                *[{name: f"reference/cli/{name.replace(' ', '-')}.md"} for name in names],
            ]
        },
        {
            "Python": [
                "reference/api/index.md",
                *[{name: f"reference/api/{name}.md"} for name in MODULES],
            ]
        },
    ]
    front = [{"Home": "index.md"}, {"All pages": "overview.md"}]
    return [*front, *({title: section} for title, section in sections.items())]


def _notebook(path: Path) -> str:
    """Return a notebook as Markdown: text and code, and a picture of its outputs below."""
    parts = []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    if (ROOT / "docs" / "screenshots" / f"{path.stem}-light.png").exists():
        here = f"../docs/screenshots/{path.stem}"
        parts.append(
            f"## What it shows\n\n![{path.stem}]({here}-light.png#only-light)\n"
            f"![{path.stem}]({here}-dark.png#only-dark)"
        )
    return "\n\n".join(parts) + "\n"
