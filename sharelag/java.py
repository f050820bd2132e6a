"""Where Java is on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_java() -> Path | None:
    """Return the java command of ``JAVA_HOME``, or of ``PATH`` where that is not set.

    As Spark does, it takes none of ``PATH`` if ``JAVA_HOME`` has none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    return Path(found) if found else None
