"""The chart, by Helm itself, Kubernetes' schemas and sharelag's own commands."""

from pathlib import Path
from typing import Any

import click
import kubernetes_validate
import pytest
import yaml

from sharelag.cli import cli
from sharelag.version import __version__
from tests.support.command import sharelag
from tests.support.kafka.helm import lint, template

CHART = Path(__file__).parents[2] / "data" / "examples" / "chart"
#: The oldest that the chart says it takes, and the newest that the schemas know.
KUBERNETES = ("1.27.0", kubernetes_validate.latest_version())
ALL = {"bootstrapServer": "kafka-0:9092", "check.enabled": "true", "report.enabled": "true"}
ALL |= {"groups[0]": "a b: [*]"}


def rendered(values: dict[str, str], kubernetes: str = "1.31.0") -> list[dict[str, Any]]:
    answer = template(CHART, values, f"v{kubernetes}")
    assert answer["err"] == ""
    return [one for one in yaml.safe_load_all(answer["out"]) if one]


@pytest.fixture(scope="module")
def everything() -> list[dict[str, Any]]:
    return rendered(ALL)


def pods(documents: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found = {}
    for one in documents:
        if one["kind"] == "CronJob":
            found[one["metadata"]["name"]] = one["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        elif one["kind"] == "Deployment":
            found[one["metadata"]["name"]] = one["spec"]["template"]["spec"]
    return found


def test_helm_has_no_complaint() -> None:
    said = lint(CHART)
    assert "Failed: false" in said
    assert "[WARNING]" not in said
    assert "[ERROR]" not in said


@pytest.mark.parametrize("kubernetes", KUBERNETES)
def test_kubernetes_accepts_every_document(kubernetes: str) -> None:
    documents = rendered(ALL, kubernetes)
    kinds = sorted(one["kind"] for one in documents)
    assert kinds == ["ConfigMap", "CronJob", "CronJob", "Deployment", "Service"]
    for one in documents:
        kubernetes_validate.validate(one, kubernetes, strict=True)


def test_by_itself_it_is_the_exporter_alone_and_asks_for_a_cluster() -> None:
    kinds = {one["kind"] for one in rendered({"bootstrapServer": "kafka:9092"})}
    assert kinds == {"Deployment", "Service"}
    assert "set bootstrapServer" in template(CHART, {}, "v1.31.0")["err"]


def test_pods_may_do_nothing_but_what_they_are_for(everything: list[dict[str, Any]]) -> None:
    found = pods(everything)
    assert set(found) == {"release-serve", "release-check", "release-report"}
    for pod in found.values():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["image"] == f"sharelag:{__version__}"
        writable = {m["mountPath"] for m in container["volumeMounts"] if not m.get("readOnly")}
        assert writable <= {"/tmp", "/reports"}
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


def test_secrets_are_files_of_a_secret(everything: list[dict[str, Any]]) -> None:
    assert "Secret" not in {one["kind"] for one in everything}  # a release keeps its values
    for pod in pods(everything).values():
        (container,) = pod["containers"]
        assert "env" not in container
        assert "envFrom" not in container
        secret = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
        assert {one["secretName"] for one in secret} == {"sharelag"}
        assert {one["defaultMode"] for one in secret} == {0o440}


def test_without_client_properties_none_are_mounted() -> None:
    for pod in pods(rendered(ALL | {"secret.clientProperties": "false"})).values():
        (container,) = pod["containers"]
        assert "--command-config" not in container["args"]
        assert "client" not in {volume["name"] for volume in pod["volumes"]}


def parsed(arguments: list[str]) -> click.Context:
    """Let click read a command line; it refuses what sharelag does not have."""
    context = click.Context(cli)
    command: click.Command = cli
    while isinstance(command, click.Group):
        name, found, arguments = command.resolve_command(context, list(arguments))
        assert found is not None
        command = found
        context = command.make_context(name, list(arguments), parent=context)
        arguments = [*context._protected_args, *context.args]
    return context


def test_every_argument_is_one_of_sharelag(everything: list[dict[str, Any]]) -> None:
    given = {name: parsed(pod["containers"][0]["args"]) for name, pod in pods(everything).items()}
    found = {name: one.command.name for name, one in given.items()}
    assert found == {"release-serve": "serve", "release-check": "check", "release-report": "make"}
    for one in given.values():
        assert one.params["bootstrap_server"] == "kafka-0:9092"
        assert one.params["group"] == ("a b: [*]",)
    with pytest.raises(click.NoSuchOption):
        parsed(["export", "serve", "--tokens", "x"])


def test_files_are_mounted_where_the_arguments_look(everything: list[dict[str, Any]]) -> None:
    for pod in pods(everything).values():
        (container,) = pod["containers"]
        folders = {mount["mountPath"] for mount in container["volumeMounts"]}
        named = [Path(text) for text in container["args"] if text.startswith("/")]
        assert {str(path if path.suffix == "" and str(path) in folders else path.parent)
                for path in named} <= folders  # fmt: skip


def test_probes_ask_what_is_answered_without_a_token(everything: list[dict[str, Any]]) -> None:
    (container,) = pods(everything)["release-serve"]["containers"]
    probes = [container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")]
    assert probes == [{"path": "/livez", "port": "metrics"}] * 3
    (port,) = container["ports"]
    assert port == {"name": "metrics", "containerPort": 9308}


def test_its_rules_are_rules(everything: list[dict[str, Any]], tmp_path: Path) -> None:
    (rules,) = [one["data"]["rules.yaml"] for one in everything if one["kind"] == "ConfigMap"]
    file = tmp_path / "rules.yaml"
    file.write_text(rules)
    words = ("--rules", str(file), "--capture", "demo", "--engine", "local")
    answer = sharelag("check", *words, code=2)
    assert "no working members" in answer.stdout
