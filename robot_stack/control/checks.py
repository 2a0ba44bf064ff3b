"""What is refused before anything is limited: a NaN passes every clip, so it must never reach one.

Each check returns the reason of refusal, or "" where the message may pass.
"""

from __future__ import annotations

import numpy as np

from robot_stack.types.command import Command, Source
from robot_stack.types.robot import RobotState, TeleopSample

FRAMES = ("tcp", "base")
FUTURE_TOLERANCE_NS = 5_000_000
LARGEST_ENTRY = 100.0
"""No arm moves at 100 m/s: a larger entry is a broken message, not an eager one."""


def check_vector(name: str, value: object, size: int, largest: float = LARGEST_ENTRY) -> str:
    """A finite float array of shape (size,) with plausible entries."""
    if not isinstance(value, np.ndarray) or value.shape != (size,) or value.dtype.kind != "f":
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        return f"{name} is {got}, must be a float array of shape ({size},)"
    if not np.isfinite(value).all():
        return f"{name} is {value}, must be finite"
    if np.abs(value).max(initial=0.0) > largest:
        return f"{name} is {value}, must be within +-{largest:g}"
    return ""


def check_age(name: str, stamp_ns: int, now_ns: int, timeout_s: float) -> str:
    """A stamp that is set, not in the future and at most `timeout_s` old."""
    if stamp_ns <= 0:
        return f"stamp of {name} is {stamp_ns}, must be set; stamp it when it is made"
    if stamp_ns > now_ns + FUTURE_TOLERANCE_NS:
        return f"stamp of {name} is {(stamp_ns - now_ns) / 1e6:.0f} ms ahead, must not be in the future"
    if now_ns - stamp_ns > timeout_s * 1e9:
        return f"{name} is {(now_ns - stamp_ns) / 1e6:.0f} ms old, must be at most {timeout_s * 1e3:.0f} ms"
    return ""


def check_command(command: Command) -> str:
    """A policy command: finite, of a known frame, of the right length, gripper in [0, 1]."""
    if command.source is not Source.POLICY:
        return f"command has source {command.source!r}, must be POLICY; the human comes in by teleop samples"
    if command.frame not in FRAMES:
        return f"frame of command is {command.frame!r}, must be one of {FRAMES}"
    return check_vector("twist of command", command.twist, 6) or _check_opening("command", command.gripper)


def check_teleop(sample: TeleopSample) -> str:
    """A unitless twist within [-1, 1] and a gripper press of -1, 0 or 1."""
    if sample.gripper not in (-1, 0, 1):
        return f"gripper of teleop sample is {sample.gripper}, must be -1, 0 or 1"
    return check_vector("twist of teleop sample", sample.twist, 6, 1.0 + 1e-6)


def check_state(state: RobotState, joints: int) -> str:
    """A finite state with that many joints (0: any); the pose checks itself when it is built."""
    return (
        check_vector("twist of state", state.twist, 6)
        or check_vector("wrench of state", state.wrench, 6, 1e4)
        or check_vector("joints of state", state.joints_rad, joints or len(state.joints_rad))
        or check_vector("joint speeds of state", state.joint_speeds_rad_s, joints or len(state.joint_speeds_rad_s))
        or _check_opening("state", state.gripper, slack=0.1)
    )


def _check_opening(name: str, opening: float | None, slack: float = 0.0) -> str:
    if opening is None or -slack <= opening <= 1.0 + slack:
        return ""
    return f"gripper of {name} is {opening}, must be within 0 to 1"
