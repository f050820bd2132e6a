"""Build the documentation site: ``python -m tools.docs`` (``make docs``).

Pages of the repository are staged in ``build/docs`` with links that fit the site, pages of the
reference are generated, and mkdocs builds ``build/site``. Broken links are errors, and so is
anything that a browser would load from a network.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tools.docs.remote import remote_resources
from tools.docs.stage import STAGED, stage

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build" / "site"


def config(nav: list[Any]) -> dict[str, Any]:
    """Return mkdocs' configuration."""
    found: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "mkdocs.yml").read_text())
    python = found["plugins"][1]["mkdocstrings"]["handlers"]["python"]
    python["paths"] = [str(ROOT), str(ROOT / "widgets")]
    return found | {"docs_dir": str(STAGED), "site_dir": str(SITE), "nav": nav}


def main() -> int:
    """Stage, build, and search for resources that a browser would load from a network."""
    nav = stage()
    path = ROOT / "build" / "mkdocs.yml"
    path.write_text(yaml.safe_dump(config(nav), sort_keys=False))
    shutil.rmtree(SITE, ignore_errors=True)
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", str(path)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # advice on successors of mkdocs
    if code := subprocess.run(build, check=False, env=quiet).returncode:
        return code
    remote = list(remote_resources(SITE))
    for place in remote:
        print(f"would be loaded from a network: {place}", file=sys.stderr)
    pages = len(list(SITE.glob("**/*.html")))
    print(f"{pages} pages: open {(SITE / 'index.html').relative_to(ROOT)}")
    return int(bool(remote))


if __name__ == "__main__":
    sys.exit(main())
