"""The questions of a handshake, put to a driver without waiting: services, the graph, measured rates.

What the answers mean is decided in `control.drivers.handshake`.
"""

from __future__ import annotations

from typing import Any

from rcl_interfaces.msg import ParameterType, ParameterValue
from rcl_interfaces.srv import GetParameters
from rclpy.action import get_action_names_and_types
from rclpy.client import Client
from rclpy.task import Future

from robot_stack.control.drivers.handshake import WHY, Handshake, Pace, Question, Said, Standing, Way
from robot_stack.nodes.base import StackNode
from robot_stack.nodes.diagnostics import Diagnosis
from robot_stack.nodes.drivers.wires import type_called
from robot_stack.types.errors import ConfigError
from robot_stack.types.finding import Level
from robot_stack.types.reason import Fault

LOST_NS = 2_000_000_000
"""A call without an answer is given up after this, and made anew."""
ACTIVE = "active"
"""State of a controller, in controller_manager_msgs/ControllerState."""


class Asking:
    """The handshake of one arm's driver over ROS."""

    def __init__(self, node: StackNode, arm: str, handshake: Handshake, pace: Pace) -> None:
        """Prepare the handshake without asking anything yet.

        Args:
            node: Asks.
            arm: Its name, for diagnostics.
            handshake: Decides.
            pace: Of the joint states; fed by who hears them.
        """
        self._node, self._arm = node, arm
        self._handshake, self._pace = handshake, pace
        self._clients: dict[tuple[Way, str], Client | None] = {}
        self._calls: dict[tuple[Way, str], tuple[Future, int]] = {}

    def poll(self, now_ns: int) -> None:
        """Ask what is due, as far as somebody is there to answer; called once per tick."""
        due = self._handshake.due(now_ns)
        for question in due:
            if question.way is Way.ACTION_TYPE:
                self._take(question, self._action_type(question.of), now_ns)
            elif question.way is Way.PUBLISHERS:
                self._take(question, self._publishers(question.of), now_ns)
            elif question.way is Way.RATE:
                self._take(question, self._pace.rate_hz(), now_ns)
        for way, node in {(each.way, each.of) for each in due if each.way in (Way.PARAMETER, Way.CONTROLLERS)}:
            self._call(way, node, [each for each in due if (each.way, each.of) == (way, node)], now_ns)

    def fault(self, now_ns: int) -> Fault | None:
        """Return why the arm must not move yet, as far as the handshake knows."""
        return self._handshake.fault(now_ns)

    def contradiction(self) -> Fault | None:
        """Return the first thing that robot file and driver say differently."""
        return self._handshake.contradiction()

    def restart(self, now_ns: int) -> None:
        """Ask everything anew, as the driver was gone."""
        self._pace.forget()
        self._handshake.restart(now_ns)

    def diagnose(self) -> Diagnosis:
        """Return a diagnosis of how far each question has got, and what contradicts."""
        standing, faults = self._handshake.standing(), self._handshake.faults()
        values = {question.field: str(each) for question, each in standing.items()}
        values |= {f"{question.field}{WHY}": fault.text for question, fault in faults.items()}
        task = f"handshake of {self._arm}"
        if faults:
            return Diagnosis(task=task, level=Level.FAIL, message="; ".join(map(str, faults.values())), values=values)
        unasked = [question.whom() for question, each in standing.items() if each is Standing.UNASKABLE]
        if unasked:
            text = f"{', '.join(unasked)} cannot be asked for here; compare by hand"
            return Diagnosis(task=task, level=Level.WARN, message=text, values=values)
        return Diagnosis(task=task, values=values)

    def _take(self, question: Question, answer: Said | None, now_ns: int) -> None:
        if answer is not None:
            self._handshake.answered(question, answer, now_ns)

    def _action_type(self, action: str) -> str | None:
        """Return an action's type in the graph as a robot file writes it, "package/Type"; None if it is not there."""
        for name, types in get_action_names_and_types(self._node):
            if name == action and types:
                return str(types[0]).replace("/action/", "/")
        return None

    def _publishers(self, topic: str) -> tuple[str, ...] | None:
        return tuple(sorted({str(each.node_name) for each in self._node.get_publishers_info_by_topic(topic)})) or None

    def _call(self, way: Way, node: str, questions: list[Question], now_ns: int) -> None:
        key = (way, node)
        client = self._client(way, node)
        if client is None:
            for question in questions:
                self._handshake.cannot_ask(question)
            return
        pending = self._calls.get(key)
        if pending is not None and now_ns - pending[1] < LOST_NS:
            return
        if pending is not None:
            client.remove_pending_request(pending[0])
        if not client.service_is_ready():
            return
        kind: Any = client.srv_type
        request = kind.Request()
        if way is Way.PARAMETER:
            request.names = [question.name for question in questions]

        def answered(future: Future) -> None:
            self._calls.pop(key, None)
            answer = future.result()
            if answer is None:
                return
            said = parameter_values(answer) if way is Way.PARAMETER else [active_controllers(answer)]
            for question, each in zip(questions, said, strict=False):  # a node that lacks them may answer with fewer
                self._handshake.answered(question, each, now_ns)

        future = client.call_async(request)
        self._calls[key] = (future, now_ns)
        future.add_done_callback(answered)

    def _client(self, way: Way, node: str) -> Client | None:
        """Return the client for a kind of question to a node; None where this machine has no messages to ask with."""
        key = (way, node)
        if key not in self._clients:
            if way is Way.PARAMETER:
                self._clients[key] = self._node.create_client(GetParameters, f"{node}/get_parameters")
            else:
                self._clients[key] = self._controllers_client(node)
        return self._clients[key]

    def _controllers_client(self, manager: str) -> Client | None:
        try:
            kind = type_called("controller_manager_msgs/ListControllers", "srv")
        except ConfigError:
            return None
        return self._node.create_client(kind, f"{manager}/list_controllers")


def parameter_values(answer: GetParameters.Response) -> list[Said | None]:
    """Return the values of an answer in the order asked; None for a parameter that the node does not have."""
    return [_value(each) for each in answer.values]


def _value(value: ParameterValue) -> Said | None:
    if value.type == ParameterType.PARAMETER_BOOL:
        return bool(value.bool_value)
    if value.type == ParameterType.PARAMETER_INTEGER:
        return float(value.integer_value)
    if value.type == ParameterType.PARAMETER_DOUBLE:
        return float(value.double_value)
    if value.type == ParameterType.PARAMETER_STRING:
        return str(value.string_value)
    return None


def active_controllers(answer: Any) -> tuple[str, ...]:
    """Return the names of the controllers that run, out of controller_manager_msgs/ListControllers."""
    return tuple(sorted(str(each.name) for each in answer.controller if each.state == ACTIVE))
