"""Keys for the learner link: one authority, a certificate for the learner, one for its actors, and a token.

    FOLDER/learner/  ca.pem cert.pem key.pem token     stays on the learner's machine
    FOLDER/actor/    ca.pem cert.pem key.pem token     goes to each robot's machine

The authority's key is never written: nobody can add to a set, a new set replaces it. The learner's certificate
serves and calls, the actor's only calls, so that a lost robot cannot pose as the learner.
"""

from __future__ import annotations

import ipaddress
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from robot_stack.types.errors import TransportError

VALID_DAYS = 3 * 365
LOOPBACK = ("localhost", "127.0.0.1", "::1")
SKEW = timedelta(hours=1)
"""Valid from this long ago: the robot's clock may be behind."""
SERVER, CLIENT = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
_AGAIN = "make a new set with `robot-stack certs`"
_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_-]{0,62})(\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})*")


def make_set(folder: Path, hosts: Sequence[str], now: datetime) -> datetime:
    """Write a set of keys into a new folder, all of it or nothing; return the time until which it is valid.

    Args:
        folder: Must not exist, or be empty.
        hosts: Names and addresses of the learner, as in its actors' `learner_address`; this machine's own are added.
        now: With a time zone.

    Raises:
        TransportError: If the folder holds something or cannot be written, or a host is no name or address.
    """
    names = x509.SubjectAlternativeName([_host_name(host) for host in dict.fromkeys((*hosts, *LOOPBACK))])
    until = now + timedelta(days=VALID_DAYS)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"robot-stack {secrets.token_hex(4)}")])
    ca = (
        _builder(ca_name, ca_name, ca_key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    token = secrets.token_hex(32).encode() + b"\n"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}-"))  # mode 0700
        try:
            for role, usages in (("learner", (SERVER, CLIENT)), ("actor", (CLIENT,))):
                key = ec.generate_private_key(ec.SECP256R1())
                subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, role)])
                cert = (
                    _builder(subject, ca_name, key.public_key(), now, until)
                    .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
                    .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
                )
                if SERVER in usages:
                    cert = cert.add_extension(names, critical=False)
                _write_role(draft / role, ca, cert.sign(ca_key, hashes.SHA256()), key, token)
            draft.rename(folder)  # fails on a folder that holds something
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except OSError as error:
        raise TransportError(
            f"{folder} is not writable ({error.strerror}), must be a new or empty folder; nothing was changed: "
            "choose another, or move the old set away first"
        ) from error
    return until


def check_own(ca_pem: bytes, cert_pem: bytes, key_pem: bytes, where: Path) -> None:
    """Raise TransportError unless key, certificate and authority belong together and are in date."""
    try:
        ca, cert = x509.load_pem_x509_certificate(ca_pem), x509.load_pem_x509_certificate(cert_pem)
        key = serialization.load_pem_private_key(key_pem, password=None)
    except (ValueError, TypeError) as error:
        raise TransportError(f"certificates in {where} are unreadable ({error}), must be PEM; {_AGAIN}") from error
    if key.public_key() != cert.public_key():
        raise TransportError(f"key.pem in {where} is of another certificate, must be that of cert.pem; {_AGAIN}")
    try:
        cert.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise TransportError(f"cert.pem in {where} is of another authority, must be of ca.pem; {_AGAIN}") from error
    now = datetime.now(UTC)
    if not cert.not_valid_before_utc <= now <= cert.not_valid_after_utc:
        raise TransportError(
            f"cert.pem in {where} is valid from {cert.not_valid_before_utc:%Y-%m-%d} to "
            f"{cert.not_valid_after_utc:%Y-%m-%d}, must be today, {now:%Y-%m-%d}; set the clock, or {_AGAIN}"
        )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(until)
    )


def _write_role(
    folder: Path, ca: x509.Certificate, cert: x509.Certificate, key: ec.EllipticCurvePrivateKey, token: bytes
) -> None:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    folder.mkdir(mode=0o700)
    for name, content, mode in (
        ("ca.pem", ca.public_bytes(serialization.Encoding.PEM), 0o644),
        ("cert.pem", cert.public_bytes(serialization.Encoding.PEM), 0o644),
        ("key.pem", private, 0o600),
        ("token", token, 0o600),
    ):
        with os.fdopen(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _HOST.fullmatch(host):
            raise TransportError(
                f"host is {host!r}, must be a name or an address without a port, e.g. learner.lan or 192.168.1.5"
            ) from None
        return x509.DNSName(host)
