"""Class data sharing for Kafka's JVMs: an archive of loaded classes, as Spark's has one.

A broker starts in 60 % of the processor time with it. ``make test-parts`` records the archive into
the cache; where it is missing, the first JVM that starts does.
"""

import hashlib
from functools import cache
from pathlib import Path

from sharelag.inputs.spark.java import java_build
from tests.support.kafka.jars import KAFKA_VERSION, build_once, cache_dir, kafka_jars
from tests.support.kafka.workload import read_in_part

#: Java would say on standard output that an archive does not fit.
_SILENT = "-Xlog:disable"


@cache
def options() -> tuple[str, ...]:
    """Return Java options for a quick start of a JVM whose class path begins with `kafka_jars()`.

    They are empty where Java has no version that we know, or wrote no archive.
    """
    java = java_build()
    if java is None:
        return ()
    archive = _archive(build_once(folder(java), _record))
    return (f"-XX:SharedArchiveFile={archive}", _SILENT) if archive.is_file() else ()


def folder(java: str) -> Path:
    """Return the folder of the archive for this Java and the jars as they are."""
    jars = [(path, path.stat()) for path in sorted(kafka_jars().glob("*.jar"))]
    parts = [(str(path), stat.st_size, stat.st_mtime_ns) for path, stat in jars]
    stamp = hashlib.sha256(repr((java, parts)).encode()).hexdigest()[:16]
    return cache_dir() / f"kafka-{KAFKA_VERSION}-classes-{stamp}"


def _archive(there: Path) -> Path:
    return there / "kafka.jsa"


def _record(empty: Path) -> None:
    """Let a broker work for a share group, and write the classes that it loaded as it ends."""
    from tests.support.kafka.broker import KafkaBroker  # which asks for `options`

    recording = [f"-XX:ArchiveClassesAtExit={_archive(empty)}", _SILENT]
    with KafkaBroker(secure=True, class_data=(), jvm_flags=recording) as broker:
        read_in_part(broker.bootstrap_servers, "billing", "orders", partitions=2, read=40, left=25)
        broker.stop()


if __name__ == "__main__":
    print(*options())
