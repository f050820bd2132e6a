"""Reports of a secured cluster have Kafka's own lag, and no secrets; nor does Spark."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import nbformat
import pyarrow.parquet as pq
import pytest

from sharelag.reports.blocks import VERDICT_MIME
from sharelag.reports.notebooks import notebook
from sharelag.tables.gaps import KAFKA_SETTING
from tests.support.command import sharelag
from tests.support.connect import connect_server
from tests.support.kafka.access import java_settings, settings_file
from tests.support.kafka.broker import USERS, KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.kafka.jars import connector_jars
from tests.support.own_process import run_python
from tests.support.process_list import ProcessList

#: In a usual run test_secured.py looks at what commands print and captures hold.
pytestmark = pytest.mark.exhaustive
GROUP = "billing"
IN_FILE, AS_OPTION, IN_ENVIRONMENT = USERS["admin"], "pa5s-of-a-key", "t0ken-in-the-environment"


def kafkas(broker: KafkaBroker) -> int:
    return sum(row["lag"] or 0 for row in parse_describe(broker.share_groups_describe(GROUP)))


def told(verdict: dict[str, Any]) -> Any:
    """The lag of the group by a report, which has other tests' groups, too."""
    return {group["group_id"]: group["lag"] for group in verdict["groups"]}[GROUP]


def contents(folder: Path) -> list[str]:
    """All files as text, also what is packed in them."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    texts = [path.read_bytes().decode("latin-1") for path in paths]
    for text in list(texts):
        packed = re.findall(r'<script type="text/plain"[^>]*>([^<]+)<', text)
        texts += [gzip.decompress(base64.b64decode(one)).decode("latin-1") for one in packed]
    return texts + [repr(pq.read_table(p).to_pylist()) for p in paths if p.suffix == ".parquet"]


def test_a_report_says_what_kafka_says_and_no_secret(secured: KafkaBroker, tmp_path: Path) -> None:
    config = settings_file(tmp_path, java_settings(secured, "admin", mechanism="SCRAM-SHA-256"))
    given = ["--command-config", config, "--command-property", f"ssl.key.password={AS_OPTION}"]
    given += ["--out", str(tmp_path / "out")]
    with ProcessList() as seen:
        done = sharelag(
            "report", "daily", *given, "-p", "over", "10m", env={"SHARELAG_TOKEN": IN_ENVIRONMENT}
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert seen.has("ipykernel_launcher")
    place = tmp_path / "out" / "daily" / "latest"
    result = json.loads((place / "verdict.json").read_text())
    assert told(result) == kafkas(secured) == 25
    refused = sharelag(
        "report", "daily", *given, "--command-property", "sasl.mechanism=SCRAM-SHA-512", code=1
    )
    assert refused.stdout.startswith("FAILED: ")
    printed = [done.stdout, done.stderr, refused.stdout, refused.stderr]
    texts = [*printed, *seen.lines, *contents(tmp_path / "out")]
    assert len(texts) > 12
    for secret in (IN_FILE, AS_OPTION, IN_ENVIRONMENT):
        assert not [text for text in texts if secret in text]


def test_papermill_runs_the_notebook_too(secured: KafkaBroker, tmp_path: Path, remote: str) -> None:
    done = run_python(
        *("-m", "papermill", str(notebook("daily")), str(tmp_path / "out.ipynb")),
        *("--no-progress-bar", "-k", "python3"),
        *("-p", "bootstrap_server", secured.bootstrap_servers, "-p", "over", "600"),
        SPARK_REMOTE=remote,
    )
    assert done.returncode == 0, done.stderr
    saved = nbformat.read(tmp_path / "out.ipynb", as_version=4).cells
    outputs = [output.get("data", {}) for cell in saved for output in cell.get("outputs", [])]
    (result,) = [data[VERDICT_MIME] for data in outputs if VERDICT_MIME in data]
    assert told(result) == kafkas(secured)


# ---- what a Spark application shows and logs of itself, and the list of its processes ------------
#: Reads the state topic as a batch and as a stream, by our source and by Spark's own, fails to read
#: another, and prints what the UI and its API say of it.
_JOB = """
import json, os, sys, threading, urllib.request
from pathlib import Path
import sharelag
from sharelag.inputs.kafka.config import client_config
from sharelag.inputs.spark import session
from sharelag.inputs.spark.data_source import read_topic, register
from sharelag.wire.fields import STATE_TOPIC

spark = session("event-log")
register(spark)
config = client_config(sys.argv[1], Path(sys.argv[2]))
rows = read_topic(spark, config, STATE_TOPIC)
rows.explain(True)
print("rows", rows.count())
try:
    read_topic(spark, config, "no-such-topic").count()
except Exception as error:
    print("refused", error)
rows = sharelag.read_kafka(spark, sys.argv[1], topics=STATE_TOPIC, command_config=sys.argv[2])
rows.explain(True)
print("rows", rows.count())
taken = threading.Semaphore(0)

def take(rows, number):
    print("taken", rows.count())
    taken.release()

options = {"subscribe": STATE_TOPIC, "startingOffsets": "earliest", **config.spark_options()}
stream = spark.readStream.format("sharelag_kafka").options(**options).load()
query = stream.writeStream.foreachBatch(take).start()
again = sharelag.read_kafka(
    spark, sys.argv[1], topics=STATE_TOPIC, command_config=sys.argv[2], stream=True
)
other = again.writeStream.foreachBatch(take).start()
assert taken.acquire(timeout=200) and taken.acquire(timeout=200)
query.explain(True)
other.explain(True)
application = f"api/v1/applications/{spark.sparkContext.applicationId}"
pages = ["environment/", "jobs/", "SQL/", "StreamingQuery/", f"{application}/environment"]
pages += [f"SQL/execution/?id={number}" for number in range(5)]
pages += [f"{application}/{page}" for page in ("sql?details=true", "jobs", "stages")]
for page in pages:
    print(urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/{page}").read().decode())
query.stop()
other.stop()
spark.stop()
"""


def test_neither_ui_nor_the_event_log_has_a_secret(secured: KafkaBroker, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir file://{log}\n"
        "spark.eventLog.compress false\nspark.ui.enabled true\nspark.ui.port 0\n"
        "spark.ui.showConsoleProgress false\nspark.sharelag.marker seen-by-both\n"
        f"spark.jars {','.join(map(str, connector_jars()))}\n{KAFKA_SETTING} true\n"
    )
    client = _client_properties(secured, tmp_path)
    with ProcessList() as seen:
        job = ("-c", _JOB, secured.secure_bootstrap_servers, client)
        done = run_python(*job, SPARK_CONF_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr[-3000:]
    logged = "".join(path.read_text() for path in log.rglob("*") if path.is_file())
    for text in (done.stdout, logged):
        assert "seen-by-both" in text
        for read in ("sharelag_kafka", "KafkaRelation(strategy=Assign"):
            assert read in text
    assert "KafkaV2[Assign" in logged
    assert "StreamingQueryListener$QueryProgressEvent" in logged
    assert "no-such-topic" in done.stdout
    for process in ("org.apache.spark.deploy.SparkSubmit", "pyspark.worker", "streaming_source"):
        assert seen.has(process), process
    for secret in (USERS["admin"], "of-the-key", "the-key-itself"):
        assert secret not in done.stdout + done.stderr + logged
        assert not seen.has(secret)


#: Asks a cluster for its lag in all ways that sharelag reads one on Spark.
_CONNECT_JOB = """
import sys
import sharelag
from sharelag.inputs.spark import session

spark = session("event-log")
spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
bench = sharelag.open(sys.argv[1], command_config=sys.argv[2])
print("rows", bench.frames.lag.count())
raw = sharelag.read_kafka(spark, sys.argv[1], command_config=sys.argv[2])
print("rows", raw.count())
print("rows", sharelag.windows(raw).count())
"""


def test_a_connect_server_logs_no_secret(secured: KafkaBroker, tmp_path: Path) -> None:
    """It writes each command with the options of its sources."""
    log = tmp_path / "log"
    log.mkdir()
    settings = {"spark.jars": ",".join(map(str, connector_jars()))}
    settings |= {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{log}"}
    settings |= {"spark.eventLog.compress": "false"}
    client = _client_properties(secured, tmp_path)
    with connect_server(settings=settings) as address:
        job = ("-c", _CONNECT_JOB, secured.secure_bootstrap_servers, client)
        done = run_python(*job, SPARK_REMOTE=address)
        logged = "".join(path.read_text() for path in log.rglob("*") if path.is_file())
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("rows") == 3
    assert "SparkListenerConnectOperationStarted" in logged
    assert "sharelag_kafka" in logged
    for secret in (USERS["admin"], "the-key-itself"):
        assert secret not in done.stdout + done.stderr + logged


def _client_properties(broker: KafkaBroker, folder: Path) -> str:
    """A file with client settings, some of which are secret."""
    of_the_key = {
        "ssl.key.password": "of-the-key",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "the-key-itself",  # by its name no secret to Spark
    }
    return settings_file(folder, java_settings(broker, "admin") | of_the_key)
