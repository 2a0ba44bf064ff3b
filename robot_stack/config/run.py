"""The models of runs/*.yaml: one cell, one task, one algorithm, one reward."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from robot_stack import plugins
from robot_stack.config.asking import AskingConfig
from robot_stack.config.base import AnyBase, Place
from robot_stack.config.section import FreeSection, RegisteredName, Section, check_unique
from robot_stack.types.reward import RewardForm


class Choice(Section):
    """A registered part, whose name is said by the subclass, and its settings."""

    settings: FreeSection = Field(default_factory=dict)
    """Its settings, checked by the part itself."""


class AlgorithmChoice(Choice):
    """The algorithm that learns, and its settings."""

    name: Annotated[str, RegisteredName(plugins.ALGORITHMS)]
    """As it is registered."""


class EncoderChoice(Choice):
    """The encoder that turns images into features, and its settings."""

    name: Annotated[str, RegisteredName(plugins.ENCODERS)] = "embedded"
    """As it is registered."""


class RescoreChoice(Choice):
    """A large reward model behind the live one."""

    name: Annotated[str, RegisteredName(plugins.REWARD_MODELS)]
    """As it is registered."""
    every: Annotated[int, Field(ge=1, le=1000)] = 5
    """Frames from one question to the next."""


class RewardChoice(Choice):
    """The reward model that scores live, and one that scores finished episodes behind it."""

    name: Annotated[str, RegisteredName(plugins.LIVE_REWARD_MODELS)]
    """As it is registered; `progress` is the embedded model."""
    rescore: RescoreChoice | None = None
    """None: the live one alone."""
    form: RewardForm = "potential"
    """How progress becomes reward. The others are for comparison: they can be farmed."""
    failure: Annotated[float, Field(ge=-10, le=0)] = 0.0
    """Reward on the step into a failure; that into a success pays 1."""
    step_penalty: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Taken off the reward of each step, so that a quick success is worth more than a slow one."""
    discount: Literal["fixed", "scheduled"] = "fixed"
    """`scheduled`: it grows with the ticks that the policy has mastered, by Φ, up to the algorithm's own."""


class ImitationChoice(Section):
    """How much each step of a demonstration or a correction counts where it is imitated."""

    weights: Literal["equal", "progress"] = "equal"
    """`progress`: steps after which Φ rises less than usual count less, those after which it falls not at all; the
    strength of imitation as a whole stays."""


Part = Literal["episodes", "encoder", "reward", "learner"]


class StartFrom(Section):
    """The earlier run, or the dataset, that a run starts from."""

    run: Place
    """Its folder. A dataset has episodes alone."""
    take: Annotated[tuple[Part, ...], Field(min_length=1)] = ("episodes", "encoder", "reward", "learner")
    """What is taken: demonstrations and online episodes with their labels, the image encoder, the reward model in use,
    policy and critics."""

    @model_validator(mode="after")
    def _sees_as_before(self) -> Self:
        check_unique(list(self.take), "parts of start_from.take")
        blind = [part for part in ("reward", "learner") if part in self.take and "encoder" not in self.take]
        if blind:
            raise ValueError(f"take has {blind[0]} without encoder, must have both; it sees through that encoder")
        return self


class EnoughConfig(Section):
    """The rule by which online training may end early."""

    episodes: Annotated[int, Field(ge=1, le=10_000)] = 40
    """Newest online episodes that are looked at."""
    success: Annotated[float, Field(gt=0, le=1)] = 0.975
    """Share of them that must have succeeded without an operator."""


class ProtocolConfig(Section):
    """The graded protocol of help: none, demonstrations at failures, return and explore, human-guided exploration."""

    max_level: Annotated[int, Field(ge=0, le=3)] = 0
    """Highest level that may be reached; 0 leaves only the correction of single motions."""
    window: Annotated[int, Field(ge=2, le=1000)] = 10
    """Newest episodes from the usual start that are looked at before the level rises."""
    below: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of them that succeeded alone under which it rises."""
    demos: Annotated[int, Field(ge=1, le=100)] = 3
    """Level 1: demonstrations asked for, at the starts that failed last."""
    return_share: Annotated[float, Field(gt=0, le=0.5)] = 0.4
    """Level 2: share of episodes that start where the policy succeeds sometimes."""
    lowest: Annotated[float, Field(ge=0, le=1)] = 0.1
    """Level 2: a start is too hard under this share of successes."""
    highest: Annotated[float, Field(ge=0, le=1)] = 0.6
    """Level 2: and too easy above this one."""
    tries: Annotated[int, Field(ge=2, le=100)] = 5
    """Level 3: failures at a start without a success before an operator demonstrates from it."""

    @field_validator("highest")
    @classmethod
    def _above_lowest(cls, highest: float, info: ValidationInfo) -> float:
        lowest = info.data.get("lowest")
        if lowest is not None and highest <= lowest:
            raise ValueError(f"highest is {highest}, must be above lowest ({lowest}); swap or correct them")
        return highest


class TrainingConfig(Section):
    """The budget of training, and the rules by which it is enough."""

    demos: Annotated[int, Field(ge=1, le=10_000)]
    """Demonstrations before online training starts; encoder, reward model and scales are fitted on them."""
    max_episodes: Annotated[int, Field(ge=1, le=1_000_000)]
    """Online training ends after this many."""
    max_robot_minutes: Annotated[float, Field(gt=0, le=100_000)]
    """Online training ends after this much robot time."""
    eval_episodes: Annotated[int, Field(ge=1, le=10_000)]
    """Episodes of an evaluation."""
    enough: EnoughConfig = EnoughConfig()
    """Online training ends early once the policy succeeds by itself."""
    protocol: ProtocolConfig = ProtocolConfig()
    """How much help an operator gives, by need."""
    max_params_age_s: Annotated[float, Field(gt=0, le=3600)] = 300.0
    """The actor stops training online on parameters older than this."""


MOST_TASKS = 16
"""Each adds an entry to each observation, and wants demonstrations of its own."""


class RunConfig(Section):
    """The settings of a run: its cell, task, algorithm, reward and budget."""

    cell: str
    """File in cells/."""
    task: str | None = None
    """File in tasks/."""
    tasks: Annotated[tuple[str, ...], Field(max_length=MOST_TASKS)] = Field(default=(), validate_default=True)
    """Instead of it, two or more files in tasks/, of one scene: one policy does all, and episodes take turns. They may
    differ in name, text and success, and in what is to be done in a simulated scene."""
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    """Of everything random."""
    rate_hz: Annotated[float, Field(gt=0, le=100)]
    """Control rate: observations and actions per second."""
    algorithm: AlgorithmChoice
    """Learning algorithm."""
    base: AnyBase | None = None
    """Policy from elsewhere, whose proposal is part of each observation; None without one."""
    start_from: StartFrom | None = None
    """Earlier run whose episodes, encoder, reward model, policy and critics this one starts from; None for nothing."""
    encoder: EncoderChoice = EncoderChoice()
    """Image encoder."""
    reward: RewardChoice
    """Reward model."""
    imitation: ImitationChoice = ImitationChoice()
    """How steps of demonstrations and corrections are weighed where they are imitated."""
    hindsight: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of each batch whose goal is relabelled as one that was reached later, where the task says what its `goal`
    is; 0: none."""
    training: TrainingConfig
    """Budget."""
    asking: AskingConfig | None = None
    """When the policy asks an operator for help; None: it never does, and an operator watches."""
    operator_required: bool = False
    """The arm holds while nobody has the operator's page open and in view."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the learner computes; `auto` is a GPU where torch finds one, else the CPU."""

    @field_validator("tasks")
    @classmethod
    def _one_form(cls, tasks: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        if "task" in info.data and (info.data["task"] is None) != bool(tasks):
            have = "both given" if tasks else "both missing"
            raise ValueError(f"task and tasks are {have}, must be one of them; {'remove' if tasks else 'add'} one")
        if len(tasks) == 1:
            raise ValueError(f"tasks is {list(tasks)}, must be two or more; write task: {tasks[0]}")
        check_unique(list(tasks), "tasks", "name each once")
        return tasks
