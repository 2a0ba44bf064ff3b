"""The start of an episode over DDS: an operator who makes the scene ready, and an arm that goes to a taught pose."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from robot_stack.config.cell import TaughtPose
from robot_stack.config.resolve import load_run
from robot_stack.config.task import StartConfig
from robot_stack.control.safety.seal import WireKey
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError
from tests.nodes.cell_rig import running_cell, wait_until

START = {"x": 0.52, "y": -0.03, "z": 0.16}
JOINTS = "joints_rad: [0, -0.785, 0, -2.356, 0, 1.571, 0.785]"
POSE = f"{{{JOINTS}, position_m: [0.52, -0.03, 0.16], quaternion_xyzw: [1, 0, 0, 0]}}"


@pytest.fixture(scope="module")
def run():
    return load_run(
        "peg_in_and_out",
        [
            "cell.dds_domain=66",
            f"cell.poses.over_table={POSE}",
            "task.reset.by=operator",
            "task.reset.prompt=put the socket anywhere",
            "task.reset.start.pose=over_table",
            "task.reset.start.range_m=[0.02, 0.02, 0.0]",
            "task.reset.timeout_s=20",
            "safety.rate_hz=50",  # at the shipped rates two slow cores hold this cell and these tests only just
            "cameras.wrist.rate_hz=15",
            "cameras.front.rate_hz=15",
        ],
    )


@pytest.fixture(scope="module")
def cell(run, tmp_path_factory):
    with running_cell(run, tmp_path_factory.mktemp("reset")) as (cell, _):
        yield cell


def with_start(run, pose: TaughtPose, **settings):
    """The same run, whose arm starts from another pose."""
    start = StartConfig(pose="taught", **settings)
    reset = run.task.reset.model_copy(update={"start": start})
    cell = run.cell.model_copy(update={"poses": {"taught": pose}})
    return replace(run, cell=cell, task=run.task.model_copy(update={"reset": reset}))


def taught(joints_rad, position_m) -> TaughtPose:
    return TaughtPose(joints_rad=tuple(joints_rad), position_m=tuple(position_m), quaternion_xyzw=(1, 0, 0, 0))


class Operator:
    """Reads the prompt and, a moment later, says that it is done."""

    def __init__(self, namespace: str, key: WireKey, *, answers: bool) -> None:
        from rclpy.executors import SingleThreadedExecutor
        from rclpy.task import Future
        from sensor_msgs.msg import Joy
        from std_msgs.msg import String

        from robot_stack.nodes import topics
        from robot_stack.nodes.base import StackNode
        from robot_stack.nodes.conversion import events_to_msg
        from robot_stack.nodes.qos import EVERY, LATCHED

        self.prompts: list[str] = []
        self._node = StackNode("operator", namespace, key=key)
        self._events = self._node.create_publisher(Joy, topics.EVENTS, EVERY)

        def read(msg: String) -> None:
            self.prompts.append(msg.data)
            if msg.data and answers:
                pressed = events_to_msg(("reset_done",), time.monotonic_ns(), "pedal")
                self._events.publish(self._node.sealer.seal(topics.EVENTS, pressed))

        self._node.create_subscription(String, topics.PROMPT, read, LATCHED)
        self._stop = Future()
        self._executor = SingleThreadedExecutor()
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=lambda: self._executor.spin_until_future_complete(self._stop))

    def __enter__(self) -> Operator:
        self._thread.start()
        wait_until(lambda: self._events.get_subscription_count() > 0, 10, "a listener")
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set_result(True)
        self._thread.join(5.0)
        self._node.destroy_node()


def test_the_person_is_asked_and_the_arm_goes_to_the_drawn_start(cell, run):
    from robot_stack.nodes.actor.cell_link import CellLink

    link: CellLink = cell._link
    ends = []
    with Operator(run.run.cell, cell._key, answers=True) as operator:
        for seed in (1, 2):
            cell.reset(seed)
            with link.locked():
                ends.append(link.states["fr3"].T_base_tcp.position_m)
            assert cell.mode() in (Mode.READY, Mode.POLICY)
        wait_until(lambda: operator.prompts[-2:] == ["put the socket anywhere", ""], 5, "the prompt's end")
    goal = np.array(list(START.values()))
    for end in ends:
        assert np.abs(end - goal).max() < 0.01 + 0.005
    assert np.linalg.norm(ends[0] - ends[1]) > 0.001, "another seed, another start"


def test_the_arm_goes_back_along_its_joints_to_where_it_was_led(cell, run, monkeypatch):
    link, seen = cell._link, []
    with Operator(run.run.cell, cell._key, answers=True):
        for place in ((0.46, 0.08, 0.12), (0.54, -0.06, 0.2)):
            monkeypatch.setattr(cell, "_run", with_start(run, taught(np.zeros(7), place)))
            cell.reset(1)
            with link.locked():
                seen.append(link.states["fr3"])
        was = seen[0]
        pose = taught(was.joints_rad, was.T_base_tcp.position_m)
        monkeypatch.setattr(cell, "_run", with_start(run, pose, path="joints"))
        cell.reset(1)
        with link.locked():
            end = link.states["fr3"]
    assert np.linalg.norm(seen[1].T_base_tcp.position_m - was.T_base_tcp.position_m) > 0.1
    assert np.linalg.norm(end.T_base_tcp.position_m - was.T_base_tcp.position_m) < 0.005
    assert np.abs(end.joints_rad - was.joints_rad).max() < 0.1


def test_on_the_way_back_the_scene_stays_nobody_is_asked_and_the_arm_stays_too(cell, run):
    link = cell._link
    with Operator(run.run.cell, cell._key, answers=False) as operator:
        with link.locked():
            before = link.states["fr3"].T_base_tcp.position_m
        cell.reset(9, task_id="peg_insert_back", scene=False)
        with link.locked():
            after = link.states["fr3"].T_base_tcp.position_m
        assert not any(operator.prompts)
    assert np.linalg.norm(after - before) < 0.003


def test_a_person_who_never_answers_is_named_after_a_bounded_time(cell, run, monkeypatch):
    monkeypatch.setattr(cell, "_run", load_run("peg_insert", ["task.reset.by=operator", "task.reset.timeout_s=0.5"]))
    began_s = time.monotonic()
    with pytest.raises(RobotError, match="nobody has said that it is done: make the scene ready"):
        cell.reset(3)
    assert time.monotonic() - began_s < 10.0
