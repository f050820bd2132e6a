"""Client properties of those who run Kafka for others are taken, as Kafka's commands take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharelag.errors import ConfigError
from sharelag.sources.kafka.config import client_config
from sharelag.sources.kafka.library import consumer
from tests.support.command import sharelag_process
from tests.support.kafka.cloud_files import REFUSED, SECRET, TAKEN

NAME = "sharelag.sources.kafka.config"


@pytest.mark.parametrize("name", TAKEN)
def test_a_file_is_taken_with_one_note_at_most(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(TAKEN[name], encoding="utf-8")
    config = client_config("localhost:1", file)
    consumer(config).close()
    assert (config.librdkafka().get("sasl.password", "").find(SECRET) >= 0) == (
        "jaas" in TAKEN[name]
    )
    (note,) = (record.getMessage() for record in caplog.records if record.name == NAME)
    assert "ignored, as Kafka's commands do: " in note
    assert SECRET not in note + repr(config)


@pytest.mark.parametrize("name", REFUSED)
def test_what_decides_the_connection_and_cannot_be_honoured_is_an_error(
    name: str, tmp_path: Path
) -> None:
    text, says = REFUSED[name]
    file = tmp_path / "client.properties"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as refused:
        client_config("localhost:1", file)
    assert says in str(refused.value)
    assert SECRET not in str(refused.value)


_OF_LIBRDKAFKA = """bootstrap.servers=h:1
security.protocol=sasl_ssl
sasl.mechanisms=PLAIN
sasl.username=k
sasl.password=p
"""


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("metadata.broker.list=h:9092\nbroker.address.family=v4\n", "bootstrap.servers", "h:9092"),
        ("bootstrap.servers : h:9092\n! a comment\n", "bootstrap.servers", "h:9092"),
        ("bootstrap.servers h:9092\n", "bootstrap.servers", "h:9092"),
        ("bootstrap.servers=h:9092\nsasl.mechanism=\nsecurity.protocol=\n", "sasl.mechanism", None),
        ("bootstrap.servers=h:9092\nsasl.jaas.config=\n", "sasl.username", None),
        (_OF_LIBRDKAFKA, "sasl.username", "k"),
    ],
)  # fmt: skip
def test_lines_of_other_tools_and_of_templates(
    text: str, name: str, value: str | None, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(text)
    config = client_config(None, file)
    consumer(config).close()
    assert config.librdkafka().get(name) == value


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "ssl.truststore.location=C:\\certs\\ca.pem\n",
            r"ssl.truststore.location=C:certsca.pem: No such file or directory; write C:/certs, or C:\\certs",
        ),
        ("ssl.ca.location=/nowhere/ca.pem\n", "cannot read ssl.ca.location=/nowhere/ca.pem"),
        ("ssl.key.location=C:\\certs\\k.pem\n", "no such file; write C:/certs"),
    ],
)
def test_a_file_that_is_not_there_is_named(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"security.protocol=SSL\n{text}")
    with pytest.raises(ConfigError) as refused:
        client_config("localhost:1", file)
    assert says in str(refused.value)


@pytest.mark.parametrize(
    "jaas",
    [
        'X required \\ \n  username="u" password="p";',  # a blank behind the backslash
        'KafkaClient { X required username="u" password="p"; };',
        'X required username="u" password="p"',
    ],
)
def test_how_jaas_is_written_into_one_line_is_said(jaas: str, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"sasl.mechanism=PLAIN\nsasl.jaas.config={jaas}\n")
    with pytest.raises(ConfigError) as refused:
        client_config("localhost:1", file)
    assert "without the section of a JAAS file around it" in str(refused.value)
    assert "only where \\ is its very last character" in str(refused.value)


def test_the_note_names_what_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    given = {"securty.protocol": "SSL", "x": "y", f"{SECRET}=": "", "eyJhbGci.eyJz.sig": ""}
    assert client_config("localhost:1", None, given) == client_config("localhost:1")
    (note,) = (record.getMessage() for record in caplog.records)
    assert note.endswith(
        "securty.protocol and 3 lines not shown here, which may be part of a password, on a line "
        "that is broken in two"
    )


def test_the_command_prints_one_line_about_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(TAKEN["Confluent Cloud"].replace("9092", "1"), encoding="utf-8")
    done = sharelag_process("lag", "--command-config", str(file), "--timeout", "300ms")
    note, error = done.stderr.splitlines()
    assert "basic.auth.credentials.source, basic.auth.user.info, schema.registry.url" in note
    assert "no broker answered at 127.0.0.1:1" in error
    assert SECRET not in done.stderr
