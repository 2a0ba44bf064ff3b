"""Safety limits as ROS parameters: they may be made tighter, and back, never looser than the files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rcl_interfaces.msg import FloatingPointRange, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

from robot_stack.control.safety.limits import TIGHTENABLE, SafetyLimits, tightened
from robot_stack.nodes.parameters import Setting, SettingParameters
from robot_stack.types.errors import ConfigError
from robot_stack.types.reason import Refusal


class LimitParameters:
    """Declares the safety limits as parameters of a node, and judges new values of those that can be made tighter.

    Args:
        node: The safety node.
        settings: Its parameters.
        shown: The limits of the files; those that cannot be changed become read-only.
        limits: The same by arm; the ceiling. What can be made tighter is the same for all arms.
        apply: Takes new limits into use, or returns why not.

    Raises:
        ConfigError: If the command line asks for a looser limit.
    """

    def __init__(
        self,
        node: Node,
        settings: SettingParameters,
        shown: Iterable[Setting],
        limits: Mapping[str, SafetyLimits],
        apply: Callable[[Mapping[str, SafetyLimits]], Refusal | None],
    ) -> None:
        self._ceiling = limits
        self._apply = apply
        self.limits = limits
        """What holds now."""
        asked: list[Parameter] = []
        for setting in shown:
            if setting.name in TIGHTENABLE:
                asked.append(settings.declare_open(_tightenable(setting)))
            else:
                settings.declare([setting])
        settings.judges.append(self._looser)
        node.add_on_set_parameters_callback(self._take)
        taken = self._take(asked)
        if not taken.successful:
            raise ConfigError(taken.reason)

    def _looser(self, parameters: Sequence[Parameter]) -> str:
        try:
            self._changed(parameters)
        except ConfigError as error:
            return str(error)
        return ""

    def _take(self, parameters: Sequence[Parameter]) -> SetParametersResult:
        limits = self._changed(parameters)
        refusal = None if limits == self.limits else self._apply(limits)
        if refusal is None:
            self.limits = limits
        return SetParametersResult(successful=refusal is None, reason=str(refusal or ""))

    def _changed(self, parameters: Sequence[Parameter]) -> Mapping[str, SafetyLimits]:
        """Return what would hold with these values, whose type rclpy checks.

        Raises:
            ConfigError: If one is looser than the files, or no number.
        """
        changes = {each.name: each.value for each in parameters if each.name in TIGHTENABLE}
        numbers = {name: value for name, value in changes.items() if isinstance(value, float)}
        return {arm: tightened(self._ceiling[arm], each, numbers) for arm, each in self.limits.items()}


def _tightenable(setting: Setting) -> Setting:
    """Return a limit that may be set up to its present value."""
    assert isinstance(setting.value, float)
    found = setting.descriptor
    found.read_only = False
    found.floating_point_range = [FloatingPointRange(from_value=0.0, to_value=setting.value)]
    found.additional_constraints = (
        f"above 0 and at most {setting.value:g}, the limit of the safety file; only while the arm stands"
    )
    return setting
