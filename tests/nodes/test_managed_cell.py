"""A cell whose nodes wait for the bring-up: order, muteness while inactive, and what follows a death."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import cell_processes, managed
from robot_stack.workcell.bring_up import Heard, Stage
from tests.nodes.cell_rig import START_S, wait_until

pytest.importorskip("rclpy", reason="no ROS on this machine")

NAMES = ("robot", "safety", "camera_wrist", "camera_front", "teleop", "command_recorder")


class Ears:
    """Stages, commands and decisions of one cell, and requests to its nodes."""

    def __init__(self, namespace: str) -> None:
        import rclpy
        from geometry_msgs.msg import TwistStamped
        from lifecycle_msgs.srv import ChangeState
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.signals import SignalHandlerOptions
        from rclpy.task import Future
        from sensor_msgs.msg import JointState, Joy
        from std_msgs.msg import String
        from std_srvs.srv import Trigger

        from robot_stack.nodes import topics
        from robot_stack.nodes.qos import EVERY, LATCHED, STATE

        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        self.node = rclpy.create_node("ears", namespace=namespace, start_parameter_services=False)
        self.stages: list[tuple[str, Heard]] = []
        self.status = ""
        self.commands_ns: list[int] = []
        self.states_ns: list[int] = []
        self.labels_ns: list[int] = []
        for name in NAMES:
            self.node.create_subscription(
                String, topics.lifecycle(name), lambda msg, name=name: self._on_stage(name, msg.data), LATCHED
            )
        self.node.create_subscription(String, topics.CELL_STATUS, self._on_status, LATCHED)
        for kind, topic, kept in (
            (TwistStamped, topics.command("fr3"), self.commands_ns),
            (JointState, topics.state("fr3"), self.states_ns),
            (Joy, topics.label("fr3"), self.labels_ns),
        ):
            self.node.create_subscription(
                kind, topic, lambda _, kept=kept: kept.append(time.monotonic_ns()), EVERY if kind is Joy else STATE
            )
        self._change = {name: self.node.create_client(ChangeState, f"{name}/change_state") for name in NAMES}
        self._arm = self.node.create_client(Trigger, topics.safety_service("arm"))
        self._types = ChangeState, Trigger
        self._stop = Future()
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self.node)
        self._thread = threading.Thread(target=lambda: self._executor.spin_until_future_complete(self._stop))
        self._thread.start()

    def _on_stage(self, name: str, text: str) -> None:
        self.stages.append((name, Heard.from_text(text)))

    def _on_status(self, msg: object) -> None:
        self.status = msg.data

    def stage(self, name: str) -> Stage | None:
        return next((heard.stage for who, heard in reversed(self.stages) if who == name), None)

    def change(self, name: str, transition: str) -> bool:
        request = self._types[0].Request()
        request.transition.label = transition
        return self._answer(self._change[name], request).success

    def arm(self) -> str:
        return self._answer(self._arm, self._types[1].Request()).message

    def _answer(self, client: object, request: object) -> object:
        assert client.wait_for_service(10.0)
        answered = threading.Event()
        future = client.call_async(request)
        future.add_done_callback(lambda _: answered.set())
        assert answered.wait(10.0)
        return future.result()

    def close(self) -> None:
        import rclpy

        self._stop.set_result(True)
        self._thread.join(5.0)
        self.node.destroy_node()
        rclpy.try_shutdown()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("managed")


@pytest.fixture(scope="module")
def cell(run, folder):
    """Ears and supervisor of a managed cell that has come up."""
    with prepared(run, folder) as ready:
        before = dict(os.environ)
        os.environ.update(ready.environment)
        ears = Ears(run.run.cell)
        table = managed(cell_processes(run, folder), folder)
        try:
            with Supervisor(table, environment=ready.environment, log_folder=ready.log_folder) as supervisor:
                wait_until(lambda: supervisor.step() or ears.status == "active", START_S, "an active cell")
                yield ears, supervisor
        finally:
            ears.close()
            os.environ.clear()
            os.environ.update(before)


@pytest.fixture
def ears(cell):
    return cell[0]


@pytest.fixture
def supervisor(cell):
    return cell[1]


def test_the_nodes_became_active_in_the_order_of_the_table(ears):
    def reached() -> list[str]:
        return [name for name, heard in ears.stages if heard.stage is Stage.ACTIVE]

    wait_until(lambda: len(reached()) == len(NAMES), 10, "the word of each")
    assert reached() == list(NAMES)


def test_an_inactive_safety_process_commands_nothing_while_what_is_sensed_flows_on(ears):
    assert ears.change("safety", "deactivate")
    wait_until(lambda: ears.stage("safety") is Stage.DEACTIVATED, 15, "deactivated safety")
    began_ns = time.monotonic_ns()
    for kept in (ears.labels_ns, ears.states_ns):
        wait_until(lambda kept=kept: sum(at > began_ns for at in kept) > 30, 15, "decisions and states")
    assert not [at for at in ears.commands_ns if at > began_ns + 50_000_000]
    assert ears.arm() == "safety is deactivated, must be active to arm; activate it"
    wait_until(lambda: "safety is not active: somebody took it out of active" in ears.status, 15, "a word about it")
    assert ears.change("safety", "activate")
    wait_until(lambda: ears.commands_ns[-1] > began_ns and ears.status == "active", 15, "commands again")


def test_a_killed_camera_is_started_and_brought_up_again(ears, supervisor):
    os.kill(supervisor.pid("camera_front"), signal.SIGKILL)
    wait_until(lambda: supervisor.step() or supervisor.restarts("camera_front") == 1, 10, "a restart")
    count = len(ears.stages)
    wait_until(
        lambda: supervisor.step() or ("camera_front", Heard(stage=Stage.ACTIVE)) in ears.stages[count:],
        30,
        "active again",
    )


def test_a_step_that_does_not_exist_is_refused(ears):
    assert not ears.change("robot", "configure")
    assert ears.stage("robot") is Stage.ACTIVE


def test_stopped_nodes_end_in_time_and_without_a_word_too_many(supervisor, folder):
    """Last: it ends the cell of this module."""
    began_s = time.monotonic()
    supervisor.stop()
    assert time.monotonic() - began_s < 10.0
    logs = {path.name: path.read_text() for path in (folder / "log").glob("*.log")}
    assert set(logs) == {f"{name}.log" for name in (*NAMES, "bring_up")}
    assert not [name for name, text in logs.items() if "Traceback" in text]
    assert "safety process ends: SIGTERM" in logs["safety.log"]
