"""Reports of a live, secured cluster have Kafka's own lag, and leave no secret behind."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pyarrow.parquet as pq
import pytest

from sharelag.reports.blocks import VERDICT_MIME
from sharelag.reports.notebooks import notebook
from tests.support.command import sharelag
from tests.support.connect import no_session
from tests.support.kafka.broker import USERS, KafkaBroker
from tests.support.kafka.describe import parse_describe
from tests.support.process_list import ProcessList

GROUP = "billing"
IN_FILE, AS_OPTION, IN_ENVIRONMENT = USERS["admin"], "pa5s-of-a-key", "t0ken-in-the-environment"


def kafkas(broker: KafkaBroker) -> int:
    return sum(row["lag"] or 0 for row in parse_describe(broker.share_groups_describe(GROUP)))


def credentials(broker: KafkaBroker, folder: Path) -> list[str]:
    file = folder / "client.properties"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    login = f'{module} required username="admin" password="{IN_FILE}";'
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\nsasl.jaas.config={login}\n"
    )
    given = ["--bootstrap-server", broker.secure_bootstrap_servers, "--command-config", str(file)]
    return [*given, "--command-property", f"ssl.key.password={AS_OPTION}"]


def contents(folder: Path) -> list[str]:
    """All files as text, also what is packed in them."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    texts = [path.read_bytes().decode("latin-1") for path in paths]
    for text in list(texts):
        packed = re.findall(r'<script type="text/plain"[^>]*>([^<]+)<', text)
        texts += [gzip.decompress(base64.b64decode(one)).decode("latin-1") for one in packed]
    return texts + [
        repr(pq.read_table(path).to_pylist()) for path in paths if path.suffix == ".parquet"
    ]


def assert_no_secret(texts: list[str]) -> None:
    assert len(texts) > 12
    for secret in (IN_FILE, AS_OPTION, IN_ENVIRONMENT):
        assert not [text for text in texts if secret in text]


@pytest.mark.exhaustive
def test_the_report_says_what_kafka_says_and_no_secret(
    secured: KafkaBroker, tmp_path: Path
) -> None:
    given = [*credentials(secured, tmp_path), "--out", str(tmp_path / "out")]
    with ProcessList() as seen:
        done = sharelag(
            "report", "daily", *given, "-p", "over", "10m", env={"SHARELAG_TOKEN": IN_ENVIRONMENT}
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert seen.has("ipykernel_launcher")
    place = tmp_path / "out" / "daily" / "latest"
    result = json.loads((place / "verdict.json").read_text())
    assert (
        {group["group_id"]: group["lag"] for group in result["groups"]}
        == {GROUP: kafkas(secured)}
        == {GROUP: 25}
    )
    refused = sharelag(
        "report", "daily", *given, "--command-property", "sasl.mechanism=SCRAM-SHA-512"
    )
    assert refused.returncode == 1
    assert refused.stdout.startswith("FAILED: ")
    assert_no_secret(
        [
            *(done.stdout, done.stderr, refused.stdout, refused.stderr),
            *(*seen.lines, *contents(tmp_path / "out")),
        ]
    )


def test_a_capture_holds_no_secret_and_gives_the_same_report(
    secured: KafkaBroker, tmp_path: Path, remote: str
) -> None:
    given = credentials(secured, tmp_path)
    environment = {"SHARELAG_TOKEN": IN_ENVIRONMENT, "SPARK_REMOTE": remote}
    taken = sharelag("capture", *given, str(tmp_path / "out" / "capture"), env=environment)
    assert taken.returncode == 0, taken.stderr
    made = (
        "--capture",
        str(tmp_path / "out" / "capture"),
        "--out",
        str(tmp_path / "out"),
        "--no-figures",
    )
    done = sharelag("report", "daily", *made, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out" / "daily" / "latest" / "verdict.json").read_text())
    assert {group["group_id"]: group["lag"] for group in result["groups"]} == {
        GROUP: kafkas(secured)
    }
    texts = [taken.stdout, taken.stderr, done.stdout, done.stderr, *contents(tmp_path / "out")]
    assert_no_secret(texts)


@pytest.mark.exhaustive
def test_plain_papermill_runs_the_notebook_too(
    secured: KafkaBroker, tmp_path: Path, remote: str
) -> None:
    command = [
        sys.executable,
        "-m",
        "papermill",
        str(notebook("daily")),
        str(tmp_path / "out.ipynb"),
        "--no-progress-bar",
    ]
    command += [
        "-k",
        "python3",
        "-p",
        "bootstrap_server",
        secured.bootstrap_servers,
        "-p",
        "over",
        "600",
    ]
    environment = no_session() | {"SPARK_REMOTE": remote}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    outputs = [
        output.get("data", {})
        for cell in nbformat.read(tmp_path / "out.ipynb", as_version=4).cells
        for output in cell.get("outputs", [])
    ]
    (result,) = [data[VERDICT_MIME] for data in outputs if VERDICT_MIME in data]
    assert result["groups"][0]["lag"] == kafkas(secured)
