"""Kafka brokers of our own, on free ports and in temporary folders: one node, or several.

>>> with KafkaBroker() as broker:  # doctest: +SKIP
...     print(broker.share_groups_describe("billing"))
>>> with KafkaCluster() as cluster:  # doctest: +SKIP
...     cluster.brokers[1].kill()
"""

import atexit
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from sharelag.model.versions import has_reached
from tests.support.kafka import class_data as archived
from tests.support.kafka.jars import KAFKA_VERSION, kafka_jars
from tests.support.kafka.jvm import FAST_JVM, RigError, java_command, run_java
from tests.support.kafka.oracles import ask_commands, run_command
from tests.support.kafka.workload import wait_until
from tests.support.ports import free_port, free_ports

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
#: Kafka's class of ``kafka-share-groups.sh``.
SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
#: Programs that run once in a process: what they have read they count in static fields.
_ALONE = {"ConsoleConsumer", "ConsoleShareConsumer", "VerifiableShareConsumer"}
#: Internal topics are on three brokers, and writable while one of them is away.
REPLICATED = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}

#: Of the three brokers that tests of `tests/kafka` share.
RACKS = ("east", "west", "north")


class KafkaBroker:
    """A broker that lives as long as the ``with`` block, or from ``start`` to ``close``.

    ``properties``: server properties that win over the test settings. ``secure``: adds a
    ``SASL_PLAINTEXT`` listener (PLAIN and SCRAM-SHA-256, users in ``USERS``) and an authorizer that
    lets ``admin`` and everybody on the PLAINTEXT listener do everything, and the others nothing
    without an ACL. ``extra_listeners``: security protocol by listener name. ``cluster_id``: 22
    characters of URL-safe base64; random without it. ``ready_within``: seconds until the broker has
    to answer. ``heap``: maximal heap of the broker's JVM. ``log_requests``: log every request that
    was answered, in `request_log`. ``jmx``: open its MBeans to Kafka's JmxTool; see `jmx`.
    ``jvm_flags``: options of its JVM, such as an agent. ``class_data``: options of all its JVMs; by
    default those that use the archive of Kafka's classes. ``version``: of Kafka; `upgrade` changes
    it. ``libraries``: jars beside Kafka's.
    """

    def __init__(
        self,
        *,
        properties: Mapping[str, str] | None = None,
        secure: bool = False,
        extra_listeners: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
        ready_within: float = 90,
        heap: str = "512m",
        log_requests: bool = False,
        jmx: bool = False,
        jvm_flags: Sequence[str] = (),
        class_data: Sequence[str] | None = None,
        version: str = KAFKA_VERSION,
        libraries: Sequence[Path] = (),
    ) -> None:
        self._libraries = libraries
        self.version, self._libs = version, kafka_jars(version)
        self._folder = Path(tempfile.mkdtemp(prefix="sharelag-kafka-"))
        self.cluster_id = cluster_id or urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        self._ready_within = ready_within
        self._heap = heap
        self._log_requests = log_requests
        self._jmx_port = free_port() if jmx else None
        self._jvm_flags = (*jvm_flags, *_jmx_flags(self._jmx_port))
        self._class_data = archived.options() if class_data is None else class_data
        self._keeps_commands = class_data is None and not libraries
        self._secure = secure
        self._process: subprocess.Popen[bytes] | None = None
        protocols = dict(extra_listeners or {})
        names = ["PLAINTEXT", "CONTROLLER", *([SECURE] if secure else []), *protocols]
        self._ports = dict(zip(names, free_ports(len(names)), strict=True))
        #: Its server properties; what is changed counts from its next start on.
        self.settings = server_properties(self._ports, protocols, self.log_dir, properties or {})

    @property
    def bootstrap_servers(self) -> str:
        """Address of the PLAINTEXT listener."""
        return self.address("PLAINTEXT")

    @property
    def secure_bootstrap_servers(self) -> str:
        """Address of the SASL_PLAINTEXT listener of ``KafkaBroker(secure=True)``."""
        return self.address(SECURE)

    @property
    def log_dir(self) -> Path:
        """Folder of the log segments."""
        return self._folder / "data"

    @property
    def log_file(self) -> Path:
        """What the broker printed."""
        return self._folder / "broker.log"

    @property
    def request_log(self) -> Path:
        """The requests of ``KafkaBroker(log_requests=True)``, in the order of their answers."""
        return self._folder / "requests.log"

    @property
    def _class_path(self) -> list[Path]:
        return [self._libs / "*", *self._libraries]

    @property
    def _config(self) -> Path:
        return self._folder / "server.properties"

    def address(self, listener: str) -> str:
        """Return ``host:port`` of a listener."""
        return f"127.0.0.1:{self._ports[listener]}"

    def client_config(self, user: str | None = None, password: str | None = None) -> dict[str, str]:
        """Return settings of confluent-kafka: for PLAINTEXT, or for SASL with a user."""
        if user is None:
            return {"bootstrap.servers": self.bootstrap_servers}
        return {
            "bootstrap.servers": self.secure_bootstrap_servers,
            "security.protocol": SECURE,
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": USERS[user] if password is None else password,
        }

    def start(self) -> None:
        """Start the broker and wait until it answers; the first time its storage is formatted."""
        if self._process is not None:
            raise RigError("the broker runs already")
        lines = (f"{name}={value}\n" for name, value in self.settings.items())
        self._config.write_text("".join(lines))
        if not self.log_dir.exists():
            self._format()
        command = java_command(
            self._class_path,
            "kafka.Kafka",
            str(self._config),
            heap=self._heap,
            requests=self.request_log if self._log_requests else None,
            flags=(*FAST_JVM, *self._class_data, *self._jvm_flags),
        )
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                # so that Ctrl-C in the tests leaves the order of stopping to us
                start_new_session=True,
            )
        atexit.register(self.kill)
        try:
            self._wait_until_ready(self._process)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Shut the broker down in good order; its data stay."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(timeout=60)
        finally:
            self.kill()

    def kill(self) -> None:
        """End the broker at once, as a power failure would; its data stay."""
        process, self._process = self._process, None
        if process is None:
            return
        atexit.unregister(self.kill)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def process_ids(self) -> list[int]:
        """Return the id of its process, while it runs."""
        return [self._process.pid] if self._process else []

    def restart(self) -> None:
        """Stop and start with the same data and ports."""
        self.stop()
        self.start()

    def upgrade(self, version: str) -> None:
        """Restart it as another version of Kafka, with the same data and ports."""
        self.stop()
        self.version, self._libs = version, kafka_jars(version)
        self.start()

    def close(self) -> None:
        """End the broker and remove its folder: there is nothing to keep in good order."""
        try:
            self.kill()
        finally:
            shutil.rmtree(self._folder)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def busy_cleaner(self) -> Iterator[None]:
        """Let the log cleaner look for work all the time instead of every 15 seconds."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})

        def alter(how: AlterConfigOpType) -> None:
            entry = ConfigEntry("log.cleaner.backoff.ms", "200", incremental_operation=how)
            brokers = ConfigResource(ConfigResource.Type.BROKER, "1", incremental_configs=[entry])
            for done in admin.incremental_alter_configs([brokers]).values():
                done.result(timeout=30)

        alter(AlterConfigOpType.SET)
        try:
            yield
        finally:
            alter(AlterConfigOpType.DELETE)

    def dump_log(self, topic: str) -> subprocess.CompletedProcess[str]:
        """Run Kafka's DumpLogSegments on partition 0 of a topic.

        It reads links to the files: the cleaner may take their names away meanwhile.
        """
        tool = "org.apache.kafka.tools.DumpLogSegments"
        with tempfile.TemporaryDirectory(dir=self._folder) as links:
            for file in (self.log_dir / f"{topic}-0").glob("*.log"):
                os.link(file, Path(links, file.name))
            files = ",".join(map(str, sorted(Path(links).iterdir())))
            return self.run_tool(tool, "--deep-iteration", "--files", files)

    def run_tool(self, main_class: str, *args: str) -> subprocess.CompletedProcess[str]:
        """Run one of Kafka's programs of this version; the caller checks the exit code."""
        is_kept = self._keeps_commands and self.version == KAFKA_VERSION
        if is_kept and main_class.rpartition(".")[2] not in _ALONE:
            return run_command(main_class, *args)
        flags = (*FAST_JVM, *self._class_data)
        return run_java(self._class_path, main_class, *args, flags=flags)

    def ask_tool(self, name: str, *args: str) -> str:
        """Return what one of the tools of ``org.apache.kafka.tools`` prints of this broker."""
        server = ("--bootstrap-server", self.bootstrap_servers)
        done = self.run_tool(f"org.apache.kafka.tools.{name}", *server, *args)
        if done.returncode:
            raise RigError(f"{name} {' '.join(args)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def run_configs(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Run ``kafka-configs.sh``, whose class has moved."""
        package = "org.apache.kafka.tools" if has_reached(self.version, "4.4") else "kafka.admin"
        return self.run_tool(f"{package}.ConfigCommand", *args)

    def jmx(self, *args: str) -> str:
        """Return what Kafka's JmxTool printed of ``KafkaBroker(jmx=True)``."""
        at = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{self._jmx_port}/jmxrmi"
        done = self.run_tool("org.apache.kafka.tools.JmxTool", "--jmx-url", at, *args)
        if done.returncode:
            raise RigError(f"JmxTool failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    def share_groups(self, *args: str) -> str:
        """Run ``kafka-share-groups.sh`` with the given arguments and return what it printed."""
        done = run_command(SHARE_GROUPS, "--bootstrap-server", self.bootstrap_servers, *args)
        if done.returncode or done.stdout.lstrip().startswith("Error"):
            raise RigError(
                f"kafka-share-groups.sh {' '.join(args)} failed:\n{done.stdout}{done.stderr}"
            )
        return done.stdout

    def run_line(self, line: str) -> str:
        """Run a line of ``kafka-share-groups.sh`` about this broker, as plans print it."""
        tool, option, servers, *arguments = shlex.split(line)
        assert tool == "kafka-share-groups.sh"
        assert (option, servers) == ("--bootstrap-server", self.bootstrap_servers)
        return self.share_groups(*arguments)

    def alter_share_group_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Set start offsets as ``Admin.alterShareGroupOffsets`` does, wherever the log ends."""
        asked = {"server": self.bootstrap_servers, "group": group, "topic": topic}
        wanted = {str(partition): offset for partition, offset in offsets.items()}
        done = ask_commands({**asked, "offsets": wanted})
        if done.get("error"):
            raise RigError(f"alterShareGroupOffsets failed: {done['error']}")

    def share_groups_describe(self, group: str | None = None) -> str:
        """Return the text of ``--describe --offsets --verbose`` of one group, or of all groups."""
        which = ["--all-groups"] if group is None else ["--group", group]
        return self.share_groups("--describe", *which, "--offsets", "--verbose")

    def _format(self) -> None:
        # With an equals sign, since one id in 64 begins with a dash.
        arguments = ["format", f"--cluster-id={self.cluster_id}", "--config", str(self._config)]
        if not has_reached(self.version, "4.2"):  # a preview until then
            arguments += ["--feature", "share.version=1"]
        if self._secure:
            for name, password in USERS.items():
                arguments += ["--add-scram", f"SCRAM-SHA-256=[name={name},password={password}]"]
        done = self.run_tool("kafka.tools.StorageTool", *arguments)
        if done.returncode != 0:
            shutil.rmtree(self.log_dir, ignore_errors=True)
            raise RigError(f"formatting the broker's storage failed:\n{done.stdout}{done.stderr}")

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        # Ready is a broker that lists itself; log_level 0 keeps refused connections out of
        # the test output.
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        deadline = time.monotonic() + self._ready_within
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RigError(f"the broker ended with {process.returncode}:\n{self._log_tail()}")
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                continue  # not listening yet; list_topics has waited its second
        raise RigError(
            f"the broker did not answer within {self._ready_within:g} s:\n{self._log_tail()}"
        )

    def _log_tail(self) -> str:
        lines = self.log_file.read_text(errors="replace").splitlines()
        return "\n".join([f"--- end of {self.log_file}", *lines[-40:]])


def _jmx_flags(port: int | None) -> list[str]:
    """Options that open the MBeans of a JVM at a port of this machine."""
    if port is None:
        return []
    settings = {"port": port, "rmi.port": port, "host": "127.0.0.1"}
    settings |= {"authenticate": "false", "ssl": "false"}
    opened = [f"-Dcom.sun.management.jmxremote.{name}={value}" for name, value in settings.items()]
    return [*opened, "-Djava.rmi.server.hostname=127.0.0.1"]


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


class KafkaCluster:
    """Brokers that live as long as the ``with`` block.

    ``count``: number of brokers; their ids are 1, 2, ... ``properties``: server properties of all
    of them that win over the test settings. ``racks``: the rack of each broker; by default none has
    one. ``log_requests``: whether the brokers log requests, each in its `request_log`.
    ``all_control``: every broker is a controller, too, so that each may be away; else the first is
    the only one. ``broker``: further options of every `KafkaBroker`.
    """

    def __init__(
        self,
        count: int = 3,
        properties: Mapping[str, str] | None = None,
        racks: Sequence[str] = (),
        log_requests: bool = False,
        all_control: bool = False,
        **broker: Any,
    ) -> None:
        self._stack = ExitStack()
        settings = {**(REPLICATED if count >= 3 else {}), **(properties or {})}
        each = [settings | ({"broker.rack": racks[n]} if racks else {}) for n in range(count)]
        options = broker | {"log_requests": log_requests}
        first = KafkaBroker(properties=each[0], **options)
        self.brokers = [first]
        for n in range(2, count + 1):
            self.brokers.append(follower(first, n, each[n - 1], all_control, **options))
        if all_control:  # the ports of all are known only now
            voters = (f"{n}@{one.address('CONTROLLER')}" for n, one in enumerate(self.brokers, 1))
            listed = ",".join(voters)
            for one in self.brokers:
                one.settings["controller.quorum.voters"] = listed

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers, those that are down as well."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers)

    def addresses(self, listener: str) -> str:
        """Return the addresses of another listener of all brokers."""
        return ",".join(broker.address(listener) for broker in self.brokers)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for broker in self.brokers:
                stack.callback(broker.close)
            self.start()
            self._stack = stack.pop_all()
        return self

    def start(self, brokers: Sequence[KafkaBroker] = ()) -> None:
        """Start all brokers, or those that are down, and wait until all are in the cluster.

        They start side by side: controllers answer once most of them are there.
        """
        with ThreadPoolExecutor(len(self.brokers)) as starting:
            list(starting.map(KafkaBroker.start, brokers or self.brokers))
        self.wait_until_whole()

    def wait_until_whole(self) -> None:
        """Wait until every broker is registered."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})

        def are_there() -> bool:
            try:
                return len(admin.list_topics(timeout=10).brokers) == len(self.brokers)
            except KafkaException:
                return False

        wait_until(are_there, "all brokers are in the cluster")

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@contextmanager
def frozen(broker: KafkaBroker) -> Iterator[None]:
    """Stop a broker's process, as a long pause does: it keeps its connections and answers none."""
    (number,) = broker.process_ids()
    os.kill(number, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(number, signal.SIGCONT)


def follower(
    first: KafkaBroker,
    number: int,
    properties: Mapping[str, str] | None = None,
    controls: bool = False,
    **options: Any,
) -> KafkaBroker:
    """Return a broker in the cluster of the first, by default no controller."""
    own = {**(properties or {}), "node.id": str(number)}
    broker = KafkaBroker(properties=own, cluster_id=first.cluster_id, **options)
    if not controls:  # only a controller may listen as one
        voters, listeners = "controller.quorum.voters", broker.settings["listeners"].split(",")
        broker.settings |= {"process.roles": "broker", voters: first.settings[voters]}
        broker.settings["listeners"] = ",".join(one for one in listeners if "CONTROLLER" not in one)
    return broker
