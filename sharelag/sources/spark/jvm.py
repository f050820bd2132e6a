"""The Java of a local Spark, without the line that each start of it writes to standard error.

Spark starts Java with ``--add-modules=jdk.incubator.vector`` whatever its settings say, and Java
then warns that it uses incubator modules, which no option of Java turns off. The module speeds up
linear algebra, so the flag stays and the line goes. Everything else that Java writes is passed on
as it comes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from threading import Thread

#: What Java says of a module that Spark asks for.
NOISE = b"WARNING: Using incubator modules: jdk.incubator.vector\n"
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


def _pass_on(reader: int) -> None:
    """Copy lines to standard error until nobody can write any more."""
    with os.fdopen(reader, "rb") as lines:
        for line in lines:
            if line != NOISE:
                os.write(_STANDARD_ERROR, line)
