"""What the score of an insertion reads of an episode: where tool and plug were, what was felt, and what was touched."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from robot_stack.types.errors import SpecError


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertionState:
    """The truth about a plug at one instant, as a simulated task tells it.

    Attributes:
        plug_m: The plug's tip from where it is fully in, z out of the socket, float64, shape (3,).
        depth_m: From there to the socket's rim.
        forbidden: Whether the arm or the plug touches what it must not.
    """

    plug_m: np.ndarray
    depth_m: float
    forbidden: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InsertionRecord:
    """An episode of an insertion at N instants, from its start to its end.

    Attributes:
        times_s: Rising, float64, shape (N,).
        tcp_m: The tool's position, shape (N, 3).
        velocity_m_s: The tool's velocity at each step of the simulation, shape (M, 3).
        velocity_step_s: From one of these to the next.
        plug_m: The plug's tip from where it is fully in, z out of the socket, shape (N, 3).
        force_n: Size of the measured force, tared at the start, shape (N,).
        forbidden: Whether something was touched that must not be, bool, shape (N,).
        depth_m: From where the plug is fully in to the socket's rim.
        inserted: Whether it was fully in at the end.

    Raises:
        SpecError: If it is empty, has arrays of other shapes, a number that is not finite, or time that does not rise.
    """

    times_s: np.ndarray = field(repr=False)
    tcp_m: np.ndarray = field(repr=False)
    velocity_m_s: np.ndarray = field(repr=False)
    velocity_step_s: float
    plug_m: np.ndarray = field(repr=False)
    force_n: np.ndarray = field(repr=False)
    forbidden: np.ndarray = field(repr=False)
    depth_m: float
    inserted: bool

    def __post_init__(self) -> None:
        count = len(self.times_s)
        if count == 0:
            raise SpecError("record of an insertion is empty, must have an instant at least; run the episode first")
        wanted = {"times_s": (count,), "tcp_m": (count, 3), "plug_m": (count, 3), "force_n": (count,)}
        wanted["velocity_m_s"] = (len(self.velocity_m_s), 3)
        for name, shape in (wanted | {"forbidden": (count,)}).items():
            if np.shape(getattr(self, name)) != shape:
                raise SpecError(
                    f"{name} has shape {np.shape(getattr(self, name))}, must be {shape}, an entry for each of times_s; "
                    "record all at the same instants"
                )
        for name, shape in wanted.items():
            bad = ~np.isfinite(getattr(self, name)).reshape(shape[0], -1).all(axis=1)
            if bad.any():
                raise SpecError(
                    f"{name} is not finite at instant {int(bad.argmax())}, must be finite throughout; an episode with "
                    "a broken measurement has no score, leave it out"
                )
        if (np.diff(self.times_s) <= 0).any():
            at = int((np.diff(self.times_s) <= 0).argmax()) + 1
            raise SpecError(f"times_s does not rise at instant {at}, must rise; record each instant once, in order")
        if not (np.isfinite(self.velocity_step_s) and self.velocity_step_s > 0):
            raise SpecError(f"velocity_step_s is {self.velocity_step_s}, must be above 0; give the simulation's step")
        if not (np.isfinite(self.depth_m) and self.depth_m > 0):
            raise SpecError(f"depth_m is {self.depth_m}, must be above 0; give the way from the rim to fully in")
