"""The settings that a node runs with as ROS parameters, for `ros2 param list`, `get` and `describe`, and for rqt.

Values, descriptions and ranges are those of the configuration's models. All processes of a run share one configuration,
which is checked as a whole when the run starts: so a parameter is read-only, and who sets one is told where it is set.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.exceptions import InvalidParameterTypeException, InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from robot_stack.config.resolve import is_said_in_a_file_alone
from robot_stack.config.resolved import ResolvedRun
from robot_stack.types.errors import ConfigError

Value = bool | int | float | str | list[bool] | list[int] | list[float] | list[str]
KNOWN_TYPES = {each.value for each in Parameter.Type}
LARGEST_INTEGER = 2**63 - 1
SIM_TIME = "use_sim_time"
"""Declared by rclpy in every node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value of a run's configuration, as a node shows it.

    Attributes:
        name: Of the parameter.
        key: Dotted key that `--set` takes; for what is inside a list, that of the list.
        value: What the run says.
        descriptor: Its description and range, read-only.
    """

    name: str
    key: str
    value: Value
    descriptor: ParameterDescriptor


def settings_of(run: ResolvedRun, parts: Mapping[str, str]) -> Iterator[Setting]:
    """Yield a setting for every value that is given; what is null or an empty list is no parameter.

    Args:
        run: The resolved run.
        parts: Prefix of the parameters -> dotted key of a section, or name -> key of one value. The prefix "" is none.
    """
    sections = run.parts()
    for prefix, key in parts.items():
        part = next(part for part in sections if key == part or key.startswith(f"{part}."))
        owner: Any = sections[part]
        field: FieldInfo | None = None
        for step in key.removeprefix(part).split(".")[1:]:
            field = _field(owner, step) or field
            owner = owner[step] if isinstance(owner, Mapping) else getattr(owner, step)
        yield from _settings(prefix, key, owner, field)


def robot_parts(run: ResolvedRun) -> dict[str, str]:
    """Return what the process of a run's robots shows: each arm under its name, and when its watchdog stops it.

    Tables of links and capsules are left out: a robot's shape is on robot_description.
    """
    shown = {
        f"{arm}.{name}": f"robots.{arm}.{name}" if run.cell.arms else f"robot.{name}"
        for arm, robot in run.robots.items()
        for name in type(robot).model_fields
        if name not in ("kinematics", "collision")
    }
    return {**shown, "output_timeout_s": "safety.output_timeout_s"}


def _settings(name: str, key: str, value: Any, field: FieldInfo | None, *, in_list: bool = False) -> Iterator[Setting]:
    inner: Iterable[tuple[str, Any]]
    lists = isinstance(value, tuple) and any(isinstance(item, BaseModel) for item in value)
    if isinstance(value, BaseModel):
        inner = ((each, getattr(value, each)) for each in type(value).model_fields)
    elif isinstance(value, Mapping):
        inner = ((str(each), item) for each, item in value.items())
    elif lists:
        inner = ((str(getattr(item, "name", index)), item) for index, item in enumerate(value))
    else:
        shown = _shown(value)
        if shown is not None:
            yield Setting(name=name, key=key, value=shown, descriptor=_descriptor(shown, field))
        return
    in_list = in_list or lists
    for part, item in inner:
        below, own = key if in_list else f"{key}.{part}", _field(value, part) or field
        yield from _settings(f"{name}.{part}" if name else part, below, item, own, in_list=in_list)


def _field(owner: object, name: str) -> FieldInfo | None:
    return type(owner).model_fields.get(name) if isinstance(owner, BaseModel) else None


def _shown(value: object) -> Value | None:
    """Return a value as ROS parameters have them; a list of several kinds becomes JSON, and nothing becomes None."""
    if isinstance(value, bool | int | float | str):
        return value
    if not isinstance(value, Sequence):
        return None
    items = list(value)
    for kind in (bool, int, float, str):
        if items and all(type(item) is kind for item in items):
            return items
    if items and all(type(item) in (int, float) for item in items):
        return [float(item) for item in items]
    return json.dumps(items) if items else None


def _descriptor(value: Value, field: FieldInfo | None) -> ParameterDescriptor:
    found = ParameterDescriptor(read_only=True)
    if field is None:
        return found
    found.description = " ".join((field.description or "").split())
    marks = [*field.metadata, *_marks(field.annotation)]
    bounds = {side: getattr(mark, side) for side in ("gt", "ge", "lt", "le") for mark in marks if hasattr(mark, side)}
    choices = [str(each) for each in _choices(field.annotation)]
    if len(choices) > 1:
        found.additional_constraints = f"one of {', '.join(choices)}"
    if bounds and isinstance(value, int) and not isinstance(value, bool):
        low = bounds.get("ge", bounds.get("gt", -LARGEST_INTEGER - 1) + ("gt" in bounds))
        high = bounds.get("le", bounds.get("lt", LARGEST_INTEGER) - ("lt" in bounds))
        found.integer_range = [IntegerRange(from_value=low, to_value=high)]
    elif bounds and isinstance(value, float):
        low, high = bounds.get("ge", bounds.get("gt", -math.inf)), bounds.get("le", bounds.get("lt", math.inf))
        open_ends = {"gt": "above", "lt": "below"}
        rules = (f"{word} {bounds[side]:g}" for side, word in open_ends.items() if side in bounds)
        found.additional_constraints = ", ".join(rules)
        found.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
    return found


def _marks(annotation: Any) -> Iterator[Any]:
    """Yield the constraints on the alternatives of a type, such as those of the number in `number | None`."""
    if get_origin(annotation) is Annotated:
        for mark in annotation.__metadata__:
            yield from getattr(mark, "metadata", (mark,))
    elif get_origin(annotation) in (Union, types.UnionType):
        for each in get_args(annotation):
            yield from _marks(each)


def _choices(annotation: Any) -> Iterator[Any]:
    """Yield the legal values of a type that has only a few."""
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    elif get_origin(annotation) in (Annotated, Union, types.UnionType):
        for each in get_args(annotation):
            yield from _choices(each)


class SettingParameters:
    """The parameters of a node: most are read-only, and who sets one is told where it is changed.

    Attributes:
        judges: Asked before rclpy sets parameters; each returns why it cannot be, or "".
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._keys: dict[str, str] = {}
        self.judges: list[Callable[[Sequence[Parameter]], str]] = [self._read_only]

    def declare(self, settings: Iterable[Setting]) -> None:
        """Declare read-only parameters.

        Raises:
            ConfigError: If the command line gives one of them another value: the other processes would not have it.
        """
        for setting in settings:
            self._keys[setting.name] = setting.key
            value = self.declare_open(setting).value
            if setting.value != (value if isinstance(value, bool | int | float | str) else list(value)):
                raise _contradicted(setting, repr(value))

    def declare_open(self, setting: Setting) -> Parameter:
        """Declare a parameter as its descriptor says, and return it: with the command line's value, if there is one.

        Raises:
            ConfigError: If that value is of another type or out of range.
        """
        try:
            return self._node.declare_parameter(setting.name, setting.value, setting.descriptor)
        except (InvalidParameterTypeException, InvalidParameterValueException):
            raise _contradicted(setting, "of another type or out of range") from None

    def refusal(self, parameters: Sequence[Parameter]) -> str:
        """Return why parameters cannot be set, with what to do instead, or ""."""
        return "\n".join(filter(None, (judge(parameters) for judge in self.judges)))

    def _read_only(self, parameters: Sequence[Parameter]) -> str:
        return "\n".join(self._refusal(each.name) for each in parameters if each.name in (SIM_TIME, *self._keys))

    def _refusal(self, name: str) -> str:
        if name == SIM_TIME:
            return f"{name} is read-only, must be chosen when the process starts; start it with -p {name}:=VALUE"
        return f"{name} is read-only, must be changed where the run is described; {_advice(self._keys[name])}"


def refuse_unknown_types(node: Node) -> None:
    """Let a node's parameter services refuse requests with a value of an unknown type, at which rclpy raises."""
    for service in node.services:
        if service.srv_type in (SetParameters, SetParametersAtomically):
            service.callback = partial(_set_if_known, service.callback)


def _set_if_known(answer: Callable[[Any, Any], Any], request: Any, response: Any) -> Any:
    unknown = [each for each in request.parameters if each.value.type not in KNOWN_TYPES]
    if not unknown:
        return answer(request, response)
    reason = (
        f"the type of parameter {unknown[0].name} is {unknown[0].value.type}, must be {min(KNOWN_TYPES)} to "
        f"{max(KNOWN_TYPES)}; no parameter of the request was set, send it as rcl_interfaces/ParameterType has it"
    )
    refused = SetParametersResult(successful=False, reason=reason)
    if isinstance(request, SetParameters.Request):
        response.results = [refused] * len(request.parameters)
    else:
        response.result = refused
    return response


def _contradicted(setting: Setting, given: str) -> ConfigError:
    return ConfigError(
        f"parameter {setting.name} is {given} on the command line, must be {setting.value!r} as in the run, "
        f"which all processes share; {_advice(setting.key)}"
    )


def _advice(key: str) -> str:
    if is_said_in_a_file_alone(key):
        return f"set {key} in its file"
    return f"set {key} in its file, or start again with --set {key}=VALUE (ros2 launch: set:={key}=VALUE)"
