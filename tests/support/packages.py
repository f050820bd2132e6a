"""Packages that others could have installed: each of one module, with entry points."""

import importlib
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Packages:
    """A folder on the path of modules, to which packages are installed."""

    folder: Path
    modules: list[str] = field(default_factory=list)

    def install(self, name: str, group: str, points: str, code: str) -> None:
        """Install one: name of the distribution, its entry points, and the code of its module."""
        module = name.replace("-", "_")
        info = self.folder / f"{module}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{points}\n")
        (self.folder / f"{module}.py").write_text(code)
        self.modules.append(module)
        importlib.invalidate_caches()

    def forget(self) -> None:
        for module in self.modules:
            sys.modules.pop(module, None)
