"""A request to the services that rclpy gives every node ends no node, whatever is in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

rclpy = pytest.importorskip("rclpy", reason="no ROS on this machine")

from lifecycle_msgs.msg import Transition  # noqa: E402
from lifecycle_msgs.srv import ChangeState  # noqa: E402
from rcl_interfaces.msg import Parameter, ParameterValue  # noqa: E402
from rcl_interfaces.srv import SetParameters, SetParametersAtomically  # noqa: E402

from robot_stack.nodes.base import StackNode, make_executor  # noqa: E402
from robot_stack.workcell.bring_up import Stage  # noqa: E402

DOMAIN = 59
WAIT_S = 10.0


class Asked:
    """An active node in an executor of its own kind, and who asks it."""

    def __init__(self) -> None:
        rclpy.init()
        self.node = StackNode("robot", "cell")
        self._executor = make_executor(self.node)
        self._client = rclpy.create_node("asking", start_parameter_services=False)
        self._executor.add_node(self._client)
        self.node.bring_up()

    def ask(self, kind: Any, service: str, request: Any) -> Any:
        client = self._client.create_client(kind, f"/cell/robot/{service}")
        assert client.wait_for_service(WAIT_S)
        answer = client.call_async(request)
        self._executor.spin_until_future_complete(answer, WAIT_S)
        assert answer.done()
        return answer.result()

    def close(self) -> None:
        self._executor.shutdown()
        self._client.destroy_node()
        self.node.destroy_node()
        rclpy.try_shutdown()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[Asked]:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    asked = Asked()
    yield asked
    asked.close()


@pytest.mark.parametrize("number", [0, Transition.TRANSITION_ACTIVATE, Transition.TRANSITION_CALLBACK_SUCCESS, 250])
def test_a_transition_out_of_turn_is_refused_and_the_node_stays_active(number: int, asked: Asked) -> None:
    answer = asked.ask(ChangeState, "change_state", ChangeState.Request(transition=Transition(id=number)))
    assert not answer.success
    assert asked.node.stage is Stage.ACTIVE


def test_a_transition_in_turn_is_made(asked: Asked) -> None:
    request = ChangeState.Request(transition=Transition(id=Transition.TRANSITION_DEACTIVATE))
    assert asked.ask(ChangeState, "change_state", request).success
    assert asked.node.stage is Stage.DEACTIVATED


def test_parameters_with_one_of_an_unknown_type_are_refused_and_the_node_stays_active(asked: Asked) -> None:
    parameters = [
        Parameter(name=name, value=ParameterValue(type=kind)) for name, kind in (("use_sim_time", 1), ("x", 99))
    ]
    for kind, service in (
        (SetParameters, "set_parameters"),
        (SetParametersAtomically, "set_parameters_atomically"),
    ):
        answer = asked.ask(kind, service, kind.Request(parameters=parameters))
        results = answer.results if kind is SetParameters else [answer.result] * 2
        assert [each.successful for each in results] == [False, False]
        assert results[1].reason.startswith("the type of parameter x is 99, must be 0 to 9")
    assert asked.node.stage is Stage.ACTIVE
