"""The base of every configuration model, and the checks of one section against its model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ValidationError,
)
from pydantic_core import CoreSchema, core_schema

from robot_stack.config.files import patterns
from robot_stack.config.files.explain import PlacedError, explain
from robot_stack.config.files.located import Located
from robot_stack.config.files.mistake import Mistake, raise_if_any, shown, suggestion
from robot_stack.plugins import Kind, Part, Registry
from robot_stack.types.errors import ConfigError


class Section(BaseModel):
    """The base of every configuration model: frozen, strict, without unknown keys, NaN or infinity.

    Lists are tuples: declare `tuple[...]` fields.
    """

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

Name = Annotated[str, Field(pattern=patterns.NAME, max_length=64)]
"""Lower case letters, digits and underscores: it becomes part of topic and file names."""

Share = Annotated[float, Field(ge=-1, le=1)]
"""An entry of a unit quaternion."""
ROUNDED = 0.02
"""How far the length of a quaternion that was written with two digits may be from 1."""


def _of_length_one(quaternion: tuple[float, ...]) -> tuple[float, ...]:
    length = math.hypot(*quaternion)
    if abs(length - 1) > ROUNDED:
        raise ValueError(f"length of the quaternion is {length:.4g}, must be 1; copy all four values again, x y z w")
    return quaternion


Quaternion = Annotated[tuple[Share, Share, Share, Share], AfterValidator(_of_length_one)]
"""An orientation as a unit quaternion: x, y, z, w."""


def check_unique(names: Sequence[str], what: str, remedy: str = "rename one") -> None:
    """Raise ValueError if a name stands twice among those of several parts."""
    if len(set(names)) != len(names):
        raise ValueError(f"{what} are {list(names)}, must be unique; {remedy}")


def check_names(names: Sequence[str], what: str, remedy: str = "rename one") -> None:
    """Raise PlacedError at the `name` of the first of several parts in a list that repeats another's."""
    for index, name in enumerate(names):
        if name in names[:index]:
            raise PlacedError(f"{what} are {list(names)}, must be unique; {remedy}", index, "name")


@dataclass(frozen=True, slots=True)
class RegisteredName:
    """A mark on a text field whose value must be the name of a registered part."""

    kind: Kind

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema of a text that is looked up after its type is checked."""
        return core_schema.no_info_after_validator_function(self._registered, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return a schema that completes the built-in names and takes others: editors know no packages."""
        return {"anyOf": [{"enum": sorted(self.kind.builtin)}, handler(schema)]}

    def _registered(self, name: str) -> str:
        try:
            self.kind.entry(name)
        except ConfigError as error:
            raise ValueError(str(error)) from None
        return name


@dataclass(frozen=True, kw_only=True)
class Tagged(Generic[ModelT]):
    """A section that is one of several kinds, told apart by the value of one key.

    Attributes:
        base: What all kinds have.
        tag: The key; a `Literal` in each kind.
        union: The kinds that are built in, as pydantic's discriminated union.
        parts: What other packages bring.
        parts_base: What their kinds must have.
        unsaid: Tag values that no file says: they stand in saved runs, and follow from an environment there.
    """

    base: type[ModelT]
    tag: str
    union: Any
    parts: Kind
    parts_base: type[ModelT]
    unsaid: tuple[str, ...] = ()

    @property
    def builtin(self) -> Mapping[str, type[ModelT]]:
        """Return tag value -> model of each kind that is built in."""
        return {self._value(model): model for model in get_args(get_args(self.union)[0])}

    @property
    def names(self) -> tuple[str, ...]:
        """Return the tag values of all kinds, the built-in ones first; no package is imported."""
        return tuple(dict.fromkeys((*self.builtin, *self.parts.names)))

    def model(self, name: str) -> type[ModelT]:
        """Return the model of one of `names`.

        Raises:
            ConfigError: If the package that brings it cannot be used; see `Registry`.
        """
        builtin = self.builtin
        if name in builtin and name not in self.parts.names:
            return builtin[name]
        config: type[Any] = Registry[Part[Any]](self.parts, Part, tuple(builtin))[name].config
        if not (issubclass(config, self.parts_base) and self._value(config) == name):
            raise ConfigError(
                f"settings of {self.parts.what} {name!r} are {config.__module__}.{config.__name__}, must be a subclass "
                f"of {self.parts_base.__name__} with {self.tag}: Literal[{name!r}]; repair its package"
            )
        return config

    def _value(self, model: type[BaseModel]) -> str:
        return str(*get_args(model.model_fields[self.tag].annotation)[:1])


def check(tree: Located, model: type[ModelT] | Tagged[ModelT], mistakes: list[Mistake]) -> ModelT | None:
    """Return the model of a section, or None after adding every mistake in it."""
    chosen = _kind_of(tree, model, mistakes) if isinstance(model, Tagged) else model
    if chosen is None:
        return None
    try:
        return chosen.model_validate(tree.plain())
    except ValidationError as error:
        mistakes.extend(explain(error, tree, chosen))
        return None


def _kind_of(tree: Located, tagged: Tagged[ModelT], mistakes: list[Mistake]) -> type[ModelT] | None:
    """Return the model that a file's tag names; None after saying which there are, or what is wrong with it."""
    node, choices = tree.get(tagged.tag), tagged.names
    key, mark = ".".join([*tree.path, tagged.tag]), tree.mark if node is None else node.mark
    if node is not None and isinstance(node.value, str) and node.value in choices:
        try:
            return tagged.model(node.value)
        except ConfigError as error:
            mistakes.append(Mistake(mark=mark, key=key, text=str(error)))
            return None
    choices = tuple(name for name in choices if name not in tagged.unsaid)
    *most, last = (f"'{name}'" for name in choices)
    legal = f"{', '.join(most)} or {last}" if most else last
    text = f"field required; add '{tagged.tag}': {legal}"
    if node is not None:
        near = suggestion(str(node.value), choices)
        text = f"input should be {legal} (got {shown(node.plain())})" + (
            f"; did you mean '{near}'?" if near else "; write one of them"
        )
    mistakes.append(Mistake(mark=mark, key=key, text=text))
    return None


def validate_section(tree: Located, model: type[ModelT] | Tagged[ModelT]) -> ModelT:
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
