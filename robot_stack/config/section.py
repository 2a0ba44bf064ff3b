"""The base of every configuration model, and the checks of one section against its model."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from robot_stack.config.files.explain import explain
from robot_stack.config.files.located import Located
from robot_stack.config.files.mistake import Mistake, raise_if_any, shown, suggestion


class Section(BaseModel):
    """The base of every configuration model: frozen, strict, without unknown keys, NaN or infinity.

    Lists are tuples: declare `tuple[...]` fields.

    A section that is one of several kinds has a base with the name of the key that says which, `tag`, and a subclass
    per kind, in which that key is a `Literal`. Asked for the base, `check` gives the subclass that the file names.
    """

    tag: ClassVar[str] = ""

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

Share = Annotated[float, Field(ge=-1, le=1)]
"""An entry of a unit quaternion."""


def kinds(model: type[ModelT]) -> dict[str, type[ModelT]]:
    """Return tag value -> model of each kind of a section; empty for a section of one kind."""
    tag = getattr(model, "tag", "")
    found = {}
    for kind in model.__subclasses__() if tag else ():
        found.update({str(value): kind for value in get_args(kind.model_fields[tag].annotation)} or kinds(kind))
    return found


def check(tree: Located, model: type[ModelT], mistakes: list[Mistake]) -> ModelT | None:
    """Return the model of a section, or None after adding every mistake in it."""
    chosen = _kind_of(tree, model, mistakes)
    if chosen is None:
        return None
    try:
        return chosen.model_validate(tree.plain())
    except ValidationError as error:
        mistakes.extend(explain(error, tree, chosen))
        return None


def _kind_of(tree: Located, model: type[ModelT], mistakes: list[Mistake]) -> type[ModelT] | None:
    """Return the model itself, or for one of several kinds the one that is named; None after saying which there are."""
    choices = kinds(model)
    if not choices:
        return model
    tag = str(getattr(model, "tag", ""))
    node = tree.get(tag)
    if node is not None and isinstance(node.value, str) and node.value in choices:
        return choices[node.value]
    key, mark = ".".join([*tree.path, tag]), tree.mark if node is None else node.mark
    *most, last = (f"'{name}'" for name in choices)
    legal = f"{', '.join(most)} or {last}" if most else last
    text = f"field required; add '{tag}': {legal}"
    if node is not None:
        near = suggestion(str(node.value), choices)
        text = f"input should be {legal} (got {shown(node.plain())})" + (f"; did you mean '{near}'?" if near else "")
    mistakes.append(Mistake(mark=mark, key=key, text=text))
    return None


def validate_section(tree: Located, model: type[ModelT]) -> ModelT:
    """Check a section and return its model.

    Raises:
        ConfigError: If it does not fit, one line per mistake, each with file, line and column.
    """
    mistakes: list[Mistake] = []
    result = check(tree, model, mistakes)
    raise_if_any(mistakes)
    if result is None:
        raise AssertionError("a section was refused without a reason")
    return result
