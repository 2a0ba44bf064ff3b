"""Safety limits as ROS parameters: they may be made tighter, and back, never looser than the files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields

from rcl_interfaces.msg import ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from robot_stack.control.safety.limits import STRUCTURED, TIGHTENABLE, SafetyLimits, tightened
from robot_stack.types.errors import ConfigError
from robot_stack.types.reason import Refusal

BOX = ("box_min_m", "box_max_m")
"""Of each arm its own."""


class LimitParameters:
    """Declares the safety limits as parameters of a node, and judges new values.

    Args:
        node: With parameter services.
        limits: Of the files, by arm; the ceiling. What can be made tighter is the same for all arms.
        rate_hz: Of the filter, shown only.
        apply: Takes new limits into use, or returns why not.
    """

    def __init__(
        self,
        node: Node,
        limits: Mapping[str, SafetyLimits],
        rate_hz: float,
        apply: Callable[[Mapping[str, SafetyLimits]], Refusal | None],
    ) -> None:
        self._ceiling = limits
        self._apply = apply
        self.limits = limits
        """What holds now."""
        any_arm = next(iter(limits.values()))
        for name in TIGHTENABLE:
            largest = getattr(any_arm, name)
            text = f"above 0 and at most {largest:g}, the limit of the safety file; only while the arm stands"
            node.declare_parameter(name, float(largest), ParameterDescriptor(additional_constraints=text))
        fixed = {
            field.name: getattr(any_arm, field.name)
            for field in fields(any_arm)
            if field.name not in (*TIGHTENABLE, *BOX, *STRUCTURED)
        }
        boxes = {f"{arm}.{name}": getattr(each, name) for arm, each in limits.items() for name in BOX}
        for name, value in {**fixed, **boxes, "rate_hz": rate_hz}.items():
            shown = [float(each) for each in value] if isinstance(value, tuple) else float(value)
            node.declare_parameter(name, shown, ParameterDescriptor(read_only=True))
        node.add_on_set_parameters_callback(self._judge)

    def _judge(self, parameters: list[Parameter]) -> SetParametersResult:
        changes = {each.name: each.value for each in parameters if each.name in TIGHTENABLE}
        if not changes:
            return SetParametersResult(successful=True)
        try:
            limits = {arm: tightened(self._ceiling[arm], each, changes) for arm, each in self.limits.items()}
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        refusal = self._apply(limits)
        if not refusal:
            self.limits = limits
        return SetParametersResult(successful=refusal is None, reason=str(refusal or ""))
