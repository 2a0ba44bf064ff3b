"""Access to the operator's page: anybody on this machine, beyond it whoever has the token. Pure, files aside."""

from __future__ import annotations

import hmac
import ipaddress
import re
from pathlib import Path

from robot_stack.disk.durable import write_durable
from robot_stack.types.errors import ConfigError

ADDRESS_FILE = "console.url"
"""In the folder of a run: the page's address, as an operator types it."""
TOKEN_FILE = "console.token"


def split_address(address: str) -> tuple[str, int]:
    """Split `host:port` into the host, without the brackets of IPv6, and the port.

    Raises:
        ConfigError: If it is no address.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"console address is {address!r}, must be host:port, e.g. 127.0.0.1:8642; correct the cell")
    return host.strip("[]"), int(port)


def is_local(host: str) -> bool:
    """Return whether a server that listens at `host` is reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def read_port(path: Path) -> int:
    """Return the port of an address that was written to a file; 0 if there is none."""
    try:
        text = path.read_text().strip().partition("#")[0].rstrip("/")
    except OSError:
        return 0
    port = text.rpartition(":")[2]
    return int(port) if port.isdecimal() else 0


def write_address(path: Path, address: str) -> None:
    """Write the page's address to a file, for the next start and for whoever tells an operator.

    Only the owner can read the file, because the address may hold the token.
    """
    write_durable(path, address + "\n", mode=0o600)


class Gate:
    """Gatekeeper of the page's server: refuses by a request's host, its origin or its token.

    Args:
        token: Asked for; "" on a machine of one's own.
    """

    def __init__(self, token: str) -> None:
        self._token = token

    def refuse_host(self, host: str) -> str:
        """Return why a request with this Host header is not answered, or "".

        Without a token a page of the web could make its own name point here and read what it likes. Its port says
        nothing: at the other end of a tunnel it is another one.
        """
        if self._token or is_local(re.sub(r":\d*$", "", host).strip("[]")):
            return ""
        return (
            f"host is {host[:80]!r}, must be localhost or an address such as 127.0.0.1; "
            "write localhost in its place in the address"
        )

    def refuse_origin(self, origin: str | None, host: str) -> str:
        """Return why a page with this Origin may not connect, or "".

        Another page of the same browser could try to.
        """
        if origin is None or origin in (f"http://{host}", f"https://{host}"):
            return ""
        return f"origin is {origin[:80]!r}, must be http://{host}; open the console's own page"

    def refuse_token(self, offered: str) -> str:
        """Return why a token does not open the page, or ""."""
        if hmac.compare_digest(offered.encode(), self._token.encode()):
            return ""
        have = "wrong" if offered else "missing"
        return f"token is {have}, must be the one printed with the page's address; open that address again"
