"""The Java of a local Spark, without what it writes to standard error that says nothing.

Spark starts Java with ``--add-modules=jdk.incubator.vector`` whatever its settings say, and Java
then warns that it uses incubator modules, which no option of Java turns off. The module speeds up
linear algebra, so the flag stays and the line goes. A Python worker that starts too late for Spark
prints a traceback that it cannot connect; Spark raises that in the driver, where a stream is
started again (`sharelag.sources.spark.queries.started`). Everything else is passed on as it comes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from threading import Thread

#: What Java says of a module that Spark asks for.
NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
#: How the traceback of a Python worker begins, and how that ends of one for which it is too late.
_TRACEBACK = b"Traceback (most recent call last):\n"
_TOO_LATE = b"PySparkRuntimeError: [CANNOT_OPEN_SOCKET] "
_STANDARD_ERROR = 2


def start(settings: Mapping[str, str]) -> None:
    """Start Spark's Java for this process, unless it has one.

    Parameters
    ----------
    settings : mapping
        Spark's settings; those of the driver have to be known when Java starts.

    Raises
    ------
    pyspark.errors.PySparkException
        Java ended at once; what it wrote was passed on.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    reader, writer = os.pipe()
    passing = Thread(target=_pass_on, args=(reader,), name="what Java writes", daemon=True)
    passing.start()
    try:
        gateway = launch_gateway(  # type: ignore[no-untyped-call]
            conf, popen_kwargs={"stderr": writer}
        )
    except BaseException:
        os.close(writer)
        passing.join(timeout=5)  # what Java said comes before what we say of it
        raise
    os.close(writer)
    SparkContext._ensure_initialized(gateway=gateway)


def of_use(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Leave out Java's warning of its modules, and tracebacks of workers that start too late.

    Parameters
    ----------
    lines : iterable of bytes
        Each with its end.

    Yields
    ------
    bytes
        A line; those of a traceback when its last one is there.
    """
    held: list[bytes] = []
    for line in lines:
        if line == _TRACEBACK or (held and line.startswith(b" ")):
            held.append(line)
        elif held and _TOO_LATE in line:
            held.clear()
        else:
            yield from held
            held.clear()
            if line != NOISE:
                yield line
    yield from held


def _pass_on(reader: int) -> None:
    """Copy lines to standard error until nobody can write any more."""
    with os.fdopen(reader, "rb") as lines:
        for line in of_use(lines):
            os.write(_STANDARD_ERROR, line)
