"""The newest frame of every camera and the newest state of every arm, or the sentence that says what is wrong.

Capture stamps are on the monotonic clock of this machine. A message is judged when it arrives (unset stamp, future
stamp, out of order) and again when it is used (missing, stale, frozen, skewed).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from robot_stack.config.resolved import ResolvedRun
from robot_stack.sensing.still_images import StillImages
from robot_stack.types.errors import SpecError
from robot_stack.types.robot import RobotState
from robot_stack.types.stamp import FUTURE_TOLERANCE_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncLimits:
    """The limits beyond which images and states are too old, or too far apart, to act on.

    Attributes:
        max_image_age_s: Camera -> of its image.
        max_state_age_s: Of the oldest robot state.
        max_skew_s: Between the oldest and the newest part.
        frozen_after_s: Camera -> content that has not changed for this long is frozen; without an entry, or with None,
            nobody looks.
    """

    max_image_age_s: Mapping[str, float]
    max_state_age_s: float
    max_skew_s: float
    frozen_after_s: Mapping[str, float | None] = field(default_factory=dict)

    @classmethod
    def of(cls, run: ResolvedRun) -> SyncLimits:
        """Return the limits of a run: each camera's own, and for what is apart those of the slowest camera."""
        ages_s = {name: camera.max_age_s for name, camera in run.cameras.items()}
        return cls(
            max_image_age_s=ages_s,
            max_state_age_s=run.safety.state_timeout_s,
            max_skew_s=max(ages_s.values()),
            frozen_after_s={name: camera.frozen_after_s for name, camera in run.cameras.items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The images of all cameras and the states of all arms that belong together.

    Attributes:
        images: Camera -> RGB uint8.
        states: Arm -> state.
        age_s: Of the oldest part.
        skew_s: Between the oldest and the newest part.
    """

    images: Mapping[str, np.ndarray]
    states: Mapping[str, RobotState]
    age_s: float
    skew_s: float


@dataclass(slots=True, kw_only=True)
class _Track:
    image: np.ndarray
    stamp_ns: int


class Synchroniser:
    """The newest images and states; `counters` has every refusal by camera or arm and cause, e.g. "wrist: late"."""

    def __init__(self, cameras: Sequence[str], arms: Sequence[str], limits: SyncLimits) -> None:
        self.counters: Counter[str] = Counter()
        self._cameras = tuple(cameras)
        self._arms = tuple(arms)
        self._limits = limits
        self._frames: dict[str, _Track] = {}
        self._states: dict[str, RobotState] = {}
        self._still = {camera: StillImages(limits.frozen_after_s.get(camera)) for camera in self._cameras}

    def offer_frame(self, camera: str, image: np.ndarray, stamp_ns: int, now_ns: int) -> str:
        """Take a new image; return why it was refused, or "". The array must not be written to afterwards."""
        if camera not in self._cameras:
            raise SpecError(f"camera is {camera!r}, must be one of {list(self._cameras)}")
        last = self._frames.get(camera)
        limit_s = self._limits.max_image_age_s[camera]
        refusal = self._judge(camera, stamp_ns, 0 if last is None else last.stamp_ns, now_ns, limit_s)
        if not refusal:
            self._still[camera].take(stamp_ns, same=last is not None and np.array_equal(last.image, image))
            self._frames[camera] = _Track(image=image, stamp_ns=stamp_ns)
        return refusal

    def offer_state(self, state: RobotState, now_ns: int) -> str:
        """Take a new robot state; return why it was refused, or ""."""
        if state.arm not in self._arms:
            raise SpecError(f"arm is {state.arm!r}, must be one of {list(self._arms)}")
        last = self._states.get(state.arm)
        limit_s = self._limits.max_state_age_s
        refusal = self._judge(state.arm, state.stamp_ns, 0 if last is None else last.stamp_ns, now_ns, limit_s)
        if not refusal:
            self._states[state.arm] = state
        return refusal

    def problem(self, now_ns: int) -> str:
        """Return why there is no usable snapshot now, naming camera or arm; "" if there is one."""
        for camera in self._cameras:
            track = self._frames.get(camera)
            if track is None:
                return f"camera {camera} has sent no image; is its process running?"
            text = _stale(f"camera {camera}", track.stamp_ns, now_ns, self._limits.max_image_age_s[camera])
            if text:
                return text
            if self._still[camera].frozen:
                return f"camera {camera} is frozen: {self._still[camera]}; restart or replug it"
        for arm in self._arms:
            if arm not in self._states:
                return f"arm {arm} has sent no state; is the robot process running?"
            text = _stale(f"state of arm {arm}", self._states[arm].stamp_ns, now_ns, self._limits.max_state_age_s)
            if text:
                return text
        skew_s = self._skew_s()
        if skew_s > self._limits.max_skew_s:
            limit_ms = self._limits.max_skew_s * 1e3
            return f"images and state are {skew_s * 1e3:.0f} ms apart (limit {limit_ms:.0f}); check the camera rates"
        return ""

    def take(self, now_ns: int) -> Snapshot | None:
        """Return the newest images and states, or None while `problem` says something."""
        if self.problem(now_ns):
            return None
        oldest = min(self._stamps())
        return Snapshot(
            images={camera: self._frames[camera].image for camera in self._cameras},
            states=dict(self._states),
            age_s=max(0.0, (now_ns - oldest) / 1e9),
            skew_s=self._skew_s(),
        )

    def _judge(self, name: str, stamp_ns: int, last_ns: int, now_ns: int, limit_s: float) -> str:
        if stamp_ns <= 0:
            cause, text = "unset stamp", f"stamp of {name} is {stamp_ns}, must be set at capture"
        elif stamp_ns > now_ns + FUTURE_TOLERANCE_NS:
            ahead_ms = (stamp_ns - now_ns) / 1e6
            cause, text = "future stamp", f"stamp of {name} is {ahead_ms:.0f} ms ahead; align the clocks"
        elif stamp_ns <= last_ns:
            cause, text = "out of order", f"stamp of {name} is not newer than the last one"
        elif now_ns - stamp_ns > limit_s * 1e9:
            cause, text = "late", _stale(name, stamp_ns, now_ns, limit_s)
        else:
            return ""
        self.counters[f"{name}: {cause}"] += 1
        return text

    def _stamps(self) -> list[int]:
        return [track.stamp_ns for track in self._frames.values()] + [s.stamp_ns for s in self._states.values()]

    def _skew_s(self) -> float:
        stamps = self._stamps()
        return (max(stamps) - min(stamps)) / 1e9


def _stale(name: str, stamp_ns: int, now_ns: int, limit_s: float) -> str:
    age_s = (now_ns - stamp_ns) / 1e9
    return f"{name} is {age_s * 1e3:.0f} ms old (limit {limit_s * 1e3:.0f})" if age_s > limit_s else ""
