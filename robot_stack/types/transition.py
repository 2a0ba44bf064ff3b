"""The record of a control step, exactly as the robot executed it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError
from robot_stack.types.observation import Observation


class EndReason(StrEnum):
    """The reason why an episode ended. Only SUCCESS and FAILURE end the task; the others cut it short and bootstrap."""

    SUCCESS = "success"
    FAILURE = "failure"
    TIMEOUT = "timeout"
    OPERATOR = "operator"
    FAULT = "fault"

    @property
    def terminal(self) -> bool:
        """Return True where the task itself ended, so that no value lies behind it."""
        return self in (EndReason.SUCCESS, EndReason.FAILURE)


class EpisodeKind(StrEnum):
    """The purpose for which an episode was recorded."""

    DEMO = "demo"
    ONLINE = "online"
    EVAL = "eval"
    EARLIER = "earlier"
    """Online episode of the run that this one started from: learned from, and not counted."""


class ResetType(StrEnum):
    """The kind of start of an episode."""

    NOMINAL = "nominal"
    RETURN = "return"
    """A start that was met before, to which an operator or the simulator went back on purpose."""
    CARRIED = "carried"
    """The scene as the last episode has left it, of a task that takes turns with this one, or of this one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow:
    """The motion between frame t and frame t+1.

    Attributes:
        executed: What the robot did after arbiter and safety filter, float32, shape (A,), unitless in [-1, 1].
        proposed: The policy's own action at t, same shape, even if overridden; zeros if there was no policy, see
            `params_version`.
        human: The human's requested action, same shape; zeros where no human was engaged.
        source: Who produced `executed`; a human's if one of several arms was in a hand.
        sources: With several arms, who moved each, in the order of the spec; empty with one.
        gripper_pressed: True if the human used a gripper in this step.
        clipped: True if the safety filter changed the request.
        params_version: Version of the policy parameters behind `proposed`, 0 for none: the base policy led in the
            policy's place, or there is no policy.
        params_age_s: Age of those parameters at t, in seconds.
    """

    executed: np.ndarray
    proposed: np.ndarray
    human: np.ndarray
    source: Source
    sources: tuple[Source, ...] = ()
    gripper_pressed: bool = False
    clipped: bool = False
    params_version: int = 0
    params_age_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Frame t of an episode and the motion that followed it; the unit of recording and of transport.

    Attributes:
        episode_id: Unique in the run, sortable by start, e.g. "000041-demo-a1b2c3".
        index: t, counted from 0 without gaps.
        observation: Frame t.
        action: Motion from t to t+1; None on the last frame, and only there.
        end: Why the episode ended; set on the last frame, and only there.
    """

    episode_id: str
    index: int
    observation: Observation
    action: ActionRow | None
    end: EndReason | None = None

    def __post_init__(self) -> None:
        if (self.action is None) != (self.end is not None):
            raise SpecError(
                f"step {self.episode_id}/{self.index} has action={self.action is not None} and end={self.end}, "
                "must have an action and no end, or, on the last frame, an end and no action"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeHeader:
    """The header of an episode: what is known of it when it starts.

    Attributes:
        episode_id: As in `Step`.
        kind: DEMO, ONLINE or EVAL.
        task: Task name, the same for all episodes of a store.
        task_id: Which of the tasks that take turns; by default the first, whose id is the task name.
        actor: Id of the actor process that recorded it.
        started_unix_s: Wall-clock start, seconds since the epoch.
        seed: Seed of the reset, or -1 where an operator placed the objects.
        level: Of the help protocol at which it was run, 0 to 3.
        reset: Where it starts. Success is reported for all tasks but a way back, over starts that nobody chose.
    """

    episode_id: str
    kind: EpisodeKind
    task: str
    actor: str
    started_unix_s: float
    seed: int = -1
    level: int = 0
    reset: ResetType = ResetType.NOMINAL
    task_id: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "task_id", self.task_id or self.task)

    @property
    def first_task(self) -> bool:
        """Return whether it is of the first task of its run."""
        return self.task_id == self.task

    @property
    def goes_back(self) -> bool:
        """Return whether it is of a task's way back, which leads to its start and which no figure is about."""
        return self.task_id == back_id(self.task)


def back_id(task: str) -> str:
    """Return the id of the way back of a task, by which episodes, simulator and actor mean it."""
    return f"{task}_back"
