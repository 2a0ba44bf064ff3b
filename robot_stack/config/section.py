"""The base of every configuration model, and the checks of one section against its model."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from robot_stack.config.explain import explain
from robot_stack.config.located import Located
from robot_stack.config.mistake import Mistake, raise_if_any


class Section(BaseModel):
    """Frozen, strict, without unknown keys, NaN or infinity. Lists are tuples: declare `tuple[...]` fields."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        validate_default=True,
        use_attribute_docstrings=True,
    )


ModelT = TypeVar("ModelT", bound=BaseModel)

FreeSection = dict[str, Any]
"""A section whose model belongs to another package; it is checked there with `validate_section`."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
"""Lower case letters, digits and underscores: it becomes part of topic and file names."""


def check(tree: Located, model: type[ModelT], mistakes: list[Mistake]) -> ModelT | None:
    """The model of a section, or None after adding every mistake in it."""
    try:
        return model.model_validate(tree.plain())
    except ValidationError as error:
        mistakes.extend(explain(error, tree, model))
        return None


def validate_section(tree: Located, model: type[ModelT]) -> ModelT:
    """The model of a section.

    Raises:
        ConfigError: If it does not fit, one line per mistake, each with file, line and column.
    """
    mistakes: list[Mistake] = []
    result = check(tree, model, mistakes)
    raise_if_any(mistakes)
    if result is None:
        raise AssertionError("a section was refused without a reason")
    return result
