"""The models of `base:` in runs/*.yaml: a policy from elsewhere, saved or behind a server, and how to talk to it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from robot_stack.config.files import patterns
from robot_stack.config.section import Section, check_unique

Factor = Annotated[float, Field(ge=-1e6, le=1e6)]
Text = Annotated[str, Field(min_length=1, max_length=1000)]
Place = Annotated[str, Field(pattern=patterns.PLACE, max_length=1000)]
"""A path that means the same wherever a process is started."""


class BaseState(Section):
    """A proprio field in the state that a base policy is shown: theirs = scale * ours + offset."""

    field: Text
    """Ours, as the task names it; or tcp_place, the TCP's pose in the robot's base, which no task records."""
    scale: Factor = 1.0
    """For units: 57.29578 where it wants degrees."""
    offset: Factor = 0.0
    """In its unit."""

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        return {"field": given} if isinstance(given, str) else given


class BaseAction(Section):
    """An entry of a base policy's action: ours = scale * theirs + offset, clipped to [-1, 1].

    An arm's is the motion in a step of the base; where the run has another rate, as much of it as a step of ours takes.
    """

    name: Text | None
    """Ours, e.g. "arm.x"; null for an entry that nothing here does. A gripper's -1 closes it, 1 opens it."""
    scale: Factor = 1.0
    """For units: 50 where it says metres a step and a step of ours is at most 0.02 m."""
    offset: Factor = 0.0
    """In our unit."""

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        return {"name": given} if given is None or isinstance(given, str) else given


class SavedBase(Section):
    """A policy that another run of this project saved, of the same arms, cameras and proprio; acts within the tick."""

    kind: Literal["saved"]
    policy: Place
    """Its file, `policy.safetensors` of a run."""


class _Served(Section):
    """What all bases behind a server have; they are asked beside the control loop, which never waits for them."""

    cameras: Annotated[dict[str, Text], Field(default_factory=dict)]
    """Our camera: its name there; none where it sees no images. Images are as our policies see them, RGB."""
    state: tuple[BaseState, ...] = ()
    """What its state consists of, in its order; nothing where it has none."""
    action: Annotated[tuple[BaseAction, ...], Field(min_length=1)]
    """What the entries of its action are, in its order."""
    frame: Literal["tool", "base"] = "tool"
    """Axes that the motion in its action is along: those of the tool, or those of the robot's base."""
    rate_hz: Annotated[float, Field(gt=0, le=200)]
    """Actions of a chunk per second."""
    text: Text | None = None
    """What it is told to do; None: the text of the task."""
    every_s: Annotated[float, Field(gt=0, le=10)] = 0.25
    """Time from one question to the next, at least."""
    join_s: Annotated[float, Field(ge=0, le=5)] = 0.3
    """Time in which a new chunk takes over from the last one, so that the arm does not jerk."""
    timeout_s: Annotated[float, Field(gt=0, le=60)] = 2.0
    """Longest wait for an answer."""
    start_s: Annotated[float, Field(gt=0, le=3600)] = 60.0
    """Longest wait until it is up and has answered for the first time."""
    noise: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Numbers of noise that each step of a chunk starts from, where they are chosen here; None: it draws its own."""

    @model_validator(mode="after")
    def _names_once(self) -> _Served:
        check_unique([entry.name for entry in self.action if entry.name is not None], "names of base.action")
        check_unique(list(self.cameras.values()), "names there of base.cameras")
        if not self.cameras and not self.state:
            raise ValueError("the base is shown neither images nor a state, must be shown one; name cameras or state")
        return self


class HttpBase(_Served):
    """A server that speaks the project's own protocol, docs/base-policies.md."""

    kind: Literal["http"]
    url: Annotated[str, Field(pattern=patterns.HTTP, max_length=500)]
    """Where it listens."""


class OpenpiBase(_Served):
    """A websocket server of openpi, which speaks MessagePack."""

    kind: Literal["openpi"]
    url: Annotated[str, Field(pattern=patterns.WEBSOCKET, max_length=500)]
    """Where it listens."""
    state_key: Text = "observation/state"
    """Key of the state in its observations; those of the cameras are their names."""
    text_key: Text = "prompt"
    """Key of the text."""

    @model_validator(mode="after")
    def _keys_once(self) -> OpenpiBase:
        check_unique([*self.cameras.values(), self.state_key, self.text_key], "keys of the base's observation")
        return self

    @model_validator(mode="after")
    def _draws_its_own(self) -> OpenpiBase:
        if self.noise is not None:
            raise ValueError(
                f"noise is {self.noise}, must be left out with kind openpi, whose server takes none; "
                "take lerobot or http"
            )
        return self


class LeRobotBase(_Served):
    """A checkpoint of LeRobot, served by a process of its own with the Python that has the lerobot package."""

    kind: Literal["lerobot"]
    checkpoint: Place
    """Folder with config.json and model.safetensors; nothing is downloaded."""
    python: Place
    """Interpreter of its environment, e.g. ~/lerobot/bin/python."""
    device: Literal["cpu", "cuda", "mps"] = "cpu"
    """Where it computes."""


ServedBase = HttpBase | OpenpiBase | LeRobotBase
AnyBase = Annotated[SavedBase | HttpBase | OpenpiBase | LeRobotBase, Field(discriminator="kind")]
