"""The Protocols between the parts of the stack. The same control loop runs over DDS and in one process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np

from robot_stack.types.command import Mode, Source
from robot_stack.types.event import Label, Verdict
from robot_stack.types.help import HelpRequest, Insight
from robot_stack.types.insertion import InsertionRecord
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.reason import Refusal
from robot_stack.types.reward import LiveScore
from robot_stack.types.robot import RobotState, TeleopSample
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step

TIME_IS_UP = "time is up"
"""The event by which a cell ends an episode at a time limit of its own."""


class Clock(Protocol):
    """A monotonic clock: steady, it never follows /clock or wall-clock jumps."""

    def now_ns(self) -> int:
        """Return the time in nanoseconds since an arbitrary start."""
        ...

    def sleep_until_ns(self, when_ns: int) -> None:
        """Sleep until `when_ns`, or return at once if it has passed."""
        ...


class Robot(Protocol):
    """One arm, behind a real driver or in simulation."""

    def state(self) -> RobotState:
        """Return the newest state of the arm."""
        ...

    def command(self, twist: np.ndarray, gripper: float | None) -> None:
        """Follow a tcp-frame twist (6,) in m/s and rad/s until the next call; zeros hold the pose."""
        ...


class TeleopDevice(Protocol):
    """The device of an operator: SpaceMouse, gamepad, keyboard, leader arm, or a scripted operator."""

    def sample(self, now_ns: int) -> TeleopSample:
        """Return what the operator asks for now."""
        ...


class ExecutedWindow(Protocol):
    """The motion of an arm since the last control tick, as the safety filter reports it."""

    twist: np.ndarray
    """Mean executed twist, float64, shape (6,), tcp frame, m/s and rad/s."""
    gripper: float | None
    human_twist: np.ndarray
    """Mean twist the human asked for, same shape; zeros where not engaged."""
    human_gripper: int
    source: Source
    clipped: bool


class Cell(Protocol):
    """The cell that the control loop senses and moves: over DDS, or MuJoCo in this process.

    Any method may raise RobotError; the loop then holds and ends the episode with FAULT.
    """

    def observe(self) -> Observation | None:
        """Return the newest synchronised observation, or None while a part is missing, stale or skewed."""
        ...

    def send(self, action: np.ndarray) -> None:
        """Offer a policy action, float32 (A,) over all arms, to the arbiter."""
        ...

    def executed(self) -> Mapping[str, ExecutedWindow]:
        """Return what each arm executed since the previous call, in the order of the spec."""
        ...

    def mode(self) -> Mode:
        """Return the state of control, one for all arms."""
        ...

    def reason(self) -> Refusal | None:
        """Return why the cell is in HOLD or STOP, or None."""
        ...

    def events(self) -> tuple[str, ...]:
        """Return the events an operator sent since the previous call, out of `EVENTS`.

        A cell that cuts episodes short by itself says so with `TIME_IS_UP`; that is no key, and has no place on a wire.
        """
        ...

    def reset(self, seed: int, *, task_id: str | None = None, scene: bool = True) -> None:
        """Bring arms and scene to a start state; return when the arms are ready, at rest and freshly observed.

        Args:
            seed: Of what is drawn.
            task_id: Which of the tasks that take turns begins; None: the first.
            scene: Whether the objects are put back; False leaves them, and the arms too unless they have a start.
        """
        ...

    def start(self, episode_id: str, kind: EpisodeKind) -> None:
        """Begin an episode: from here on the policy (or, in a demo, the human alone) may move the arms."""
        ...

    def claim(self, verdict: Verdict) -> None:
        """Tell the operator what the model claims about the episode, so that it can be refused."""
        ...

    def ask(self, request: HelpRequest | None) -> None:
        """Tell the operator that the policy asks for help, or with None that it no longer does."""
        ...

    def finish(self) -> None:
        """End the episode: the arms hold."""
        ...

    def truth(self) -> bool | None:
        """Return the simulator's truth of success for audits, None on a real cell. Never used to train or act."""
        ...


class SimulatedCell(Cell, Clock, Protocol):
    """A cell in this process, with a clock of its own: time goes on when the loop sleeps."""

    def milestones(self) -> Mapping[str, bool]:
        """Return what the stages of its task lead to and whether each is so now; empty in a task of one stage."""
        ...

    def insertion(self) -> InsertionRecord | None:
        """Return the record of the last episode by which an insertion is scored; None in a task without that score."""
        ...

    def close(self) -> None:
        """Free what it renders with; it cannot be observed any more."""
        ...


class StepSink(Protocol):
    """The receiver of recorded steps: the gRPC client with its spool, or an episode store in this process."""

    def begin(self, header: EpisodeHeader) -> None:
        """Announce a new episode by its header."""
        ...

    def push(self, step: Step) -> None:
        """Hand over one step; never blocks on network or disk."""
        ...

    def label(self, label: Label) -> None:
        """Hand over a verdict on an episode."""
        ...

    def mark(self, mark: StageMark) -> None:
        """Hand over a mark of where a stage of an episode begins; never blocks on network or disk."""
        ...


class ParamsSource(Protocol):
    """The source of new policy parameters."""

    def latest(self) -> Params | None:
        """Return the newest parameters not yet taken, or None; never blocks."""
        ...


class ScoreSource(Protocol):
    """The source of the reward model's live scores."""

    def newest(self, episode_id: str) -> LiveScore | None:
        """Return the newest score of that episode, or None; never blocks."""
        ...


class Judge(ScoreSource, Protocol):
    """A judge of one episode after the other, who is shown every step and may declare success."""

    def begin(self, episode_id: str) -> None:
        """Forget the episode before."""
        ...

    def see(self, step: Step) -> None:
        """Take the next step of the episode."""
        ...


class Policy(Protocol):
    """A policy that acts. It remembers the tick of the episode, what it planned, and its own random generator."""

    @property
    def version(self) -> int:
        """Return the version of the parameters in use."""
        ...

    @property
    def age_s(self) -> float:
        """Return the seconds since the parameters in use arrived; 0 for fixed ones."""
        ...

    def begin_episode(self) -> None:
        """Begin a new episode: ticks count from 0 and what was planned is void."""
        ...

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        """Return an action, float32 (A,) in [-1, 1].

        `interrupted` says that someone else moved the robot since, so that plans are void.
        """
        ...


@runtime_checkable
class SteeredCell(Protocol):
    """A cell with a base policy whose noise can be chosen."""

    def steer(self, noise: np.ndarray) -> None:
        """Give the base the noise of its next answer, float32 (D,)."""
        ...


@runtime_checkable
class SteersBase(Protocol):
    """A policy that may choose the noise of the run's base policy."""

    def steering(self) -> np.ndarray | None:
        """Return the noise that was chosen with the newest action, float32 (D,); None where none is chosen."""
        ...


@runtime_checkable
class KnowsItself(Protocol):
    """A policy that can say how sure it is of what it has just decided."""

    def insight(self) -> Insight | None:
        """Return what it says of its newest decision; None before there is one."""
        ...
