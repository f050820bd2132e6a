"""The schemas of requests that the package ships, against those that Kafka's own jar has."""

from __future__ import annotations

import zipfile
from pathlib import Path

from sharelag.wire import messages
from sharelag.wire.messages import SHARE_APIS
from tests.support.kafka.since import since


@since("4.4", "the version whose schemas are shipped")
def test_schemas_are_those_of_kafka(kafka_jars: Path) -> None:
    shipped = sorted(Path(messages.__file__).parent.glob("*.json"))
    assert shipped
    with zipfile.ZipFile(next(kafka_jars.glob("kafka-clients-*.jar"))) as jar:
        for path in shipped:
            assert path.read_bytes() == jar.read(f"common/message/{path.name}"), path.name


def test_no_request_about_share_groups_is_left_out(kafka_jars: Path) -> None:
    with zipfile.ZipFile(next(kafka_jars.glob("kafka-clients-*.jar"))) as jar:
        names = {Path(name).stem for name in jar.namelist() if name.endswith("Request.json")}
    shared = {name.removesuffix("Request") for name in names if "Share" in name}
    assert shared == set(SHARE_APIS.values())
