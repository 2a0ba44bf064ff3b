"""The fault matrix: what happens to the arm when a process dies, lies or is pressed. Over DDS, with real processes.

Times are read from the stamps that safety and robot process write when they decide; a busy machine can delay what the
test sees, never make it wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from robot_stack.runs.paths import RunPaths
from tests.faults.matrix_rows import Measured

pytest.importorskip("rclpy", reason="no ROS on this machine")

from geometry_msgs.msg import TwistStamped
from rcl_interfaces.msg import Parameter, ParameterType, ParameterValue
from rcl_interfaces.srv import SetParameters
from sensor_msgs.msg import Joy
from std_msgs.msg import Bool

from robot_stack.control.executed import ExecutedAccumulator
from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes import topics
from robot_stack.nodes.conversion import twist_to_msg
from robot_stack.nodes.qos import EVERY
from robot_stack.nodes.safety.stop_latch import CLEAR
from robot_stack.processes.table import namespace_of
from robot_stack.types.command import Mode, Source
from robot_stack.types.reason import FaultKind
from robot_stack.workcell.build_safety import limits_of
from tests.faults.fault_bench import ARM, START_S, Bench, bench_of, fault_run, heard
from tests.faults.fault_sink import MS, FaultSink
from tests.faults.hostile import hostile_run

SLOWLY = [0.005, 0.0, 0.0, 0.0, 0.0, 0.0]
"""5 mm/s: one tick of braking, so that what is measured is the watchdog."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench_of(fault_run(), tmp_path_factory.mktemp("faults")) as bench:
        bench.node("robot")
        bench.node("safety")
        yield heard(bench)
        assert bench.sink.violations() == []


@pytest.fixture
def sink(bench: Bench) -> Iterator[FaultSink]:
    bench.sink.home()
    yield bench.sink
    bench.sink.quiet()
    for name in ("policy", "hand"):
        bench.end(name)


def parameter(sink: FaultSink, name: str, value: object) -> str:
    """Sets one of the safety process; returns why it was refused, or ""."""
    whole = isinstance(value, int)
    field = "integer_value" if whole else "double_value"
    kind = ParameterType.PARAMETER_INTEGER if whole else ParameterType.PARAMETER_DOUBLE
    client = sink.node.create_client(SetParameters, "safety/set_parameters")
    assert client.wait_for_service(20.0)
    request = SetParameters.Request()
    request.parameters = [Parameter(name=name, value=ParameterValue(type=kind, **{field: value}))]
    future = client.call_async(request)
    sink.until(future.done, "answer of set_parameters")
    (result,) = future.result().results
    sink.node.destroy_client(client)
    return "" if result.successful else result.reason


@pytest.mark.row(12)
def test_row_12_hostile_commands_never_reach_the_arm(sink: FaultSink, row: Measured) -> None:
    sink.drive(SLOWLY)
    nan, inf = float("nan"), float("inf")
    broken = [([nan] * 6, "tcp"), ([inf] * 6, "tcp"), ([1e30] * 6, "tcp"), (SLOWLY, ""), (SLOWLY, "world")]
    for twist, frame in (([5e-324] * 6, "tcp"), *broken):
        sink.send_twist(twist, frame=frame)
        sink.until_stamp(sink.now_ns + 20 * MS)
    sink.until(lambda: sink.mode is Mode.HOLD, "HOLD")
    sink.until(lambda: "3 broken messages in 1 s" in sink.banner, "the reason")
    values = sink.diagnostics["safety: filter"][2]
    assert 3 <= int(values["rejected_policy"]) <= len(broken)
    sink.until_stamp(sink.now_ns + 100 * MS)
    assert all(np.isfinite(twist).all() for _, twist in sink.commands)
    row.saw(hostile_run())


@pytest.mark.row(13)
def test_row_13_too_fast_and_out_of_the_box_is_cut_each_tick(sink: FaultSink, bench: Bench, row: Measured) -> None:
    limits, box = bench.run.safety, bench.run.cell.workspace
    sink.drive(SLOWLY)
    begin = sink.mark()
    sink.policy, sink.policy_frame = np.array([0.0, 2.0, 0.0, 0.0, 0.0, 0.0]), "base"

    def at_the_wall() -> bool:
        return sink.log.states[-1].T_base_tcp.position_m[1] > box.max_m[1] - 0.004

    sink.until(at_the_wall, "the wall")
    sink.until_stamp(sink.now_ns + 300 * MS)
    ticks = sink.ticks(begin)
    assert {"speed", "workspace"} <= {name for tick in ticks for name in tick.decision.clamped}
    speeds = [float(np.linalg.norm(tick.decision.command.twist[:3])) for tick in ticks]
    assert max(speeds) <= limits.max_speed_m_s * 1.001
    high = max(tick.state.T_base_tcp.position_m[1] for tick in ticks if tick.state is not None)
    lag_m = bench.run.robot.impedance.max_position_error_m  # the arm runs after its reference by up to this
    assert high < box.max_m[1] + lag_m
    window = ExecutedAccumulator()  # what an actor stores of these ticks
    for tick in ticks:
        window.add(tick.decision)
    stored = window.take()
    assert stored.clipped
    asked = float(np.mean([np.linalg.norm(tick.decision.requested[:3]) for tick in ticks]))
    assert np.linalg.norm(stored.twist[:3]) < limits.max_speed_m_s < asked
    assert sink.violations() == []
    row.saw(f"{len(ticks)} ticks, at most {1e3 * max(0.0, high - box.max_m[1]):.1f} mm beyond the wall")


@pytest.mark.row(17)
def test_row_17_no_tick_mixes_policy_and_person(sink: FaultSink, row: Measured) -> None:
    sink.drive([0.02, 0.0, 0.0, 0.0, 0.0, 0.0])
    sink.out(Joy, topics.teleop(ARM))
    sink.hand, sink.deadman = np.array([0.0, 0.3, 0.0, 0.0, 0.0, 0.0]), False
    sink.until_stamp(sink.now_ns + 60 * MS)
    begin, rng = sink.mark(), np.random.default_rng(0)
    until_ns = sink.now_ns + 3000 * MS
    while sink.now_ns < until_ns:
        sink.deadman = not sink.deadman
        longest_ms = 150 if sink.deadman else 600  # the arm goes back to the policy after 300
        sink.until_stamp(sink.now_ns + int(rng.integers(20, longest_ms)) * MS)
    ticks = sink.ticks(begin)
    sources = [tick.decision.source for tick in ticks]
    assert {Source.POLICY, Source.HUMAN} <= set(sources)
    for tick in ticks:
        x, y = np.abs(tick.decision.requested[:2]) > 0
        assert not (x and y)
        assert not (x and tick.decision.source is not Source.POLICY)
        assert not (y and tick.decision.source not in (Source.HUMAN, Source.IDLE))
    sent = dict(sink.commands)
    both = [tick for tick in ticks if tick.stamp_ns in sent]
    assert len(both) > 0.9 * len(ticks)
    for tick in both:
        np.testing.assert_allclose(sent[tick.stamp_ns], tick.decision.command.twist, atol=1e-6)
    assert sink.violations() == []
    changes = sum(a is not b for a, b in pairwise(sources))
    row.saw(f"{len(ticks)} ticks, {changes} changes of the driver")


@pytest.mark.row(11)
def test_row_11_stamps_of_another_clock_are_refused_and_arming_with_them(sink: FaultSink, row: Measured) -> None:
    sink.ready()
    assert sink.ask("disarm") == ""
    sink.out(TwistStamped, topics.policy(ARM))
    back_ms = min(3_600_000, time.monotonic_ns() // (2 * MS))  # a machine may have booted within the hour
    for offset_ms, way in ((3_600_000, "ahead of"), (-back_ms, "behind"), (-100, "behind")):
        sink.policy, sink.policy_offset_ns = np.array(SLOWLY), offset_ms * MS
        sink.until(lambda way=way: sink.said("safety: inputs", way), "WARN")
        assert sink.diagnostics["safety: inputs"][0] == 1
        assert f"ms {way} this machine's clock" in sink.ask("arm")
    sink.policy = None
    sink.until(lambda: sink.ask("arm") == "", "arming")
    sink.policy, sink.policy_offset_ns = np.array(SLOWLY), 3_600_000 * MS
    sink.start()
    sink.until(lambda: "policy silent" in sink.banner, "HOLD")
    assert not any(tick.decision.source is Source.POLICY for tick in sink.ticks()[-50:])
    row.saw("no command of another clock passed")


@pytest.mark.row(27)
def test_row_27_a_limit_is_made_tighter_at_run_time_and_never_looser(
    sink: FaultSink, bench: Bench, row: Measured, tmp_path_factory: pytest.TempPathFactory
) -> None:
    refused = 0
    for name, value, words in (
        ("max_speed_m_s", 5.0, "is 5.0, must be above 0 and at most 0.25, the limit of the safety file"),
        ("max_speed_m_s", -0.1, "is -0.1, must be above 0"),
        ("max_speed_m_s", float("nan"), "is nan, must be above 0"),
        ("max_speed_m_s", 1, "Wrong parameter type"),
        ("tilt_cone_rad", float("inf"), "is inf, must be above 0"),
        ("soft_force_n", 40.0, "at most 15"),
        ("rate_hz", 500.0, "read-only"),
        ("policy_timeout_s", 0.1, "read-only"),
    ):
        assert words in parameter(sink, name, value)
        refused += 1
    sink.drive([0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert "must be standing to change a limit" in parameter(sink, "max_speed_m_s", 0.02)
    sink.ready()
    sink.until(lambda: parameter(sink, "max_speed_m_s", 0.02) == "", "the tighter limit")
    begin = sink.mark()
    sink.drive([0.1, 0.0, 0.0, 0.0, 0.0, 0.0])
    sink.until_stamp(sink.now_ns + 300 * MS)
    speeds = [float(np.linalg.norm(tick.decision.command.twist[:3])) for tick in sink.ticks(begin)]
    assert max(speeds) == pytest.approx(0.02, rel=1e-3)
    sink.ready()
    sink.until(lambda: parameter(sink, "max_speed_m_s", 0.25) == "", "the file's limit again")

    typo = RunPaths(tmp_path_factory.mktemp("typo")).resolved
    typo.write_text(RunPaths(bench.folder).resolved.read_text().replace("max_speed_m_s", "max_sped_m_s"))
    words = [sys.executable, "-m", "robot_stack.nodes.safety.node", "--run", str(typo)]
    started = subprocess.run(words, capture_output=True, text=True, timeout=240, check=False)
    assert started.returncode == 1
    assert "did you mean 'max_speed_m_s'?" in started.stderr
    row.saw(f"{refused + 2} of {refused + 2} refused")


@pytest.mark.row(1)
def test_row_1_a_killed_or_frozen_policy_is_a_hold_that_only_a_person_ends(
    sink: FaultSink, bench: Bench, row: Measured
) -> None:
    sink.ready()
    bench.script("stream_process", "policy")
    sink.order("policy", twist=SLOWLY)
    sink.start()
    sink.until(sink.driven, "motion", START_S)

    row.took(sink.safe_after_s(bench.freeze("policy")))
    assert sink.mode is Mode.HOLD
    bench.thaw("policy")
    sink.until_stamp(sink.now_ns + 400 * MS)
    assert sink.mode is Mode.HOLD  # fresh commands end nothing
    assert sink.ask("resume") == ""
    sink.until(sink.moving, "motion after an operator resumed")

    row.took(sink.safe_after_s(bench.kill("policy")))
    bench.script("stream_process", "policy")
    sink.until(lambda: sink.node.count_publishers(topics.policy(ARM)), "the policy's restart", START_S)
    sink.until_stamp(sink.now_ns + 300 * MS)
    assert sink.mode is Mode.HOLD
    assert not sink.moving()


@pytest.mark.row(16)
def test_row_16_a_second_policy_or_safety_process_is_refused(sink: FaultSink, row: Measured) -> None:
    sink.drive(SLOWLY)
    another = partial(sink.send_twist, SLOWLY, session="another")
    sink.refused_for("policy/cmd has two senders, sink and another", another)
    begun_s = time.monotonic()
    sink.policy = None  # the first one dies; the other takes over as soon as an operator lets it
    sink.until(lambda: another() or sink.ask("resume") == "", "a successor")
    sink.until(lambda: another() or sink.moving(), "its motion")
    row.took(time.monotonic() - begun_s)

    sink.drive(SLOWLY)
    out = sink.out(TwistStamped, topics.command(ARM))

    def ghost() -> None:
        out.publish(twist_to_msg([0.2, 0.0, 0.0, 0.0, 0.0, 0.0], time.monotonic_ns(), "tcp@ghost"))

    sink.held_for(FaultKind.SECOND_SENDER, ghost)
    sink.refused_for("safety/cmd has a sender that is no process of this run", ghost)
    for _ in range(20):
        ghost()
        sink.until_stamp(sink.now_ns + 10 * MS)
    assert max(float(np.abs(each.twist).max()) for each in sink.log.applied[-30:]) < 0.01
    sink.drop(topics.command(ARM))
    sink.until(lambda: not sink.fault, "one safety process alone")


@pytest.mark.row(4)
def test_row_4_a_teleop_killed_while_it_drives_is_a_hold_and_not_the_policy(
    sink: FaultSink, bench: Bench, row: Measured
) -> None:
    bench.script("stream_process", "hand")
    sink.drive(SLOWLY)
    sink.order("hand", twist=[0.0] * 6)
    sink.until(lambda: sink.teleop is not None, "the hand", START_S)
    sink.order("hand", twist=[0.0, 0.1, 0.0, 0.0, 0.0, 0.0], deadman=True)
    sink.until(lambda: sink.mode is Mode.HUMAN and sink.moving(), "the operator's motion")

    killed_ns = bench.kill("hand")
    row.took(sink.safe_after_s(killed_ns))
    after = [tick for tick in sink.ticks() if tick.stamp_ns > killed_ns]
    assert not any(tick.decision.source is Source.POLICY for tick in after)
    sink.until(lambda: "teleop silent" in sink.banner, "the reason")
    sink.teleop = None
    bench.script("stream_process", "hand")  # still told to press
    sink.until(lambda: sink.teleop is not None, "its successor", START_S)

    def refused() -> bool:
        said = sink.ask("resume")
        if said == "":  # the safety process has not heard it yet
            sink.ask("hold")
        return "deadman is held" in said

    sink.until(refused, "a refusal", START_S)
    sink.order("hand", twist=[0.0] * 6, deadman=False)
    sink.until(lambda: sink.ask("resume") == "", "resuming")


@pytest.mark.row(15)
def test_row_15_a_stop_is_latched_over_a_restart_until_a_person_clears_it(
    sink: FaultSink, bench: Bench, row: Measured
) -> None:
    file = bench.folder / "safety" / "stop.json"

    def stopped(pressed_ns: int) -> None:
        row.took(sink.mode_after_s(pressed_ns, Mode.STOP))
        sink.until(lambda: sink.estop, "the announcement")
        assert json.loads(file.read_text())["state"] == "stop"  # before it was announced

    def by_service() -> int:
        now_ns = time.monotonic_ns()
        assert sink.ask("stop") == ""
        return now_ns

    for way in (by_service, lambda: sink.press("stop"), lambda: sink.button(True)):
        sink.out(Bool, topics.STOP_INPUT, EVERY)
        sink.out(Joy, topics.EVENTS, EVERY)
        sink.drive(SLOWLY)
        stopped(way())
        sink.quiet()
    assert "is pressed, must be released" in sink.ask("clear_stop")
    sink.button(False)
    sink.until(lambda: sink.ask("clear_stop") == "", "clearing")
    sink.until(lambda: not sink.estop and sink.mode is Mode.DISARMED, "the end of the STOP")
    assert json.loads(file.read_text())["state"] == CLEAR

    limits = limits_of(bench.run)[bench.run.robot.name]
    key = WireKey.of_folder(bench.folder)
    with FaultSink(namespace_of(bench.run), bench.run.robot.name, limits, key) as late:  # sees and does the same
        late.until(lambda: late.banner, "the latched mode")
        assert not late.estop
        late.out(Joy, topics.EVENTS, EVERY)
        sink.drive(SLOWLY)
        stopped(late.press("stop"))
        late.until(lambda: late.estop, "the announcement")

    bench.kill("safety")
    sink.estop, begin = False, sink.mark()
    bench.node("safety")
    sink.until(lambda: sink.mark() > begin, "the safety process", START_S)
    sink.until(lambda: sink.estop, "the STOP of before")
    assert {tick.decision.mode for tick in sink.ticks(begin)} == {Mode.STOP}
    sink.until(lambda: "stop pressed (keyboard), since 20" in sink.banner, "since when and who")
    sink.until(lambda: "must be DISARMED to arm" in sink.ask("arm"), "the refusal, once the others are heard")
    sink.until(lambda: sink.ask("clear_stop") == "", "clearing")
    assert json.loads(file.read_text())["state"] == CLEAR


@pytest.mark.row(2)
def test_row_2_without_the_safety_process_the_robots_side_stops_the_arm(
    sink: FaultSink, bench: Bench, row: Measured
) -> None:
    def still_after_s(fault_ns: int) -> float:
        sink.until(lambda: sink.log.applied[-1].stamp_ns > fault_ns + 300 * MS, "applied twists")
        moving = [a.stamp_ns for a in sink.log.applied if a.stamp_ns >= fault_ns and np.abs(a.twist).max() > 0]
        still = [a.stamp_ns for a in sink.log.applied if a.stamp_ns > max(moving, default=fault_ns)]
        return (min(still) - fault_ns) / 1e9

    sink.drive(SLOWLY)
    sink.until(lambda: np.abs(sink.log.applied[-1].twist).max() > 0, "motion at the robot")
    row.took(still_after_s(bench.freeze("safety")))
    bench.thaw("safety")
    sink.drive(SLOWLY)
    sink.until(lambda: np.abs(sink.log.applied[-1].twist).max() > 0, "motion at the robot")
    row.took(still_after_s(bench.kill("safety")))
    begin = sink.mark()
    bench.node("safety")
    sink.until(lambda: sink.mark() > begin + 10, "the safety process", START_S)
    assert {tick.decision.mode for tick in sink.ticks(begin)} == {Mode.DISARMED}
