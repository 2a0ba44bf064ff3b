"""The open pages: each gets what has changed, none waits for another. Lives in the server's event loop.

A page says what it has put on its screen; until then no more than a few messages are on their way to it, and of those
that wait only the newest of each kind: a slow network shows less, never old.
"""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from robot_stack.console.banner import Banner
from robot_stack.console.messages import Message, PageError
from robot_stack.console.session import ConsoleSession
from robot_stack.console.shown import versions

STATES_UNDER_WAY, IMAGES_UNDER_WAY = 3, 3
IMAGE_HEAD = struct.Struct("<IHH")
"""Before the JPEG: number of the image, index of the camera, 0."""
TICK_S = 0.1
LEAST_GAP_S = 0.03
"""Between two states, however much happens."""
MAX_PAGES = 20
NOTICE_AGAIN_S = 2.0
WHOLE = 64
"""Added to a camera's place in the list where an image is whole."""
STALL_S = 1.0
"""A server that stood still for so long finds what pages sent meanwhile, and nobody knows how old that is."""


OLDEST_S = 1.5
"""Age of a state by which a page may still wish for something. A page tells its operator of a server that has been
silent for 1 s, and sends it no more."""
REMEMBERED = 512
"""Newest states of which it is known when they were sent, 15 s of them at least."""


class Outbox:
    """Messages that wait for one page.

    The server's loop calls `put_...`, the page's sender calls `take`, and its reader calls `seen`.

    Args:
        clock: Seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sent_s: deque[float] = deque(maxlen=REMEMBERED)
        self._parts: dict[str, str] = {}
        self._images: OrderedDict[int, bytes] = OrderedDict()
        self._texts: list[str] = []
        self._state, self._state_seen, self._doubted = 0, 0, 0
        self._image, self._image_seen = 0, 0

    def put_part(self, name: str, text: str) -> None:
        """Put a part of the state, JSON; an older one that still waits is replaced."""
        self._parts[name] = text

    def put_image(self, camera: int, jpeg: bytes) -> None:
        """Put a camera's newest image; an older one that still waits is replaced."""
        self._images[camera] = jpeg

    def put_text(self, text: str) -> None:
        """Put a message for this page alone, JSON; none is left out."""
        self._texts.append(text)

    def put_notice(self, kind: str, text: str) -> None:
        """Put a sentence for this page alone."""
        self.put_text(json.dumps({"k": kind, "text": text}))

    def seen(self, state: int, image: int) -> None:
        """Note which state and image the page shows; numbers that were never sent count for nothing."""
        self._state_seen = min(self._state, max(self._state_seen, state))
        self._image_seen = min(self._image, max(self._image_seen, image))

    def check_timely(self, state: int) -> None:
        """Check that what a page wishes is meant now: that it showed a state that was sent just before.

        A network may keep a press for seconds, and deliver it when nobody means it any more.

        Raises:
            PageError: If it did not.
        """
        behind = self._state - state
        if not state or not 0 <= behind < len(self._sent_s):
            raise PageError(
                "what this page showed then is not known, must be of the last moment; see what is so, then do it again"
            )
        age_s = self._clock() - self._sent_s[-1 - behind]
        if age_s > OLDEST_S:
            raise PageError(
                f"what this page showed then is {age_s:.1f} s old, must be at most {OLDEST_S:g} s: the network or the "
                "page is late; see what is so now, then do it again"
            )

    def doubt(self) -> None:
        """Note that what the page sends may be old, until it shows a state that is sent from now on."""
        self._doubted = self._state + 1

    @property
    def doubted(self) -> bool:
        """Return whether what the page sends may be old."""
        return self._state_seen < self._doubted

    def take(self) -> str | bytes | None:
        """Return the next message, or None while nothing waits or enough is under way."""
        if self._texts:
            return self._texts.pop(0)
        if self._parts and self._state - self._state_seen < STATES_UNDER_WAY:
            self._state += 1
            self._sent_s.append(self._clock())
            parts, self._parts = self._parts, {}
            inside = ",".join(f"{json.dumps(name)}:{text}" for name, text in parts.items())
            return f'{{"k":"state","n":{self._state},"parts":{{{inside}}}}}'
        under_way = self._image - self._image_seen
        for camera in self._images:
            if under_way < (IMAGES_UNDER_WAY if camera < WHOLE else 1):  # a large one waits until the page has all
                self._image += 1
                return IMAGE_HEAD.pack(self._image, camera, 0) + self._images.pop(camera)
        return None


@dataclass(slots=True, kw_only=True)
class Page:
    """One open page, with the messages it has still to be sent.

    Attributes:
        name: Its own, over reloads.
        outbox: What it has still to be sent.
        wake: Set when there may be something in it.
        whole: Cameras whose whole images it shows, by their places in the list.
        unsaid: What it said that has still to be kept on disk, in its order; None: it has gone.
        told: Sentence -> when it was last told: a hand that moves in vain is told so once, not 25 times a second.
    """

    name: str
    outbox: Outbox = field(default_factory=Outbox)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    whole: frozenset[int] = frozenset()
    unsaid: asyncio.Queue[tuple[Message, Callable[[], None]] | None] = field(default_factory=asyncio.Queue)
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

    def __init__(self, session: ConsoleSession) -> None:
        self.pages: dict[str, Page] = {}
        self._session = session
        self._sent: dict[str, object] = {}
        self._texts: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._passed_s = float("inf")

    def stalled(self, page: Page) -> bool:
        """Return whether the server stood still and this page has shown nothing of what came after it.

        A connection keeps the order: what comes after the page's word that it shows the present was sent after it.
        """
        self._watch()
        return page.outbox.doubted

    def _watch(self) -> None:
        if time.monotonic() - self._passed_s > STALL_S:
            for page in self.pages.values():
                page.outbox.doubt()

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

    def farewell(self, banner: Banner) -> None:
        """Tell every page, as the last thing, what is to stay on it once the server is gone."""
        for page in self.pages.values():
            page.outbox.put_text(json.dumps({"k": "bye", "kind": "ended", "banner": asdict(banner)}))
            page.wake.set()

    def show(self, camera: int, jpeg: bytes) -> None:
        """Send every page a camera's newest image."""
        for page in self.pages.values():
            page.outbox.put_image(camera, jpeg)
            page.wake.set()

    @property
    def whole(self) -> frozenset[int]:
        """Return the cameras whose whole images some page shows."""
        return frozenset().union(*(page.whole for page in tuple(self.pages.values())))

    def show_whole(self, camera: int, jpeg: bytes) -> None:
        """Send a camera's newest whole image to the pages that show it."""
        for page in self.pages.values():
            if camera in page.whole:
                page.outbox.put_image(WHOLE + camera, jpeg)
                page.wake.set()

    async def run(self) -> None:
        """Send what changes to all pages, for as long as the server lives."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), TICK_S)
            self._changed.clear()
            self._watch()
            self._passed_s = time.monotonic()
            if self.pages:
                self._spread()
            await asyncio.sleep(LEAST_GAP_S)

    def _spread(self) -> None:
        """Send all pages the parts that have changed, made into text once, and each page who holds the lock."""
        with self._session.locked():
            there = versions(self._session.heard)
            changed = [name for name, version in there.items() if self._sent.get(name) != version]
            parts: dict[str, Any] = {name: self._session.part(name) for name in changed}
            now = self._session.now(time.monotonic_ns())
            holders = {name: self._session.operator_lock.holder(name) for name in self.pages}
        self._sent = there
        texts = {name: _text(part) for name, part in parts.items()}
        nows = {holder: _text({**now, "writer": holder}) for holder in set(holders.values())}
        self._texts |= texts
        for page in self.pages.values():
            for name, text in texts.items():
                page.outbox.put_part(name, text)
            page.outbox.put_part("now", nows[holders[page.name]])
            page.wake.set()


def _text(part: Any) -> str:
    return json.dumps(part, allow_nan=False, separators=(",", ":"))
