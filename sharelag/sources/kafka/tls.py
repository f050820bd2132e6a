"""A connection by our own sockets: why a certificate is not trusted, and what speaks TLS.

The client library says of every such certificate that it could not be verified, and of a listener
that wants TLS no more than that it hung up.
"""

from __future__ import annotations

import socket
import ssl
import time

from sharelag.sources.kafka.config import ClientConfig

#: What to do about a certificate, by OpenSSL's ``X509_V_ERR_...``.
_EXPIRED, _HOST, _ADDRESS = 10, 62, 64
_ADVICE = {
    _EXPIRED: "the broker needs a new one",
    _HOST: "use a host name that it names, or have it issued for this one",
    _ADDRESS: "use an address that it names, or have it issued for this one",
}
_UNKNOWN = "set ssl.truststore.location to the certificate of the authority that issued it"
_WITHIN = 1.0  # seconds; the command's timeout has passed already


def connect(config: ClientConfig, host: str, port: int, within: float) -> socket.socket:
    """Open a connection to a broker, with TLS where the settings say so.

    Raises
    ------
    OSError
        Nobody answers, or one of the sides does not trust the other.
    """
    plain = socket.create_connection((host, port), timeout=within)
    if not _wants_tls(config):
        return plain
    settings = config.librdkafka()
    context = ssl.create_default_context(
        cafile=settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem")
    )
    if settings.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if certificate := settings.get("ssl.certificate.location"):
        context.load_cert_chain(
            certificate, settings.get("ssl.key.location"), settings.get("ssl.key.password")
        )
    return context.wrap_socket(plain, server_hostname=host)


def host_and_port(address: str) -> tuple[str, int]:
    """Split a bootstrap server's address, which may have a protocol before it."""
    host, _, port = address.rpartition("://")[2].strip().rpartition(":")
    return host.strip("[]"), int(port)


def distrust(config: ClientConfig) -> str | None:
    """Say why a bootstrap server's certificate is not trusted, and what to do.

    Returns
    -------
    str or None
        None: no certificate is refused here, so something else is wrong.
    """
    for address in config.bootstrap_servers.split(","):
        try:
            connect(config, *host_and_port(address), _WITHIN).close()
        except ssl.SSLCertVerificationError as error:
            why = error.verify_message.rstrip(".")
            advice = _ADVICE.get(error.verify_code, _UNKNOWN)
            return f"the certificate of {address.strip()} is not trusted ({why}): {advice}"
        except (OSError, ValueError):
            continue  # the client library's own error says what is wrong there
    return None


def needs_tls(config: ClientConfig) -> str | None:
    """Say which bootstrap server speaks TLS, where the settings have it spoken to without.

    Returns
    -------
    str or None
        None: the settings have TLS, or none of the servers answers with it.
    """
    if _wants_tls(config):
        return None
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    until = time.monotonic() + _WITHIN
    for address in config.bootstrap_servers.split(","):
        host, port = host_and_port(address)
        try:
            left = max(until - time.monotonic(), 0.01)
            with socket.create_connection((host, port), timeout=left) as plain:
                context.wrap_socket(plain, server_hostname=host).close()
        except (OSError, ValueError):
            continue
        protocol = _protocol(config)
        return (
            f"{address.strip()} speaks TLS, and security.protocol is {protocol}: set it to "
            f"{'SASL_SSL' if protocol.startswith('SASL') else 'SSL or SASL_SSL'} in "
            "--command-config, as the broker's listener has it"
        )
    return None


def _protocol(config: ClientConfig) -> str:
    return str(config.librdkafka().get("security.protocol", "PLAINTEXT")).upper()


def _wants_tls(config: ClientConfig) -> bool:
    return "SSL" in _protocol(config).split("_")
