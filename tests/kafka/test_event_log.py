"""What a Spark application shows and logs of itself, and the list of its processes, has no secret."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka.broker import USERS, KafkaBroker
from tests.support.process_list import ProcessList

#: Reads the state topic as a batch and as a stream, fails to read another, and prints what the UI
#: and its API say of it.
_JOB = """
import json, os, sys, threading, urllib.request
from pathlib import Path
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
taken = threading.Event()

def take(rows, number):
    print("taken", rows.count())
    taken.set()

options = {"subscribe": STATE_TOPIC, "startingOffsets": "earliest", **config.spark_options()}
stream = spark.readStream.format("sharelag_kafka").options(**options).load()
query = stream.writeStream.foreachBatch(take).start()
assert taken.wait(200)
query.explain(True)
application = f"api/v1/applications/{spark.sparkContext.applicationId}"
pages = ["environment/", "jobs/", "SQL/", "StreamingQuery/", f"{application}/environment"]
pages += [f"SQL/execution/?id={number}" for number in range(3)]
pages += [f"{application}/{page}" for page in ("sql?details=true", "jobs", "stages")]
for page in pages:
    print(urllib.request.urlopen(f"{spark.sparkContext.uiWebUrl}/{page}").read().decode())
query.stop()
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
    )
    client = tmp_path / "client.properties"
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{login} username="admin" password="{USERS["admin"]}";',
        "ssl.key.password": "of-the-key",
    }
    client.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
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
        assert "sharelag_kafka" in text
    assert "StreamingQueryListener$QueryProgressEvent" in logged
    assert "no-such-topic" in done.stdout
    for process in ("org.apache.spark.deploy.SparkSubmit", "pyspark.worker", "streaming_source"):
        assert seen.has(process), process
    for secret in (USERS["admin"], "of-the-key"):
        assert secret not in done.stdout + done.stderr + logged
        assert not seen.has(secret)
