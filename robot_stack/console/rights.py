"""Rights of a page in a run. On a real cell it can hold, label and reset, never move, arm or clear. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robot_stack.config.resolved import ResolvedRun
from robot_stack.config.teleop import page_hand
from robot_stack.console.messages import CLEAR_STOP

ENABLING = ("arm", CLEAR_STOP)
"""Presses that let the arm move again."""
DISMISS = "dismiss"
"""The press that lets a policy go on that asks for help."""


SCRIPTED = "The scripted operator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """Rights that every page of a run has.

    Attributes:
        enable: Whether it may arm, resume and clear a stop.
        drive: Whether it may move the arms.
        dismiss: Whether it may let a policy go on that asks for help: not a real arm that is kept still.
        grips: Whether one of them has a gripper that is used.
        device: Who drives where no page does, in words.
    """

    enable: bool
    drive: bool
    arms: Sequence[str]
    grips: bool
    device: str
    dismiss: bool = True

    @classmethod
    def of(cls, run: ResolvedRun) -> Rights:
        """Derive the rights from the configuration of a run."""
        simulated = run.simulated
        moved = any(page_hand(teleop) is not None for teleop in run.teleops.values())
        scripted = any(teleop.device == "scripted" for teleop in run.teleops.values())
        return cls(
            enable=simulated,
            drive=simulated and moved,
            arms=tuple(run.robots),
            grips=any(arm.action.gripper != "none" for arm in run.arms.values()),
            device=SCRIPTED if scripted else "The device at the robot",
            dismiss=simulated or run.run.asking is None or not run.run.asking.hold,
        )

    @property
    def scripted(self) -> bool:
        """Return whether a script is the operator at the robot, so that nobody there reads a page."""
        return self.device == SCRIPTED

    def refuse_press(self, what: str) -> str:
        """Return why a key or button of the page does nothing in this run, or ""."""
        if what in ENABLING and not self.enable:
            return f"{what} is pressed on a page, must be pressed at the robot on a real cell; use the device there"
        if what == DISMISS and not self.dismiss:
            return "dismiss lets the policy move a real arm again, must be pressed at the robot; use the device"
        return ""

    def refuse_move(self) -> str:
        """Return why the page moves no arm in this run, or ""."""
        if self.drive:
            return ""
        if not self.enable:
            return "the arm is real, must be moved by the device at the robot; a page can hold, label and reset"
        return "the run's device takes no page, must be 'browser' or 'scripted' with 'page'; set cell.teleop=browser"
