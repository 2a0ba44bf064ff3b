"""The last check before the motors: on the robot's side, in another process than the safety filter."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from robot_stack.control.safety.checks import check_age, check_opening, check_vector
from robot_stack.control.safety.publisher_guard import PublisherGuard
from robot_stack.types.command import MOVING_MODES, Mode
from robot_stack.types.reason import Refusal, RefusalKind

BRAKING_NS = 1_000_000_000
"""After the last moving mode a safety process brakes, or backs out of a contact, for no longer than this."""
AIMING_MODES = (*MOVING_MODES, Mode.HOLD)
"""In these an arm keeps the target that it was driven to. In every other mode it aims at nothing but where it is:
somebody may lead it elsewhere, or free it of what it was blocked by."""
ROUNDING = 1e-3
"""Share of a hard limit that a sum of rounded numbers may exceed it by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HardLimits:
    """The highest TCP speeds that a command may ask of a type of arm, from its robot file, m/s and rad/s."""

    speed_m_s: float = 1.0
    rotation_speed_rad_s: float = 3.0


class OutputWatchdog:
    """Passes the newest safety command on while it is fresh, of one safety process, and within the hard limits.

    Args:
        timeout_s: Age at which a command no longer counts.
        topic: Where commands come from, for sentences.
        limits: Of the arm.
    """

    def __init__(self, timeout_s: float, topic: str = "safety/cmd", limits: HardLimits = HardLimits()) -> None:
        self.counters: Counter[str] = Counter()
        """How often: rejected, timeout."""
        self.last_rejection = ""
        self.gripper: float | None = None
        """Newest wanted opening in [0, 1]; None before the first, and while nothing may move."""
        self._senders = PublisherGuard()
        self._topic = topic
        self._limits = limits
        self._timeout_ns = round(timeout_s * 1e9)
        self._twist = np.zeros(6)
        self._stamp_ns = self._gripper_ns = self._moving_ns = 0
        self._mode = Mode.DISARMED
        self._fresh = False

    def offer(
        self, twist: np.ndarray, stamp_ns: int, now_ns: int, *, session: str | None, mode: Mode
    ) -> Refusal | None:
        """Take a command of the safety process, or refuse it.

        Args:
            twist: Shape (6,), m/s and rad/s, tcp frame.
            stamp_ns: When it was decided.
            now_ns: Steady clock.
            session: Of the process that sealed it; None for a stranger's.
            mode: State of control by which it was decided.
        """
        refusal = (
            check_age("safety command", stamp_ns, now_ns, self._timeout_ns / 1e9)
            or self._senders.refusal(self._topic, session, now_ns)
            or check_vector("twist of safety command", twist, 6)
            or self._repeated(stamp_ns, self._stamp_ns)
            or self._too_fast(twist)
            or self._unasked(twist, mode, stamp_ns)
        )
        if refusal:
            return self._refuse(refusal)
        if mode in MOVING_MODES:
            self._moving_ns = stamp_ns
        else:
            self.gripper = None
        self._twist, self._stamp_ns, self._mode, self._fresh = twist.copy(), stamp_ns, mode, True
        return None

    def offer_gripper(
        self, opening: float | None, stamp_ns: int, now_ns: int, *, session: str | None
    ) -> Refusal | None:
        """Take a wanted opening of the gripper, or refuse it.

        It counts as a command of motion does, and only while the safety process is heard and lets somebody drive.

        Args:
            opening: In [0, 1]; None for what is no number.
            stamp_ns: When it was decided.
            now_ns: Steady clock.
            session: Of the process that sealed it; None for a stranger's.
        """
        refusal = (
            check_age("gripper command", stamp_ns, now_ns, self._timeout_ns / 1e9)
            or self._senders.refusal(self._topic, session, now_ns)
            or check_opening("safety command", float("nan") if opening is None else opening)
            or self._repeated(stamp_ns, self._gripper_ns)
        )
        if not refusal and not (self.fresh(now_ns) and self._mode in MOVING_MODES):
            text = f"gripper command came in {self._mode}, must come while somebody drives"
            refusal = Refusal(kind=RefusalKind.WRONG_MODE, text=text)
        if refusal:
            return self._refuse(refusal)
        self.gripper, self._gripper_ns = opening, stamp_ns
        return None

    def refuse(self, refusal: Refusal) -> None:
        """Count a safety command that nobody could read as rejected."""
        self._refuse(refusal)

    def twist(self, now_ns: int) -> np.ndarray:
        """Return the twist that the robot may follow now, shape (6,); zeros without a fresh command."""
        return self._twist.copy() if self.fresh(now_ns) else np.zeros(6)

    def fresh(self, now_ns: int) -> bool:
        """Return whether the safety process is heard, and nobody beside it."""
        if self._fresh and now_ns - self._stamp_ns > self._timeout_ns:
            self._fresh = False
            self.gripper = None
            self.counters["timeout"] += 1
        if self.contested(now_ns) is not None:
            self.gripper = None
            return False
        return self._fresh

    def aims(self, now_ns: int) -> bool:
        """Return whether the arm follows a target: the safety process is heard, and drives, holds or brakes."""
        return self.fresh(now_ns) and (self._mode in AIMING_MODES or bool(self._twist.any()))

    def contested(self, now_ns: int) -> Refusal | None:
        """Name a second safety process, or a stranger."""
        return self._senders.contested(now_ns)

    def reset(self) -> None:
        """Forget the last command, as after a reset of the scene."""
        self._fresh, self.gripper = False, None

    def _refuse(self, refusal: Refusal) -> Refusal:
        self.counters["rejected"] += 1
        self.last_rejection = refusal.text
        return refusal

    def _repeated(self, stamp_ns: int, newest_ns: int) -> Refusal | None:
        if stamp_ns > newest_ns:
            return None
        text = "safety command is not newer than the last one; is it sent again, or is there a second safety process?"
        return Refusal(kind=RefusalKind.REPEATED, text=text)

    def _too_fast(self, twist: np.ndarray) -> Refusal | None:
        limits = self._limits
        for name, half, largest, unit in (
            ("speed", twist[:3], limits.speed_m_s, "m/s"),
            ("rotation speed", twist[3:], limits.rotation_speed_rad_s, "rad/s"),
        ):
            size = float(np.linalg.norm(half))
            if size > largest * (1.0 + ROUNDING):
                text = (
                    f"{name} of safety command is {size:.3f} {unit}, must be at most {largest:g} by the robot "
                    "file; lower it in the safety file"
                )
                return Refusal(kind=RefusalKind.LIMIT, text=text)
        return None

    def _unasked(self, twist: np.ndarray, mode: Mode, stamp_ns: int) -> Refusal | None:
        """Refuse motion outside POLICY and HUMAN, except within a second after one of them, to brake or back out."""
        if mode in MOVING_MODES or not twist.any():
            return None
        if self._moving_ns and stamp_ns - self._moving_ns <= BRAKING_NS:
            return None
        text = f"safety command moves in {mode}, must be zero there; look after the safety process"
        return Refusal(kind=RefusalKind.WRONG_MODE, text=text)
