"""The Protocols at which the parts meet. The same control loop runs over DDS and in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np

from robot_stack.types.command import Mode, Source
from robot_stack.types.event import Label, Verdict
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.reason import Refusal
from robot_stack.types.reward import LiveScore
from robot_stack.types.robot import RobotState, TeleopSample
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step


class Clock(Protocol):
    """Monotonic time. Steady: never follows /clock or wall-clock jumps."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary start."""
        ...

    def sleep_until_ns(self, when_ns: int) -> None:
        """Return at `when_ns`, or at once if it has passed."""
        ...


class Robot(Protocol):
    """One arm: real driver or simulation."""

    def state(self) -> RobotState:
        """Newest state."""
        ...

    def command(self, twist: np.ndarray, gripper: float | None) -> None:
        """Follow a tcp-frame twist (6,) in m/s and rad/s until the next call; zeros hold the pose."""
        ...


class TeleopDevice(Protocol):
    """A SpaceMouse, gamepad, keyboard, leader arm, or a scripted operator."""

    def sample(self, now_ns: int) -> TeleopSample:
        """What the operator does now."""
        ...


class ExecutedWindow(Protocol):
    """What an arm did since the last control tick, as the safety filter reports it."""

    twist: np.ndarray
    """Mean executed twist, float64, shape (6,), tcp frame, m/s and rad/s."""
    gripper: float | None
    human_twist: np.ndarray
    """Mean twist the human asked for, same shape; zeros where not engaged."""
    human_gripper: int
    source: Source
    clipped: bool


class Cell(Protocol):
    """What the control loop senses and moves: over DDS, or MuJoCo in this process.

    Any method may raise RobotError; the loop then holds and ends the episode with FAULT.
    """

    def observe(self) -> Observation | None:
        """The newest synchronised observation, or None while a part is missing, stale or skewed."""
        ...

    def send(self, action: np.ndarray) -> None:
        """Offer a policy action, float32 (A,) over all arms, to the arbiter."""
        ...

    def executed(self) -> Mapping[str, ExecutedWindow]:
        """What each arm executed since the previous call, in the order of the spec."""
        ...

    def mode(self) -> Mode:
        """State of control, one for all arms."""
        ...

    def reason(self) -> Refusal | None:
        """Why it is in HOLD or STOP."""
        ...

    def events(self) -> tuple[str, ...]:
        """Events an operator sent since the previous call, out of `EVENTS`."""
        ...

    def reset(self, seed: int, *, backward: bool = False, scene: bool = True) -> None:
        """Bring arms and scene to a start state; returns when the arms are ready, at rest and freshly observed.

        Args:
            seed: Of what is drawn.
            backward: It is the way back that begins, see `ResetType.BACK`.
            scene: Whether the objects are put back; False leaves them, and the arms too unless they have a start.
        """
        ...

    def start(self, episode_id: str, kind: EpisodeKind) -> None:
        """An episode begins: from here on the policy (or, in a demo, the human alone) may move the arms."""
        ...

    def claim(self, verdict: Verdict) -> None:
        """Tell the operator what the model claims about the episode, so that it can be refused."""
        ...

    def finish(self) -> None:
        """The episode is over: the arms hold."""
        ...

    def truth(self) -> bool | None:
        """Simulator's truth of success for audits, None on a real cell. Never used to train or act."""
        ...


class StepSink(Protocol):
    """Where recorded steps go: the gRPC client with its spool, or an episode store in this process."""

    def begin(self, header: EpisodeHeader) -> None:
        """Announce an episode."""
        ...

    def push(self, step: Step) -> None:
        """Hand over one step; never blocks on network or disk."""
        ...

    def label(self, label: Label) -> None:
        """Hand over a verdict."""
        ...


class ParamsSource(Protocol):
    """Where new parameters come from."""

    def latest(self) -> Params | None:
        """Newest parameters not yet taken, or None; never blocks."""
        ...


class ScoreSource(Protocol):
    """Where live scores come from."""

    def newest(self, episode_id: str) -> LiveScore | None:
        """Newest score of that episode, or None; never blocks."""
        ...


class Policy(Protocol):
    """Acts. Remembers the tick of the episode, what it planned, and its own random generator."""

    @property
    def version(self) -> int:
        """Of the parameters in use."""
        ...

    @property
    def age_s(self) -> float:
        """Seconds since they arrived; 0 for fixed ones."""
        ...

    def begin_episode(self) -> None:
        """A new episode: ticks count from 0 and what was planned is void."""
        ...

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        """Action float32 (A,) in [-1, 1]; `interrupted`: someone else moved the robot since, plans are void."""
        ...
