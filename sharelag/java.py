"""Find Java on this machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def find_java() -> Path | None:
    """Return the java command of ``JAVA_HOME``, or of ``PATH`` if that is not set.

    Like Spark, ignore ``PATH`` if ``JAVA_HOME`` is set but has none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    return Path(found) if found else None
