"""The command log: a file of what reached the robot, with every decision, twist, state, limit, fault and mode.

One JSON value a line, gzip. The first is the header, each further one a list that begins with its kind:
"d" decision, "a" applied twist, "s" state, "l" limits, "f" the arm's fault, "m" safety/mode. A file that ends in the
middle of a line, because its writer was killed, is read up to there. The stamps of "d", "a" and "s" are those of the
messages, of the others the arrival; all on the steady clock. A cell of several arms has a file of each.
"""

from __future__ import annotations

import gzip
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from robot_stack.control.audit.replay_checker import AppliedTwist, LoggedTick
from robot_stack.control.kinematics.body import ArmBody
from robot_stack.control.safety.limits import JointLimit, SafetyLimits
from robot_stack.disk.jsonl import JsonLines, parse_jsonl
from robot_stack.types.command import Clamp, Command, Decision, Mode, Source
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.pose import Pose
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.types.robot import RobotState

FORMAT = 3
"""3: limits have brakes and torques; 2: faults have a kind."""
DIGITS = 7
"""Kept after the point: a tenth of a micrometre, and all that a label's float32 holds."""
ARRIVAL_NS = 20_000_000
"""From a state's stamp until the safety process has surely decided on it: two of its periods."""
BEFORE_JOINTS = 19
"""Numbers of a state before its joints: position 3, quaternion 4, twist 6, wrench 6; then angles, then speeds."""


@dataclass(slots=True, kw_only=True)
class RecordedLog:
    """A command log of one arm as read, by kind, each in time order.

    Attributes:
        arm: Its name.
        decisions: Of the safety process.
        applied: By the robot process.
        states: Of the arm.
        limits: (stamp_ns, limits in force from then on).
        faults: (stamp_ns, what the driver reports).
        modes: (stamp_ns, banner).
        whole: False if the file ends in the middle of a line.
    """

    arm: str
    decisions: list[Decision] = field(default_factory=list)
    applied: list[AppliedTwist] = field(default_factory=list)
    states: list[RobotState] = field(default_factory=list)
    limits: list[tuple[int, SafetyLimits]] = field(default_factory=list)
    faults: list[tuple[int, Fault | None]] = field(default_factory=list)
    modes: list[tuple[int, str]] = field(default_factory=list)
    whole: bool = True

    def ticks(self) -> list[LoggedTick]:
        """Pair each decision with the newest state it can have been based on, and the newest it must have been."""
        stamps = [state.stamp_ns for state in self.states]

        def newest(stamp_ns: int) -> RobotState | None:
            after = bisect_right(stamps, stamp_ns)
            return self.states[after - 1] if after else None

        return [
            LoggedTick(decision=each, state=newest(at_ns := each.command.stamp_ns), heard=newest(at_ns - ARRIVAL_NS))
            for each in self.decisions
        ]

    def spans(self) -> Iterator[tuple[SafetyLimits, Sequence[LoggedTick]]]:
        """Yield the limits that were in force, each with the ticks under it."""
        ticks = self.ticks()
        stamps = [tick.stamp_ns for tick in ticks]
        begins = [0, *(bisect_right(stamps, stamp_ns) for stamp_ns, _ in self.limits[1:]), len(ticks)]
        for (_, limits), first, last in zip(self.limits, begins, begins[1:]):
            yield limits, ticks[first:last]


class CommandLog:
    """A writer of a command log. A kill costs what came since the last `flush`."""

    def __init__(self, path: Path, *, arm: str, run: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = gzip.open(path, "wt", encoding="utf-8", compresslevel=1)  # noqa: SIM115 - until close()
        self._write({"format": FORMAT, "arm": arm, "run": run})

    def decision(self, decision: Decision) -> None:
        """Write a decision of the safety process."""
        command = decision.command
        twists = _rounded(command.twist, decision.requested)
        self._write(
            ["d", command.stamp_ns, str(decision.mode), int(decision.source), twists, command.gripper, decision.clamped]
        )

    def applied(self, twist: np.ndarray, stamp_ns: int) -> None:
        """Write the twist that the robot process gave to the motors."""
        self._write(["a", stamp_ns, _rounded(twist)])

    def state(self, state: RobotState) -> None:
        """Write a state that the arm reported."""
        pose = state.T_base_tcp
        parts = (pose.position_m, pose.quaternion_xyzw, state.twist, state.wrench)
        numbers = _rounded(*parts, state.joints_rad, state.joint_speeds_rad_s)
        self._write(["s", state.stamp_ns, numbers, state.gripper, _told(state.fault)])

    def limits(self, limits: SafetyLimits, stamp_ns: int) -> None:
        """Write the limits in force from now on."""
        self._write(["l", stamp_ns, asdict(limits)])

    def fault(self, fault: Fault | None, stamp_ns: int) -> None:
        """Write what the arm's driver reports as its fault."""
        self._write(["f", stamp_ns, _told(fault)])

    def mode(self, banner: str, stamp_ns: int) -> None:
        """Write the banner of safety/mode."""
        self._write(["m", stamp_ns, banner])

    def flush(self) -> None:
        """Hand what was written so far to the operating system."""
        self._file.flush()

    def close(self) -> None:
        """Finish and close the file."""
        self._file.close()

    def _write(self, entry: object) -> None:
        self._file.write(json.dumps(entry, separators=(",", ":")) + "\n")


def read_log(path: Path) -> RecordedLog:
    """Read a log as `CommandLog` wrote it.

    Raises:
        StoreError: If it is none, or a line in the middle is damaged.
    """
    lines = _lines(path)
    for where, why in lines.damaged.items():
        raise StoreError(f"{where} of {path.parent} is damaged ({why}), must be a line of a command log")
    header = lines.rows[0] if lines.rows else None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise StoreError(f"{path} is no command log of format {FORMAT}, must be; give a file of runs/NAME/commands")
    log = RecordedLog(arm=str(header["arm"]), whole=not lines.torn)
    for number, entry in enumerate(lines.rows[1:], start=2):
        try:
            _take(log, entry)
        except (IndexError, KeyError, TypeError, ValueError, SpecError) as error:
            raise StoreError(f"{path}:{number} is damaged ({error!r}), must be a line of a command log") from error
    if not log.limits:
        raise StoreError(f"{path} holds no limits, must hold those in force; the safety process was never heard")
    return log


def limits_from(plain: dict[str, Any]) -> SafetyLimits:
    """Build limits from what `dataclasses.asdict` made of them, also after JSON.

    Raises:
        ConfigError: If they exceed a hard cap.
    """
    body, zero = plain.get("body"), plain.get("yaw_zero_xyzw")
    return SafetyLimits(
        **{
            **plain,
            **{name: tuple(plain[name]) for name in ("box_min_m", "box_max_m")},
            "joints": tuple(JointLimit(**joint) for joint in plain["joints"]),
            "body": None if body is None else ArmBody.from_plain(body),
            "yaw_zero_xyzw": None if zero is None else tuple(zero),
        }
    )


def _lines(path: Path) -> JsonLines[Any]:
    try:
        with gzip.open(path, "rb") as file:
            return parse_jsonl(_as_far_as_it_goes(file), path.name, lambda entry: entry)
    except OSError as error:
        raise StoreError(f"{path} is unreadable ({error}), must be a command log") from error


def _as_far_as_it_goes(file: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a compressed file, and an empty one without its end where the file was torn."""
    try:
        yield from file
    except (EOFError, zlib.error):
        yield b""


def _take(log: RecordedLog, entry: list[Any]) -> None:
    kind, stamp_ns, *rest = entry
    if kind == "d":
        log.decisions.append(_decision(log.arm, stamp_ns, *rest))
    elif kind == "a":
        log.applied.append(AppliedTwist(stamp_ns=stamp_ns, twist=np.array(rest[0], dtype=np.float64)))
    elif kind == "s":
        log.states.append(_state(log.arm, stamp_ns, *rest))
    elif kind == "f":
        log.faults.append((stamp_ns, _fault(rest[0])))
    elif kind == "l":
        log.limits.append((stamp_ns, limits_from(rest[0])))
    elif kind == "m":
        log.modes.append((stamp_ns, str(rest[0])))
    else:
        raise ValueError(f"kind of entry is {kind!r}")


def _decision(
    arm: str, stamp_ns: int, mode: str, source: int, twists: list[float], gripper: float | None, clamped: list[str]
) -> Decision:
    executed, requested = np.array(twists, dtype=np.float64).reshape(2, 6)
    command = Command(arm=arm, twist=executed, gripper=gripper, stamp_ns=stamp_ns, source=Source(source))
    return Decision(
        command=command, mode=Mode(mode), source=Source(source), requested=requested, clamped=tuple(map(Clamp, clamped))
    )


def _state(arm: str, stamp_ns: int, numbers: list[float], gripper: float, fault: list[str] | None) -> RobotState:
    values = np.array(numbers, dtype=np.float64)
    joints, speeds = values[BEFORE_JOINTS:].reshape(2, -1)
    return RobotState(
        arm=arm,
        stamp_ns=stamp_ns,
        T_base_tcp=Pose(position_m=values[:3], quaternion_xyzw=values[3:7]),
        twist=values[7:13],
        wrench=values[13:19],
        joints_rad=joints,
        joint_speeds_rad_s=speeds,
        gripper=gripper,
        fault=_fault(fault),
    )


def _told(fault: Fault | None) -> list[str] | None:
    return None if fault is None else [fault.kind.name, fault.text]


def _fault(told: list[str] | None) -> Fault | None:
    return None if told is None else Fault(kind=FaultKind[told[0]], text=told[1])


def _rounded(*values: np.ndarray) -> list[float]:
    rounded: list[float] = np.round(np.concatenate(values), DIGITS).tolist()
    return rounded
