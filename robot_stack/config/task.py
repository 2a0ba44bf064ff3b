"""The models of tasks/*.yaml: what is to be done, in which steps, and how one knows that it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.files import patterns
from robot_stack.config.files.explain import PlacedError
from robot_stack.config.safety import TighterLimits
from robot_stack.config.section import FreeSection, Name, Section, check_names, check_unique
from robot_stack.types.errors import SpecError
from robot_stack.types.spec import AXES, DIRECTION, TASK
from robot_stack.types.stages import MOST_STAGES
from robot_stack.types.transition import back_id

Axis = Literal["x", "y", "z", "rx", "ry", "rz"]


class TaskArm(Section):
    """The action of one arm: the axes that move, and what an action of 1.0 means."""

    axes: Annotated[tuple[Axis, ...], Field(min_length=1)]
    """Axes of the TCP frame that the policy moves, in the order x, y, z, rx, ry, rz."""
    translation_m: Annotated[float, Field(gt=0, le=0.2)]
    """Metres per control step."""
    rotation_rad: Annotated[float, Field(gt=0, le=1)]
    """Radians per control step."""
    gripper: Literal["none", "discrete", "continuous"]
    """How the gripper is moved; none leaves it as it is."""

    @field_validator("axes")
    @classmethod
    def _in_order(cls, axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        wanted = [axis for axis in AXES if axis in axes]
        if list(axes) != wanted:
            raise ValueError(f"axes is {list(axes)}, must be in order and without repeats; write {wanted}")
        return axes


FieldName = Annotated[str, Field(pattern=patterns.FIELD, max_length=64)]
"""A proprio field: `wrench`, or with several arms `left.wrench`."""


class ProprioConfig(Section):
    """One field of the proprio vector."""

    name: FieldName
    """As sensing knows it."""
    size: Annotated[int, Field(ge=1, le=1024)]
    """Entries."""


class GateCondition(Section):
    """Bounds on one proprio field, entry by entry; null is no bound."""

    min: tuple[float | None, ...] | None = None
    """Lowest values, in the field's unit."""
    max: tuple[float | None, ...] | None = None
    """Highest values, in the field's unit."""

    @field_validator("max")
    @classmethod
    def _above_lowest(
        cls, highest: tuple[float | None, ...] | None, info: ValidationInfo
    ) -> tuple[float | None, ...] | None:
        for index, (low, high) in enumerate(zip(info.data.get("min") or (), highest or ())):
            if low is not None and high is not None and high <= low:
                raise PlacedError(f"max is {high}, must be above min ({low}); swap or correct them", index)
        return highest


class NOfM(Section):
    """A count of n hits among the last m frames."""

    n: Annotated[int, Field(ge=1, le=100)]
    """Hits."""
    m: Annotated[int, Field(ge=1, le=100)]
    """Frames."""

    @field_validator("m")
    @classmethod
    def _at_least_n(cls, m: int, info: ValidationInfo) -> int:
        n = info.data.get("n")
        if n is not None and m < n:
            raise ValueError(f"m is {m}, must be at least n ({n}); raise m or lower n")
        return m


class SuccessConfig(Section):
    """The conjunction that declares success: model, n of m frames, gate. An operator's verdict overrides it."""

    threshold: Annotated[float, Field(gt=0, lt=1)]
    """Success probability of the reward model that counts as a hit."""
    n_of_m: NOfM
    """How many hits."""
    gate: dict[FieldName, GateCondition] = Field(default_factory=dict)
    """Conditions on proprio fields, all of which must hold too."""


Range = Annotated[float, Field(ge=0, le=0.5)]


class StartConfig(Section):
    """The start that the arm goes to before an episode, through the safety filter like any other motion."""

    pose: Name
    """One of the arm's poses in the cell."""
    path: Literal["over", "joints"] = "over"
    """over: up, across, down. joints: straight in the angles of the joints, as long as a large turn of the hand needs;
    nothing is flown over then."""
    range_m: tuple[Range, Range, Range] = (0.0, 0.0, 0.0)
    """The start is drawn anew within this much in x, y and z, half of it to either side."""
    yaw_rad: Annotated[float, Field(ge=0, le=3)] = 0.0
    """The same for the turn about the vertical."""
    clearance_m: Annotated[float, Field(ge=0, le=0.3)] = 0.05
    """The arm rises by so much before it moves sideways, with path: over."""
    speed_m_s: Annotated[float, Field(gt=0, le=0.25)] = 0.1
    """Of the TCP."""
    rotation_speed_rad_s: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Of the TCP."""


class ResetConfig(Section):
    """The reset before an episode: who places the objects, and where the arms go."""

    by: Literal["sim", "operator"]
    """Who places the objects."""
    timeout_s: Annotated[float, Field(gt=0, le=600)]
    """A reset that takes longer is a fault."""
    start: StartConfig | None = None
    """Where the only arm goes; None leaves it where it is."""
    starts: dict[Name, StartConfig] = Field(default_factory=dict)
    """With several arms, where each goes, all at once; one that is left out stays where it is."""
    prompt: Annotated[str, Field(max_length=200)] = "make the scene ready"
    """What the operator is asked for, with by: operator."""


class BackwardConfig(Section):
    """The way back, trained in turn with the task: where one ends, the other begins, and nobody resets the scene.

    The arm goes to its start before the task, not before the way back.
    """

    text: Annotated[str, Field(min_length=1, max_length=500)]
    """What to do then, as in the task."""
    success: SuccessConfig
    """End of a way back."""
    every: Annotated[int, Field(ge=2, le=10_000)] = 25
    """Episodes after which the scene is put back all the same, as `reset.by` says."""
    tries: Annotated[int, Field(ge=1, le=100)] = 3
    """And after so many in a row without success."""


class GoalConfig(Section):
    """The goal of an episode where it is a part of what is observed, and how one sees that it is reached."""

    desired: FieldName
    """Proprio field with the goal, the same throughout an episode."""
    achieved: FieldName
    """Proprio field of the same size and unit: what has been reached."""
    within: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Euclidean distance up to which a goal counts as reached, in that unit."""


class OtherTask(Section):
    """Another task of the same scene, in which one policy does both; `tasks` of a run brings it here from its file."""

    name: Name
    """Its id in episodes and reports."""
    text: Annotated[str, Field(min_length=1, max_length=500)]
    """What to do then, as in the task."""
    success: SuccessConfig
    """End of an episode of it."""
    sim: FreeSection = Field(default_factory=dict)
    """Settings of the simulated scene, alike but for what is to be done in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTurn:
    """One of the tasks that take turns on a cell: the task itself, its way back, or another one of the run.

    Attributes:
        told: The proprio field `TaskConfig.told_by` in it, by which the policy and the reward know which task it is;
            empty for a task that is alone.
    """

    id: str
    text: str
    success: SuccessConfig
    told: tuple[float, ...]


class TaskConfig(Section):
    """The settings of a task: its text, actions, proprio, reset, success and tighter limits."""

    name: Name
    """Its name in data sets and reports."""
    scene: Name | None = None
    """In the simulator: the scene, as it is registered. None: the one of the task's own name."""
    text: Annotated[str, Field(min_length=1, max_length=500)]
    """What to do, in plain language, for models that read."""
    arm: TaskArm | None = None
    """Action scale, of every arm of the cell."""
    arms: dict[Name, TaskArm] = Field(default_factory=dict, validate_default=True)
    """Instead of it, action scales of the arms by name."""
    stages: Annotated[tuple[Name, ...], Field(max_length=MOST_STAGES)] = ()
    """Names of its stages in their order, which operators may mark; none: an operator counts them."""
    episode_steps: Annotated[int, Field(ge=1, le=10_000)]
    """Longest episode in control steps."""
    proprio: Annotated[tuple[ProprioConfig, ...], Field(min_length=1)]
    """In the order in which they are concatenated."""
    reset: ResetConfig
    """Start of an episode."""
    success: SuccessConfig
    """End of an episode."""
    goal: GoalConfig | None = None
    """What a run with `hindsight` relabels; None where the goal is no part of what is observed."""
    backward: BackwardConfig | None = None
    """None: the scene is reset before each episode. Else proprio needs the field `direction`, of size 1."""
    others: tuple[OtherTask, ...] = ()
    """Tasks that take turns with this one, each from a reset of the scene; written by `tasks` of a run, not by hand."""
    safety: TighterLimits = Field(default_factory=dict)
    """Limits of the safety file made tighter for this task."""
    sim: FreeSection = Field(default_factory=dict)
    """Settings of the simulated scene, checked by the simulator."""

    @property
    def simulated(self) -> str:
        """Return the name of the simulated scene."""
        return self.name if self.scene is None else self.scene

    @field_validator("arms")
    @classmethod
    def _one_form(cls, arms: dict[str, TaskArm], info: ValidationInfo) -> dict[str, TaskArm]:
        if "arm" in info.data and (info.data["arm"] is None) != bool(arms):
            have = "both given" if arms else "both missing"
            raise ValueError(f"arm and arms are {have}, must be one of them; {'remove' if arms else 'add'} one")
        return arms

    @field_validator("proprio")
    @classmethod
    def _unique(cls, fields: tuple[ProprioConfig, ...]) -> tuple[ProprioConfig, ...]:
        check_names([field.name for field in fields], "proprio names", "remove the repeat")
        return fields

    @field_validator("stages")
    @classmethod
    def _told_by_name(cls, stages: tuple[str, ...]) -> tuple[str, ...]:
        if len(stages) == 1:
            raise ValueError(f"stages is {list(stages)}, must be two or more, or none; remove it")
        check_unique(list(stages), "stages", "give each its own name")
        return stages

    @field_validator("success")
    @classmethod
    def _gate_fits_proprio(cls, success: SuccessConfig, info: ValidationInfo) -> SuccessConfig:
        _check_gate(success, info.data.get("proprio", ()))
        return success

    @field_validator("goal")
    @classmethod
    def _goal_fits_proprio(cls, goal: GoalConfig | None, info: ValidationInfo) -> GoalConfig | None:
        sizes = {field.name: field.size for field in info.data.get("proprio", ())}
        if goal is None or not sizes:
            return goal
        for key, name in (("desired", goal.desired), ("achieved", goal.achieved)):
            if name not in sizes:
                raise PlacedError(f"{key} is '{name}', must be one of {', '.join(sizes)}; correct the name", key)
        if goal.desired == goal.achieved:
            raise PlacedError(f"achieved is '{goal.achieved}', must be another field than desired", "achieved")
        if sizes[goal.desired] != sizes[goal.achieved]:
            raise PlacedError(
                f"achieved has {sizes[goal.achieved]} entries, must have {sizes[goal.desired]} as desired; name a "
                "field of the same size",
                "achieved",
            )
        return goal

    @field_validator("backward")
    @classmethod
    def _told_apart(cls, backward: BackwardConfig | None, info: ValidationInfo) -> BackwardConfig | None:
        if "proprio" not in info.data:
            return backward
        fields: tuple[ProprioConfig, ...] = info.data["proprio"]
        told = any(field.name == DIRECTION for field in fields)
        if backward is None and told:
            raise ValueError(f"backward is missing, must be there for the proprio field '{DIRECTION}'; remove that")
        if backward is not None and not told:
            raise ValueError(
                f"proprio lacks '{DIRECTION}', must have it, or the policy cannot know which way it goes; "
                f"add {{name: {DIRECTION}, size: 1}} there"
            )
        if backward is not None:
            _check_gate(backward.success, fields, "success")
        return backward

    @field_validator("others")
    @classmethod
    def _gates_fit_proprio(cls, others: tuple[OtherTask, ...], info: ValidationInfo) -> tuple[OtherTask, ...]:
        for index, other in enumerate(others):
            _check_gate(other.success, info.data.get("proprio", ()), index, "success")
        return others

    @property
    def equal_ids(self) -> tuple[str, ...]:
        """Return the ids of the tasks that a run is about: this one and the others, but no way back."""
        return (self.name, *(other.name for other in self.others))

    @property
    def told_by(self) -> str | None:
        """Return the proprio field that says whose turn it is; None for a task that is alone."""
        if self.others:
            return TASK
        return DIRECTION if self.backward is not None else None

    @property
    def turns(self) -> tuple[TaskTurn, ...]:
        """Return the tasks in the order in which they take turns, this one first."""
        if self.others:
            tasks: tuple[TaskConfig | OtherTask, ...] = (self, *self.others)
            return tuple(
                TaskTurn(
                    id=task.name,
                    text=task.text,
                    success=task.success,
                    told=tuple(float(task is each) for each in tasks),
                )
                for task in tasks
            )
        back = self.backward
        if back is None:
            return (TaskTurn(id=self.name, text=self.text, success=self.success, told=()),)
        return (
            TaskTurn(id=self.name, text=self.text, success=self.success, told=(1.0,)),
            TaskTurn(id=back_id(self.name), text=back.text, success=back.success, told=(-1.0,)),
        )

    def turn(self, task_id: str | None) -> TaskTurn:
        """Return the task of this id, or the first for None.

        Raises:
            SpecError: If no task has this id.
        """
        turns = {turn.id: turn for turn in self.turns}
        wanted = self.name if task_id is None else task_id
        if wanted not in turns:
            raise SpecError(f"task id is {task_id!r}, must be one of {', '.join(turns)}; start all processes alike")
        return turns[wanted]


def _check_gate(success: SuccessConfig, proprio: tuple[ProprioConfig, ...], *inside: str | int) -> None:
    sizes = {field.name: field.size for field in proprio}
    for name, condition in success.gate.items() if sizes else ():
        if name not in sizes:
            text = f"gate names the field '{name}', must be one of {', '.join(sizes)}; correct the name"
            raise PlacedError(text, *inside, "gate", name)
        for bound in ("min", "max"):
            values = getattr(condition, bound)
            if values is not None and len(values) != sizes[name]:
                text = f"gate.{name}.{bound} has {len(values)} entries, must have {sizes[name]}; use null for no bound"
                raise PlacedError(text, *inside, "gate", name, bound)
