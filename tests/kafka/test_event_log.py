"""What a Spark application shows and logs of itself, and the list of its processes, has no secret."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sharelag.tables.reasons import KAFKA_SETTING
from tests.support.connect import connect_server, no_session
from tests.support.kafka.broker import USERS, KafkaBroker
from tests.support.kafka.jars import connector_jars
from tests.support.process_list import ProcessList

#: Reads the state topic as a batch and as a stream, by our source and by Spark's own, fails to read
#: another, and prints what the UI and its API say of it.
_JOB = """
import json, os, sys, threading, urllib.request
from pathlib import Path
import sharelag
from sharelag.sources.kafka.config import client_config
from sharelag.sources.spark import session
from sharelag.sources.spark.data_source import read_topic, register
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


@pytest.mark.exhaustive
def test_neither_the_ui_nor_the_event_log_has_a_secret(
    secured: KafkaBroker, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.mkdir()
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.dir file://{log}\n"
        "spark.eventLog.compress false\nspark.ui.enabled true\nspark.ui.port 0\n"
        "spark.ui.showConsoleProgress false\nspark.sharelag.marker seen-by-both\n"
        f"spark.jars {','.join(map(str, connector_jars()))}\n{KAFKA_SETTING} true\n"
    )
    client = _client_properties(tmp_path)
    with ProcessList() as seen:
        done = subprocess.run(
            [sys.executable, "-c", _JOB, secured.secure_bootstrap_servers, str(client)],
            env=os.environ | {"SPARK_CONF_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
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


#: Asks a cluster for its lag in both ways that sharelag reads one on Spark.
_CONNECT_JOB = """
import sys
import sharelag
from sharelag.sources.spark import session

spark = session("event-log")
spark.conf.set("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")
bench = sharelag.open(sys.argv[1], command_config=sys.argv[2])
print("rows", bench.frames.lag.count())
print("rows", sharelag.read_kafka(spark, sys.argv[1], command_config=sys.argv[2]).count())
"""


@pytest.mark.exhaustive
def test_a_connect_server_logs_no_secret(secured: KafkaBroker, tmp_path: Path) -> None:
    """It writes each command with the options of its sources."""
    log = tmp_path / "log"
    log.mkdir()
    settings = {
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{log}",
        "spark.eventLog.compress": "false",
    }
    client = _client_properties(tmp_path)
    with connect_server(settings=settings) as address:
        done = subprocess.run(
            [sys.executable, "-c", _CONNECT_JOB, secured.secure_bootstrap_servers, str(client)],
            env=no_session() | {"SPARK_REMOTE": address},
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
        logged = "".join(path.read_text() for path in log.rglob("*") if path.is_file())
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("rows") == 2
    assert "SparkListenerConnectOperationStarted" in logged
    assert "sharelag_kafka" in logged
    for secret in (USERS["admin"], "the-key-itself"):
        assert secret not in done.stdout + done.stderr + logged


def _client_properties(folder: Path) -> Path:
    """A file with client settings, some of which are secret."""
    client = folder / "client.properties"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{login} username="admin" password="{USERS["admin"]}";',
        "ssl.key.password": "of-the-key",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "the-key-itself",  # by its name no secret to Spark
    }
    client.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return client
