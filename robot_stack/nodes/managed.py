"""The life cycle of a managed node: unconfigured, inactive, active, finalized, as lifecycle_msgs has it.

Inactive, what is sensed flows for whoever looks, and no command goes out. Active, the node may command. A node that
nobody manages brings itself up as its process starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lifecycle_msgs.srv import ChangeState
from rclpy.impl.implementation_singleton import rclpy_implementation
from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn
from std_msgs.msg import String

from robot_stack.nodes.qos import LATCHED
from robot_stack.types.errors import RobotError, StackError
from robot_stack.workcell.bring_up import Heard, Stage

LIFECYCLE = "~/lifecycle"
"""Latched: `Heard.to_text` of the stage that was reached, with the sentence why it is not the next one."""
SUCCESS, FAILURE, ERROR = (
    TransitionCallbackReturn.SUCCESS,
    TransitionCallbackReturn.FAILURE,
    TransitionCallbackReturn.ERROR,
)


class ManagedNode(LifecycleNode):
    """A lifecycle node that publishes its stage on `~/lifecycle`, and runs a hook on the way to each.

    A hook raises a StackError with the reason why its stage cannot be reached.

    Publishers made with `create_lifecycle_publisher` are mute unless the node is active.

    Attributes:
        stage: Reached so far.
        failure: Why the last step failed, or "".
        defect: What went wrong in a step that is no StackError: the process must end with it.
        on_defect: Called with it, in the executor's thread.
    """

    def __init__(self, name: str, namespace: str) -> None:
        super().__init__(name, namespace=namespace)
        self.stage = Stage.UNCONFIGURED
        self.failure = ""
        self.defect: Exception | None = None
        self.on_defect: Callable[[], Any] = lambda: None
        self._ending = "shut down"
        self._change_state = self._service_change_state.callback
        self._service_change_state.callback = self._on_change_state
        self._lifecycle = self.create_publisher(String, LIFECYCLE, LATCHED)
        self._announce()

    @property
    def active(self) -> bool:
        """Return whether this node may command."""
        return self.stage is Stage.ACTIVE

    def configure(self) -> None:
        """Open what the node needs; afterwards what it senses flows."""

    def activate(self) -> None:
        """Prepare to command; the node may command once this has returned."""

    def deactivate(self) -> None:
        """Leave the robot standing still, before its commands are muted."""

    def cleanup(self) -> None:
        """Close what `configure` opened."""

    def bring_up(self) -> None:
        """Configure and activate at once, as nobody manages this node.

        Raises:
            StackError: Why it is not active.
        """
        for trigger in (self.trigger_configure, self.trigger_activate):
            if trigger() is not SUCCESS:
                raise self.defect or RobotError(self.failure)

    def safe_stop(self, reason: str) -> None:
        """Leave the robot standing still; called last, whatever ended the node."""

    def retire(self, reason: str) -> None:
        """End the node with its process: call `safe_stop`, unless it has been shut down already."""
        if self.stage is not Stage.FINALIZED:
            self._ending = reason
            self.trigger_shutdown()

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run `configure` for rclpy and become inactive."""
        return self._step(Stage.INACTIVE, self.configure)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run `activate` for rclpy and become active."""
        return self._step(Stage.ACTIVE, self.activate, lambda: super(ManagedNode, self).on_activate(state))

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run `deactivate` for rclpy, become deactivated, and mute the commands even if it fails."""
        try:
            return self._step(Stage.DEACTIVATED, self.deactivate)
        finally:
            super().on_deactivate(state)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run `cleanup` for rclpy and become unconfigured."""
        return self._step(Stage.UNCONFIGURED, self.cleanup)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run `safe_stop` for rclpy, become finalized, and mute the commands even if it fails."""
        try:
            return self._step(Stage.FINALIZED, lambda: self.safe_stop(self._ending))
        finally:
            super().on_deactivate(state)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run `safe_stop` for rclpy after a defect and become finalized: nothing leads out of it."""
        try:
            self._step(Stage.FINALIZED, lambda: self.safe_stop(self.failure))
        finally:
            super().on_deactivate(state)
        return FAILURE

    def _on_change_state(self, request: ChangeState.Request, response: ChangeState.Response) -> ChangeState.Response:
        """Answer a request for a transition; one that does not lead on from here is refused, where rclpy raises."""
        try:
            return self._change_state(request, response)
        except rclpy_implementation.RCLError:
            self.get_logger().warning(
                f"transition {request.transition.id} was asked for, must be one that leads on from {self.stage.value}; "
                "ask ~/get_available_transitions which do"
            )
            response.success = False
            return response

    def _step(self, goal: Stage, *hooks: Callable[[], Any]) -> TransitionCallbackReturn:
        try:
            for hook in hooks:
                hook()
        except StackError as error:
            self.failure = str(error)
            self.get_logger().error(self.failure)
            self._announce()
            return FAILURE
        except Exception as error:  # the top of a step: rclpy would swallow it, and the node would just stand there
            self.defect, self.failure = error, repr(error)
            self.on_defect()
            return ERROR
        self.stage, self.failure = goal, ""
        self._announce()
        return SUCCESS

    def _announce(self) -> None:
        self._lifecycle.publish(String(data=Heard(stage=self.stage, reason=self.failure).to_text()))
