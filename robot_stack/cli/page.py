"""Pages that a command serves until Ctrl-C: an address that is printed, a token beyond this machine."""

from __future__ import annotations

import secrets
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from robot_stack.console.access import Gate, is_local
from robot_stack.types.errors import ConfigError, RobotError
from robot_stack.workcell.ending import ending_signals

CHECK_S = 0.5
TOKEN_BYTES = 16


class Page(Protocol):
    """A web application, and what goes on beside it."""

    def app(self) -> Any:
        """Return the application, as a server takes it."""
        ...

    def run(self) -> Coroutine[Any, Any, None]:
        """Go on for as long as the application is served."""
        ...

    def close(self) -> None:
        """Do what is left to be done once nobody is served any more."""
        ...


def serve_page(host: str, port: int, make: Callable[[Gate], Page]) -> None:
    """Serve a page until Ctrl-C or a polite kill, also where the shell has made this process deaf to Ctrl-C.

    Args:
        host: To listen at.
        port: 0 takes any.
        make: Makes the page for whoever its gate lets in.

    Raises:
        ConfigError: If the page's libraries are not installed, or the address cannot be had.
    """
    try:
        from robot_stack.console import serving
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is missing, must be installed; pip install 'robot-stack[console]'") from error
    token = "" if is_local(host) else secrets.token_urlsafe(TOKEN_BYTES)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        listening = serving.listen(address)
    except RobotError as error:
        raise ConfigError(
            f"address of the page is {address}, must be free and this machine's; choose another --host or --port"
        ) from error
    page = make(Gate(token))
    over = threading.Event()
    before = {each: signal.signal(each, lambda *_: over.set()) for each in ending_signals()}
    try:
        with serving.AppServer(page.app(), listening, page.run) as server:
            print(f"{serving.page_address(listening, host, token)}  (Ctrl-C ends it)", flush=True)
            while not over.wait(CHECK_S):
                server.check()
        page.close()
    finally:
        for each, old in before.items():
            signal.signal(each, old)
