"""Credentials of an end of the link: certificates and a token, or on one machine the token in the run folder."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import grpc

from robot_stack.transport.access.link_token import MAX_TOKEN_CHARS, LinkToken, check_token
from robot_stack.transport.wire import CLIENT_OPTIONS
from robot_stack.types.errors import TransportError


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Credentials for mutual TLS and a bearer token; both ends need all four.

    Attributes:
        ca: Certificate that signed the other end's, PEM.
        cert: Own certificate chain, PEM.
        key: Own private key, PEM.
        token: Shared secret, at least 16 characters.
    """

    ca: bytes = field(repr=False)
    cert: bytes = field(repr=False)
    key: bytes = field(repr=False)
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        check_token(self.token, "token", "`robot-stack certs` makes one")

    @classmethod
    def from_folder(cls, folder: Path) -> Security:
        """Read one end's part of a set that `robot-stack certs` made: ca.pem, cert.pem, key.pem and token.

        Raises:
            TransportError: If one cannot be read, is readable by others, does not belong to the others or has expired.
        """
        from robot_stack.transport.access.certificates import (
            check_own,  # slow to load, and only needed beyond this machine
        )

        try:
            for name in ("key.pem", "token"):
                mode = (folder / name).stat().st_mode & 0o777
                if mode & 0o077:
                    raise TransportError(
                        f"mode of {folder / name} is {mode:04o}, must be 0600; chmod 600 {folder / name}"
                    )
            ca, cert, key = ((folder / name).read_bytes() for name in ("ca.pem", "cert.pem", "key.pem"))
            with (folder / "token").open("rb") as file:
                token = file.read(MAX_TOKEN_CHARS + 2).decode("ascii", errors="replace").strip()
        except OSError as error:
            raise TransportError(
                f"{error.filename} is unreadable ({error.strerror}), must be a file of a set; "
                "make one with `robot-stack certs`, or copy the part of this machine"
            ) from error
        check_own(ca, cert, key, folder)
        return cls(ca=ca, cert=cert, key=key, token=token)


Credentials = Security | LinkToken
"""What one end brings."""


def security_of(certs: str | None, role: Literal["learner", "actor"]) -> Security | None:
    """Read the certificates of one end of a link, or return None without; `certs` is `learner_certs` of the cell.

    Raises:
        TransportError: As `Security.from_folder`.
    """
    return None if certs is None else Security.from_folder(Path(certs).expanduser() / role)


def learner_credentials(certs: str | None, folder: Path) -> Credentials:
    """Return the credentials of the learner of the run in `folder`.

    Where there are no certificates and no token yet, the token is made.

    Raises:
        TransportError: If one cannot be read or made, or others can read it.
    """
    return security_of(certs, "learner") or LinkToken.keep(folder)


def actor_credentials(certs: str | None, folder: Path) -> Credentials:
    """Return the credentials of an actor or operator that calls the learner of the run in `folder`.

    Raises:
        TransportError: If one cannot be read, or others can read it.
    """
    return security_of(certs, "actor") or LinkToken.read(folder)


def is_loopback(address: str) -> bool:
    """Return whether `address` (host:port) is on this machine.

    Raises:
        TransportError: If it is no host:port.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or not host:
        raise TransportError(f"address is {address!r}, must be host:port, e.g. 127.0.0.1:50051")
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def require_loopback(address: str) -> None:
    """Raise TransportError unless `address` (host:port) is on this machine."""
    if not is_loopback(address):
        raise TransportError(
            f"address is {address} without TLS, must be on loopback (127.0.0.1, [::1] or localhost); "
            "beyond this machine set learner_certs in the cell, to a set made by `robot-stack certs`"
        )


def listening_address(address: str, security: Credentials) -> str:
    """Return where a learner at `address` (host:port) listens: one that is named does at all addresses of its machine.

    The name may be of another address there: 127.0.1.1 in the host file of a Debian, none in a container or behind NAT.
    Certificates and the token guard the port.

    Raises:
        TransportError: If `address` is beyond this machine and there is no TLS, or it is no host:port.
    """
    if not isinstance(security, Security):
        require_loopback(address)
    if is_loopback(address):
        return address
    host, _, port = address.rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return f"[::]:{port}"  # for gRPC also all of IPv4, and this alone where there is no IPv6
    return address


def server_credentials(security: Security) -> grpc.ServerCredentials:
    """Return TLS credentials of the learner, which ask for a client certificate."""
    return grpc.ssl_server_credentials(
        [(security.key, security.cert)], root_certificates=security.ca, require_client_auth=True
    )


def open_channel(address: str, security: Credentials | None) -> grpc.Channel:
    """Open a channel to the learner, which connects lazily. Without credentials the learner refuses every call.

    Raises:
        TransportError: If `address` is beyond this machine and there is no TLS.
    """
    if isinstance(security, Security):
        credentials = grpc.composite_channel_credentials(
            grpc.ssl_channel_credentials(security.ca, security.key, security.cert),
            grpc.access_token_call_credentials(security.token),
        )
        return grpc.secure_channel(address, credentials, options=CLIENT_OPTIONS)
    require_loopback(address)
    channel = grpc.insecure_channel(address, options=CLIENT_OPTIONS)
    return channel if security is None else with_metadata(channel, "authorization", f"Bearer {security.token}")


def with_metadata(channel: grpc.Channel, key: str, value: str) -> grpc.Channel:
    """Wrap a channel so that its calls bear one more pair of metadata; close the channel it was made of."""
    return grpc.intercept_channel(channel, _Bearer(key, value))


class _Bearer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamStreamClientInterceptor):
    """A client interceptor that adds a pair of metadata to every call; gRPC's own call credentials need TLS."""

    def __init__(self, key: str, value: str) -> None:
        self._pair = (key, value)

    def intercept_unary_unary(
        self, continuation: Callable[..., Any], client_call_details: grpc.ClientCallDetails, request: Any
    ) -> Any:
        return continuation(self._with(client_call_details), request)

    def intercept_unary_stream(
        self, continuation: Callable[..., Any], client_call_details: grpc.ClientCallDetails, request: Any
    ) -> Any:
        return continuation(self._with(client_call_details), request)

    def intercept_stream_stream(
        self, continuation: Callable[..., Any], client_call_details: grpc.ClientCallDetails, request_iterator: Any
    ) -> Any:
        return continuation(self._with(client_call_details), request_iterator)

    def _with(self, details: grpc.ClientCallDetails) -> grpc.ClientCallDetails:
        before: Sequence[tuple[str, str]] = details.metadata or ()
        return _Details(details, (*before, self._pair))


class _Details(grpc.ClientCallDetails):
    """The details of a call with other metadata."""

    def __init__(self, details: grpc.ClientCallDetails, metadata: Sequence[tuple[str, str]]) -> None:
        self.method = details.method
        self.timeout = details.timeout
        self.metadata = metadata
        self.credentials = details.credentials
        self.wait_for_ready = details.wait_for_ready
        self.compression = details.compression
