"""The scripted operator as a whole: drives, judges, arms the cell, and resumes after a hold. Pure."""

from __future__ import annotations

from robot_stack.nodes.episode_status import EpisodeStatus, Phase
from robot_stack.types.command import Mode
from robot_stack.types.reason import RefusalKind
from robot_stack.types.robot import TeleopSample
from robot_stack.workcell.local_cell import ROLES
from sim.hands import Seen
from sim.operator import Role, ScriptedOperator

PATIENCE_NS = {Mode.DISARMED: 300_000_000, Mode.HOLD: 1_000_000_000}
"""How long an operator looks at a cell that waits for them before they press the key. A STOP they never clear."""
OWNERLESS_NS = 10_000_000_000
"""A HOLD of somebody at the console's page is theirs to end, until nobody has been at the page for so long."""
OF_A_PAGE = (RefusalKind.KEY, RefusalKind.TELEOP_LOST)
"""Kinds of reason of such a HOLD; the scripted operator presses no `hold`, and their own hands are never lost."""


class OperatorRoutine:
    """The routine of a cell around `ScriptedOperator`, which knows only how to do the task."""

    def __init__(self, operator: ScriptedOperator) -> None:
        self._operator = operator
        self._episode_id = ""
        self._mode: Mode | None = None
        self._since_ns = 0
        self._of_a_page = False

    def follow(self, status: EpisodeStatus) -> None:
        """Follow the actor's episode: watch through a reset, and begin the role of a new episode."""
        if status.phase is Phase.RESETTING:
            self._operator.begin(Role.WATCH, status.task_id)
            self._episode_id = ""
        elif status.phase is Phase.RUNNING and status.kind is not None and status.episode_id != self._episode_id:
            self._episode_id = status.episode_id
            self._operator.begin(ROLES[status.kind], status.task_id)

    def hear_claim(self, now_ns: int) -> None:
        """Take in the reward model's claim of success, which the operator may check."""
        self._operator.audit(now_ns)

    def read_banner(self, mode: Mode, now_ns: int, reason: RefusalKind | None = None) -> None:
        """Read the mode that the safety filter shows, and why."""
        if mode is not self._mode:
            self._mode, self._since_ns = mode, now_ns
        self._of_a_page = mode is Mode.HOLD and reason in OF_A_PAGE

    def share(self, now_ns: int) -> None:
        """Note that somebody sits at the console's page now, and leave them their HOLD."""
        if self._of_a_page:
            self._since_ns = now_ns

    def step_back(self) -> None:
        """Let go of the arms, as somebody at the page has taken one."""
        self._operator.let_go()

    def rest(self, now_ns: int) -> dict[str, TeleopSample]:
        """Return samples without any motion that still carry the operator's key events: eyes open, hands off."""
        told = self.sample(now_ns)
        return self._operator.hold_still(now_ns, events=next(iter(told.values())).events)

    def see(self, seen: Seen) -> None:
        """Take in what the operator's eyes see of the cell."""
        self._operator.see(seen)

    def sample(self, now_ns: int) -> dict[str, TeleopSample]:
        """Return the operator's sample for each arm.

        While the cell waits for a key, hands are off, and the key is pressed once per patience.
        """
        if self._mode is None:
            return self._operator.hold_still(now_ns)
        patience_ns = OWNERLESS_NS if self._of_a_page else PATIENCE_NS.get(self._mode)
        if patience_ns is None:
            return self._operator.sample(now_ns, self._mode)
        pressed = now_ns - self._since_ns >= patience_ns
        if pressed:
            self._since_ns = now_ns
        return self._operator.hold_still(now_ns, events=("arm",) if pressed else ())
