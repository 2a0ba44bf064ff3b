"""The base of every configuration model, and the checks of one section against its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from robot_stack.config.explain import explain
from robot_stack.config.located import Located
from robot_stack.config.mistake import Mistake, hint, raise_if_any, shown


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Generic[ModelT]):
    """Several models for one kind of file; the value of a key says which one it is.

    Attributes:
        key: Of the file, e.g. "backend".
        models: By that value.
    """

    key: str
    models: Mapping[str, type[ModelT]]

    def of(self, tree: Located, mistakes: list[Mistake]) -> type[ModelT] | None:
        """The model of a section, or None after adding that its key says none."""
        node = tree.get(self.key)
        if node is None:
            mistakes.append(Mistake(mark=tree.mark, key=self._full_key(tree), text=f"field required; add '{self.key}'"))
            return None
        if isinstance(node.value, str) and node.value in self.models:
            return self.models[node.value]
        legal = ", ".join(f"'{name}'" for name in self.models)
        said = hint(node.value, self.models) if isinstance(node.value, str) else "; choose one of them"
        text = f"input should be one of {legal} (got {shown(node.plain())}){said}"
        mistakes.append(Mistake(mark=node.mark, key=self._full_key(tree), text=text))
        return None

    def json_schema(self) -> dict[str, Any]:
        """Of all the models as one."""
        union: Any = reduce(or_, self.models.values())
        return TypeAdapter(Annotated[union, Field(discriminator=self.key)]).json_schema()

    def _full_key(self, tree: Located) -> str:
        return ".".join([*tree.path, self.key])


def check(tree: Located, model: type[ModelT] | Choice[ModelT], mistakes: list[Mistake]) -> ModelT | None:
    """The model of a section, or None after adding every mistake in it."""
    chosen = model.of(tree, mistakes) if isinstance(model, Choice) else model
    if chosen is None:
        return None
    try:
        return chosen.model_validate(tree.plain())
    except ValidationError as error:
        mistakes.extend(explain(error, tree, chosen))
        return None


def validate_section(tree: Located, model: type[ModelT] | Choice[ModelT]) -> ModelT:
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
