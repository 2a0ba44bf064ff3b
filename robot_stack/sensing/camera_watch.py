"""The judge of one camera's frames: what may be shown to the policy, and what is wrong if nothing may.

A frame that is refused is not shown. One refused frame hurts nobody; if all are, the newest shown one grows old, and
old means that the actor has no observation and the robot holds. So a refusal needs no second rule for when to stop,
and a flash in the picture stops nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from robot_stack.sensing.still_images import StillImages
from robot_stack.types.reason import Reason
from robot_stack.types.stamp import FUTURE_TOLERANCE_NS

RECENT_NS = 1_000_000_000
"""A refusal is spoken of for this long."""
SURPLUS = "surplus"
"""Counter of frames that are one more than is wanted; no problem."""
BLACK, WHITE, SHARE = 12, 250, 0.98
"""With this share of its values below or above, an image shows nothing."""


class Cause(StrEnum):
    """The kind of a problem of a camera."""

    DEAD = "dead"
    FROZEN = "frozen"
    LATE = "late"
    FUTURE = "future stamp"
    UNSET = "unset stamp"
    ORDER = "out of order"
    FORMAT = "wrong size or encoding"
    SWAPPED = "swapped"
    BLACK = "black"
    WHITE = "saturated"


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraProblem(Reason[Cause]):
    """The problem that a camera has now; its text names camera and source.

    Attributes:
        blind: True if the policy gets no images because of it; else a warning.
    """

    blind: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchLimits:
    """The limits beyond which the frames of a camera are refused.

    Attributes:
        max_age_s: Older is late; nothing shown for this long is dead.
        frozen_after_s: Content that has not changed for this long is frozen; None never looks.
        least_gap_s: A frame that follows the one before sooner is one more than is wanted.
    """

    max_age_s: float
    frozen_after_s: float | None
    least_gap_s: float


class CameraWatch:
    """The watch over the frames of one camera. Each method takes the monotonic time of its call.

    Args:
        camera: Its name in the cell.
        source: Where its frames come from, e.g. "topic /wrist/image_raw".
        limits: When frames are refused.
        now_ns: From now on it should deliver.
    """

    def __init__(self, camera: str, source: str, limits: WatchLimits, now_ns: int) -> None:
        self.counters: Counter[str] = Counter()
        self.excuse = ""
        """Why no frames come, if whoever fetches them knows: it ends the sentence about a dead camera."""
        self._who = f"camera {camera} ({source})"
        self._limits = limits
        self._since_ns = now_ns
        self._shown_ns: int | None = None
        self._stamp_ns = 0
        self._taken_ns = (0, 0)
        self._digest: int | None = None
        self._still = StillImages(limits.frozen_after_s)
        self._refused: tuple[int, Cause, str] | None = None

    def wanted(self, stamp_ns: int, now_ns: int, sent_ns: int = 0) -> bool:
        """Judge the stamp of a frame; return whether to work on it: it is good, and the source is not too fast.

        Frames that queued arrive together, though they were captured apart: the driver's own stamps then tell.

        Args:
            stamp_ns: On the monotonic clock; the arrival, if the driver's stamp is not used.
            now_ns: Now.
            sent_ns: As the driver wrote it, on whatever clock; 0 if there is none.
        """
        if not self.take_stamp(stamp_ns, now_ns):
            return False
        gap_ns = max(stamp_ns - self._taken_ns[0], sent_ns - self._taken_ns[1])
        if gap_ns < self._limits.least_gap_s * 1e9:
            self.counters[SURPLUS] += 1
            return False
        self._taken_ns = (stamp_ns, sent_ns)
        return True

    def take_stamp(self, stamp_ns: int, now_ns: int) -> bool:
        """Judge the stamp of a frame, before any work is put into it; return whether the frame may be looked at."""
        limit_s = self._limits.max_age_s
        if stamp_ns <= 0:
            self.refuse(Cause.UNSET, f"stamp is {stamp_ns}, must be set at capture; fix its driver", now_ns)
        elif stamp_ns > now_ns + FUTURE_TOLERANCE_NS:
            ahead_ms = (stamp_ns - now_ns) / 1e6
            self.refuse(
                Cause.FUTURE,
                f"stamps are {ahead_ms:.0f} ms ahead of this host, must not be; align the clocks, or see `stamps`",
                now_ns,
            )
        elif now_ns - stamp_ns > limit_s * 1e9:
            age_ms = (now_ns - stamp_ns) / 1e6
            text = (
                f"frames come {age_ms:.0f} ms after capture (limit {limit_s * 1e3:.0f}); free the machine or the link"
            )
            self.refuse(Cause.LATE, text, now_ns)
        elif stamp_ns <= self._stamp_ns:
            behind_ms = (self._stamp_ns - stamp_ns) / 1e6
            text = f"a frame is {behind_ms:.0f} ms behind the one before, must be newer; is there a second sender?"
            self.refuse(Cause.ORDER, text, now_ns)
        else:
            return True
        return False

    def take_image(self, image: np.ndarray, digest: int, stamp_ns: int, now_ns: int) -> bool:
        """Judge an image; return whether it may be shown, which it is then taken to be.

        Args:
            image: The policy's, RGB uint8.
            digest: Of the content as captured; equal only where that is.
            stamp_ns: A stamp that was taken.
            now_ns: Now.
        """
        self._stamp_ns = stamp_ns
        self._still.take(stamp_ns, same=digest == self._digest)
        self._digest = digest
        if self._still.frozen:
            self.refuse(Cause.FROZEN, f"frozen: {self._still}; restart its driver or replug it", now_ns)
        elif np.count_nonzero(image <= BLACK) >= SHARE * image.size:
            self.refuse(Cause.BLACK, "the image is black, must show something; light, lens cap, exposure?", now_ns)
        elif np.count_nonzero(image >= WHITE) >= SHARE * image.size:
            self.refuse(Cause.WHITE, "the image is saturated, must show something; lower light or exposure", now_ns)
        else:
            self._shown_ns = now_ns
            return True
        return False

    def refuse(self, cause: Cause, text: str, now_ns: int) -> None:
        """Remember why a frame is not shown."""
        self.counters[cause] += 1
        self._refused = (now_ns, cause, text)

    def problem(self, now_ns: int) -> CameraProblem | None:
        """Return what is wrong now, in the sentence that explains most, or None."""
        blind_ns = now_ns - (self._since_ns if self._shown_ns is None else self._shown_ns)
        blind = blind_ns > self._limits.max_age_s * 1e9
        if self._refused is not None and now_ns - self._refused[0] < RECENT_NS:
            _, cause, text = self._refused
            return CameraProblem(kind=cause, blind=blind, text=f"{self._who}: {text}")
        if not blind:
            return None
        for_ms, limit_ms = blind_ns / 1e6, self._limits.max_age_s * 1e3
        what = "no frame yet" if self._shown_ns is None else "no frame"
        reason = self.excuse or "check its cable, power and driver"
        text = f"{self._who}: {what} for {for_ms:.0f} ms (limit {limit_ms:.0f}): {reason}"
        return CameraProblem(kind=Cause.DEAD, blind=True, text=text)

    @property
    def identical(self) -> int:
        """Return the number of identical images in a row, the newest among them."""
        return self._still.count
