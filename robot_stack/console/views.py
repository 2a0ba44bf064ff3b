"""One camera as the page shows it: what the policy sees, how old it is, and which part of the picture it is. Pure."""

from __future__ import annotations

from collections import deque
from typing import Any

from robot_stack.config.camera import CameraConfig

WINDOW = 30


class CameraView:
    """Rate and age of one camera's images.

    Args:
        name: In the cell.
        config: Sizes and crop.
    """

    def __init__(self, name: str, config: CameraConfig) -> None:
        self.name = name
        self._config = config
        self._stamps: deque[int] = deque(maxlen=WINDOW)

    def frame(self, stamp_ns: int) -> None:
        """Take in the stamp of an image that has arrived; one that is not newer than the last is left out."""
        if not self._stamps or stamp_ns > self._stamps[-1]:
            self._stamps.append(stamp_ns)

    def layout(self) -> dict[str, Any]:
        """Return what does not change: sizes in pixels, and which part of the captured picture is kept."""
        config, roi = self._config, self._config.roi_px
        kept = [0, 0, config.width_px, config.height_px]
        return {
            "name": self.name,
            "captured": [config.width_px, config.height_px],
            "kept": kept if roi is None else [roi.left, roi.top, roi.width, roi.height],
            "policy": [config.policy_width_px, config.policy_height_px],
        }

    def to_json(self, now_ns: int) -> dict[str, Any]:
        """Return rate and age of the images now; on an image that is too old the policy does not act."""
        stamps = self._stamps
        if not stamps:
            return {"name": self.name, "hz": 0.0, "age_ms": None, "old": True}
        span_s = (stamps[-1] - stamps[0]) / 1e9
        age_s = (now_ns - stamps[-1]) / 1e9
        return {
            "name": self.name,
            "hz": round((len(stamps) - 1) / span_s, 1) if span_s > 0 else 0.0,
            "age_ms": round(1e3 * age_s),
            "old": age_s > self._config.max_age_s,
        }
