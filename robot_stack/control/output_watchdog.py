"""The last watchdog before the motors: on the robot's side, in another process than the safety filter."""

from __future__ import annotations

from collections import Counter

import numpy as np

from robot_stack.control.checks import check_age, check_vector
from robot_stack.control.senders import Senders


class OutputWatchdog:
    """Passes the newest safety command on while it is fresh and of one safety process, else zeros."""

    def __init__(self, timeout_s: float, topic: str = "safety/cmd") -> None:
        """Nothing is passed on yet.

        Args:
            timeout_s: Age at which a command no longer counts.
            topic: Where commands come from, for sentences.
        """
        self.counters: Counter[str] = Counter()
        """How often: rejected, timeout."""
        self.last_rejection = ""
        self._senders = Senders()
        self._topic = topic
        self._timeout_ns = round(timeout_s * 1e9)
        self._twist = np.zeros(6)
        self._stamp_ns = 0
        self._fresh = False

    def offer(self, twist: np.ndarray, stamp_ns: int, now_ns: int, session: str = "") -> str:
        """A command, shape (6,), m/s and rad/s, tcp frame; returns why it was refused, or ""."""
        refusal = check_vector("twist of safety command", twist, 6)
        refusal = refusal or check_age("safety command", stamp_ns, now_ns, self._timeout_ns / 1e9)
        refusal = refusal or self._senders.refusal(self._topic, session, now_ns)
        if not refusal and stamp_ns <= self._stamp_ns:
            refusal = "safety command is not newer than the last one; is there a second safety process?"
        if refusal:
            self.counters["rejected"] += 1
            self.last_rejection = refusal
            return refusal
        self._twist, self._stamp_ns, self._fresh = twist.copy(), stamp_ns, True
        return ""

    def twist(self, now_ns: int) -> np.ndarray:
        """What the robot may follow now, shape (6,)."""
        return self._twist.copy() if self.fresh(now_ns) else np.zeros(6)

    def fresh(self, now_ns: int) -> bool:
        """Whether the safety process is heard."""
        if self._fresh and now_ns - self._stamp_ns > self._timeout_ns:
            self._fresh = False
            self.counters["timeout"] += 1
        return self._fresh and not self.contested(now_ns)

    def contested(self, now_ns: int) -> str:
        """A sentence about a second safety process, for robot/fault, or ""."""
        return self._senders.contested(now_ns)

    def reset(self) -> None:
        """Forget the last command, as after a reset of the scene."""
        self._fresh = False
