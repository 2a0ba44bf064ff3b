"""Namespace, remapping and parameters as `ros2 launch` gives them to a process, seen by a stranger on the graph."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.table import cell_processes, namespace_of, process_table
from robot_stack.runs.paths import RunPaths
from tests.nodes.cell_rig import START_S, wait_until

rclpy = pytest.importorskip("rclpy", reason="no ROS on this machine")

from rcl_interfaces.srv import DescribeParameters, ListParameters, SetParameters  # noqa: E402
from rclpy.parameter import Parameter  # noqa: E402
from rclpy.signals import SignalHandlerOptions  # noqa: E402

DOMAIN = 79


@pytest.fixture(scope="module")
def spaced() -> ResolvedRun:
    return load_run("peg_insert", [f"cell.dds_domain={DOMAIN}", "cell.namespace=lab/left"])


@contextmanager
def started(run: ResolvedRun, folder: Path, row: str, *ros: str) -> Iterator[object]:
    """A stranger's node beside one process of the cell."""
    with ExitStack() as undo:
        ready = undo.enter_context(prepared(run, folder))
        undo.callback(os.environ.update, dict(os.environ))
        undo.callback(os.environ.clear)
        os.environ.update(ready.environment)
        rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
        undo.callback(rclpy.try_shutdown)
        node = rclpy.create_node("stranger")
        undo.callback(node.destroy_node)
        argv = next(each.argv for each in process_table(run, folder) if each.name == row)
        process = undo.enter_context(subprocess.Popen([*argv, "--ros-args", *ros], env=ready.environment))
        undo.callback(process.terminate)
        yield node


def called(node: object, kind: type, name: str, request: object) -> object:
    client = node.create_client(kind, name)
    assert client.wait_for_service(START_S), name
    future = client.call_async(request)
    rclpy.spin_until_future_complete(node, future, timeout_sec=START_S)
    assert future.done(), name
    return future.result()


def topics_of(node: object) -> set[str]:
    return {name for name, _ in node.get_topic_names_and_types()}


def test_the_namespace_of_a_cell_is_its_name_or_what_its_file_says(run, spaced):
    assert namespace_of(run) == "sim"
    assert namespace_of(spaced) == "lab/left"


def test_what_outlives_a_run_belongs_to_the_cell_in_whatever_namespace(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    run = load_run("ur5e_table", ["cell.namespace=lab"])
    safety = next(row for row in cell_processes(run, tmp_path) if row.name == "safety")
    assert safety.argv[safety.argv.index("--state") + 1] == str(tmp_path / "robot-stack/ur5e_table")


def test_a_namespace_of_the_cell_a_remapping_and_a_name_reach_the_node(spaced, tmp_path):
    with started(spaced, tmp_path, "camera_wrist", "-r", "wrist/obs:=/eye") as node:
        wait_until(lambda: {"/eye", "/lab/left/wrist/obs/compressed"} <= topics_of(node), START_S, "the topics")
        assert "/lab/left/wrist/obs" not in topics_of(node)
        named = ("camera_wrist", "/lab/left")
        wait_until(lambda: named in node.get_node_names_and_namespaces(), START_S, "the name")


def test_a_namespace_on_the_command_line_comes_before_the_runs(spaced, tmp_path):
    with started(spaced, tmp_path, "teleop", "-r", "__ns:=/elsewhere") as node:
        wait_until(lambda: "/elsewhere/teleop/heartbeat" in topics_of(node), START_S, "the heartbeat")


def test_the_actor_takes_the_arguments_of_ros(spaced, tmp_path):
    with started(spaced, tmp_path, "actor", "-r", "__ns:=/elsewhere", "-r", "episode/status:=/status") as node:
        wanted = {"/elsewhere/actor/heartbeat", "/status"}
        wait_until(lambda: wanted <= topics_of(node), START_S, "the actor", lambda: str(topics_of(node)))


def test_a_stranger_reads_parameters_and_is_told_where_they_are_set(spaced, tmp_path):
    with started(spaced, tmp_path, "safety", "-p", "max_speed_m_s:=0.1") as node:
        place = "/lab/left/safety"
        names = called(node, ListParameters, f"{place}/list_parameters", ListParameters.Request()).result.names
        assert {"max_speed_m_s", "policy_timeout_s", "fr3.workspace.min_m", "teleop_silence_s"} <= set(names)
        request = DescribeParameters.Request(names=["policy_timeout_s"])
        (found,) = called(node, DescribeParameters, f"{place}/describe_parameters", request).descriptors
        assert found.description == "Age of a policy command at which the robot holds."
        assert found.floating_point_range[0].to_value == 0.5
        request = SetParameters.Request(parameters=[Parameter("policy_timeout_s", value=0.1).to_parameter_msg()])
        (result,) = called(node, SetParameters, f"{place}/set_parameters", request).results
        assert "--set safety.policy_timeout_s=VALUE" in result.reason
        request = SetParameters.Request(parameters=[Parameter("max_speed_m_s", value=0.2).to_parameter_msg()])
        (result,) = called(node, SetParameters, f"{place}/set_parameters", request).results
        assert result.successful, result.reason


def test_a_parameter_that_only_one_process_would_have_ends_its_start(spaced, tmp_path):
    RunPaths(tmp_path).resolved.write_text(spaced.to_yaml())
    argv = next(row.argv for row in cell_processes(spaced, tmp_path) if row.name == "teleop")
    ended = subprocess.run([*argv, "--ros-args", "-p", "rate_hz:=80.0"], capture_output=True, text=True, timeout=240)
    assert ended.returncode == 1
    assert "parameter rate_hz is 80.0 on the command line, must be 50.0" in ended.stderr
    assert "Traceback" not in ended.stderr
