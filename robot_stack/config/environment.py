"""The model of a task's `sim` section that names a Gymnasium environment, and the run's parts that follow from it.

An environment stands in the place of a cell: what it takes and shows says which arms, cameras and proprio fields there
are, so that no file repeats it. Gymnasium is imported only where a run names an environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from robot_stack.config.section import Name, Section
from robot_stack.types.interfaces import SimulatedCell
from robot_stack.types.spec import Spec

KEY = "gymnasium"
"""The key of a `sim` section that says so, and the name of its parts' backend."""
SAID = ("arm", "arms", "proprio", "backward")
"""Keys of a task that the environment says itself, or cannot do."""
NEVER = {"threshold": 0.99, "n_of_m": {"n": 100, "m": 100}}
"""A success rule that does not fire in practice: whether the task is done, the environment says."""

PointsAt = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$", max_length=256)]
"""module:attribute"""
ModuleName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*$", max_length=256)]


class RenderConfig(Section):
    """The camera that an environment gets beside what it shows: its own rendering, made as small as a policy wants."""

    name: Name = "render"
    """Of the camera."""
    height_px: Annotated[int, Field(ge=8, le=1024)]
    """Rows that the policy sees."""
    width_px: Annotated[int, Field(ge=8, le=1024)]
    """Columns that the policy sees."""


class EnvironmentConfig(Section):
    """The environment of a task, and what it is asked for."""

    gymnasium: Annotated[str, Field(min_length=1, max_length=256)]
    """Its id, as Gymnasium registers it."""
    kwargs: dict[str, Any] = Field(default_factory=dict)
    """What it is made with."""
    module: ModuleName | None = None
    """A module whose import registers the id; Gymnasium looks for none by itself."""
    expert: PointsAt | None = None
    """The operator: a function from observation to action, or a class that is made with the environment and called
    so."""
    patience: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Steps of a training episode after which the expert takes over, until it ends; None: never."""
    success: Literal["info", "reward"] = "info"
    """Who says that the task is done: info["success"] or info["is_success"], or the reward of the step."""
    reward_above: float | None = None
    """With success: reward, what a reward must be above; None: 0."""
    render: RenderConfig | None = None
    """A camera that shows what the environment renders; None without one."""

    @field_validator("reward_above")
    @classmethod
    def _goes_with_reward(cls, above: float | None, info: ValidationInfo) -> float | None:
        if above is not None and info.data.get("success") != "reward":
            raise ValueError(f"reward_above is {above} with success: info, which reads no reward; set success: reward")
        return above


@dataclass(frozen=True, slots=True, kw_only=True)
class Environments:
    """The maker of the environments that tasks name.

    Attributes:
        declare: Returns the shapes of an environment at a control rate [Hz].
        build: Makes it, as a cell of that spec.
    """

    declare: Callable[[EnvironmentConfig, float], Spec]
    build: Callable[[EnvironmentConfig, Spec], SimulatedCell]


MAKER = "robot_stack.suites.configured"
"""The module of `GYMNASIUM`, of a room above this one: what needs Gymnasium is asked for by its name alone."""


def find_environments() -> Environments:
    """Return what makes environments.

    Raises:
        ConfigError: If Gymnasium is not installed.
    """
    found: Environments = import_module(MAKER).GYMNASIUM
    return found


def declared_parts(spec: Spec) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield part and content of what follows from an environment's shapes, as files of a cell would say it."""
    box = {"frame": KEY, "min_m": (-1.0, -1.0, -1.0), "max_m": (1.0, 1.0, 1.0)}
    yield (
        "cell",
        {
            "arms": {arm.name: {"robot": KEY, "workspace": box} for arm in spec.arms},
            "cameras": {camera.name: {"model": KEY} for camera in spec.cameras},
            "teleop": "expert",
        },
    )
    for arm in spec.arms:
        frames = {"base_frame": KEY, "tcp_frame": KEY}
        yield f"robots.{arm.name}", {"name": arm.name, "backend": KEY, **frames}
    for camera in spec.cameras:
        size = {"width_px": camera.width_px, "height_px": camera.height_px}
        seen = {"policy_width_px": camera.width_px, "policy_height_px": camera.height_px}
        timing = {"rate_hz": spec.rate_hz, "max_age_s": min(1.0, 2.0 / spec.rate_hz)}
        yield f"cameras.{camera.name}", {"backend": KEY, **size, **seen, **timing}
    device_hz = max(10.0, spec.rate_hz)
    yield "teleop", {"device": "expert", "rate_hz": device_hz, "scale": {"linear": 1.0, "angular": 1.0}}
    yield (
        "task",
        {
            "arms": {
                arm.name: {
                    "axes": arm.axes,
                    "translation_m": arm.translation_m,
                    "rotation_rad": arm.rotation_rad,
                    "gripper": "none",
                }
                for arm in spec.arms
            },
            "proprio": tuple({"name": field.name, "size": field.size} for field in spec.proprio),
            "reset": {"by": "sim", "timeout_s": 10.0},
            "success": NEVER,
        },
    )
