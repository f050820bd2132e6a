"""What is said where Spark's workers run another Python, or one without our packages."""

import json
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.connect import no_session
from tests.support.own_process import run_code

#: A session as people make one, without PYSPARK_PYTHON; its workers run what the arguments name.
SCRIPT = """
import json, sys
from pyspark.sql import SparkSession
from sharelag import schemas
from sharelag.errors import SetupError
from sharelag.inputs.spark.workers import explain_failures
from sharelag.inputs.spark.workers import map_in_arrow
from sharelag.wire.decode import topic_mask

def task(batches, mask=topic_mask):
    yield from batches

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.log.level", "OFF").getOrCreate()
said = {}
for python in sys.argv[1:]:
    spark.conf.set("spark.sql.execution.pyspark.python", python)
    rows = map_in_arrow(spark.range(1), task, schemas.pa.schema([("id", schemas.pa.int64())]))
    try:
        rows.show()
    except Exception as error:
        shown = str(error)
    try:
        with explain_failures():
            rows.toArrow()
    except SetupError as error:
        said[python] = [str(error), shown]
print(json.dumps(said))
"""
#: What makes an interpreter say that it is a later one.
LATER = """
import collections, sys
kind = collections.namedtuple("version_info", "major minor micro releaselevel serial")
sys.version_info = kind(3, 99, 0, "final", 0)
"""
#: What ends an interpreter before it begins.
BROKEN = """
import os, sys
sys.stderr.write("Traceback (most recent call last):\\n  ...\\nSystemError: no locale\\n")
sys.stderr.flush()
os._exit(1)
"""
#: Packages that pyspark needs itself, which clusters have.
OF_PYSPARK = ("numpy", "pandas", "pyarrow", "dateutil", "pytz", "six")


def interpreter(folder: Path, *packages: str, code: str = "") -> Path:
    """A Python of another environment with some of this one's packages."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "sitecustomize.py").write_text(code)
    for name in packages:
        found = find_spec(name)
        assert found
        assert found.origin
        origin = Path(found.origin)
        there = origin.parent if origin.name == "__init__.py" else origin
        (site / there.name).symlink_to(there)
    return folder / "bin" / "python"


def test_what_is_imported_is_not_searched_for_garbage_after_each_task() -> None:
    code = """
import gc
from pyspark import cloudpickle
from sharelag.inputs.spark.workers import with_packages

def task(batches):
    yield from batches

run = cloudpickle.loads(cloudpickle.dumps(with_packages(task)))
before = len(gc.get_objects())
assert list(run([1])) == [1]
print(before, len(gc.get_objects()))
"""
    before, after = map(int, run_code(code).split())
    assert after < before / 10


@pytest.mark.exhaustive
def test_workers_with_another_python_are_a_sentence_that_names_it(tmp_path: Path) -> None:
    bare = interpreter(tmp_path / "bare")
    cluster = interpreter(tmp_path / "cluster", *OF_PYSPARK)
    later = interpreter(tmp_path / "later", *OF_PYSPARK, code=LATER)
    broken = interpreter(tmp_path / "broken", code=BROKEN)
    missing = tmp_path / "nothing"
    environment = {name: value for name, value in no_session().items() if "PYSPARK" not in name}
    command = [sys.executable, "-c", SCRIPT, *map(str, (bare, cluster, later, broken, missing))]
    env = environment | {"SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert not done.returncode, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    here = ".".join(map(str, sys.version_info[:2]))
    wrong = {
        bare: "which has no pyarrow",
        cluster: "which has no sharelag",
        later: f"which is Python 3.99 where this process is {here}",
        broken: "which fails with SystemError: no locale",
        missing: "which cannot be started there",
    }
    assert len(said) == len(wrong)
    for python, words in wrong.items():
        collected, shown = said[str(python)]
        assert f"Spark's workers run {python}, {words}: start the session with" in collected
        assert f"PYSPARK_PYTHON={sys.executable}" in collected
        if python == cluster:  # whoever collects it
            assert collected in shown


@pytest.mark.parametrize("text", ["Python worker: KeyError: 'x'", "ModuleNotFoundError: No module"])
def test_other_errors_stay_what_they_are(text: str) -> None:
    from sharelag.inputs.spark.workers import explain_failures

    with pytest.raises(RuntimeError, match=text.split(maxsplit=1)[0]), explain_failures():
        raise RuntimeError(text)
