"""Jars of Kafka, Spark's Kafka source and Delta, fetched once from Maven Central.

No build tool is needed: pyspark ships Ivy. ``python -m tests.support.kafka.jars`` fetches them ahead of the
tests.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from tests.support.kafka.jvm import RigError, find_java

NEWEST_VERSION = "4.4.0"
#: The one before it, of which some classes and commands are asked, too.
PREVIOUS_VERSION = "4.3.1"
#: The first version in which share groups are no preview, and clusters are upgraded from.
EARLIER_VERSION = "4.2.0"
#: What tests run on, where they name no other: the newest, unless ``tools.versions`` says which.
KAFKA_VERSION = os.environ.get("SHARELAG_KAFKA_VERSION") or NEWEST_VERSION
#: Versions that are asked where they differ; if tests run on an older one, that one alone.
COMPARED = (
    (PREVIOUS_VERSION, KAFKA_VERSION) if KAFKA_VERSION == NEWEST_VERSION else (KAFKA_VERSION,)
)
#: Kafka logs through SLF4J 1.7; without a binding its errors vanish.
LOG4J_VERSION = "2.25.4"

IVY_SETTINGS = """\
<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true" root="https://repo1.maven.org/maven2/"/></resolvers>
</ivysettings>
"""
_IVY_MODULE = """\
<ivy-module version="2.0">
  <info organisation="tests" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""
_KAFKA = """\
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="default->default"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{version}" conf="default->default">
      <!-- Kafka Connect brings a web server and fifty jars that no test needs. -->
      <exclude org="org.apache.kafka" module="connect-runtime"/>
    </dependency>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="{log4j}"
                conf="default->default"/>"""
#: What Spark's Kafka source needs beside the jars that pyspark brings.
_CONNECTOR = """\
    <dependency org="org.apache.spark" name="spark-sql-kafka-0-10_2.13" rev="{version}"
                conf="default->default"/>
    <exclude org="(?!org\\.apache\\.(spark|kafka|commons)\\b).*" matcher="regexp"/>
    <exclude org="org.apache.spark" module="spark-tags_2.13"/>"""
#: What Delta's package has beside the jars that pyspark brings.
_DELTA = """\
    <dependency org="io.delta" name="delta-spark_2.13" rev="{version}" conf="default->default"/>
    <exclude org="(?!io\\.delta\\b).*" matcher="regexp"/>"""
#: Delta's package by the minor version of pyspark; nothing is read by its 4.3.0 on Spark 4.3.
DELTA = {"4.0": "4.0.0", "4.1": "4.1.0", "4.2": "4.2.0"}
#: The connector by the minor version of pyspark; that of 4.2.0 serves newer ones.
CONNECTORS = {"4.0": "4.0.0", "4.1": "4.1.1"}
NEWEST_CONNECTOR = "4.2.0"
#: A version of each release of Kafka that has share groups, in their order.
RELEASES = {"4.0": "4.0.1", "4.1": "4.1.1", "4.2": EARLIER_VERSION}
RELEASES |= {"4.3": PREVIOUS_VERSION, "4.4": "4.4.0"}


def cache_dir() -> Path:
    """Return the cache folder: ``$SHARELAG_CACHE``, or ``~/.cache/sharelag``."""
    return Path(os.environ.get("SHARELAG_CACHE") or Path.home() / ".cache" / "sharelag")


def kafka_jars(version: str = KAFKA_VERSION) -> Path:
    """Return the folder that holds the jars of a Kafka version, fetching them the first time."""
    return build_once(
        cache_dir() / f"kafka-{version}", partial(_fetch, "kafka_2.13", _KAFKA, version)
    )


def connector_jars() -> list[Path]:
    """Return the jars of Spark's Kafka source for this pyspark, fetching them the first time."""
    version = connector_version()
    fetch = partial(_fetch, "spark-sql-kafka-0-10_2.13", _CONNECTOR, version)
    folder = build_once(cache_dir() / f"spark-kafka-{version}", fetch)
    return sorted(folder.glob("*.jar"))


def connector_version() -> str:
    """Return the version of Spark's Kafka source that suits this pyspark."""
    return CONNECTORS.get(_minor_version(), NEWEST_CONNECTOR)


def delta_jars() -> list[Path]:
    """Return the jars of Delta for this pyspark, as `connector_jars`; none where none fits it."""
    version = DELTA.get(_minor_version())
    if version is None:
        return []
    fetch = partial(_fetch, "delta-spark_2.13", _DELTA, version)
    folder = build_once(cache_dir() / f"delta-{version}", fetch)
    return sorted(folder.glob("*.jar"))


def _minor_version() -> str:
    return ".".join(metadata.version("pyspark").split(".")[:2])


def build_once(target: Path, build: Callable[[Path], None]) -> Path:
    """Make the folder ``target`` by ``build(empty folder)``, unless it is there already.

    The folder appears under its name only when complete, and processes that start together build it
    once.
    """
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(target.name + ".lock")):
        if target.is_dir():  # another process was faster
            return target
        draft = Path(tempfile.mkdtemp(prefix=target.name + ".draft-", dir=target.parent))
        try:
            build(draft)
            draft.rename(target)
        except BaseException:
            shutil.rmtree(draft)
            raise
    return target


def digest(folders: Iterable[Path], *told: str) -> str:
    """Return a digest of all Java sources in folders, and of what else decides their classes."""
    stamp = hashlib.sha256(repr(told).encode())
    for source in sorted({path for folder in folders for path in folder.rglob("*.java")}):
        stamp.update(source.name.encode() + source.read_bytes())
    return stamp.hexdigest()[:16]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(jar: str, dependencies: str, version: str, folder: Path) -> None:
    """Fetch dependencies of a version, a jar of this name among them, into a folder."""
    found = dependencies.format(version=version, log4j=LOG4J_VERSION)
    said = retrieve(_IVY_MODULE.format(dependencies=found), folder)
    if not (folder / f"{jar}-{version}.jar").exists():
        raise RigError(
            f"{jar}-{version}.jar could not be fetched from https://repo1.maven.org/maven2/. "
            "With a closed network, run `python -m tests.support.kafka.jars` where it is open and "
            f"copy {folder.parent} here (or point SHARELAG_CACHE at the copy). Ivy said:\n{said}"
        )


def retrieve(module: str, folder: Path) -> str:
    """Fetch the jars of an Ivy module into a folder; what Ivy said at its end."""
    with tempfile.TemporaryDirectory(prefix="ivy-") as scratch_name:
        scratch = Path(scratch_name)
        (scratch / "settings.xml").write_text(IVY_SETTINGS)
        (scratch / "ivy.xml").write_text(module)
        command = [str(find_java()), "-Xmx256m", f"-Divy.default.ivy.user.dir={scratch}"]
        command += ["-jar", str(ivy_jar()), "-settings", str(scratch / "settings.xml")]
        command += ["-ivy", str(scratch / "ivy.xml"), "-warn", "-types", "jar", "bundle"]
        command += ["-retrieve", str(folder / "[artifact]-[revision].[ext]")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "\n".join((done.stdout + done.stderr).splitlines()[-25:])


def ivy_jar() -> Path:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise RigError(
            "pyspark is not installed, and its jar of Ivy fetches Kafka: pip install -e '.[dev]'"
        )
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar"))
    if not found:
        raise RigError(f"no jars/ivy-*.jar beside {spec.origin}; install pyspark 4 from PyPI")
    return found[-1]


if __name__ == "__main__":
    # Ivy waits for the network most of the time.
    with ThreadPoolExecutor() as pool:
        print(*pool.map(kafka_jars, RELEASES.values()), *connector_jars())
