"""What a run's configuration is as ROS parameters: values, ranges, and what a refused change says."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun

rclpy = pytest.importorskip("rclpy", reason="no ROS on this machine")

from rclpy.parameter import Parameter  # noqa: E402

from robot_stack.control.safety.limits import TIGHTENABLE  # noqa: E402
from robot_stack.nodes.base import StackNode  # noqa: E402
from robot_stack.nodes.conversion import ros_ns_of  # noqa: E402
from robot_stack.nodes.parameters import Setting, robot_parts, settings_of  # noqa: E402
from robot_stack.nodes.safety.limit_parameters import LimitParameters  # noqa: E402
from robot_stack.types.errors import ConfigError  # noqa: E402
from robot_stack.types.reason import Refusal, RefusalKind  # noqa: E402
from robot_stack.workcell.build_safety import limits_of  # noqa: E402

DOMAIN = 78


def shown(run: ResolvedRun, /, **parts: str) -> dict[str, Setting]:
    """Settings by name."""
    return {each.name: each for each in settings_of(run, parts)}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """Makes nodes of a process with these words on its command line."""
    monkeypatch.setenv("ROS_DOMAIN_ID", str(DOMAIN))
    nodes = []

    def start(*words: str) -> StackNode:
        rclpy.init(args=["--ros-args", *words] if words else [])
        nodes.append(StackNode("node", "sim"))
        return nodes[-1]

    yield start
    for node in nodes:
        node.destroy_node()
    rclpy.try_shutdown()


def test_a_value_has_the_models_description_and_range(run: ResolvedRun) -> None:
    camera = shown(run, **{"": "cameras.wrist"})
    assert camera["rate_hz"].value == run.cameras["wrist"].rate_hz
    found = camera["rate_hz"].descriptor
    assert (found.description, found.additional_constraints, found.read_only) == ("Frame rate.", "above 0", True)
    assert [(each.from_value, each.to_value) for each in found.floating_point_range] == [(0.0, 240.0)]
    (pixels,) = camera["width_px"].descriptor.integer_range
    assert (pixels.from_value, pixels.to_value) == (8, 8192)
    assert camera["rate_hz"].key == "cameras.wrist.rate_hz"


def test_a_range_is_found_where_the_value_may_be_left_out(run: ResolvedRun) -> None:
    (silence,) = settings_of(run, {"teleop_silence_s": "cell.teleop_silence_s"})
    assert silence.value == 0.5
    (found,) = silence.descriptor.floating_point_range
    assert (found.from_value, found.to_value) == (0.0, 5.0)


def test_choices_lists_and_parts_of_a_list_have_names(run: ResolvedRun) -> None:
    robot = {each.name: each for each in settings_of(run, robot_parts(run))}
    joint = robot["fr3.joints.joint1.max_speed_rad_s"]
    assert joint.value == run.robots["fr3"].joints[0].max_speed_rad_s
    assert joint.key == "robot.joints", "a list is set as a whole"
    assert robot["fr3.home_rad"].value == list(run.robots["fr3"].home_rad)
    assert shown(run, task="task")["task.arm.axes"].value == list(run.task.arm.axes)
    assert shown(run, **{"": "run"})["device"].descriptor.additional_constraints == "one of auto, cpu, cuda"
    assert shown(run, task="task")["task.success.gate.tcp_pose.min"].value == "[null, null, 0.06, null, null, null]"


def test_what_is_not_given_is_no_parameter(run: ResolvedRun) -> None:
    cell = shown(run, cell="cell")
    assert "cell.downstream_timeout_s" not in cell
    assert "cell.dds_peers" not in cell


@pytest.mark.parametrize("name", ["peg_insert", "ur5e_table", "two_arm_insert"])
def test_every_number_of_a_run_is_shown_once(name: str) -> None:
    run = load_run(name)
    settings = list(settings_of(run, {part: part for part in run.parts()}))
    assert len({each.name for each in settings}) == len(settings)
    for setting in settings:
        (found,) = [*setting.descriptor.floating_point_range, *setting.descriptor.integer_range] or [None]
        if found is not None:
            assert found.from_value <= setting.value <= found.to_value, setting.name

    def numbers(value: object) -> int:
        if isinstance(value, BaseModel):
            return sum(numbers(getattr(value, each)) for each in type(value).model_fields)
        if isinstance(value, dict):
            return sum(map(numbers, value.values()))
        if isinstance(value, tuple) and any(isinstance(each, BaseModel) for each in value):
            return sum(map(numbers, value))
        return int(isinstance(value, int | float))

    scalars = sum(isinstance(each.value, int | float) for each in settings)
    assert scalars == sum(map(numbers, run.parts().values()))


def test_a_change_at_run_time_is_told_where_it_is_made(run: ResolvedRun, started) -> None:
    node = started()
    node.show_settings(run, {"": "cameras.wrist"})
    result = node.set_parameters_atomically([Parameter("rate_hz", value=10.0)])
    assert not result.successful
    assert "rate_hz is read-only" in result.reason
    assert "--set cameras.wrist.rate_hz=VALUE" in result.reason
    assert node.get_parameter("rate_hz").value == run.cameras["wrist"].rate_hz


@pytest.mark.parametrize("key", ["cell.teleop_silence_s", "robot.max_tcp_speed_m_s"])
def test_nobody_is_told_to_set_on_the_command_line_what_only_a_file_can_hold(
    key: str, run: ResolvedRun, started
) -> None:
    node = started()
    node.show_settings(run, {"value": key})
    assert node.set_parameters_atomically([Parameter("value", value=0.1)]).reason.endswith(f"set {key} in its file")


def test_the_clock_of_a_node_is_not_taken_away_while_it_runs(started) -> None:
    node = started()
    result = node.set_parameters_atomically([Parameter("use_sim_time", value=True)])
    assert "use_sim_time is read-only" in result.reason
    assert node.get_parameter("use_sim_time").value is False


@pytest.mark.parametrize("words", [(), ("-p", "use_sim_time:=true")], ids=["wall", "simulated"])
def test_diagnostics_are_stamped_by_the_wall_clock_as_all_topics_of_the_cell_are(
    words: tuple[str, ...], started, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, said = started(*words), []
    monkeypatch.setattr(node, "_diagnostics", SimpleNamespace(publish=said.append))
    node.publish_diagnostics()
    assert abs(ros_ns_of(said[0].header) - time.time_ns()) < 1e9


@pytest.mark.parametrize("value", ["10.0", "10", "nan", "fast", "1000.0"])
def test_a_value_on_the_command_line_that_only_one_process_would_have_is_refused(
    value: str, run: ResolvedRun, started
) -> None:
    node = started("-p", f"rate_hz:={value}")
    with pytest.raises(ConfigError, match=r"parameter rate_hz is .* must be 30.0 as in the run.*set:=cameras\.wrist"):
        node.show_settings(run, {"": "cameras.wrist"})


def test_the_runs_own_value_on_the_command_line_is_taken(run: ResolvedRun, started) -> None:
    node = started("-p", "rate_hz:=30.0", "-p", "home_rad:=[0.0, 1.5]")
    node.show_settings(run, {"": "cameras.wrist"})
    assert node.get_parameter("rate_hz").value == 30.0


def limits(node: StackNode, run: ResolvedRun, refusal: Refusal | None = None) -> LimitParameters:
    shown = settings_of(run, {"": "safety"})
    return LimitParameters(node, node.settings, shown, limits_of(run), lambda _: refusal)


def test_a_limit_is_described_with_the_ceiling_of_the_files(run: ResolvedRun, started) -> None:
    node = started()
    limits(node, run)
    for name in TIGHTENABLE:
        found = node.describe_parameter(name)
        assert found.description, name
        assert not found.read_only
        assert found.floating_point_range[0].to_value == getattr(run.safety, name)
    assert node.describe_parameter("policy_timeout_s").read_only


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (5.0, "is 5.0, must be above 0 and at most 0.25"),
        (-0.1, "is -0.1"),
        (math.nan, "is nan"),
        (1, "Wrong parameter"),
    ],
)
def test_a_looser_limit_is_refused_in_a_sentence(value: float, words: str, run: ResolvedRun, started) -> None:
    node = started()
    held = limits(node, run)
    result = node.set_parameters_atomically([Parameter("max_speed_m_s", value=value)])
    assert words in result.reason
    assert held.limits == limits_of(run)


def test_a_limit_that_the_filter_refuses_stays(run: ResolvedRun, started) -> None:
    node = started()
    held = limits(node, run, Refusal(kind=RefusalKind.WRONG_MODE, text="mode is POLICY"))
    result = node.set_parameters_atomically([Parameter("max_speed_m_s", value=0.1)])
    assert result.reason == "mode is POLICY"
    assert held.limits == limits_of(run)
    assert node.get_parameter("max_speed_m_s").value == run.safety.max_speed_m_s


def test_a_tighter_limit_on_the_command_line_holds_from_the_start(run: ResolvedRun, started) -> None:
    held = limits(started("-p", "max_speed_m_s:=0.1"), run)
    assert all(each.max_speed_m_s == 0.1 for each in held.limits.values())


def test_a_looser_limit_on_the_command_line_ends_the_start(run: ResolvedRun, started) -> None:
    with pytest.raises(ConfigError, match="max_speed_m_s is of another type or out of range"):
        limits(started("-p", "max_speed_m_s:=0.5"), run)
