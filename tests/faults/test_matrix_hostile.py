"""The fault matrix: careless and hostile senders, devices and drivers that lie. Over DDS, with real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tests.faults.matrix_rows import Measured

pytest.importorskip("rclpy", reason="no ROS on this machine")

from geometry_msgs.msg import TwistStamped
from rclpy.serialization import serialize_message
from sensor_msgs.msg import JointState, Joy

from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes import topics
from robot_stack.nodes.conversion import events_to_msg, frame_of_mode, state_to_msg, twist_to_msg, vector_to_msg
from robot_stack.nodes.qos import EVERY, NEWEST, STATE
from robot_stack.nodes.sealing import Sealer
from robot_stack.processes.table import namespace_of
from robot_stack.types.command import Mode
from robot_stack.types.pose import Pose
from tests.faults.fault_bench import ARM, HERE, START_S, Bench, bench_of, fault_run, heard
from tests.faults.fault_sink import MS, FaultSink
from tests.faults.hostile_wire import Hostile, targets

SLOWLY = [0.005, 0.0, 0.0, 0.0, 0.0, 0.0]
LONG = "FAULTS_JSON" in os.environ
"""`make faults` runs the long form."""
PAUSED_MS = 200.0
"""A longer gap between two decisions is one that the filter itself holds for."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench_of(fault_run(), tmp_path_factory.mktemp("hostile")) as bench:
        bench.node("robot")
        bench.node("safety")
        yield heard(bench)


@pytest.fixture
def sink(bench: Bench) -> Iterator[FaultSink]:
    bench.sink.home()
    yield bench.sink
    bench.sink.quiet()


@pytest.fixture
def forger(bench: Bench) -> Sealer:
    """Seals with a key of its own."""
    return Sealer(WireKey.random(), "robot-00000000")


def held(sink: FaultSink) -> None:
    """A policy that drove, in HOLD."""
    sink.drive(SLOWLY)
    assert sink.ask("hold") == ""
    sink.until(lambda: sink.mode is Mode.HOLD and not sink.moving(), "HOLD")


@pytest.mark.row(31)
def test_row_31_only_a_young_key_of_the_runs_own_device_leaves_hold(
    sink: FaultSink, bench: Bench, forger: Sealer, row: Measured
) -> None:
    held(sink)
    out, own = sink.out(Joy, topics.EVENTS, EVERY), sink.node.sealer
    now_ns = time.monotonic_ns()
    long_ago_ns = max(1, now_ns - 49 * 60_000 * MS)
    recorded = own.seal(topics.EVENTS, events_to_msg(("arm",), now_ns - 300 * MS, "keyboard"))
    cases = {
        "recorded": recorded,
        "49 minutes old": own.seal(topics.EVENTS, events_to_msg(("arm",), long_ago_ns, "keyboard")),
        "unstamped": own.seal(topics.EVENTS, events_to_msg(("arm",), 0, "keyboard")),
        "bare": events_to_msg(("arm",), now_ns, "keyboard"),
        "foreign": forger.seal(topics.EVENTS, events_to_msg(("arm",), now_ns, "keyboard")),
        "of another topic": own.seal("fr3/teleop/cmd", events_to_msg(("arm",), now_ns, "keyboard")),
    }
    for name, msg in cases.items():
        out.publish(msg)
        sink.until_stamp(sink.now_ns + 50 * MS)
        assert sink.mode is Mode.HOLD, name
    for stall_ms in (500, 2500):  # keys that wait while the safety process stands still
        bench.freeze("safety")
        sink.press("arm")
        time.sleep(stall_ms / 1e3)
        thawed_ns = time.monotonic_ns()
        bench.thaw("safety")
        sink.until_stamp(thawed_ns + 200 * MS)
        assert sink.mode is Mode.HOLD, stall_ms
        sink.until_stamp(thawed_ns + 500 * MS)
    sink.until(lambda: sink.press("arm") and sink.mode is Mode.POLICY, "a key of now")
    sink.until(lambda: sink.mode is Mode.POLICY, "the episode goes on")
    out.publish(events_to_msg(("hold",), 0, "nobody"))
    sink.until(lambda: sink.mode is Mode.HOLD, "a stranger's hold")
    out.publish(events_to_msg(("stop",), 0, "nobody"))
    sink.until(lambda: sink.mode is Mode.STOP, "a stranger's stop")
    row.saw(f"{len(cases)} kinds of keys and 2 stalls armed nothing; hold and stop of a stranger counted")


@pytest.mark.row(32)
def test_row_32_a_stranger_never_moves_the_gripper(sink: FaultSink, forger: Sealer, row: Measured) -> None:
    out = sink.out(JointState, topics.command_gripper(ARM))

    def pull(seconds: float) -> float:
        """How far the gripper goes while strangers command it either way, sealed with another key or not at all."""
        first, until_s = len(sink.log.states), time.monotonic() + seconds
        while time.monotonic() < until_s:
            for opening in (0.0, 1.0):
                bare = vector_to_msg(np.array([opening]), time.monotonic_ns())
                out.publish(bare)
                out.publish(forger.seal(topics.command_gripper(ARM), bare))
            time.sleep(0.01)
        openings = [state.gripper for state in sink.log.states[first:]]
        return max(openings) - min(openings)

    sink.drive(SLOWLY)
    moved = {"POLICY": pull(0.5)}
    sink.ready()
    moved["READY"] = pull(0.3)
    held(sink)
    moved["HOLD"] = pull(0.5)
    assert sink.ask("stop") == ""
    moved["STOP"] = pull(0.5)
    assert max(moved.values()) < 0.01, moved
    row.saw(f"opening changed by {max(moved.values()):.4f} at most")


@pytest.mark.row(33)
def test_row_33_a_second_sender_of_state_holds_at_once_and_hides_nothing(
    sink: FaultSink, forger: Sealer, row: Measured
) -> None:
    topic = topics.state(ARM)
    for sealed in (False, True):
        sink.drive(SLOWLY)
        out, true = sink.out(JointState, topic, STATE), sink.log.states[-1]
        elsewhere = Pose(
            position_m=true.T_base_tcp.position_m + np.array([0.0, 0.0, 0.1]),
            quaternion_xyzw=true.T_base_tcp.quaternion_xyzw,
        )
        sent_ns = time.monotonic_ns()
        lie = state_to_msg(replace(true, T_base_tcp=elsewhere, stamp_ns=sent_ns))
        sent = forger.seal(topic, lie) if sealed else lie
        out.publish(sent)
        row.took(sink.mode_after_s(sent_ns, Mode.HOLD))
        sink.refused_for("fr3/state has a sender that is no process of this run", partial(out.publish, sent))
        sink.quiet()
        sink.drop(topic)


@pytest.mark.row(36)
def test_row_36_the_last_process_before_the_driver_obeys_no_stranger(
    sink: FaultSink, bench: Bench, forger: Sealer, row: Measured
) -> None:
    topic = topics.command(ARM)
    heard_frames: list[str] = []
    listening = sink.node.create_subscription(
        TwistStamped, topic, lambda msg: heard_frames.append(msg.header.frame_id), STATE
    )
    out = sink.out(TwistStamped, topic)
    sink.until(lambda: heard_frames, "a true command")

    def command(size_m_s: float, variant: int) -> TwistStamped:
        msg = twist_to_msg([size_m_s, 0, 0, 0, 0, 0], time.monotonic_ns(), frame_of_mode("tcp", Mode.POLICY))
        if variant == 1:
            return forger.seal(topic, msg)
        msg.header.frame_id = {2: heard_frames[-1], 3: heard_frames[-1].partition("#")[0]}.get(
            variant, msg.header.frame_id
        )
        return msg

    def pushed(seconds: float) -> float:
        """Fastest twist that reached the motors while strangers command the arm."""
        first, until_s, variant = len(sink.log.applied), time.monotonic() + seconds, 0
        while time.monotonic() < until_s:
            for size in (0.05, 0.25, 100.0):
                out.publish(command(size, variant % 4))
                variant += 1
            time.sleep(0.003)
        return max(float(np.abs(each.twist).max()) for each in sink.log.applied[first:])

    sink.ready()
    assert sink.ask("disarm") == ""
    sink.until(lambda: sink.mode is Mode.DISARMED, "DISARMED")
    fastest = {"DISARMED": pushed(1.0)}
    bench.freeze("safety")  # nobody else speaks
    time.sleep(1.2)
    fastest["safety frozen"] = pushed(1.0)
    thawed_ns = time.monotonic_ns()
    bench.thaw("safety")
    sink.until_stamp(thawed_ns + 500 * MS)  # what came meanwhile has been read
    sink.until(lambda: sink.press("stop") and sink.mode is Mode.STOP, "STOP")
    fastest["STOP"] = pushed(1.0)
    sink.node.destroy_subscription(listening)
    sink.drop(topic)
    assert max(fastest.values()) == 0.0, fastest
    row.saw("fastest twist at the motors 0 m/s while DISARMED, in STOP and with a frozen safety process")


@pytest.mark.row(41)
def test_row_41_large_and_many_messages_keep_nobody_from_the_arm(sink: FaultSink, bench: Bench, row: Measured) -> None:
    sink.drive(SLOWLY)
    big = Joy(axes=array("f", bytes(7_600_000)))
    assert len(serialize_message(big)) > 7_600_000
    begin, applied = sink.mark(), len(sink.log.applied)
    for topic in (topics.EVENTS, topics.teleop(ARM)):
        out = sink.out(Joy, topic, NEWEST)
        for _ in range(10 if LONG else 4):
            out.publish(big)
            sink.until_stamp(sink.now_ns + 100 * MS)
    sink.until_stamp(sink.now_ns + 100 * MS)
    gaps_ms = gaps_of(sink, begin, applied)
    for topic in (topics.EVENTS, topics.teleop(ARM)):
        sink.drop(topic)
    sink.drive(SLOWLY)
    begin, applied = sink.mark(), len(sink.log.applied)
    with sink.not_hearing_states():  # the evidence is what comes out, and must not drown in the flood itself
        words = [
            sys.executable,
            str(HERE / "flooding_process.py"),
            namespace_of(bench.run),
            ARM,
            "3" if LONG else "1.5",
        ]
        with subprocess.Popen(words, env={**os.environ}, stdout=subprocess.PIPE, text=True) as flood:
            assert flood.stdout is not None
            assert flood.stdout.readline() == "flooding\n"
            sink.until(lambda: sink.mode is Mode.HOLD, "HOLD")
            assert flood.wait(60.0) == 0
        gaps_ms += gaps_of(sink, begin, applied)
    if LONG:  # on a machine that does nothing else
        row.took(max(gaps_ms) / 1e3)
    assert max(gaps_ms) < PAUSED_MS


def gaps_of(sink: FaultSink, decisions: int, applied: int) -> list[float]:
    """Longest times in ms without a decision and without a command at the motors, since these marks."""
    stamps = (
        [each.command.stamp_ns for each in sink.log.decisions[decisions:]],
        [each.stamp_ns for each in sink.log.applied[applied:]],
    )
    return [float(np.diff(np.array(each)).max()) / 1e6 for each in stamps]


@pytest.mark.row(42)
def test_row_42_hostile_messages_on_every_topic_move_nothing(sink: FaultSink, bench: Bench, row: Measured) -> None:
    count = 100_000 if LONG else 3_000
    hostile, aims = Hostile(), targets(ARM)
    for aim in aims:
        sink.node.create_subscription(
            aim.kind, aim.topic, lambda msg, topic=aim.topic: hostile.overheard.__setitem__(topic, msg), aim.profile
        )
    sink.drive([0.02, 0.0, 0.0, 0.0, 0.0, 0.0])
    sink.until(lambda: topics.command(ARM) in hostile.overheard, "a true command")
    true = {topic: msg for topic, msg in hostile.overheard.items()}
    hostile.overheard = true  # replayed later, when it is old
    outs = {aim.topic: sink.out(aim.kind, aim.topic, aim.profile) for aim in aims}
    box = bench.run.cell.workspace
    begin, first = sink.mark(), len(sink.log.applied)
    stop_at = count // 2
    for number, (aim, msg) in enumerate(hostile.many(count, aims)):
        outs[aim.topic].publish(msg)
        if number == stop_at:
            sink.policy = None
            assert sink.ask("stop") == ""
        if number % 20 == 0:
            time.sleep(0.002)
    sink.until_stamp(sink.now_ns + 200 * MS)
    ticks = sink.ticks(begin)
    still = [tick for tick in ticks if tick.decision.mode in (Mode.HOLD, Mode.STOP)]
    assert len(still) > 50
    assert {tick.decision.mode for tick in ticks} <= {Mode.POLICY, Mode.HOLD, Mode.STOP}
    begun_ns = next(tick.stamp_ns for tick in ticks if tick.decision.mode in (Mode.HOLD, Mode.STOP))
    late = [each for each in sink.log.applied[first:] if each.stamp_ns > begun_ns + 200 * MS]
    assert max((float(np.abs(each.twist).max()) for each in late), default=0.0) == 0.0
    inside = np.array([s.T_base_tcp.position_m for s in sink.log.states if s.stamp_ns > begun_ns and s.wrench[0] < 100])
    assert len(inside)
    assert sink.mode is Mode.STOP
    for aim in aims:
        sink.drop(aim.topic)
    sink.until_stamp(sink.now_ns + 1200 * MS)
    true_states = [state for state in sink.log.states[-50:]]
    assert all((np.array(box.min_m) - 0.01 <= s.T_base_tcp.position_m).all() for s in true_states)
    assert all((s.T_base_tcp.position_m <= np.array(box.max_m) + 0.01).all() for s in true_states)
    row.saw(f"{count:,} messages on {len(aims)} topics; 0 m/s at the motors in HOLD and STOP")


@pytest.mark.row(40)
def test_row_40_participants_that_join_leave_or_die_cost_no_watchdog(
    sink: FaultSink, bench: Bench, row: Measured
) -> None:
    count = 200 if LONG else 15
    sink.drive([0.001, 0.0, 0.0, 0.0, 0.0, 0.0])
    begin, applied = sink.mark(), len(sink.log.applied)
    words = [sys.executable, str(HERE / "joining_process.py"), namespace_of(bench.run), str(count)]
    joined = subprocess.run(words, env={**os.environ}, capture_output=True, text=True, timeout=300, check=True)
    assert joined.stdout.split() == [str(number) for number in range(count)]
    gaps_ms = gaps_of(sink, begin, applied)
    assert max(gaps_ms) < PAUSED_MS
    assert {tick.decision.mode for tick in sink.ticks(begin)} == {Mode.POLICY}, (sink.banner, gaps_ms)
    if LONG:  # on a machine that does nothing else
        row.took(max(gaps_ms) / 1e3)
    row.saw(f"{count} joins, none of them a HOLD")


# a robot that follows exactly, and lies when it is told to ---------------------------------------------------------
@pytest.fixture(scope="module")
def lying(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench.end("robot")
    bench.script("kinematic_robot")
    bench.sink.until(lambda: bench.sink.node.count_subscribers("rig/robot"), "the robot", START_S)
    yield bench
    bench.end("kinematic_robot")
    bench.node("robot")


def strays(lying: Bench, **order: object) -> float:
    """Seconds from the lie to the HOLD."""
    sink = lying.sink
    sink.order_robot(stuck=False, gain=1.0)
    sink.home()
    sink.drive([0.0, 0.1, 0.0, 0.0, 0.0, 0.0])
    sink.until_stamp(sink.now_ns + 200 * MS)
    lied_ns = sink.order_robot(**order)
    took_s = sink.mode_after_s(lied_ns, Mode.HOLD)
    sink.until(lambda: "HOLD (tracking)" in sink.banner, "the reason")
    sink.order_robot(stuck=False, gain=1.0)
    sink.quiet()
    return took_s


@pytest.mark.row(34)
def test_row_34_encoders_that_stand_still_with_fresh_stamps_hold(lying: Bench, row: Measured) -> None:
    row.took(strays(lying, stuck=True))


@pytest.mark.row(35)
def test_row_35_a_driver_that_moves_too_fast_holds(lying: Bench, row: Measured) -> None:
    row.took(strays(lying, gain=2.5))
