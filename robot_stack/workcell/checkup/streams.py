"""Checks of rates and ages: does what should arrive steadily do so, and is it fresh?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from robot_stack.config.camera import CameraConfig, SimCameraConfig
from robot_stack.config.resolved import ResolvedRun, RunArm
from robot_stack.config.teleop import TeleopConfig
from robot_stack.control.safety.tracking import CONTACT_N
from robot_stack.types.command import Mode
from robot_stack.types.finding import Finding
from robot_stack.types.reason import Fault, Refusal
from robot_stack.types.robot import RobotState
from robot_stack.types.spec import AXES
from robot_stack.workcell.checkup.finding import fail, ok, warn

TOO_SLOW, SLOW = 0.8, 0.95
"""Shares of the wanted rate."""
NEARLY_STALE = 0.7
"""Share of the allowed age."""
DARK = 8.0
"""Mean of an image, of 255, below which nobody sees anything in it."""
AT_REST = 0.05
"""Deflection of an axis that nobody touches."""


@dataclass(slots=True, kw_only=True)
class Stream:
    """The messages that arrived on one topic, by their times.

    Attributes:
        arrived_ns: When, on the monotonic clock.
        captured_ns: The messages' own stamps, on the same clock.
    """

    arrived_ns: list[int] = field(default_factory=list)
    captured_ns: list[int] = field(default_factory=list)

    def add(self, arrived_ns: int, captured_ns: int) -> None:
        """Add the times of one message."""
        self.arrived_ns.append(arrived_ns)
        self.captured_ns.append(captured_ns)

    @property
    def rate_hz(self) -> float:
        """Return the rate over the whole time; 0 for fewer than two messages."""
        span_ns = self.arrived_ns[-1] - self.arrived_ns[0] if len(self.arrived_ns) > 1 else 0
        return (len(self.arrived_ns) - 1) * 1e9 / span_ns if span_ns > 0 else 0.0

    @property
    def age_p99_s(self) -> float:
        """Return the 99th percentile of the age from capture to arrival."""
        return float(np.percentile(np.subtract(self.arrived_ns, self.captured_ns), 99)) / 1e9

    @property
    def longest_gap_s(self) -> float:
        """Return the longest time between two messages; infinite for fewer than two."""
        return float(np.diff(self.arrived_ns).max()) / 1e9 if len(self.arrived_ns) > 1 else float("inf")


@dataclass(slots=True, kw_only=True)
class CameraStream(Stream):
    """The images that arrived from one camera.

    Attributes:
        size: "64x64", of the last one.
        frozen: The run of identical ones for which it counts as frozen, in words; "" if there was none.
        brightness: Mean of the last one, of 255.
    """

    size: str = ""
    frozen: str = ""
    brightness: float = 255.0


def judge_camera(name: str, stream: CameraStream, config: CameraConfig, logs: Path) -> Finding:
    """Judge one camera: rate, age, repeated images and brightness; `logs` is the folder of the processes' logs."""
    if len(stream.arrived_ns) < 2:
        return fail("camera", f"{name}: no image; read {logs}/camera_{name}.log, check its cable and serial number")
    if min(stream.captured_ns) <= 0:
        return fail("camera", f"{name}: stamps are not set, must be the time of capture; correct its driver")
    rate_hz, age_ms, limit_ms = stream.rate_hz, stream.age_p99_s * 1e3, config.max_age_s * 1e3
    measured = f"{name} {rate_hz:.1f} Hz, age p99 {age_ms:.0f} ms, {stream.size}"
    if rate_hz < TOO_SLOW * config.rate_hz:
        drawn = isinstance(config, SimCameraConfig)
        remedy = "end other programs here" if drawn else "is it on a slow USB port, or exposing for long in the dark?"
        return fail("camera", f"{name} {rate_hz:.1f} Hz, must be {config.rate_hz:g}; {remedy}")
    if age_ms > limit_ms:
        return fail("camera", f"{measured}, must be below {limit_ms:g} ms; is the machine busy, or the link slow?")
    if stream.frozen:
        return fail("camera", f"{name} is frozen: {stream.frozen}; replug it")
    if age_ms > NEARLY_STALE * limit_ms:
        return warn("camera", f"{measured}; at {limit_ms:g} ms the robot holds")
    if stream.brightness < DARK:
        return warn("camera", f"{measured}, but dark; is the cap on, or the light off?")
    if rate_hz < SLOW * config.rate_hz:
        return warn("camera", f"{measured}; it should be {config.rate_hz:g} Hz")
    return ok("camera", measured)


def judge_state(
    stream: Stream, state: RobotState | None, fault: Fault | None, run: ResolvedRun, arm: RunArm, logs: Path
) -> list[Finding]:
    """Judge an arm's state: rate, age, fault, and whether the TCP is where it may be; `logs` as in `judge_camera`."""
    name, limit_s = arm.name, run.safety.state_timeout_s
    if state is None or len(stream.arrived_ns) < 2:
        return [fail("robot", f"{name}: no state; read {logs}/robot.log, is the robot's driver running?")]
    gap_ms, age_ms = stream.longest_gap_s * 1e3, stream.age_p99_s * 1e3
    measured = f"{name} state {stream.rate_hz:.0f} Hz, longest gap {gap_ms:.0f} ms, age p99 {age_ms:.1f} ms"
    if fault:
        return [fail("robot", f"{name} reports: {fault}; clear it at the robot")]
    if age_ms > limit_s * 1e3:
        found = fail("robot", f"{measured}, must be younger than {limit_s * 1e3:g} ms; are the hosts' clocks aligned?")
    elif gap_ms > limit_s * 1e3:
        found = warn("robot", f"{measured}; a gap above {limit_s * 1e3:g} ms holds the robot")
    else:
        found = ok("robot", f"{measured}, no fault")
    return [found, _inside_box(state, arm), *_force_at_rest(state, name)]


def _force_at_rest(state: RobotState, name: str) -> Iterator[Finding]:
    """Warn of a force that an arm feels although nobody drives it."""
    felt_n = float(np.linalg.norm(state.wrench[:3]))
    if felt_n >= CONTACT_N:
        text = f"{name} feels {felt_n:.0f} N while it stands, must be below {CONTACT_N:g} N unless it touches something"
        yield warn("force", f"{text}; set the payload of its tool and zero its force sensor, by the robot's own means")


def _inside_box(state: RobotState, arm: RunArm) -> Finding:
    position, box = state.T_base_tcp.position_m, arm.workspace
    for axis, at, low, high in zip("xyz", position, box.min_m, box.max_m, strict=True):
        if not low <= at <= high:
            where = f"TCP of {arm.name} is at {axis} = {at:.3f} m, must be within {low:g} to {high:g}"
            return warn("workspace", f"{where}; only inward motion will pass")
    return ok("workspace", f"TCP of {arm.name} at {', '.join(f'{at:.3f}' for at in position)} m is inside the box")


def judge_safety(stream: Stream, mode: tuple[Mode, Refusal | None] | None, run: ResolvedRun, logs: Path) -> Finding:
    """Judge the safety filter: does it decide at its rate, and does it say it is fine? `logs` as in `judge_camera`."""
    if mode is None or len(stream.arrived_ns) < 2:
        return fail("safety", f"no decisions; read {logs}/safety.log, nothing can move without it")
    measured = f"decides at {stream.rate_hz:.0f} Hz, mode {mode[0]}"
    if stream.rate_hz < TOO_SLOW * run.safety.rate_hz:
        return fail("safety", f"{measured}, must be {run.safety.rate_hz:g} Hz; the machine is too busy")
    if mode[0] is Mode.STOP:
        return warn("safety", f"{measured}: {mode[1]}; look at the cell, then clear the stop")
    return ok("safety", measured)


def judge_teleop(
    stream: Stream, rest: Mapping[str, float], logs: Path, *, deadman: bool, config: TeleopConfig
) -> Finding:
    """Judge the teleop device while nobody touches it.

    Args:
        stream: Its samples.
        rest: Axis -> mean deflection while nobody touches it.
        logs: Folder of the processes' logs.
        deadman: Whether it was seen pressed.
        config: Of the device.
    """
    device, rate_hz = config.device, config.rate_hz
    if len(stream.arrived_ns) < 2:
        return fail("teleop", f"{device}: no samples; read {logs}/teleop.log, is it plugged in, and readable by you?")
    measured = f"{device} {stream.rate_hz:.0f} Hz"
    drifting = [f"{axis} {value:+.2f}" for axis, value in rest.items() if abs(value) > AT_REST]
    if stream.rate_hz < TOO_SLOW * rate_hz:
        return fail("teleop", f"{measured}, must be {rate_hz:g} Hz; the machine is too busy")
    if deadman:
        return warn("teleop", f"{measured}, but its deadman is pressed; nobody should hold it now")
    if drifting:
        return warn("teleop", f"{measured}, but at rest it reads {', '.join(drifting)}; let go, or calibrate it")
    return ok("teleop", f"{measured}, at rest")


def axis_means(samples: Sequence[np.ndarray]) -> dict[str, float]:
    """Return the mean of samples for each axis, the samples each of shape (6,)."""
    if not len(samples):
        return {}
    return {axis: float(value) for axis, value in zip(AXES, np.mean(np.stack(list(samples)), axis=0), strict=True)}
