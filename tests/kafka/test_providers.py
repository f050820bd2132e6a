"""References in client properties are what Kafka's own commands make of them."""

import random
from pathlib import Path
from typing import Any

import pytest

from sharelag.errors import ConfigError
from sharelag.inputs.kafka.config import client_config, resolve
from tests.support.kafka.cloud_files import TAKEN
from tests.support.kafka.oracles import Oracle

OF_KAFKA = "org.apache.kafka.common.config.provider"
PROVIDERS = {
    "bootstrap.servers": "b:1",
    "config.providers": "file,dir,env",
    "config.providers.file.class": f"{OF_KAFKA}.FileConfigProvider",
    "config.providers.dir.class": f"{OF_KAFKA}.DirectoryConfigProvider",
    "config.providers.env.class": f"{OF_KAFKA}.EnvVarConfigProvider",
}
VALUES = ["s3cret", "two words", "ünï€", "${file:x:y}", "a=b;c", 'q"uote\\', ""]


def test_kafkas_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cases: Any) -> None:
    """What Kafka leaves as it is written is an error here, and nothing else is."""
    for number, value in enumerate(VALUES):
        monkeypatch.setenv(f"SHARELAG_TEST_{number}", value)
        (tmp_path / f"key{number}").write_text(value, encoding="utf-8")
    file = tmp_path / "all.properties"
    lines = [f"key{n}={value}\n".replace("\\", "\\\\") for n, value in enumerate(VALUES)]
    file.write_text("".join(lines), encoding="utf-8")
    (tmp_path / "allowed").mkdir()
    parts = [
        *(f"${{file:{file}:key{n}}}" for n in range(len(VALUES))),
        *(f"${{dir:{tmp_path}:key{n}}}" for n in range(len(VALUES))),
        *(f"${{env:SHARELAG_TEST_{n}}}" for n in range(len(VALUES))),
        *("plain ", "$", "{", "}", ":", "${", "${}", "${:}", "${other:a:b}", "${vault:x}"),
        *(f"${{file:{file}:none}}", "${env:SHARELAG_NONE}", f"${{dir:{tmp_path}:../x}}"),
        *(f"${{dir:{tmp_path}:allowed}}", f"${{file:{file}:key0:more}}", "${env:SHARELAG_TEST_0"),
    ]
    chance = random.Random(7)
    questions = []
    for _ in range(cases(300, 5000)):
        value = "".join(chance.choices(parts, k=chance.choice([1, 1, 2, 3])))
        given = PROVIDERS | {"client.id": value}
        if chance.random() < 0.2:
            kind = chance.choice(["file", "dir"])
            path = chance.choice([str(tmp_path), f"{tmp_path}/allowed", f"{tmp_path}/x/..,/etc"])
            given[f"config.providers.{kind}.param.allowed.paths"] = path
        if chance.random() < 0.2:
            pattern = chance.choice(["SHARELAG_.*", "SHARELAG", ".*_[0-3]"])
            given["config.providers.env.param.allowlist.pattern"] = pattern
        questions.append(given)
    with Oracle("ClientSettings") as oracle:
        answers = oracle.ask_many({"properties": given} for given in questions)
    seen = {"equal": 0, "refused": 0}
    for given, kafkas in zip(questions, answers, strict=True):
        try:
            ours = resolve(given)["client.id"]
        except ConfigError:
            left = kafkas.get("client.id", "")
            assert "error" in kafkas or any(
                f"${{{name}:" in left for name in ("file", "dir", "env")
            )
            seen["refused"] += 1
        else:
            assert ours == kafkas.get("client.id"), (kafkas, given)
            seen["equal"] += 1
    assert min(seen.values()) > len(questions) // 10


def test_files_that_are_taken_here_are_taken_by_kafkas_commands(tmp_path: Path) -> None:
    import javaproperties

    with Oracle("ClientSettings") as oracle:
        for name, text in TAKEN.items():
            given = {"bootstrap.servers": "127.0.0.1:1"} | dict(javaproperties.loads(text))
            assert "error" not in oracle.ask({"properties": given}), name
            (tmp_path / "client.properties").write_text(text, encoding="utf-8")
            assert client_config("127.0.0.1:1", tmp_path / "client.properties")
