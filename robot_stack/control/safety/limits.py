"""The limits of one arm, validated against the hard caps that the model of the safety file declares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from robot_stack.config.safety import BRAKES, CAPS, LIMITS, weak_brake
from robot_stack.control.kinematics.body import ArmBody
from robot_stack.types.errors import ConfigError

MAY_BE_ZERO = ("retract_m_s",)
"""Zero switches it off; every other limit must be above zero."""
TIGHTENABLE = tuple(name for name in LIMITS if not name.endswith("_timeout_s"))
"""Limits that may be made tighter while the process runs. Timeouts and the box are the start's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JointLimit:
    """The limits of one joint, from the robot's file: name, range in rad, highest speed in rad/s."""

    name: str
    min_rad: float
    max_rad: float
    max_speed_rad_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SafetyLimits:
    """The limits of one arm. Positions are of the TCP in the base frame, rates are Euclidean norms.

    Attributes:
        box_min_m: Lowest corner of the workspace, (x, y, z); 0.0 is a limit like any other.
        box_max_m: Highest corner.
        braking_m_s2: How hard the arm brakes in HOLD and STOP and once the deadman is let go of; tightening the others
            leaves it alone.
        rotation_braking_rad_s2: The same for rotation.
        tilt_cone_rad: Largest angle between the tool's z axis and straight down (-z of base); pi switches it off.
        yaw_range_rad: Largest turn of the tool about its own z axis to either side of `yaw_zero_xyzw`, whole turns
            counted; two turns, 4 pi, switch it off.
        joint_range_share: Share of each joint's range, around its middle, beyond which nothing moves further out.
        soft_force_n: From here on, motion into the contact is scaled down.
        hard_force_n: From here on, the arm holds until an operator resumes.
        soft_torque_nm: From here on, rotation into the contact is scaled down.
        hard_torque_nm: From here on, the arm holds until an operator resumes.
        policy_timeout_s: Age of the newest policy command after which the arm holds.
        teleop_timeout_s: Age of the newest teleop sample after which, if the human is in control, the arm holds.
        state_timeout_s: Age of the robot state after which the arm holds.
        output_timeout_s: After this long without a decision, the robot's own watchdog has stopped the arm.
        retract_m_s: Speed of backing out along the contact force for up to 0.5 s after a hard force; 0 holds still.
        joints: From base to flange; empty where the robot reports none.
        body: Links and surroundings; None where they are not watched.
        yaw_zero_xyzw: Orientation of the tool at home in the base frame; None takes the first that is seen.

    Raises:
        ConfigError: Naming every limit that is outside its cap, not finite, or contradicts another.
    """

    box_min_m: tuple[float, float, float]
    box_max_m: tuple[float, float, float]
    max_speed_m_s: float = 0.25
    max_rotation_speed_rad_s: float = 1.0
    max_acceleration_m_s2: float = 2.5
    max_rotation_acceleration_rad_s2: float = 10.0
    max_jerk_m_s3: float = 60.0
    max_rotation_jerk_rad_s3: float = 250.0
    braking_m_s2: float = 2.5
    rotation_braking_rad_s2: float = 10.0
    tilt_cone_rad: float = 0.7
    yaw_range_rad: float = 4.0 * math.pi
    joint_range_share: float = 1.0
    soft_force_n: float = 15.0
    hard_force_n: float = 35.0
    soft_torque_nm: float = 3.0
    hard_torque_nm: float = 8.0
    policy_timeout_s: float = 0.15
    teleop_timeout_s: float = 0.15
    state_timeout_s: float = 0.1
    output_timeout_s: float = 0.05
    retract_m_s: float = 0.0
    joints: tuple[JointLimit, ...] = ()
    body: ArmBody | None = None
    yaw_zero_xyzw: tuple[float, float, float, float] | None = None

    def __post_init__(self) -> None:
        numbers = {name: getattr(self, name) for name in CAPS}
        mistakes = [_outside(name, numbers[name], CAPS[name], "; lower it in the safety file") for name in CAPS]
        mistakes += [weak_brake(name, numbers) for name in BRAKES]
        for axis, low, high in zip("xyz", self.box_min_m, self.box_max_m, strict=True):
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                mistakes.append(f"box on {axis} is {low} to {high}, must be finite and rising")
        if not self.soft_force_n < self.hard_force_n:
            mistakes.append(f"soft_force_n is {self.soft_force_n}, must be below hard_force_n {self.hard_force_n}")
        if not self.soft_torque_nm < self.hard_torque_nm:
            mistakes.append(
                f"soft_torque_nm is {self.soft_torque_nm}, must be below hard_torque_nm {self.hard_torque_nm}"
            )
        mistakes += [_wrong_joint(joint) for joint in self.joints]
        if self.yaw_zero_xyzw is not None and not abs(math.hypot(*self.yaw_zero_xyzw) - 1.0) <= 1e-6:
            mistakes.append(f"yaw_zero_xyzw is {self.yaw_zero_xyzw}, must be a quaternion of length 1")
        if self.body is not None and self.joints and len(self.body.axes) != len(self.joints):
            mistakes.append(f"body has {len(self.body.axes)} joints, must have {len(self.joints)}, those of the robot")
        if any(mistakes):
            raise ConfigError("\n".join(mistake for mistake in mistakes if mistake))

    @property
    def approach_s(self) -> float:
        """Return the time constant of slowing towards a wall.

        A speed of distance / approach_s brakes at half the acceleration.
        """
        return 2.0 * self.max_speed_m_s / self.max_acceleration_m_s2

    @property
    def tilt_approach_s(self) -> float:
        """Return the time constant of slowing towards the edge of the tilt cone and the end of the yaw range."""
        return 2.0 * self.max_rotation_speed_rad_s / self.max_rotation_acceleration_rad_s2


def tightened(ceiling: SafetyLimits, limits: SafetyLimits, changes: Mapping[str, float]) -> SafetyLimits:
    """Return `limits` with some values changed, none of them looser than the safety file's.

    Raises:
        ConfigError: Naming every value that is looser, no number, or not to be changed while the process runs.
    """
    mistakes = []
    for name, value in changes.items():
        if name not in TIGHTENABLE:
            mistakes.append(f"{name} is fixed while the process runs; edit the safety file and start again")
            continue
        mistakes.append(_outside(name, value, getattr(ceiling, name), ", the limit of the safety file"))
    if any(mistakes):
        raise ConfigError("\n".join(mistake for mistake in mistakes if mistake))
    return replace(limits, **changes)  # type: ignore[arg-type]


def _wrong_joint(joint: JointLimit) -> str:
    """Return why a joint cannot have these limits, or ""."""
    low, high, speed = joint.min_rad, joint.max_rad, joint.max_speed_rad_s
    if math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(speed) and speed > 0.0:
        return ""
    return f"joint {joint.name} is {low} to {high} rad at {speed} rad/s, must be finite, rising and faster than 0"


def _outside(name: str, value: float, largest: float, remedy: str) -> str:
    """Return why a limit may not have a value, or ""."""
    above = value >= 0.0 if name in MAY_BE_ZERO else value > 0.0
    if math.isfinite(value) and above and value <= largest:
        return ""
    least = "at least 0" if name in MAY_BE_ZERO else "above 0"
    return f"{name} is {value}, must be {least} and at most {largest:g}{remedy}"
