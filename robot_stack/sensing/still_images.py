"""The one judge of a frozen camera: images that stay the same for too long."""

from __future__ import annotations

LEAST_IDENTICAL = 3
"""Fewer images in a row prove nothing, however far apart."""


class StillImages:
    """The newest run of identical images of one camera, and whether it means that the camera is frozen.

    Args:
        frozen_after_s: Content that has not changed for this long is frozen; None never looks.
    """

    def __init__(self, frozen_after_s: float | None) -> None:
        self.count = 0
        """Identical images in a row, the newest among them."""
        self._limit_s = frozen_after_s
        self._first_ns = self._last_ns = 0

    def take(self, stamp_ns: int, *, same: bool) -> None:
        """Count an image.

        Args:
            stamp_ns: Of its capture.
            same: Whether it equals the one before.
        """
        if not same or not self.count:
            self.count, self._first_ns = 0, stamp_ns
        self.count += 1
        self._last_ns = stamp_ns

    @property
    def still_s(self) -> float:
        """Return for how long the content has been the same."""
        return (self._last_ns - self._first_ns) / 1e9

    @property
    def frozen(self) -> bool:
        """Return whether the camera counts as frozen now."""
        return self._limit_s is not None and self.still_s >= self._limit_s and self.count >= LEAST_IDENTICAL

    def __str__(self) -> str:
        return f"{self.count} identical images in {self.still_s:.1f} s"
