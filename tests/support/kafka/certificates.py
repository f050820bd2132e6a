"""Certificates for the TLS listeners of a broker of our own, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path


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

    Parameters
    ----------
    folder
        With the authority.
    name
        Of the subject and of the file.
    alternative
        The subject's alternative name, which clients compare with the address.
    days
        How long it is valid; less than 0: it has expired.
    password
        Encrypts the key; empty: it is not.
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
