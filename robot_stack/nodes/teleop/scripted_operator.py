"""The scripted operator at the teleop device, who drives, judges, arms the cell, resumes, and gives way to a page."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from sensor_msgs.msg import JointState

from robot_stack.config.resolved import ResolvedRun
from robot_stack.nodes import topics
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.conversion import mode_from_text, stamp_ns_of, vector_from_msg
from robot_stack.nodes.episode_status import EpisodeStatus, Phase
from robot_stack.nodes.qos import EVERY, SAMPLED
from robot_stack.nodes.sealed_text import listen_to_text
from robot_stack.nodes.seeing import seen_from_vector
from robot_stack.teleop.device import LOST_NS
from robot_stack.teleop.selection import ArmSelector
from robot_stack.types.command import Mode
from robot_stack.types.help import HelpRequest
from robot_stack.types.interfaces import TeleopDevice
from robot_stack.types.reason import RefusalKind
from robot_stack.types.robot import TeleopSample
from robot_stack.workcell.build import build_operator
from robot_stack.workcell.local_cell import ROLES
from sim.hands import Seen
from sim.operator import Role, ScriptedOperator

PATIENCE_NS = {Mode.DISARMED: 300_000_000, Mode.HOLD: 1_000_000_000}
"""How long an operator looks at a cell that waits for them before they press the key. A STOP they never clear, and a
cell in which one was cleared they do not arm: whoever cleared it says when it may move again."""
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
        self._stopped = False

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

    def hear_call(self, on: bool, now_ns: int) -> None:
        """Take in that the policy asks for help, or no longer does."""
        self._operator.call(on, now_ns)

    def read_banner(self, mode: Mode, now_ns: int, reason: RefusalKind | None = None) -> None:
        """Read the mode that the safety filter shows, and why."""
        if mode is not self._mode:
            self._stopped = mode is Mode.STOP or (self._stopped and mode is Mode.DISARMED)
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
        if self._mode is None or self._stopped:
            return self._operator.hold_still(now_ns)
        patience_ns = OWNERLESS_NS if self._of_a_page else PATIENCE_NS.get(self._mode)
        if patience_ns is None:
            return self._operator.sample(now_ns, self._mode)
        pressed = now_ns - self._since_ns >= patience_ns
        if pressed:
            self._since_ns = now_ns
        return self._operator.hold_still(now_ns, events=("arm",) if pressed else ())


REST_NS = 1_000_000_000
"""After the page has let go the scripted operator waits this long before taking the arm again."""


class PageFirst:
    """Chooses at each sample whether the page's or the scripted operator's hand is on the arms, never both.

    Args:
        page: The page's device.
        selector: Which arm the page drives.
        operator: The scripted operator, who goes on watching and judging meanwhile.
    """

    def __init__(self, page: TeleopDevice, selector: ArmSelector, operator: OperatorRoutine) -> None:
        self._page = page
        self._selector = selector
        self._operator = operator
        self._driving = False
        self._lost_until_ns = 0
        self._rest_until_ns = 0

    def sample(self, now_ns: int) -> dict[str, TeleopSample]:
        """Return the operator's sample for each arm. A page that vanishes while it drives is a lost device."""
        page = self._page.sample(now_ns)
        if not page.lost:
            self._operator.share(now_ns)
        if page.deadman and not self._driving:
            self._operator.step_back()
        if self._driving and not page.deadman:
            self._rest_until_ns = now_ns + REST_NS
            self._lost_until_ns = now_ns + LOST_NS if page.lost else 0
        self._driving = page.deadman
        routed = self._selector.route(page)
        if now_ns < self._lost_until_ns:
            routed = self._selector.route(TeleopSample(stamp_ns=now_ns, twist=np.zeros(6), lost=True))
        elif not page.deadman and now_ns >= self._rest_until_ns:
            return self._operator.sample(now_ns)
        elif page.lost:
            return self._operator.rest(now_ns)
        return _with_words(routed, self._operator.rest(now_ns))


def _with_words(hands: dict[str, TeleopSample], operator: dict[str, TeleopSample]) -> dict[str, TeleopSample]:
    return {arm: replace(sample, events=(*sample.events, *operator[arm].events)) for arm, sample in hands.items()}


def connect_operator(node: StackNode, run: ResolvedRun) -> OperatorRoutine:
    """Build the scripted operator and subscribe its eyes and ears to the topics."""
    operator = OperatorRoutine(build_operator(run, run.run.seed))

    def on_seen(msg: JointState) -> None:
        operator.see(seen_from_vector(vector_from_msg(msg), stamp_ns_of(msg.header)))

    def on_mode(text: str) -> None:
        mode, reason = mode_from_text(text)
        operator.read_banner(mode, time.monotonic_ns(), None if reason is None else reason.kind)

    def on_help(text: str) -> None:
        operator.hear_call(HelpRequest.from_text(text) is not None, time.monotonic_ns())

    node.create_subscription(JointState, topics.SEEN, on_seen, SAMPLED)
    listen_to_text(node, topics.MODE, on_mode)
    listen_to_text(node, topics.STATUS, lambda text: operator.follow(EpisodeStatus.from_text(text)))
    listen_to_text(node, topics.CLAIM, lambda _: operator.hear_claim(time.monotonic_ns()), EVERY)
    listen_to_text(node, topics.HELP, on_help)
    return operator
