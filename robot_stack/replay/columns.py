"""The columns of an episode on disk: names, shapes and dtypes of its arrays. T actions, T+1 frames."""

from __future__ import annotations

import math
from dataclasses import dataclass

from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError
from robot_stack.types.observation import Observation
from robot_stack.types.spec import Spec
from robot_stack.types.transition import ActionRow, Step

SCHEMA_VERSION = 1
IMAGE_PREFIX = "image_"
NO_SOURCE = 255
"""Fill value of `source`. It is written last in each flush, so a frame counts once its source is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """The layout of one array of an episode: its name, row shape, dtype and fill value.

    Attributes:
        name: Of the array in the group.
        shape: Of one row.
        dtype: Numpy dtype string.
        per_frame: True for T+1 rows, False for T rows.
        fill: Value of rows not written yet.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    per_frame: bool
    fill: int = 0


def columns(spec: Spec) -> tuple[Column, ...]:
    """Return all arrays of an episode of `spec`, in the order in which a flush writes them; `source` is last."""
    frame = [Column(name=IMAGE_PREFIX + c.name, shape=c.shape, dtype="|u1", per_frame=True) for c in spec.cameras]
    frame += [
        Column(name="proprio", shape=(spec.proprio_size,), dtype="<f4", per_frame=True),
        Column(name="stamp_ns", shape=(), dtype="<i8", per_frame=True),
        Column(name="age_s", shape=(), dtype="<f4", per_frame=True),
        Column(name="skew_s", shape=(), dtype="<f4", per_frame=True),
    ]
    motion = [
        Column(name=name, shape=(spec.action_size,), dtype="<f4", per_frame=False)
        for name in ("executed", "proposed", "human")
    ]
    if len(spec.arms) > 1:
        motion.append(Column(name="sources", shape=(len(spec.arms),), dtype="|u1", per_frame=False))
    motion += [
        Column(name="gripper_pressed", shape=(), dtype="|b1", per_frame=False),
        Column(name="clipped", shape=(), dtype="|b1", per_frame=False),
        Column(name="params_version", shape=(), dtype="<i8", per_frame=False),
        Column(name="params_age_s", shape=(), dtype="<f4", per_frame=False),
        Column(name="source", shape=(), dtype="|u1", per_frame=False, fill=NO_SOURCE),
    ]
    return (*frame, *motion)


def frame_row(observation: Observation) -> dict[str, object]:
    """Return the values of the per-frame columns for one observation."""
    row: dict[str, object] = {IMAGE_PREFIX + name: image for name, image in observation.images.items()}
    row |= {name: getattr(observation, name) for name in ("proprio", "stamp_ns", "age_s", "skew_s")}
    return row


def action_row(action: ActionRow) -> dict[str, object]:
    """Return the values of the per-action columns for one action; with one arm there is no column of `sources`."""
    return {name: getattr(action, name) for name in ActionRow.__slots__ if name != "sources" or action.sources}


def check_step(step: Step, spec: Spec) -> None:
    """Raise SpecError, naming the step and what in it is wrong, unless observation and action of `step` fit `spec`."""
    try:
        _check_observation(step.observation, spec)
        if step.action is not None:
            _check_action(step.action, spec)
    except SpecError as error:
        raise SpecError(
            f"step {step.episode_id}/{step.index}: {error}; it was not taken, mend its source and send it again"
        ) from error


def _check_observation(observation: Observation, spec: Spec) -> None:
    spec.check_images(dict(observation.images))
    spec.check_proprio(observation.proprio)
    _check_finite(observation, "age_s", "skew_s")


def _check_action(action: ActionRow, spec: Spec) -> None:
    for name in ("executed", "proposed", "human"):
        spec.check_action(getattr(action, name), name)
    _check_finite(action, "params_age_s")
    for source in (action.source, *action.sources):
        if source not in list(Source):
            raise SpecError(f"source is {source}, must be one of {[int(source) for source in Source]}")
    spec.check_sources(action.sources)


def _check_finite(part: Observation | ActionRow, *names: str) -> None:
    for name in names:
        value = getattr(part, name)
        if not math.isfinite(value):
            raise SpecError(f"{name} is {value}, must be finite")
