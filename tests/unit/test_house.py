"""Imports are light, dependencies are listed once, and files agree with each other."""

import ast
import pkgutil
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.support.own_process import run_code

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"].values()
WANTED = [*PROJECT["dependencies"], *(one for extra in EXTRAS for one in extra)]
#: Names that conda-forge gives to packages of PyPI.
CONDA_NAMES = {"confluent-kafka": "python-confluent-kafka", "kaleido": "python-kaleido"}
CONDA_NAMES |= {"prometheus-client": "prometheus_client"}
#: Lines of a file: what is longer is about several things.
MOST_LINES = 700
#: What the extras of kafka-python and pyspark bring along; conda knows no extras.
BROUGHT_ALONG = {"crc32c", "lz4", "python-snappy", "zstandard"}
BROUGHT_ALONG |= {"googleapis-common-protos", "grpcio", "grpcio-status"}

#: What takes long to import.
HEAVY = {"numpy", "pyarrow", "pandas", "scipy", "numba", "llvmlite", "plotly", "ipywidgets"}
HEAVY |= {"pyspark", "confluent_kafka"}


def test_importing_it_pulls_in_nothing_heavy() -> None:
    loaded = run_code("import sys, sharelag.whatif; print(*sys.modules)").split()
    assert "sharelag" in loaded
    assert not HEAVY & {name.partition(".")[0] for name in loaded}


def test_a_small_answer_loads_neither_a_compiler_nor_pandas() -> None:
    code = f"""
import sys
from sharelag.cli import main, output
import sharelag.cli
def told(status):
    print("\\n", *sys.modules)
    sys.exit(status)
sharelag.cli.leave = output.leave = told
sys.argv[1:] = ["lag", "--capture", {str(ROOT / "data" / "captures" / "chapters")!r}]
sys.argv += ["--engine", "local"]
main()
"""
    *rows, modules = run_code(code).splitlines()
    assert len(rows) > 30
    loaded = {name.partition(".")[0] for name in modules.split()}
    assert HEAVY & loaded <= {"numpy", "pyarrow", "confluent_kafka"}
    assert "pyarrow" in loaded
    assert not {"difflib", "jinja2", "pydoc"} & loaded


def test_submodules_are_there_without_being_imported() -> None:
    of_rooms = "sharelag.replay.replay([]), sharelag.wire.state_partition.__name__"
    assert run_code(f"import sharelag; print({of_rooms})") == "{} state_partition\n"


def test_every_public_name_is_there_and_sorted() -> None:
    import sharelag

    assert sharelag.__all__ == sorted(sharelag.__all__)
    assert len(sharelag.__all__) <= 20
    assert sharelag.__version__ == PROJECT["version"]


def test_a_public_name_stays_what_it_is() -> None:
    """A module of the same name replaces it neither when it is used nor when it is imported."""
    code = """
import importlib, pkgutil, sharelag, sharelag_widgets
for house in (sharelag, sharelag_widgets):
    for found in pkgutil.walk_packages(house.__path__, f"{house.__name__}."):
        if not found.ispkg:
            continue
        room = importlib.import_module(found.name)
        modules = {one.name for one in pkgutil.iter_modules(room.__path__)}
        for name in getattr(room, "__all__", ()):
            first = getattr(room, name)
            if name in modules:
                importlib.import_module(f"{room.__name__}.{name}")
            if getattr(room, name) is not first:
                print(f"{room.__name__}.{name}")
print(sharelag.reports.schedule.__name__, sharelag.checks.read_rules.__name__)
"""
    assert run_code(code) == "schedule read_rules\n"


@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("told", "sharelag.summarize"),
        ("rollup", "sharelag.engine.spark.rollup"),
        ("Evidence", "sharelag.metrics.evidence.Evidence"),
    ],
)
def test_a_name_that_moved_still_works_and_says_where_it_is(name: str, home: str) -> None:
    import sharelag

    with pytest.warns(DeprecationWarning, match=f"^sharelag.{name} is now {home}$"):
        found = getattr(sharelag, name)
    assert found is pkgutil.resolve_name(home)
    assert name not in dir(sharelag)


def test_no_file_of_the_package_is_too_long_to_be_read_in_one_go() -> None:
    files = [path for room in ("sharelag", "widgets") for path in (ROOT / room).rglob("*.py")]
    lines = {path: path.read_text().count("\n") for path in files}
    assert len(lines) > 300
    assert {str(path) for path, count in lines.items() if count > MOST_LINES} == set()


def test_a_docstring_with_parameters_names_those_of_its_function() -> None:
    """All of them and no others; ruff's D417 also wants a sentence on `spark : SparkSession`."""
    wrong = []
    for path in (path for room in ("sharelag", "widgets") for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            section = re.search(
                r"^Parameters\n-{10}\n(.*?)(?=^\w[^\n]*\n---|\Z)",
                ast.get_docstring(node) or "",
                re.MULTILINE | re.DOTALL,
            )
            if section is None:
                continue
            heads = re.findall(r"^\*{0,2}\w+(?:, \*{0,2}\w+)*(?= :|$)", section[1], re.MULTILINE)
            named = {name.lstrip("*") for head in heads for name in head.split(", ")}
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
            taken = {one.arg for one in every if one} - {"self", "cls"}
            if any(not name.startswith("_") for name in taken ^ named):
                wrong.append((f"{path.relative_to(ROOT)}: {node.name}", sorted(taken ^ named)))
    assert wrong == []


def test_parquet_is_written_and_read_in_one_way() -> None:
    """Else some file had no checksums, or somebody read it without comparing them."""
    pyarrow = r"\bpq\.(write_table|ParquetWriter|ParquetFile|read_table)\("
    own = re.compile(rf"{pyarrow}|read\.(schema\(.*\)\.)?parquet\(")
    for path in (ROOT / "sharelag").rglob("*.py"):
        found = [line for line in path.read_text().splitlines() if own.search(line)]
        if path.match("inputs/files/parquet.py"):
            assert len(found) == 3
        elif path.match("inputs/spark/files.py"):
            # Only where Spark sees them.
            listed = 'return spark.read.schema("key binary").parquet(*paths).inputFiles()'
            assert [line.strip() for line in found] == [listed]
        else:
            assert found == [], path


def test_the_conda_environment_has_the_same_dependencies() -> None:
    pip = {conda_form(text) for text in WANTED if not text.startswith("sharelag")}
    listed = yaml.safe_load((ROOT / "environment.yml").read_text())["dependencies"]
    conda = {item.replace(" ", "") for item in listed if isinstance(item, str)}
    found = conda - pip
    assert found == {f"python{PROJECT['requires-python']}", "openjdk>=17", "pip"} | BROUGHT_ALONG
    assert pip - conda == set()


def conda_form(requirement: str) -> str:
    name, rest = re.fullmatch(
        r"([A-Za-z0-9_-]+)(?:\[[^\]]*\])?(.*)", requirement.replace(" ", "").lower()
    ).groups()  # type: ignore[union-attr]
    return CONDA_NAMES.get(name, name) + rest


def test_the_lock_file_pins_every_dependency_by_hashes() -> None:
    text = (ROOT / "requirements.lock").read_text()
    locked = {line.partition("==")[0] for line in text.splitlines() if "==" in line}
    names = {
        re.match(r"[A-Za-z0-9_-]+", text)[0].lower().replace("_", "-")  # type: ignore[index]
        for text in WANTED
    }
    assert names - locked == {"sharelag"}
    # A hash of every file, which is checked.
    pins = [one for one in re.split(r"\n(?=\S)", text) if re.match(r"[\w.-]+==", one)]
    assert len(pins) > 200
    assert [one for one in pins if "--hash=sha256:" not in one] == []
    assert '"--require-hashes"' in (ROOT / "tools" / "make_env.py").read_text()


def test_what_runs_on_spark_by_default_is_installed_with_it() -> None:
    extras = PROJECT["optional-dependencies"]
    assert "sharelag[spark]" in extras["notebook"]
    assert "sharelag[spark]" in extras["report"]
    assert "sharelag[notebook]" in extras["dashboard"]


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], citation["license"]) == (PROJECT["version"], PROJECT["license"])


def test_nothing_names_a_path_of_the_machine_it_was_made_on() -> None:
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    texts = [ROOT / name for name in files if not name.endswith((".parquet", ".png"))]
    named = [
        str(path)
        for path in texts
        if path.exists() and re.search(r"/(?:work|root|home)/", path.read_text(errors="replace"))
    ]
    assert named == []


@pytest.mark.row("ASG-06")
def test_what_is_not_modelled_is_listed() -> None:
    """Push-based delivery, which KIP-932 mentions as an alternative, with its status."""
    (line,) = [
        r for r in (ROOT / "DECISIONS.md").read_text().splitlines() if "push-based" in r.lower()
    ]
    assert "not modelled" in line
