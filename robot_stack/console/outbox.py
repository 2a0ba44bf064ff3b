"""Messages that a page has still to be sent. Only the newest of each kind waits: a slow network shows less, never old.

A page says what it has put on its screen; until then no more than a few messages are on their way to it.
"""

from __future__ import annotations

import json
import struct
from collections import OrderedDict

STATES_UNDER_WAY, IMAGES_UNDER_WAY = 3, 3
IMAGE_HEAD = struct.Struct("<IHH")
"""Before the JPEG: number of the image, index of the camera, 0."""


class Outbox:
    """Messages that wait for one page.

    The server's loop calls `put_...`, the page's sender calls `take`, and its reader calls `seen`.
    """

    def __init__(self) -> None:
        self._parts: dict[str, str] = {}
        self._images: OrderedDict[int, bytes] = OrderedDict()
        self._texts: list[str] = []
        self._state, self._state_seen = 0, 0
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

    def take(self) -> str | bytes | None:
        """Return the next message, or None while nothing waits or enough is under way."""
        if self._texts:
            return self._texts.pop(0)
        if self._parts and self._state - self._state_seen < STATES_UNDER_WAY:
            self._state += 1
            parts, self._parts = self._parts, {}
            inside = ",".join(f"{json.dumps(name)}:{text}" for name, text in parts.items())
            return f'{{"k":"state","n":{self._state},"parts":{{{inside}}}}}'
        if self._images and self._image - self._image_seen < IMAGES_UNDER_WAY:
            self._image += 1
            camera, jpeg = self._images.popitem(last=False)
            return IMAGE_HEAD.pack(self._image, camera, 0) + jpeg
        return None
