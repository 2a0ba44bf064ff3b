"""Files that the page's server lends to Foxglove's page while it runs, each under an address that nobody guesses."""

from __future__ import annotations

import secrets
from pathlib import Path
from urllib.parse import quote

FOXGLOVE = "https://app.foxglove.dev"
ROOM = "/lent"
SECRET_BYTES = 16
HEADERS = {
    "Access-Control-Allow-Origin": FOXGLOVE,
    "Access-Control-Expose-Headers": "Accept-Ranges, Content-Length, Content-Range",
    "Cross-Origin-Resource-Policy": "cross-origin",
}
"""With which a browser lets that page read the answer."""


class Lending:
    """Lender of files to Foxglove, which asks for ranges of them by HTTP.

    Source: docs.foxglove.dev, shareable links (`ds=remote-file`) and live data (CORS and ranges).
    """

    def __init__(self) -> None:
        self._files: dict[tuple[str, str], Path] = {}

    def lend(self, path: Path, server: str) -> str:
        """Lend a file, and return the address at which Foxglove opens it.

        Args:
            path: Of the file.
            server: Address of the page's server as the browser knows it, without a slash at its end.
        """
        secret = secrets.token_urlsafe(SECRET_BYTES)
        self._files[secret, path.name] = path
        return f"{FOXGLOVE}/~/view?ds=remote-file&ds.url={quote(f'{server}{ROOM}/{secret}/{path.name}', safe='')}"

    def find(self, secret: str, name: str) -> Path | None:
        """Return a file that was lent, or None if there is none of that address."""
        return self._files.get((secret, name))
