"""Kafka's properties files mean the same to our client, and none of their secrets leaks."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sharelag.errors import ConfigError
from sharelag.inputs.kafka import client as library
from sharelag.inputs.kafka.client import consumer
from sharelag.inputs.kafka.config import ClientConfig, client_config, from_spark_options
from sharelag.reports.secrets import secrets_of
from tests.support.command import refused, sharelag_process
from tests.support.java_names import ASSERTION, IGNORED_BY_A_READER, REFUSED, UNDERSTOOD
from tests.support.kafka.cloud_files import REFUSED as NOT_HONOURED
from tests.support.kafka.cloud_files import SECRET as CLOUD_SECRET
from tests.support.kafka.cloud_files import TAKEN

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
TOKEN_URL = "https://login.example.com/token"
SECRET = "s3cr3t-Tr0ub4dor"
IN_JAAS = f'clientId="me" clientSecret="{SECRET}"'
HOST_NAMES = "ssl.endpoint.identification.algorithm"
BY_PASSWORD = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
BY_TOKEN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
BY_TOKEN |= {"sasl.oauthbearer.token.endpoint.url": TOKEN_URL}


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A key and its self-signed certificate: paths and texts."""
    folder = tmp_path_factory.mktemp("pem")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    secret = f"-passout pass:{SECRET}"
    _run(
        f"openssl req -x509 -newkey rsa:2048 {secret} -days 30 -subj /CN=tests -keyout {key} "
        f"-out {certificate}"
    )
    both, p12, jks = folder / "both.pem", folder / "store.p12", folder / "old.jks"
    both.write_text(key.read_text() + certificate.read_text())
    _run(f"openssl pkcs12 -export -in {both} -passin pass:{SECRET} {secret} -out {p12}")
    _run(
        f"keytool -importkeystore -srckeystore {p12} -srcstoretype PKCS12 -srcstorepass {SECRET} "
        f"-destkeystore {jks} -deststoretype JKS -deststorepass {SECRET} -noprompt"
    )
    paths = {"certificate": certificate, "both": both, "p12": p12, "jks": jks}
    texts = {"key": key.read_text(), "certificate": certificate.read_text()}
    return texts | {f"{name}.path": str(path) for name, path in paths.items()}


def _run(command: str) -> None:
    subprocess.run(command.split(), check=True, capture_output=True)


def _file(folder: Path, text: str) -> Path:
    file = folder / "client.properties"
    file.write_text(text, encoding="utf-8")
    return file


def _settings(properties: dict[str, str]) -> dict[str, Any]:
    """Translate, and have the client itself say whether it takes the result."""
    config = client_config("localhost:1", None, properties)
    consumer(config).close()
    return dict(config.settings)


def _refusal(properties: dict[str, str]) -> str:
    with pytest.raises(ConfigError) as refused:
        client_config("localhost:1", None, properties)
    assert "\n" not in str(refused.value)
    return str(refused.value)


# ---- SASL ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("jaas", "user", "password"),
    [
        (f'{PLAIN} required username="alice" password="pw";', "alice", "pw"),
        (f'{PLAIN} required\n  username="alice"\n  password="pw" ;', "alice", "pw"),
        (f"{PLAIN} required username='alice' password='pw';", "alice", "pw"),
        (f'{PLAIN} required username=alice password="pw";', "alice", "pw"),
        (f'{PLAIN} required password = "pw" username = "alice" ;', "alice", "pw"),
        (f'{PLAIN} REQUIRED username="alice" password="pw" serviceName="kafka";', "alice", "pw"),
        (rf'{PLAIN} required username="al\"ice" password="a\\b;c=d";', 'al"ice', r"a\b;c=d"),
        (f'{PLAIN} required username="alice" password="it\'s \'q\'";', "alice", "it's 'q'"),
        (f'{PLAIN} required username="Zoë" password="pässwörd ☃";', "Zoë", "pässwörd ☃"),
        (f'{PLAIN} required /* who */ username="alice" // and\n password="pw";', "alice", "pw"),
        (f'{PLAIN} required username="alice" password=" edge ";', "alice", " edge "),
        (rf'{PLAIN} required username="alice" password="\101\t";', "alice", "A\t"),
    ],
)
def test_plain_user_and_password(jaas: str, user: str, password: str) -> None:
    found = _settings(BY_PASSWORD | {"sasl.jaas.config": jaas})
    names = ("sasl.username", "sasl.password", "sasl.mechanism", "sasl.jaas.config")
    assert [found.get(name) for name in names] == [user, password, "PLAIN", None]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "scram-sha-512"])
@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_scram(mechanism: str, name: str) -> None:
    jaas = f'{SCRAM} required username="alice" password="pw";'
    given = {"security.protocol": "sasl_plaintext", name: mechanism, "sasl.jaas.config": jaas}
    found = _settings(given)
    names = ("sasl.mechanism", "security.protocol", "sasl.password")
    assert [found[name] for name in names] == [mechanism.upper(), "SASL_PLAINTEXT", "pw"]


@pytest.mark.parametrize(
    "credentials",
    [
        {"sasl.jaas.config": f'{OAUTH} required {IN_JAAS} scope="kafka" extension_a="b";'},
        {
            "sasl.jaas.config": f"{OAUTH} required;",
            "sasl.oauthbearer.client.credentials.client.id": "me",
            "sasl.oauthbearer.client.credentials.client.secret": SECRET,
        },
        {"sasl.oauthbearer.client.id": "me", "sasl.oauthbearer.client.secret": SECRET},
    ],
)
def test_oauthbearer(credentials: dict[str, str]) -> None:
    handler = "org.apache.kafka.x.OAuthBearerLoginCallbackHandler"
    given = BY_TOKEN | {"sasl.login.callback.handler.class": handler} | credentials
    found = _settings(
        given if "scope" in str(given) else given | {"sasl.oauthbearer.scope": "kafka"}
    )
    names = ("method", "client.id", "client.secret", "scope")
    told = [found[f"sasl.oauthbearer.{name}"] for name in names]
    assert told == ["oidc", "me", SECRET, "kafka"]
    if "extension_a" in str(credentials):
        assert found["sasl.oauthbearer.extensions"] == "a=b"


#: What a JAAS line lacks, and other settings of SASL that cannot work.
BAD_JAAS = {
    f'{PLAIN} required username="a" password="{SECRET}"': "must end with a ';'",
    f'{PLAIN} required username="a" password="{SECRET};': "quotation mark is not closed",
    f'{PLAIN} username="a" password="{SECRET}";': "followed by 'required'",
    f'{PLAIN} required username="a" {SECRET};': 'name="value" pairs',
    f"{PLAIN} required; {SCRAM} required;": "exactly one login module",
    SECRET: "must end with a ';'",
    f'{PLAIN} required username="a";': 'add password="..."',
    f'{PLAIN} required password="{SECRET}";': 'add username="..."',
    f'{SCRAM} required username="a" password="{SECRET}";': "make them match",
    f'com.example.Own required password="{SECRET}";': "login module Own",
}
NO_TOKEN_URL = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{OAUTH} required;"}


@pytest.mark.parametrize(
    ("properties", "advice"),
    [
        *(({"sasl.jaas.config": jaas}, advice) for jaas, advice in BAD_JAAS.items()),
        ({"sasl.mechanism": "GSSAPI", "sasl.jaas.config": ""}, "Kerberos"),
        (NO_TOKEN_URL, "token.endpoint.url"),
        ({"sasl.mechanism": ""}, "sasl.mechanism is not set"),
        ({"sasl.login.callback.handler.class": "com.example.Own"}, "only Java can load"),
        ({"sasl.client.callback.handler.class": "com.example.Own"}, "cannot be used here"),
    ],
)
def test_sasl_that_cannot_work_shows_no_password(properties: dict[str, str], advice: str) -> None:
    message = _refusal(BY_PASSWORD | properties)
    assert advice in message
    assert SECRET not in message


# ---- TLS -----------------------------------------------------------------------------------------
def test_pem_texts(pem: dict[str, str]) -> None:
    given = {"truststore.type": "PEM", "truststore.certificates": pem["certificate"]}
    given |= {"keystore.type": "PEM", "keystore.key": pem["key"], "key.password": SECRET}
    given |= {"keystore.certificate.chain": pem["certificate"]}
    of_ssl = {f"ssl.{name}": value for name, value in given.items()}
    found = _settings({"security.protocol": "SSL"} | of_ssl)
    for name, text in (("ca", "certificate"), ("key", "key"), ("certificate", "certificate")):
        assert found[f"ssl.{name}.pem"].strip() == pem[text].strip()
    assert found["ssl.key.password"] == SECRET


@pytest.mark.parametrize("kind", [{}, {"ssl.truststore.type": "PEM", "ssl.keystore.type": "pem"}])
def test_pem_files(pem: dict[str, str], kind: dict[str, str]) -> None:
    given = {"security.protocol": "SSL", "ssl.truststore.location": pem["certificate.path"]}
    given |= {"ssl.keystore.location": pem["both.path"], "ssl.key.password": SECRET}
    found = _settings(given | kind)
    assert found["ssl.ca.location"] == pem["certificate.path"]
    assert found["ssl.key.location"] == found["ssl.certificate.location"] == pem["both.path"]
    assert not {name for name in found if "store" in name}


@pytest.mark.parametrize("name", ["store.p12", "client.keystore.jks", "client.keystore"])
def test_pkcs12_is_known_by_what_is_in_it(pem: dict[str, str], tmp_path: Path, name: str) -> None:
    # keytool writes PKCS12 since Java 9, and people go on to call it .jks.
    store = tmp_path / name
    store.write_bytes(Path(pem["p12.path"]).read_bytes())
    given = {"ssl.keystore.location": str(store), "ssl.keystore.password": SECRET}
    found = _settings({"security.protocol": "SSL"} | given)
    assert (found["ssl.keystore.location"], found["ssl.keystore.password"]) == (str(store), SECRET)


#: A keystore of PKCS12 is taken as it is, see above.
@pytest.mark.parametrize(
    ("which", "kind"), [("truststore", "JKS"), ("truststore", "PKCS12"), ("keystore", "JKS")]
)
def test_the_advised_conversion_works(
    pem: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str, kind: str
) -> None:
    properties = {
        "security.protocol": "SSL",
        f"ssl.{which}.location": pem[{"JKS": "jks.path", "PKCS12": "p12.path"}[kind]],
        f"ssl.{which}.password": SECRET,
    }
    message = _refusal(properties)
    assert f"{kind} store" in message
    assert SECRET not in message
    command, settings = message.split("`")[1], message.rsplit("then set ", 1)[1].split(" and ")
    passwords = {"keytool -list": f"-storepass {SECRET}", "openssl pkcs1": f"-passin pass:{SECRET}"}
    password = passwords.get(command[:13], f"-srcstorepass {SECRET} -deststorepass {SECRET}")
    tool, writes, rest = command.partition(" > ")
    monkeypatch.chdir(tmp_path)
    subprocess.run(f"{tool} {password}{writes}{rest}", shell=True, check=True, capture_output=True)
    _settings(properties | dict(setting.split("=") for setting in settings))


# ---- the other settings --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "value"), [pytest.param(n, v, id=n) for n, v in (UNDERSTOOD | ASSERTION).items()]
)
def test_java_settings_that_matter_reach_the_client(name: str, value: str) -> None:
    found = _settings({name: value})
    assert value.strip() in found.values() or found.get(name) == value.lower()


def test_java_settings_that_change_nothing_here_are_left_out() -> None:
    for name, value in IGNORED_BY_A_READER.items():
        assert _settings({name: value}) == _settings({}), name


#: The last would load code into this process.
@pytest.mark.parametrize("name", [*REFUSED, "plugin.library.paths"])
def test_java_settings_that_would_mean_something_else_are_refused(name: str) -> None:
    assert name in _refusal({name: "com.example.Own"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("security.protocol", "SSSL"), ("check.crcs", "maybe"), ("sasl.mechanism", "PLANE")),
        *((f"{name}.timeout.ms", "abc") for name in ("request", "socket")),
        *((name, "abc") for name in ("fetch.max.wait.ms", "max.partition.fetch.bytes")),
        *(("receive.buffer.bytes", ""), ("send.buffer.bytes", "x"), (HOST_NAMES, "x")),
        *((f"ssl.keystore.{name}", "x") for name in ("certificate.chain", "key", "location")),
        *((f"ssl.truststore.{name}", "x") for name in ("certificates", "location")),
    ],
)
def test_a_setting_of_unknown_value_is_named(name: str, value: str, tmp_path: Path) -> None:
    if name.endswith(".location"):  # a file that has no certificate
        path = tmp_path / "store.pem"
        path.write_text(value, "utf-8")
        value = str(path)
    secure = {"security.protocol": "SSL"} if name.startswith("ssl.") else {}
    message = _refusal(secure | {name: value})
    found = set(re.findall(r"[a-z]+(?:\.[a-z0-9]+)+", message.replace(str(tmp_path), "")))
    assert found - {"store.pem"} == {name}
    assert "--command-config" in message


@pytest.mark.parametrize(
    ("java", "ours"),
    [
        ({"request.timeout.ms": "600000"}, ("socket.timeout.ms", "300000")),
        ({"request.timeout.ms": "30000"}, ("socket.timeout.ms", "30000")),
        ({"retry.backoff.ms": "0"}, ("retry.backoff.ms", "1")),
        ({"connections.max.idle.ms": "-1"}, ("connections.max.idle.ms", "0")),
        ({"reconnect.backoff.ms": "50"}, ("reconnect.backoff.ms", "50")),
        ({"fetch.max.bytes": "1024"}, ("fetch.max.bytes", "1000000")),
        ({"max.partition.fetch.bytes": "1024"}, ("fetch.message.max.bytes", "1024")),
        ({"send.buffer.bytes": "-1"}, ("socket.send.buffer.bytes", "0")),
        *(
            ({"security.protocol": "SSL", HOST_NAMES: given}, (HOST_NAMES, meant))
            for given, meant in {"": "none", "HTTPS": "https", "none": "none"}.items()
        ),
    ],
)
def test_values_as_the_client_allows_them(java: dict[str, str], ours: tuple[str, str]) -> None:
    assert ours in _settings(java).items()


# ---- where settings come from --------------------------------------------------------------------
def test_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "environment:1")
    for wins in ("option:1", "single:1", "file:1", "environment:1"):
        option = "option:1" if wins == "option:1" else None
        single = {} if wins in ("file:1", "environment:1") else {"bootstrap.servers": "single:1"}
        named = "" if wins == "environment:1" else "bootstrap.servers=file:1\n"
        file = _file(tmp_path, f"client.id=file\n{named}")
        config = client_config(option, file, single)
        assert config.bootstrap_servers == config.settings["bootstrap.servers"] == wins
        assert config.settings["client.id"] == "file"
        again = client_config(option, file, {"client.id": "single"})
        assert again.settings["client.id"] == "single"


def test_no_cluster_named() -> None:
    with pytest.raises(ConfigError, match="--bootstrap-server HOST:PORT"):
        client_config()


def test_addresses() -> None:
    good = ("localhost:9092", "a:1,b:2", "a:1, b:2", "10.0.0.1:9092", "[::1]:9092")
    for address in (*good, "SASL_SSL://broker.example.com:9093"):
        assert client_config(address).bootstrap_servers == address
    bad = ("localhost", "localhost:", ":9092", "a:1,,b:2", "a:b", "a b:1", "::1:9092", ",")
    for address in (*bad, "localhost:0", "localhost:65536", "localhost:99999999"):
        with pytest.raises(ConfigError, match="give HOST:PORT"):
            client_config(address)


def test_a_file_as_java_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(
        b"# a comment\n! another\nsecurity.protocol : SASL_PLAINTEXT\n"
        b"sasl.mechanism=SCRAM-SHA-256   \n"
        + f'sasl.jaas.config={SCRAM} required \\\n    username="alice" \\\n'.encode()
        + b'    password="p\\u00e4ss\\\\\\"w\xf6rd";\n'
    )
    found = client_config("localhost:1", file).settings
    assert (found["sasl.username"], found["sasl.password"]) == ("alice", 'päss"wörd')
    assert found["sasl.mechanism"] == "SCRAM-SHA-256"


@pytest.mark.parametrize("content", [None, b"password=\\uZZZZ" + SECRET.encode()])
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"client\.properties") as refused:
        client_config("localhost:1", file)
    assert SECRET not in str(refused.value)


def test_spark_options() -> None:
    given = BY_PASSWORD | {"sasl.jaas.config": f'{PLAIN} required username="a" password="pw";'}
    options = {f"kafka.{name}": value for name, value in given.items()}
    found = from_spark_options(options | {"kafka.bootstrap.servers": "b:1"}).settings
    names = ("bootstrap.servers", "sasl.username", "sasl.password")
    assert [found[name] for name in names] == ["b:1", "a", "pw"]


def test_what_was_translated_can_be_translated_again(pem: dict[str, str], tmp_path: Path) -> None:
    # The engine hands a configuration on as Spark options, which are read once more.
    store = tmp_path / "client.keystore"
    store.write_bytes(Path(pem["p12.path"]).read_bytes())
    given = BY_TOKEN | {
        "sasl.jaas.config": f'{OAUTH} required clientId="me" clientSecret=" {SECRET} ";',
        "ssl.truststore.location": pem["certificate.path"],
        "ssl.keystore.location": str(store),
        "ssl.keystore.password": SECRET,
        HOST_NAMES: "",
        "request.timeout.ms": "600000",
    }
    first = client_config("localhost:1", None, given, timeout=12.5)
    again = from_spark_options(first.spark_options())
    assert again.settings == first.settings
    assert again.timeout == 12.5


# ---- secrets -------------------------------------------------------------------------------------
@pytest.fixture
def secretive(pem: dict[str, str]) -> ClientConfig:
    given = BY_TOKEN | {
        "sasl.jaas.config": f'{OAUTH} required clientId="me" clientSecret="{SECRET}";',
        "sasl.oauthbearer.token.endpoint.url": f"https://me:{SECRET}@login.example.com/token",
        **dict.fromkeys(("sasl.password", "ssl.key.password", "ssl.keystore.password"), SECRET),
        "ssl.keystore.key": pem["key"],
        "ssl.keystore.certificate.chain": pem["certificate"],
    }
    return client_config("localhost:1", None, given)


def test_secrets_are_shown_nowhere(secretive: ClientConfig, pem: dict[str, str]) -> None:
    shown = f"{secretive!r} {secretive} {secretive.public()} {[secretive]}"
    assert SECRET not in shown
    assert pem["key"].splitlines()[1] not in shown
    assert secretive.settings["sasl.oauthbearer.client.secret"] == SECRET
    assert secretive.public()["bootstrap.servers"] == "localhost:1"
    assert secretive.public()["sasl.mechanism"] == "OAUTHBEARER"


def test_secrets_stay_out_of_the_clients_own_refusals() -> None:
    key = f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----"
    assert SECRET not in _refusal({"security.protocol": "SSL", "ssl.keystore.key": key})


@pytest.mark.parametrize("name", [HOST_NAMES, "check.crcs", "security.protocol", "sasl.mechanism"])
def test_a_password_in_the_wrong_line_is_not_shown(name: str) -> None:
    said = _refusal({name: f'"{SECRET}\n"'})
    assert name in said
    assert SECRET.lower() not in said.lower()


# ---- the reader ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("java", "name", "value"),
    [
        ({"max.partition.fetch.bytes": "1048577"}, "fetch.message.max.bytes", 1048577),
        ({"fetch.max.wait.ms": "77"}, "fetch.wait.max.ms", 77),
        ({"group.id": "mine", "enable.auto.commit": "true"}, "group.id", "sharelag"),
        ({"auto.offset.reset": "latest"}, "auto.offset.reset", "error"),
        ({"enable.auto.commit": "true"}, "enable.auto.commit", False),
        ({"isolation.level": "read_committed"}, "isolation.level", "read_uncommitted"),
    ],
)
def test_the_users_pace_wins_and_what_reading_rests_on_does_not(
    monkeypatch: pytest.MonkeyPatch, java: dict[str, str], name: str, value: object
) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr(library, "Consumer", made.append)
    consumer(client_config("localhost:1", None, java))
    assert str(made[0][name]) == str(value)


NAME = "sharelag.inputs.kafka.config"


@pytest.mark.parametrize("name", TAKEN)
def test_one_note_at_most(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = _file(tmp_path, TAKEN[name])
    config = client_config("localhost:1", file)
    consumer(config).close()
    password = config.settings.get("sasl.password", "")
    assert (CLOUD_SECRET in password) == ("jaas" in TAKEN[name])
    (note,) = (record.getMessage() for record in caplog.records if record.name == NAME)
    assert "ignored, as Kafka's commands do: " in note
    assert CLOUD_SECRET not in note + repr(config)


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
def test_lines_of_other_tools(text: str, name: str, value: str | None, tmp_path: Path) -> None:
    config = client_config(None, _file(tmp_path, text))
    consumer(config).close()
    assert config.settings.get(name) == value


SECTION = "without the section of a JAAS file around it"
LAST_CHARACTER = "only if \\ is its last character"
NO_STORE = "=C:certsca.pem: No such file or directory; write C:/certs, or C:\\\\certs"
#: A JAAS file is written into one line otherwise.
JAAS = [
    'X required \\ \n  username="u" password="p";',  # a blank behind the backslash
    'KafkaClient { X required username="u" password="p"; };',
    'X required username="u" password="p"',
]
#: Files that cannot be honoured, and what is said of them.
REFUSED_FILES = [
    *NOT_HONOURED.values(),
    *((f"sasl.mechanism=PLAIN\nsasl.jaas.config={one}\n", SECTION) for one in JAAS),
    *((f"sasl.mechanism=PLAIN\nsasl.jaas.config={one}\n", LAST_CHARACTER) for one in JAAS),
    ("security.protocol=SSL\nssl.truststore.location=C:\\certs\\ca.pem\n", NO_STORE),
    ("ssl.ca.location=/nowhere/ca.pem\n", "cannot read ssl.ca.location=/nowhere/ca.pem"),
    ("ssl.key.location=C:\\certs\\k.pem\n", "no such file; write C:/certs"),
]


@pytest.mark.parametrize(("text", "says"), REFUSED_FILES)
def test_a_file_that_cannot_be_honoured_is_an_error(text: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        client_config("localhost:1", _file(tmp_path, text))
    assert says in str(refused.value)
    assert CLOUD_SECRET not in str(refused.value)


def test_the_note_names_what_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    given = {"securty.protocol": "SSL", "x": "y", f"{CLOUD_SECRET}=": "", "eyJhbGci.eyJz.sig": ""}
    assert client_config("localhost:1", None, given) == client_config("localhost:1")
    (note,) = (record.getMessage() for record in caplog.records)
    assert note.endswith(
        "securty.protocol and 3 lines not shown here, which may be part of a password, on a line "
        "that is broken in two"
    )


def test_the_command_prints_one_line_about_it(tmp_path: Path) -> None:
    file = _file(tmp_path, TAKEN["Confluent Cloud"].replace("9092", "1"))
    done = sharelag_process("lag", "--command-config", str(file), "--timeout", "300ms")
    note, error = done.stderr.splitlines()
    assert "basic.auth.credentials.source, basic.auth.user.info, schema.registry.url" in note
    assert "no broker answered at 127.0.0.1:1" in error
    assert CLOUD_SECRET not in done.stderr


PROVIDED = "s3cr3t-of-a-provider"
OF_KAFKA = "org.apache.kafka.common.config.provider"


def properties(reference: str, kind: str = "EnvVar") -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": f'{SCRAM} required username="u" password="{reference}";',
        "config.providers": "it",
        "config.providers.it.class": f"{OF_KAFKA}.{kind}ConfigProvider",
    }


def written(folder: Path, given: dict[str, str]) -> Path:
    return _file(folder, "".join(f"{name}={value}\n" for name, value in given.items()))


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A reference to the secret by each provider."""
    monkeypatch.setenv("SHARELAG_TEST_PW", PROVIDED)
    (tmp_path / "secrets.properties").write_text(f"pw={PROVIDED}\n")
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted" / "pw").write_text(PROVIDED)
    return {
        "EnvVar": "${it:SHARELAG_TEST_PW}",
        "File": f"${{it:{tmp_path}/secrets.properties:pw}}",
        "Directory": f"${{it:{tmp_path}/mounted:pw}}",
    }


@pytest.mark.parametrize("kind", ["EnvVar", "File", "Directory"])
def test_only_the_client_has_the_secret(kind: str, places: dict[str, str], tmp_path: Path) -> None:
    file = written(tmp_path, properties(places[kind], kind))
    config = client_config("b:1", file)
    assert config.settings["sasl.password"] == PROVIDED
    assert PROVIDED not in f"{config!r} {config.public()}"
    assert not [name for name in config.settings if "providers" in name]
    assert from_spark_options(config.spark_options()).settings["sasl.password"] == PROVIDED
    assert PROVIDED in secrets_of(file, {})  # so that reports mask it


def test_a_secret_is_no_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARELAG_TEST_PW", "${it:HOME}")
    config = client_config("b:1", written(tmp_path, properties("${it:SHARELAG_TEST_PW}")))
    again = from_spark_options(config.spark_options())
    assert again.settings["sasl.password"] == "${it:HOME}"


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
    options = ("--command-config", str(written(tmp_path, given)))
    (line,) = refused("lag", "--bootstrap-server", "127.0.0.1:1", *options).splitlines()
    assert f"{reference} of sasl.jaas.config" in line
    assert words in line


@pytest.mark.parametrize("name", ["", "com.example.Vault", f"{OF_KAFKA}.NoConfigProvider"])
def test_a_provider_that_only_java_can_load_is_refused(name: str) -> None:
    given = properties("${it:PATH}") | {"config.providers.it.class": name}
    with pytest.raises(ConfigError, match=r"config\.providers\.it\.class .*EnvVarConfigProvider"):
        client_config("b:1", None, given)
