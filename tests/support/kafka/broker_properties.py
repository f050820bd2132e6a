"""The server.properties of a one-node broker under test."""

from collections.abc import Mapping
from pathlib import Path

#: Of the authorizer, as ``super.users`` has them: whoever comes without a password, and admin.
SUPER_USERS = "User:ANONYMOUS;User:admin"
#: User names and passwords of the SASL listener. They protect nothing but a broker of a test.
USERS = {name: f"{name}-secret" for name in ("admin", "alice", "bob", "carol")}
SECURE = "SASL_PLAINTEXT"

_ONE_NODE = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
}
_FOR_TESTS = {
    # Tests write records of long ago, which stay until somebody deletes them.
    "log.retention.check.interval.ms": "86400000",
    "auto.create.topics.enable": "false",
    # Members join, and get their partitions at the next heartbeat: the default of 5 s is waiting,
    # not testing.
    "group.initial.rebalance.delay.ms": "0",
    "group.share.min.heartbeat.interval.ms": "250",
    "group.share.heartbeat.interval.ms": "250",
    "group.share.assignment.interval.ms": "0",
    # Lets a group have locks that end within a test.
    "group.share.min.record.lock.duration.ms": "1000",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.snapshot.update.records.per.snapshot": "50",
    # Files of 10 MB that are filled with zeros in advance cost a small machine more than they save.
    "log.index.size.max.bytes": "65536",
    "log.initial.task.delay.ms": "1000",
}


def server_properties(
    ports: Mapping[str, int], protocols: Mapping[str, str], data: Path, extra: Mapping[str, str]
) -> dict[str, str]:
    """Compose the settings.

    ``ports``: port by listener name; ``PLAINTEXT`` and ``CONTROLLER`` among them. ``protocols``:
    security protocol by name, for the listeners that are not named after theirs. ``data``: folder
    of the log segments. ``extra``: settings that win over everything else.
    """
    where = {name: f"{name}://127.0.0.1:{port}" for name, port in ports.items()}
    known = {name: name for name in ports} | {"CONTROLLER": "PLAINTEXT"} | dict(protocols)
    settings = {
        **_ONE_NODE,
        **_FOR_TESTS,
        "controller.quorum.voters": f"1@127.0.0.1:{ports['CONTROLLER']}",
        "listeners": ",".join(where.values()),
        "advertised.listeners": ",".join(
            text for name, text in where.items() if name != "CONTROLLER"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in known.items()
        ),
        "log.dirs": str(data),
    }
    return settings | (_secure_settings() if SECURE in ports else {}) | dict(extra)


def _secure_settings() -> dict[str, str]:
    """Return the settings of the SASL listener and of the authorizer.

    Who comes through the PLAINTEXT listener is a super user, so that a test can set up what it
    needs.
    """
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    listener = f"listener.name.{SECURE.lower()}"
    security = "org.apache.kafka.common.security"
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": SUPER_USERS,
        f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        f"{listener}.plain.sasl.jaas.config": (
            f"{security}.plain.PlainLoginModule required {users};"
        ),
        f"{listener}.scram-sha-256.sasl.jaas.config": (
            f"{security}.scram.ScramLoginModule required;"
        ),
    }
