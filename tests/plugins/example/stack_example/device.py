"""A dial that turns the tool; its button is the deadman."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from robot_stack.config.teleop import HandTeleop
from robot_stack.teleop.reading import DevicePart, Reading


class DialTeleop(HandTeleop):
    """A dial on the desk."""

    device: Literal["example_dial"]
    """Kind of device."""
    turn: Annotated[float, Field(ge=-1, le=1)] = 0.5
    """Deflection about z; a real dial would be read."""
    deadman: Literal["button"] = "button"
    """What must be held."""


class DialReader:
    """The reader of the dial; implements `Reader`."""

    name = "example dial"
    problem = ""

    def __init__(self, config: DialTeleop) -> None:
        self._axes = np.array([0, 0, 0, 0, 0, config.turn], np.float64)
        self._begun_ns: int | None = None

    def poll(self, now_ns: int) -> Reading:
        """Return what an operator does: nothing for a second, then the button, half a second later the dial too."""
        self._begun_ns = now_ns if self._begun_ns is None else self._begun_ns
        since_s = (now_ns - self._begun_ns) / 1e9
        pressed = frozenset({"deadman"}) if since_s > 1.0 else frozenset()
        return Reading(axes=self._axes * (since_s > 1.5), held=pressed)


DEVICE = DevicePart(config=DialTeleop, reader=DialReader)
