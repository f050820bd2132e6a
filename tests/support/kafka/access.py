"""Rules of a secured broker's authorizer, and the settings of those who are judged by them."""

from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from tests.support.kafka.broker import USERS, KafkaBroker
from tests.support.kafka.workload import wait_until


def rule(text: str, group: str = "", principal: str = "User:alice") -> AclBinding:
    """Make a rule, by default for alice: ``GROUP {} READ``; star: a prefix, minus: denies."""
    kind, name, operation = text.removeprefix("-").format(group).split()
    is_prefix = len(name) > 1 and name.endswith("*")
    return AclBinding(
        ResourceType[kind],
        name.rstrip("*") or "*",
        ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL,
        principal,
        "*",
        AclOperation[operation],
        AclPermissionType.DENY if text.startswith("-") else AclPermissionType.ALLOW,
    )


def set_rules(broker: KafkaBroker, rules: list[AclBinding]) -> None:
    """Replace all rules; returns when the broker's authorizer has them."""
    admin = AdminClient(broker.client_config())
    everything = AclBindingFilter(
        *(ResourceType.ANY, None, ResourcePatternType.ANY, None, None),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )

    def in_force() -> set[AclBinding]:
        return set(admin.describe_acls(everything).result(timeout=30))

    for deleted in admin.delete_acls([everything]).values():
        deleted.result(timeout=30)
    add_rules(broker, rules)
    wait_until(lambda: in_force() == set(rules), "the rules are in force")


def add_rules(broker: KafkaBroker, rules: list[AclBinding]) -> None:
    if rules:
        admin = AdminClient(broker.client_config())
        for created in admin.create_acls(rules).values():
            created.result(timeout=30)


def java_settings(
    broker: KafkaBroker, user: str, password: str | None = None, mechanism: str = "PLAIN"
) -> dict[str, str]:
    """Return the properties of a user, as for Kafka's own clients; ``mechanism`` may be SCRAM's."""
    said = (USERS[user] if password is None else password).replace("\\", "\\\\").replace('"', '\\"')
    kind = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    module = f"org.apache.kafka.common.security.{kind}LoginModule"
    return {
        "bootstrap.servers": broker.secure_bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{said}";',
    }


def settings_file(folder: Path, settings: dict[str, str]) -> str:
    """Write them into a file for ``--command-config``."""
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(file)
