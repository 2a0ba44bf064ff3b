"""The choice between an operator at the console's page and the scripted one: the page goes first. Pure."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from robot_stack.nodes.teleop.scripted_operator import OperatorRoutine
from robot_stack.teleop.device import LOST_NS
from robot_stack.teleop.selection import ArmSelector
from robot_stack.types.interfaces import TeleopDevice
from robot_stack.types.robot import TeleopSample

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
