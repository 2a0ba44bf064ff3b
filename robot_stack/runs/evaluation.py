"""The evaluation of a policy in the folder of a run, as who reports or shares it reads it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from robot_stack.types.errors import StoreError

Count = Annotated[int, Field(ge=0)]


class _Counted(BaseModel):
    """How many episodes succeeded, with the interval of the rate, and the mean time of a success."""

    model_config = ConfigDict(strict=True)

    episodes: Count
    success: Count
    wilson95: Annotated[list[float], Field(min_length=2, max_length=2)]
    cycle_s: float | None = None


class _Scored(BaseModel):
    """The mean score of a task that is scored as an insertion, of how much, and its parts."""

    model_config = ConfigDict(strict=True)

    mean: float
    most: float
    parts: dict[str, float]


class _Judged(BaseModel):
    """How often the success model said that the task was done."""

    model_config = ConfigDict(strict=True)

    declared: Count


class _Evaluation(_Counted):
    """The keys that are read; what else is there is left alone."""

    observation_age_ms: float | None = None
    tasks: dict[str, _Counted] | None = None
    score: _Scored | None = None
    alone: _Counted | None = None
    helped: _Counted | None = None
    discarded: Count = 0
    success_model: _Judged | None = None


def read_evaluation(path: Path, command: str = "eval") -> dict[str, Any] | None:
    """Return the evaluation in a file, whole, or None if there is none.

    Args:
        path: Of the file.
        command: Of robot-stack, which writes it.

    Raises:
        StoreError: If it cannot be read, or is no evaluation.
    """
    try:
        told: dict[str, Any] = json.loads(path.read_text())
        _Evaluation.model_validate(told)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        why = ": ".join((*map(str, first["loc"]), first["msg"]))
    except (OSError, ValueError) as error:
        why = str(error)
    else:
        return told
    raise StoreError(f"{path} is unreadable ({why}), must be an evaluation; run robot-stack {command} again")


def counted_before(path: Path, version: int | None) -> int:
    """Return how many episodes of a policy an evaluation in a file counts; 0 if there is none of it.

    Args:
        path: Of the file.
        version: Of the policy's parameters, as they are now; None for a policy without any.
    """
    try:
        told = read_evaluation(path)
    except StoreError:
        return 0
    same = told is not None and told.get("params_version", -1) == version
    return int(told["episodes"]) if told is not None and same else 0
