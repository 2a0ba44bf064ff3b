"""Checks that refuse bad messages before anything is limited: a NaN passes every clip, so it must never reach one.

Each check returns why a message is refused, or None where it may pass.
"""

from __future__ import annotations

import numpy as np

from robot_stack.types.command import Command, Source
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.robot import RobotState, TeleopSample
from robot_stack.types.stamp import FUTURE_TOLERANCE_NS

FRAMES = ("tcp", "base")
LARGEST_ENTRY = 100.0
"""No arm moves at 100 m/s: a larger entry is a broken message, not an eager one."""


def check_vector(name: str, value: object, size: int, largest: float = LARGEST_ENTRY) -> Refusal | None:
    """Refuse a value that is no finite float array of shape (size,) with plausible entries."""
    if not isinstance(value, np.ndarray) or value.shape != (size,) or value.dtype.kind != "f":
        got = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
        return _malformed(f"{name} is {got}, must be a float array of shape ({size},)")
    if all(-largest <= entry <= largest for entry in value.tolist()):  # false of a NaN; a fifth of numpy's time
        return None
    if not np.isfinite(value).all():
        return _malformed(f"{name} is {value}, must be finite")
    return _malformed(f"{name} is {value}, must be within +-{largest:g}")


def check_age(name: str, stamp_ns: int, now_ns: int, timeout_s: float) -> Refusal | None:
    """Refuse a stamp that is unset, in the future, or more than `timeout_s` old."""
    if stamp_ns <= 0:
        text = f"stamp of {name} is {stamp_ns}, must be set; stamp it when it is made"
        return Refusal(kind=RefusalKind.UNSTAMPED, text=text)
    if stamp_ns > now_ns + FUTURE_TOLERANCE_NS:
        text = f"stamp of {name} is {(stamp_ns - now_ns) / 1e6:.0f} ms ahead, must not be in the future"
        return Refusal(kind=RefusalKind.FUTURE, text=text)
    if now_ns - stamp_ns > timeout_s * 1e9:
        text = f"{name} is {(now_ns - stamp_ns) / 1e6:.0f} ms old, must be at most {timeout_s * 1e3:.0f} ms"
        return Refusal(kind=RefusalKind.STALE, text=text)
    return None


def check_command(command: Command) -> Refusal | None:
    """Refuse a policy command that is not finite, of an unknown frame or length, or whose gripper is not in [0, 1]."""
    if command.source is not Source.POLICY:
        text = f"command has source {command.source!r}, must be POLICY; the human comes in by teleop samples"
        return _malformed(text)
    if command.frame not in FRAMES:
        return _malformed(f"frame of command is {command.frame!r}, must be one of {FRAMES} or what TF calls them")
    return check_vector("twist of command", command.twist, 6) or check_opening("command", command.gripper)


def check_teleop(sample: TeleopSample) -> Refusal | None:
    """Refuse a sample whose twist is not within [-1, 1], or whose gripper press is not -1, 0 or 1."""
    if sample.gripper not in (-1, 0, 1):
        return _malformed(f"gripper of teleop sample is {sample.gripper}, must be -1, 0 or 1")
    return check_vector("twist of teleop sample", sample.twist, 6, 1.0 + 1e-6)


def check_state(state: RobotState, joints: int) -> Refusal | None:
    """Refuse a state that is not finite or has not that many joints (0: any); a pose checks itself when it is built."""
    return (
        check_vector("twist of state", state.twist, 6)
        or check_vector("wrench of state", state.wrench, 6, 1e4)
        or check_vector("joints of state", state.joints_rad, joints or len(state.joints_rad))
        or check_vector("joint speeds of state", state.joint_speeds_rad_s, joints or len(state.joint_speeds_rad_s))
        or check_opening("state", state.gripper, slack=0.1)
    )


def check_opening(name: str, opening: float | None, slack: float = 0.0) -> Refusal | None:
    """Refuse an opening of a gripper that is not in [0, 1]; None asks for nothing."""
    if opening is None or -slack <= opening <= 1.0 + slack:
        return None
    return _malformed(f"gripper of {name} is {opening}, must be within 0 to 1")


def _malformed(text: str) -> Refusal:
    return Refusal(kind=RefusalKind.MALFORMED, text=text)
