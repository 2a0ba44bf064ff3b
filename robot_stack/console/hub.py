"""The open pages: each gets what has changed, none waits for another. Lives in the server's event loop."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from robot_stack.console.outbox import Outbox
from robot_stack.console.session import ConsoleSession
from robot_stack.console.shown import versions

TICK_S = 0.1
LEAST_GAP_S = 0.03
"""Between two states, however much happens."""
MAX_PAGES = 20
NOTICE_AGAIN_S = 2.0


@dataclass(slots=True, kw_only=True)
class Page:
    """One open page, with the messages it has still to be sent.

    Attributes:
        name: Its own, over reloads.
        outbox: What it has still to be sent.
        wake: Set when there may be something in it.
        told: Sentence -> when it was last told: a hand that moves in vain is told so once, not 25 times a second.
    """

    name: str
    outbox: Outbox = field(default_factory=Outbox)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    told: dict[str, float] = field(default_factory=dict)

    def notice(self, kind: str, text: str) -> None:
        """Tell this page alone a sentence, unless it was told the same a moment ago."""
        now_s = time.monotonic()
        if now_s - self.told.get(text, -NOTICE_AGAIN_S) >= NOTICE_AGAIN_S:
            self.told = {text: now_s}
            self.outbox.put_notice(kind, text)
            self.wake.set()


class Hub:
    """All open pages, and what they have been sent."""

    def __init__(self, desk: ConsoleSession) -> None:
        self.pages: dict[str, Page] = {}
        self._session = desk
        self._sent: dict[str, object] = {}
        self._texts: dict[str, str] = {}
        self._changed = asyncio.Event()

    def add(self, page: Page) -> None:
        """Add a page that has opened, and send it everything."""
        self.pages[page.name] = page
        for name, text in self._texts.items():
            page.outbox.put_part(name, text)
        self.change()

    def remove(self, page: Page) -> None:
        """Remove a page that has closed, unless one of its name has taken its place."""
        if self.pages.get(page.name) is page:
            del self.pages[page.name]

    def change(self) -> None:
        """Send what has changed soon, not only at the next tick."""
        self._changed.set()

    def notice(self, text: str) -> None:
        """Tell every page a sentence."""
        for page in self.pages.values():
            page.notice("refused", text)

    def show(self, camera: int, jpeg: bytes) -> None:
        """Send every page a camera's newest image."""
        for page in self.pages.values():
            page.outbox.put_image(camera, jpeg)
            page.wake.set()

    async def run(self) -> None:
        """Send what changes to all pages, for as long as the server lives."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), TICK_S)
            self._changed.clear()
            if self.pages:
                self._spread()
            await asyncio.sleep(LEAST_GAP_S)

    def _spread(self) -> None:
        """Send all pages the parts that have changed, made into text once."""
        with self._session.locked():
            there = versions(self._session.heard)
            changed = [name for name, version in there.items() if self._sent.get(name) != version]
            parts: dict[str, Any] = {name: self._session.part(name) for name in changed}
            parts["now"] = self._session.now(time.monotonic_ns())
        self._sent = there
        texts = {name: json.dumps(part, allow_nan=False, separators=(",", ":")) for name, part in parts.items()}
        self._texts |= texts
        for page in self.pages.values():
            for name, text in texts.items():
                page.outbox.put_part(name, text)
            page.wake.set()
