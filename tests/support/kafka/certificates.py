"""Certificates for the TLS listeners of a broker of our own, made by openssl."""

import subprocess
from pathlib import Path

from tests.support.kafka.broker import USERS

#: Security protocol by listener: one that works, and each thing that can be wrong or be wanted.
LISTENERS = {"GOOD": "SSL", "EXPIRED": "SSL", "ELSEWHERE": "SSL", "MUTUAL": "SSL"}
LISTENERS |= {"PASSWORDS": "SASL_SSL", "TOKENS": "SASL_SSL"}
_SECURITY = "org.apache.kafka.common.security"
_UNSECURED = (
    f"{_SECURITY}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)


def openssl(*arguments: str, folder: Path) -> None:
    """Run openssl in a folder."""
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def make_authority(folder: Path, name: str = "ca") -> Path:
    """Make a certificate authority; returns its certificate, beside its key."""
    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
        *("-keyout", f"{name}.key", "-out", f"{name}.pem"),
        folder=folder,
    )
    return folder / f"{name}.pem"


def make_certificate(
    folder: Path, name: str, alternative: str = "IP:127.0.0.1", days: int = 2, password: str = ""
) -> Path:
    """Make a key and a certificate of the authority ``ca``, in one PEM file.

    ``folder``: with the authority. ``name``: of the subject and of the file. ``alternative``: the
    subject's alternative name, which clients compare with the address. ``days``: how long it is
    valid; less than 0: it has expired. ``password``: encrypts the key; empty: it is not.
    """
    openssl(
        *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}"),
        *("-keyout", f"{name}.key", "-out", f"{name}.csr"),
        folder=folder,
    )
    (folder / f"{name}.ext").write_text(f"subjectAltName={alternative}\n")
    openssl(
        *("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key"),
        *("-CAcreateserial", "-days", str(days), "-extfile", f"{name}.ext", "-out", f"{name}.crt"),
        folder=folder,
    )
    lock = ("-v2", "aes-256-cbc", "-passout", f"pass:{password}") if password else ("-nocrypt",)
    openssl(*("pkcs8", "-topk8", "-in", f"{name}.key", "-out", f"{name}.pk8", *lock), folder=folder)
    store = folder / f"{name}.pem"
    store.write_text((folder / f"{name}.pk8").read_text() + (folder / f"{name}.crt").read_text())
    return store


def listener_properties(folder: Path) -> dict[str, str]:
    """Make the certificates of a broker's `LISTENERS`, and return its settings of them.

    A client's certificate is that of ``admin``, whatever its name.
    """
    make_authority(folder)
    make_certificate(folder, "broker")
    make_certificate(folder, "expired", days=-1)
    make_certificate(folder, "elsewhere", "DNS:broker.example")
    login = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule"
    properties = {
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.principal.mapping.rules": "RULE:^.*$/admin/",
        "listener.name.passwords.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.passwords.plain.sasl.jaas.config": (
            f'{_SECURITY}.plain.PlainLoginModule required user_admin="{USERS["admin"]}";'
        ),
        "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.tokens.oauthbearer.sasl.jaas.config": (
            f'{login} required unsecuredLoginStringClaim_sub="broker";'
        ),
        "listener.name.tokens.oauthbearer.sasl.server.callback.handler.class": _UNSECURED,
    }
    for listener in LISTENERS:
        store = {"EXPIRED": "expired", "ELSEWHERE": "elsewhere"}.get(listener, "broker")
        name = f"listener.name.{listener.lower()}"
        properties |= {
            f"{name}.ssl.keystore.type": "PEM",
            f"{name}.ssl.keystore.location": str(folder / f"{store}.pem"),
            f"{name}.ssl.truststore.type": "PEM",
            f"{name}.ssl.truststore.location": str(folder / "ca.pem"),
        }
    return properties
