"""The model of safety/*.yaml: every limit, below a hard cap. Tasks only tighten them, and never the brakes.

None but the yaw range has a default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, get_args

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.files.located import Located, Mark
from robot_stack.config.files.mistake import Mistake
from robot_stack.config.section import Section


class SafetyConfig(Section):
    """The limits of the safety filter."""

    max_speed_m_s: Annotated[float, Field(gt=0, le=1.0)]
    """TCP speed."""
    max_rotation_speed_rad_s: Annotated[float, Field(gt=0, le=3.0)]
    """TCP rotation speed."""
    max_acceleration_m_s2: Annotated[float, Field(gt=0, le=10)]
    """TCP acceleration."""
    max_rotation_acceleration_rad_s2: Annotated[float, Field(gt=0, le=30)]
    """TCP rotation acceleration."""
    max_jerk_m_s3: Annotated[float, Field(gt=0, le=1000)]
    """TCP jerk."""
    max_rotation_jerk_rad_s3: Annotated[float, Field(gt=0, le=3000)]
    """TCP rotation jerk."""
    braking_m_s2: Annotated[float, Field(gt=0, le=10)]
    """How hard a HOLD, a STOP and a released deadman brake. Nothing makes it gentler while a cell runs."""
    rotation_braking_rad_s2: Annotated[float, Field(gt=0, le=30)]
    """The same for rotation."""
    tilt_cone_rad: Annotated[float, Field(gt=0, le=math.pi)]
    """Largest angle between the tool's axis and straight down."""
    yaw_range_rad: Annotated[float, Field(gt=0, le=4 * math.pi)] = 4 * math.pi
    """Largest turn of the tool about its own axis to either side of home, whole turns counted: a cable's limit. 4 pi
    switches it off, as leaving it out does."""
    joint_range_share: Annotated[float, Field(gt=0, le=1)]
    """Share of each joint's range, around its middle, that is used; beyond it nothing moves further out."""
    soft_force_n: Annotated[float, Field(gt=0, le=100)]
    """From here on, motion into the contact is scaled down."""
    hard_force_n: Annotated[float, Field(gt=0, le=150)]
    """From here on, the robot holds until an operator resumes."""
    soft_torque_nm: Annotated[float, Field(gt=0, le=25)]
    """From here on, rotation into the contact is scaled down."""
    hard_torque_nm: Annotated[float, Field(gt=0, le=50)]
    """From here on, the robot holds until an operator resumes."""
    policy_timeout_s: Annotated[float, Field(gt=0, le=0.5)]
    """Age of a policy command at which the robot holds."""
    teleop_timeout_s: Annotated[float, Field(gt=0, le=0.5)]
    """Age of a teleop command at which the robot holds."""
    state_timeout_s: Annotated[float, Field(gt=0, le=0.2)]
    """Age of the robot's state at which the robot holds."""
    output_timeout_s: Annotated[float, Field(gt=0, le=0.1)]
    """Age of a safety command at which the robot's own watchdog stops it."""
    retract_m_s: Annotated[float, Field(ge=0, le=0.05)]
    """Speed of backing out of a contact after a hard force; 0 holds still."""
    rate_hz: Annotated[float, Field(ge=50, le=500)]
    """How often the filter decides."""

    @field_validator("braking_m_s2", "rotation_braking_rad_s2")
    @classmethod
    def _strong_enough(cls, braking: float, info: ValidationInfo) -> float:
        assert info.field_name is not None
        mistake = weak_brake(info.field_name, {**info.data, info.field_name: braking})
        if mistake:
            raise ValueError(mistake)
        return braking

    @field_validator("hard_force_n")
    @classmethod
    def _above_soft(cls, hard_n: float, info: ValidationInfo) -> float:
        soft_n = info.data.get("soft_force_n")
        if soft_n is not None and hard_n <= soft_n:
            raise ValueError(f"hard_force_n is {hard_n}, must be above soft_force_n ({soft_n}); correct one of them")
        return hard_n

    @field_validator("hard_torque_nm")
    @classmethod
    def _above_soft_torque(cls, hard_nm: float, info: ValidationInfo) -> float:
        soft_nm = info.data.get("soft_torque_nm")
        if soft_nm is not None and hard_nm <= soft_nm:
            raise ValueError(
                f"hard_torque_nm is {hard_nm}, must be above soft_torque_nm ({soft_nm}); correct one of them"
            )
        return hard_nm

    @field_validator("rate_hz")
    @classmethod
    def _faster_than_watchdog(cls, rate_hz: float, info: ValidationInfo) -> float:
        timeout_s = info.data.get("output_timeout_s")
        if timeout_s is not None and rate_hz * timeout_s < 2:
            raise ValueError(
                f"rate_hz is {rate_hz}, must give two commands within output_timeout_s ({timeout_s} s); raise it"
            )
        return rate_hz


STOP_S = 0.15
"""A HOLD, a STOP and a released deadman bring an arm from its highest speed to rest within this: long before the robot
process passes no motion of theirs any more."""
BRAKES = {
    "braking_m_s2": ("max_speed_m_s", "max_acceleration_m_s2"),
    "rotation_braking_rad_s2": ("max_rotation_speed_rad_s", "max_rotation_acceleration_rad_s2"),
}
"""What brakes -> the speed that it ends, and the acceleration that it must not be below."""


def weak_brake(name: str, limits: Mapping[str, float]) -> str:
    """Return why one of `BRAKES` is too weak beside the other limits, those that are there, or ""."""
    speed, acceleration = (limits.get(other) for other in BRAKES[name])
    short, strong = (0.0 if speed is None else speed / STOP_S), (acceleration or 0.0)
    if limits[name] >= max(short, strong):
        return ""
    needed = f"to stop from {BRAKES[name][0]} ({speed}) within {STOP_S} s" if short >= strong else BRAKES[name][1]
    return f"{name} is {limits[name]}, must be at least {max(short, strong):.4g}, {needed}; raise it"


Limit = Literal[
    "max_speed_m_s",
    "max_rotation_speed_rad_s",
    "max_acceleration_m_s2",
    "max_rotation_acceleration_rad_s2",
    "max_jerk_m_s3",
    "max_rotation_jerk_rad_s3",
    "tilt_cone_rad",
    "yaw_range_rad",
    "joint_range_share",
    "soft_force_n",
    "hard_force_n",
    "soft_torque_nm",
    "hard_torque_nm",
    "policy_timeout_s",
    "teleop_timeout_s",
    "state_timeout_s",
    "output_timeout_s",
    "retract_m_s",
]
LIMITS: tuple[str, ...] = get_args(Limit)
"""The limits a task can tighten: all but `BRAKES`, whose least counts. `rate_hz` is no limit."""
CAPS: dict[str, float] = {
    name: mark.le
    for name in (*LIMITS, *BRAKES)
    for mark in SafetyConfig.model_fields[name].metadata
    if hasattr(mark, "le")
}
"""Largest value of each limit, as the model declares it."""

TighterLimits = dict[Limit, Annotated[float, Field(ge=0)]]


def tighten(base: Located, tighter: Located, mistakes: list[Mistake]) -> Located:
    """Return `base` with the limits of `tighter` in place of its own, where they are lower.

    Args:
        base: A valid safety section.
        tighter: Some of its limits; keys that are no limits, and values that are no numbers, are left to the model.
        mistakes: Receives one mistake per limit that would be loosened; it names both values.
    """
    for key, new in tighter.entries.items():
        old = base.get(key)
        if key not in LIMITS or not _number(new.value):
            continue
        if old is None:
            if not SafetyConfig.model_fields[key].is_required():  # its default is the highest value there is
                base = base.with_value((key,), new)
        elif not _number(old.value):
            continue
        elif new.value > old.value:  # type: ignore[operator]
            text = (
                f"input should be at most {old.value}, the limit at {old.mark} (got {new.value}); "
                "limits can only be made tighter here, edit that file to loosen one"
            )
            mistakes.append(Mistake(mark=new.mark, key=new.key, text=text))
        else:
            base = base.with_value((key,), new)
    return base


def tightest(base: Located, saved: SafetyConfig) -> Located:
    """Return a safety section with the limits of a saved one in place of its own where those are tighter."""
    for key in sorted(LIMITS):
        node, before = base.get(key), getattr(saved, key)
        now = SafetyConfig.model_fields[key].default if node is None else node.value
        if _number(before) and (not _number(now) or before < now):
            base = base.with_value((key,), Located(value=before, mark=Mark(source="saved run"), path=("safety", key)))
    return base


def is_limit(path: Sequence[str], value: Located) -> bool:
    """Return True if `path` inside a safety section is a limit and `value` a number."""
    return len(path) == 1 and path[0] in LIMITS and _number(value.value)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
