"""Secrets that client properties refer to: from the environment, from files and from folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from sharelag.errors import ConfigError
from sharelag.reports.secrets import secrets_of
from sharelag.sources.kafka.config import client_config, from_spark_options
from tests.support.command import sharelag

SECRET = "s3cr3t-of-a-provider"
OF_KAFKA = "org.apache.kafka.common.config.provider"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def properties(reference: str, kind: str = "EnvVar") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{MODULE} required username="u" password="{reference}";',
        "config.providers": "it",
        "config.providers.it.class": f"{OF_KAFKA}.{kind}ConfigProvider",
    }


def written(folder: Path, given: dict[str, str]) -> Path:
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    return file


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A reference to the secret by each provider."""
    monkeypatch.setenv("SHARELAG_TEST_PW", SECRET)
    (tmp_path / "secrets.properties").write_text(f"pw={SECRET}\n")
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "pw").write_text(SECRET)
    return {
        "EnvVar": "${it:SHARELAG_TEST_PW}",
        "File": f"${{it:{tmp_path}/secrets.properties:pw}}",
        "Directory": f"${{it:{tmp_path}/mounted:pw}}",
    }


@pytest.mark.parametrize("kind", ["EnvVar", "File", "Directory"])
def test_the_secret_reaches_the_client_and_nobody_else(
    kind: str, places: dict[str, str], tmp_path: Path
) -> None:
    file = written(tmp_path, properties(places[kind], kind))
    config = client_config("b:1", file)
    assert config.librdkafka()["sasl.password"] == SECRET
    assert SECRET not in f"{config!r} {config.public()}"
    assert not [name for name in config.librdkafka() if "providers" in name]
    assert from_spark_options(config.spark_options()).librdkafka()["sasl.password"] == SECRET
    assert SECRET in secrets_of(file, {})  # so that reports mask it


def test_a_secret_that_looks_like_a_reference_is_not_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHARELAG_TEST_PW", "${it:HOME}")
    config = client_config("b:1", written(tmp_path, properties("${it:SHARELAG_TEST_PW}")))
    again = from_spark_options(config.spark_options())
    assert again.librdkafka()["sasl.password"] == "${it:HOME}"


@pytest.mark.parametrize(
    ("reference", "kind", "more", "words"),
    [
        ("${it:SHARELAG_NONE}", "EnvVar", {}, "has no value"),
        ("${it:a:PATH}", "EnvVar", {}, "has no path"),
        ("${it:PATH}", "EnvVar", {"allowlist.pattern": "KAFKA_.*"}, "does not allow this name"),
        ("${it:PATH}", "EnvVar", {"allowlist.pattern": "("}, "is not a pattern"),
        ("${it:/no/such:pw}", "File", {}, "No such file"),
        ("${it:/etc/hostname:pw}", "File", {"allowed.paths": "/etc/kafka"}, "does not allow /etc"),
        ("${it:/etc/kafka/../x:pw}", "File", {"allowed.paths": "/etc/kafka"}, "does not allow"),
        ("${it:/etc:../etc/hostname}", "Directory", {}, "has no value"),
        ("${it:/dev/zero:pw}", "File", {}, "larger than 1 MiB"),
    ],
)
def test_a_reference_that_leads_nowhere_is_a_sentence(
    reference: str, kind: str, more: dict[str, str], words: str, tmp_path: Path
) -> None:
    given = properties(reference, kind)
    given |= {f"config.providers.it.param.{name}": value for name, value in more.items()}
    done = sharelag(
        *("lag", "--bootstrap-server", "127.0.0.1:1"),
        *("--command-config", str(written(tmp_path, given))),
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert f"{reference} of sasl.jaas.config" in line
    assert words in line


@pytest.mark.parametrize("name", ["", "com.example.Vault", f"{OF_KAFKA}.NoConfigProvider"])
def test_a_provider_that_only_java_can_load_is_refused(name: str) -> None:
    given = properties("${it:PATH}") | {"config.providers.it.class": name}
    with pytest.raises(ConfigError, match=r"config\.providers\.it\.class .*EnvVarConfigProvider"):
        client_config("b:1", None, given)
