"""A Spark Connect server on this machine, in a separate process and reached by gRPC.

with connect_server() as remote:  # "sc://127.0.0.1:PORT"
    subprocess.run(..., env=os.environ | {"SPARK_REMOTE": remote})
"""

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from sharelag.inputs.spark import java

_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
_LOGGING = Path(__file__).with_name("connect.log4j2.properties")
_STARTED = re.compile(r"Spark Connect server started at: .*:(\d+)\s*$", re.MULTILINE)
#: Settings for short questions: workers are forked from a process that has imported what they need,
#: few tasks run where there is little to do, and no query is compiled.
QUICK = {
    "spark.python.daemon.module": "sharelag.inputs.spark.daemon",
    "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning": "true",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
#: A shell that kills the server when standard input ends, and ends with the server.
_GUARDED = "exec 3<&0; {} 3<&- & server=$!; (read -r _; kill $server) <&3 & wait $server"
#: Seconds; on an idle machine it takes about ten.
_UNTIL_READY, _UNTIL_ENDED = 180, 30
#: What says where a session is, of the user's shell or of this process.
_NOT_INHERITED = (
    *("SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE_ENABLED"),
    *("PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"),
)


@contextmanager
def connect_server(
    master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Run a Connect server of the installed pyspark until the ``with`` block ends.

    ``settings``: of Spark, beside what the server needs.

    Yields: its address. Python workers run this interpreter and find this checkout.

    The system chooses a free port, and the server says in its log which. It ends with this process,
    whatever becomes of that: a shell beside it waits on a pipe that only this process holds open.
    """
    wanted = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        # 15 s are too short where many tests share few cores.
        "spark.python.authenticate.socketTimeout": "180s",
        "spark.driver.extraJavaOptions": " ".join(
            [f"-Dlog4j2.configurationFile={_LOGGING}", *java.archive_options()]
        ),
        **(settings or {}),
    }
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-submit"), "--master", master, "--class", _CLASS]
    command += [part for name, value in wanted.items() for part in ("--conf", f"{name}={value}")]
    command += ["spark-internal"]  # its jar is on the class path already
    with tempfile.TemporaryDirectory(prefix="sharelag-connect-") as folder:
        log = Path(folder, "server.log")
        with log.open("wb") as out:
            server = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDED.format(shlex.join(command))],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=folder,
                env=_environment(home),
                start_new_session=True,
            )
        try:
            yield f"sc://127.0.0.1:{_port(server, log)}"
        finally:
            _end(server)


def no_session() -> dict[str, str]:
    """Return the environment of a process that must find its own Spark."""
    return {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}


def _environment(home: Path) -> dict[str, str]:
    kept = no_session()
    path = os.pathsep.join(filter(None, [str(Path.cwd()), kept.get("PYTHONPATH")]))
    ours = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": path}
    return kept | ours | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def _port(server: subprocess.Popen[bytes], log: Path) -> int:
    ends = time.monotonic() + _UNTIL_READY
    while True:
        said = log.read_text(errors="replace")
        if found := _STARTED.search(said):
            return int(found[1])
        if server.poll() is not None:
            raise RuntimeError(
                f"the Spark Connect server ended before it was ready; it said:\n{said[-4000:]}"
            )
        if time.monotonic() > ends:
            raise RuntimeError(f"no Spark Connect after {_UNTIL_READY} s; it said:\n{said[-4000:]}")
        time.sleep(0.1)


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    try:
        server.wait(timeout=_UNTIL_ENDED)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
