"""The spec of a cell: its arms, cameras and proprio fields. All shapes come from here.

The digest of a spec is written into every file and every handshake, so that data of one cell never trains,
scores or drives another.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from robot_stack.types.errors import SpecError
from robot_stack.types.names import check_name

AXES = ("x", "y", "z", "rx", "ry", "rz")
"""Order of a twist: linear then angular, in the end-effector frame."""
DIRECTION = "direction"
"""Proprio field of size 1 that says which way a task goes: 1 as it is told, -1 back."""
TASK = "task"
"""Proprio field of a run of several tasks, an entry for each: 1 in that of the task at hand, else 0."""
BASE = "base"
"""Proprio field with the action that the run's base policy proposes, as large as an action; the last one."""
BASE_NOISE = "base_noise"
"""Proprio field with the noise of which a steered base made the chunk that it proposes from; before the next two."""
BASE_TICKS = "base_ticks"
"""Proprio field of size 1: control ticks for which a steered base has been proposing from that chunk.

At the first one it is, below zero, the ticks for which it had proposed from the chunk before; 0 if there was none.
"""
MAX_PARTS = 64
"""Arms, cameras or proprio fields; a cell has a few."""
MAX_FIELD_SIZE = 4096
"""Numbers of a proprio field; a pose has six or seven, a tactile pad some hundreds."""
GRIPPER_DEADBAND = 0.5
"""A discrete gripper entry beyond this closes (negative) or opens (positive); between, the gripper stays."""
GRIPPER_MEANING = "-1 closes, 0 stays and 1 opens"
"""Said of such an entry to whoever brings actions from elsewhere."""
PLACE = "tcp_place"
"""What a base policy may be shown and no spec has: T_base_tcp, position and rotation vector, of size 6."""
OPENING = "gripper"
"""Proprio field with the measured opening, in [0, 1]; with several arms one each, called `<arm>.gripper`."""
PROPRIO_SIZES: Mapping[str, int | None] = {
    "tcp_pose": 6,
    "tcp_twist": 6,
    "wrench": 6,
    OPENING: 1,
    "joints": None,
    "joint_speeds": None,
    DIRECTION: 1,
}
"""Entries of each proprio field that a cell can have; None for as many as the arm has joints."""


class GripperKind(StrEnum):
    """The form of an arm's gripper in the action vector."""

    NONE = "none"
    DISCRETE = "discrete"
    CONTINUOUS = "continuous"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmSpec:
    """The spec of one arm: which twist axes a policy moves, and how far one step of 1.0 goes.

    Attributes:
        name: Unique in the cell.
        axes: Active axes, a subset of `AXES` in that order; the others are commanded as zero.
        translation_m: Metres per control step at action 1.0.
        rotation_rad: Radians per control step at action 1.0.
        gripper: Kind of gripper action; NONE keeps the gripper as it is.
    """

    name: str
    axes: tuple[str, ...] = AXES
    translation_m: float
    rotation_rad: float
    gripper: GripperKind = GripperKind.NONE

    def __post_init__(self) -> None:
        if not self.axes or list(self.axes) != [a for a in AXES if a in self.axes]:
            raise SpecError(f"arm {self.name}: axes is {self.axes}, must be a non-empty subset of {AXES} in that order")
        if not (0 < self.translation_m <= 0.2 and 0 < self.rotation_rad <= 1.0):
            raise SpecError(
                f"arm {self.name}: step is {self.translation_m} m and {self.rotation_rad} rad, "
                "must be in (0, 0.2] m and (0, 1] rad"
            )

    @property
    def size(self) -> int:
        """Return the length of this arm's part of the action vector."""
        return len(self.axes) + (self.gripper is not GripperKind.NONE)

    @property
    def axis_indices(self) -> tuple[int, ...]:
        """Return the positions of the active axes in a 6-D twist."""
        return tuple(AXES.index(a) for a in self.axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class CameraSpec:
    """One camera as the policy sees it, after crop and resize: RGB uint8 of shape (height_px, width_px, 3)."""

    name: str
    height_px: int
    width_px: int

    def __post_init__(self) -> None:
        if not (8 <= self.height_px <= 1024 and 8 <= self.width_px <= 1024):
            raise SpecError(
                f"camera {self.name}: size is {self.height_px}x{self.width_px}, must be within 8 to 1024 pixels"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Return the shape of one image, (height_px, width_px, 3)."""
        return (self.height_px, self.width_px, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProprioField:
    """A named slice of the proprio vector."""

    name: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The shapes of observation and action of one cell and task.

    Attributes:
        arms: One or more, by unique name.
        cameras: By unique name. The cell file of a robot must name one; an environment of numbers alone has none.
        proprio: Fields in the order in which they are concatenated.
        rate_hz: Control rate.
    """

    arms: tuple[ArmSpec, ...]
    cameras: tuple[CameraSpec, ...]
    proprio: tuple[ProprioField, ...]
    rate_hz: float

    def __post_init__(self) -> None:
        for kind, items in (("arm", self.arms), ("camera", self.cameras), ("proprio field", self.proprio)):
            names = [item.name for item in items]
            if len(set(names)) != len(names) or not (names or kind == "camera"):
                raise SpecError(f"{kind} names are {names}, must be at least one and unique")
        if not 0 < self.rate_hz <= 100:
            raise SpecError(f"rate_hz is {self.rate_hz}, must be in (0, 100]")

    @property
    def action_size(self) -> int:
        """Return A, the length of an action vector."""
        return sum(arm.size for arm in self.arms)

    @property
    def action_names(self) -> list[str]:
        """Return the name of each entry of an action vector, e.g. "arm.x", "arm.gripper"."""
        found: list[str] = []
        for arm in self.arms:
            found += [f"{arm.name}.{axis}" for axis in arm.axes]
            found += [f"{arm.name}.gripper"] if arm.gripper is not GripperKind.NONE else []
        return found

    @property
    def proprio_size(self) -> int:
        """Return P, the length of a proprio vector."""
        return sum(field.size for field in self.proprio)

    def part(self, name: str) -> slice:
        """Return the slice of the proprio vector that a field takes.

        Raises:
            SpecError: If the task does not record it.
        """
        offset = 0
        for field in self.proprio:
            if field.name == name:
                return slice(offset, offset + field.size)
            offset += field.size
        raise SpecError(f"proprio fields are {[f.name for f in self.proprio]}, must include {name!r}")

    @property
    def sensed(self) -> Spec:
        """Return the spec of what is sensed: without what a base policy says, where the run has one."""
        said = (BASE_NOISE, BASE_TICKS, BASE)
        return replace(self, proprio=tuple(field for field in self.proprio if field.name not in said))

    @property
    def noise_size(self) -> int:
        """Return how many numbers of a base policy's noise are chosen here; 0 where it draws its own, or is none."""
        return sum(field.size for field in self.proprio if field.name == BASE_NOISE)

    @property
    def period_s(self) -> float:
        """Return the seconds between two control ticks."""
        return 1.0 / self.rate_hz

    @property
    def gripper_indices(self) -> tuple[int, ...]:
        """Return the positions of the gripper entries in the action vector."""
        found, offset = [], 0
        for arm in self.arms:
            offset += arm.size
            if arm.gripper is not GripperKind.NONE:
                found.append(offset - 1)
        return tuple(found)

    @property
    def discrete_gripper_indices(self) -> tuple[int, ...]:
        """Return the positions of the discrete gripper entries in the action vector."""
        kinds = [arm.gripper for arm in self.arms if arm.gripper is not GripperKind.NONE]
        pairs = zip(self.gripper_indices, kinds, strict=True)
        return tuple(index for index, kind in pairs if kind is GripperKind.DISCRETE)

    @property
    def places(self) -> Mapping[str, str]:
        """Return the name of each arm's `PLACE` -> that arm; with several arms it is called `<arm>.tcp_place`."""
        return {PLACE if len(self.arms) == 1 else f"{arm.name}.{PLACE}": arm.name for arm in self.arms}

    @property
    def openings(self) -> Mapping[str, int]:
        """Return arm -> position of its measured opening in the proprio vector, for the arms whose opening is recorded.

        Raises:
            SpecError: If an opening has another size than 1.
        """
        names = {f"{arm.name}.{OPENING}": arm.name for arm in self.arms}
        if len(self.arms) == 1:
            names[OPENING] = self.arms[0].name
        found, offset = {}, 0
        for field in self.proprio:
            if field.name in names:
                if field.size != 1:
                    raise SpecError(
                        f"size of proprio field {field.name!r} is {field.size}, must be 1; record the opening of each "
                        f"arm in a field of its own, called <arm>.{OPENING} where there are several"
                    )
                found[names[field.name]] = offset
            offset += field.size
        return found

    def check_action(self, action: np.ndarray, name: str = "action") -> None:
        """Raise SpecError unless `action` is float32, shape (A,), finite and within [-1, 1]."""
        if action.dtype != np.float32 or action.shape != (self.action_size,):
            raise SpecError(f"{name} is {action.dtype} {action.shape}, must be float32 ({self.action_size},)")
        if not np.isfinite(action).all() or np.abs(action).max(initial=0.0) > 1.0 + 1e-5:
            raise SpecError(f"{name} is {action}, must be finite and within [-1, 1]")

    def check_sources(self, sources: Sequence[int]) -> None:
        """Raise SpecError unless there is one source for each of several arms, and none where there is one arm."""
        wanted = len(self.arms) if len(self.arms) > 1 else 0
        if len(sources) != wanted:
            raise SpecError(f"sources are {len(sources)}, must be {wanted}, one for each of several arms")

    def check_images(self, images: dict[str, np.ndarray]) -> None:
        """Raise SpecError unless there is exactly one uint8 image of the declared shape per camera."""
        wanted = {camera.name: camera.shape for camera in self.cameras}
        if set(images) != set(wanted):
            raise SpecError(f"cameras are {sorted(images)}, must be {sorted(wanted)}")
        for name, shape in wanted.items():
            if images[name].dtype != np.uint8 or images[name].shape != shape:
                got = images[name]
                raise SpecError(f"image {name} is {got.dtype} {got.shape}, must be uint8 {shape}")

    def check_proprio(self, proprio: np.ndarray) -> None:
        """Raise SpecError unless `proprio` is float32, shape (P,) and finite."""
        if proprio.dtype != np.float32 or proprio.shape != (self.proprio_size,):
            raise SpecError(f"proprio is {proprio.dtype} {proprio.shape}, must be float32 ({self.proprio_size},)")
        if not np.isfinite(proprio).all():
            raise SpecError(f"proprio is {proprio}, must be finite")

    def to_json(self) -> str:
        """Return the spec as canonical JSON: sorted keys, no spaces."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Spec:
        """Read a spec from JSON as `to_json` writes it.

        The file or peer it comes from is not trusted: names become paths, sizes become memory.

        Raises:
            SpecError: If it is no spec, or a name is none, or there is too much of something.
            ValueError, KeyError, TypeError: If it is no JSON of one.
        """
        raw = json.loads(text)
        _check_told(raw)
        return cls(
            arms=tuple(
                ArmSpec(**{**arm, "axes": tuple(arm["axes"]), "gripper": GripperKind(arm["gripper"])})
                for arm in raw["arms"]
            ),
            cameras=tuple(CameraSpec(**camera) for camera in raw["cameras"]),
            proprio=tuple(ProprioField(**field) for field in raw["proprio"]),
            rate_hz=raw["rate_hz"],
        )

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the canonical JSON, in hexadecimal."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()


def _check_told(raw: Mapping[str, Any]) -> None:
    """Raise SpecError unless every name of a spec's JSON is legal and every size a small whole number."""
    for kind, sizes in (("arms", ()), ("cameras", ("height_px", "width_px")), ("proprio", ("size",))):
        if len(raw[kind]) > MAX_PARTS:
            raise SpecError(f"number of {kind} is {len(raw[kind])}, must be at most {MAX_PARTS}; leave some out")
        for part in raw[kind]:
            check_name(part["name"], f"name in {kind}")
            for size in sizes:
                value = part[size]
                if not isinstance(value, int) or not 0 <= value <= MAX_FIELD_SIZE:
                    raise SpecError(
                        f"{size} of {part['name']} is {str(value)[:40]}, must be a whole number up to {MAX_FIELD_SIZE}"
                    )
