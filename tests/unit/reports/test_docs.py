"""The documentation of checks, exports and reports has valid rule files and true names."""

import ast
import json
import re
from email.message import EmailMessage
from pathlib import Path
from typing import Any, Self

import pytest

from sharelag.monitoring.checks.rules import FINDINGS, Measure, Rule, parse_rules
from sharelag.reports import notebooks
from sharelag.reports.schedules import KINDS
from tests.support.command import sharelag

DOCS = Path(__file__).parents[3] / "docs"


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / name).read_text(), re.M | re.S)


def keys_of(name: str) -> set[str]:
    """What stands in the first column of its tables."""
    rows = re.findall(r"^\| (.+?) \|", (DOCS / name).read_text(), re.MULTILINE)
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row)}


def test_rules_in_the_documentation_are_valid() -> None:
    found = blocks("checks.md", "yaml")
    assert len(found) == 2
    for text in found:
        assert parse_rules(text).rules


def test_every_measure_and_key_is_documented() -> None:
    named = keys_of("checks.md")
    assert set(Measure.__args__) <= named  # type: ignore[attr-defined]
    fields = {field.alias or name for name, field in Rule.model_fields.items()}
    text = (DOCS / "checks.md").read_text()
    found = {key for key in fields if f"`{key}`" not in text and f"`{key}:" not in text}
    assert found == {"name", "measure"} - named
    assert all(f"`{finding}`" in text for finding in FINDINGS)


def test_every_report_scheduler_and_example_is_documented() -> None:
    assert set(notebooks.names()) | set(KINDS) <= keys_of("reports.md")
    exports = (DOCS / "exports.md").read_text()
    for name in re.findall(r"data/examples/([\w.-]+)", exports):
        assert (DOCS.parent / "data" / "examples" / name).exists()
    answer = json.loads(blocks("exports.md", "json")[0])
    assert set(answer) <= keys_of("exports.md") | {"group"}


@pytest.mark.parametrize("name", ["checks.md", "exports.md", "reports.md"])
def test_every_option_in_it_is_there(name: str) -> None:
    text = (DOCS / name).read_text()
    commands = ("capture", "check", "export", "export serve", "export prometheus", "report daily")
    every = (*commands, "report schedule", "simulate")
    helps = "".join(sharelag(*command.split(), "--help").stdout for command in every)
    for option in set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)):
        assert re.search(rf"{option}\b", helps), option


def test_the_example_of_a_mail_sends_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last = tmp_path / "reports" / "daily" / "latest"
    last.mkdir(parents=True)
    (last / "verdict.json").write_text('{"level": "warning", "headline": "billing: lags \\u2026"}')
    (last / "mail.html").write_text("<p>lags</p>")
    (last / "report.html").write_text("<html>")
    sent: list[EmailMessage] = []

    class Server:
        def __init__(self, *_: Any) -> None: ...

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: Any) -> None: ...

        def send_message(self, mail: EmailMessage) -> None:
            sent.append(mail)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("smtplib.SMTP", Server)
    (code,) = blocks("reports.md", "python")
    exec(compile(ast.parse(code), "reports.md", "exec"), {})
    (mail,) = sent
    assert mail["Subject"] == "WARNING: billing: lags \u2026"
    assert [part.get_content_type() for part in mail.walk()][-2:] == ["text/html", "text/html"]
