"""Who may connect. Without TLS and a token: this machine only."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import grpc

from robot_stack.transport.wire import CLIENT_OPTIONS
from robot_stack.types.errors import TransportError

MIN_TOKEN_CHARS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Mutual TLS and a bearer token; both ends need all four.

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
        if len(self.token) < MIN_TOKEN_CHARS or not (self.token.isascii() and self.token.isprintable()):
            raise TransportError(
                f"token is {len(self.token)} characters, must be {MIN_TOKEN_CHARS} or more printable ASCII characters; "
                "`robot-stack certs` makes one"
            )

    @classmethod
    def from_folder(cls, folder: Path) -> Security:
        """Read one end's part of a set that `robot-stack certs` made: ca.pem, cert.pem, key.pem and token.

        Raises:
            TransportError: If one cannot be read, is readable by others, does not belong to the others or has expired.
        """
        from robot_stack.transport.certificates import check_own  # slow to load, and only needed beyond this machine

        try:
            for name in ("key.pem", "token"):
                mode = (folder / name).stat().st_mode & 0o777
                if mode & 0o077:
                    raise TransportError(
                        f"mode of {folder / name} is {mode:04o}, must be 0600; chmod 600 {folder / name}"
                    )
            ca, cert, key = ((folder / name).read_bytes() for name in ("ca.pem", "cert.pem", "key.pem"))
            token = (folder / "token").read_text().strip()
        except OSError as error:
            raise TransportError(
                f"{error.filename} is unreadable ({error.strerror}), must be a file of a set; "
                "make one with `robot-stack certs`, or copy the part of this machine"
            ) from error
        check_own(ca, cert, key, folder)
        return cls(ca=ca, cert=cert, key=key, token=token)


def security_of(certs: str | None, role: Literal["learner", "actor"]) -> Security | None:
    """Of this end of the link; `certs` is `learner_certs` of the cell.

    Raises:
        TransportError: As `Security.from_folder`.
    """
    return None if certs is None else Security.from_folder(Path(certs).expanduser() / role)


def require_loopback(address: str) -> None:
    """Raise TransportError unless `address` (host:port) is on this machine."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or not host:
        raise TransportError(f"address is {address!r}, must be host:port, e.g. 127.0.0.1:50051")
    if host == "localhost":
        return
    try:
        loopback = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise TransportError(
            f"address is {address} without TLS, must be on loopback (127.0.0.1, [::1] or localhost); "
            "beyond this machine set learner_certs in the cell, to a set made by `robot-stack certs`"
        )


def server_credentials(security: Security) -> grpc.ServerCredentials:
    """TLS that asks for a client certificate."""
    return grpc.ssl_server_credentials(
        [(security.key, security.cert)], root_certificates=security.ca, require_client_auth=True
    )


def open_channel(address: str, security: Security | None) -> grpc.Channel:
    """A channel to the learner; connects lazily.

    Raises:
        TransportError: If `address` is beyond this machine and there is no security.
    """
    if security is None:
        require_loopback(address)
        return grpc.insecure_channel(address, options=CLIENT_OPTIONS)
    credentials = grpc.composite_channel_credentials(
        grpc.ssl_channel_credentials(security.ca, security.key, security.cert),
        grpc.access_token_call_credentials(security.token),
    )
    return grpc.secure_channel(address, credentials, options=CLIENT_OPTIONS)


class TokenGate(grpc.ServerInterceptor):
    """Refuses every call without the token."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()

    def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler], details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler:
        """The real handler, or one of the same kind that refuses."""
        handler = continuation(details)
        offered = dict(details.invocation_metadata).get("authorization", "")
        raw = offered.encode() if isinstance(offered, str) else offered
        if handler is None or hmac.compare_digest(raw, self._expected):
            return handler
        return _refusing(handler)


def _refusing(handler: grpc.RpcMethodHandler) -> grpc.RpcMethodHandler:
    def refuse(request: object, context: grpc.ServicerContext) -> None:
        context.abort(
            grpc.StatusCode.UNAUTHENTICATED, "token is missing or wrong, must be the learner's; copy its token file"
        )

    kinds = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    return kinds[handler.request_streaming, handler.response_streaming](refuse)
