"""A bag of a run's live topics, played back at the running cell it was recorded from: nothing moves, no HOLD ends."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")
pytest.importorskip("mcap", reason="mcap is not installed: pip install 'robot-stack[export]'")

import rclpy
from mcap.reader import NonSeekingReader
from rclpy.qos import DurabilityPolicy, QoSProfile
from sensor_msgs.msg import Joy
from std_msgs.msg import Header

from robot_stack.datasets.bag.topic_log import TopicLog
from robot_stack.nodes import topics
from robot_stack.nodes.base import FOREVER_S, make_executor
from robot_stack.nodes.qos import EVERY
from robot_stack.nodes.tools.topic_recorder import TopicRecorder, message_class
from robot_stack.processes.table import namespace_of
from robot_stack.types.command import Mode
from tests.faults.fault_bench import ARM, START_S, Bench, bench_of, fault_run, heard

MS = 1_000_000
DISCOVERY_S = 1.0
MOST_FITTING = QoSProfile(depth=10, durability=DurabilityPolicy.TRANSIENT_LOCAL)
"""Reliable and latched: every subscriber takes it."""
COMMANDS = (topics.command(ARM), topics.policy(ARM), topics.EVENTS, topics.RESET_REQUEST, topics.state(ARM))
"""What could move an arm, or hide where it is."""
SIDEWAYS, FORWARDS = [0.0, 0.03, 0.0, 0.0, 0.0, 0.0], [0.01, 0.0, 0.0, 0.0, 0.0, 0.0]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with bench_of(fault_run("cell.dds_domain=69"), tmp_path_factory.mktemp("replay")) as bench:
        bench.node("robot")
        bench.node("safety")
        yield heard(bench)


@pytest.fixture(scope="module")
def bag(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of an episode with everything that could move something if it counted a second time."""
    sink, out = bench.sink, tmp_path_factory.mktemp("bag") / "bag"
    log = TopicLog(out)
    recorder = TopicRecorder(namespace_of(bench.run), log, everything=True)
    executor = make_executor(recorder)
    thread = threading.Thread(target=lambda: executor.spin_until_future_complete(recorder.ended, FOREVER_S))
    thread.start()
    try:
        sink.drive(SIDEWAYS)
        kept = (sink.out(Joy, topics.EVENTS, EVERY), sink.out(Header, topics.RESET_REQUEST))
        sink.until(lambda: all(out.get_subscription_count() > 1 for out in kept), "a recorder", START_S)
        sink.until(sink.driven, "motion")
        sink.press("hold")
        sink.until(lambda: sink.mode is Mode.HOLD, "HOLD")
        sink.until_stamp(sink.now_ns + 300 * MS)
        sink.until(lambda: sink.press("arm") and sink.mode is Mode.POLICY, "POLICY")
        sink.until_stamp(sink.now_ns + 500 * MS)
        sink.home()
        wanted = [f"/{namespace_of(bench.run)}/{topic}" for topic in COMMANDS]
        sink.until(lambda: all(log.counts[topic] for topic in wanted), "all in the bag", START_S)
        for topic in (topics.EVENTS, topics.RESET_REQUEST):
            sink.drop(topic)
    finally:
        recorder.end()
        thread.join(10.0)
        recorder.destroy_node()
        log.close()
    return out / "000.mcap"


def play(path: Path) -> int:
    """Play a bag as `ros2 bag play` does, from one more node: every topic, at the recorded rate; return how many."""
    node = rclpy.create_node("player")
    with path.open("rb") as stream:
        recorded = [(channel.topic, schema.name, message.data, message.log_time)
                    for schema, channel, message in NonSeekingReader(stream).iter_messages() if schema]  # fmt: skip
    kinds = {topic: kind for topic, kind, *_ in recorded}
    outs = {topic: node.create_publisher(message_class(kind), topic, MOST_FITTING) for topic, kind in kinds.items()}
    time.sleep(DISCOVERY_S)
    begun_s, first_ns = time.monotonic(), min(at_ns for *_, at_ns in recorded)
    for topic, _, data, at_ns in sorted(recorded, key=lambda row: row[3]):
        time.sleep(max(0.0, begun_s + (at_ns - first_ns) / 1e9 - time.monotonic()))
        outs[topic].publish(data)
    time.sleep(DISCOVERY_S)
    node.destroy_node()
    return len(recorded)


@pytest.mark.parametrize(
    "before",
    [pytest.param(mode, marks=pytest.mark.slow) for mode in (Mode.DISARMED, Mode.READY, Mode.STOP)]
    + [Mode.HOLD, Mode.POLICY],
)
def test_a_bag_that_is_played_back_moves_nothing_and_ends_no_hold(bag: Path, bench: Bench, before: Mode) -> None:
    sink = bench.sink
    bring_to(bench, before)
    sink.until_stamp(sink.now_ns + 300 * MS)
    begun_ns = sink.now_ns
    assert play(bag) > 500
    sink.until_stamp(time.monotonic_ns())  # all that was decided until now has been heard
    own = [each for each in sink.log.decisions if each.command.stamp_ns > begun_ns]
    applied = [each for each in sink.log.applied if each.stamp_ns > begun_ns]
    states = [each for each in sink.log.states if each.stamp_ns > begun_ns]
    sink.quiet()
    stamps_ns = np.sort([each.command.stamp_ns for each in own])
    assert np.diff(stamps_ns).max() < 500 * MS, "the filter went on all the time"
    assert {each.mode for each in own} <= {before, Mode.HOLD}
    modes = [each.mode for each in sorted(own, key=lambda each: each.command.stamp_ns)]
    if Mode.HOLD in modes:
        assert set(modes[modes.index(Mode.HOLD) :]) == {Mode.HOLD}
    twists = np.array([each.twist for each in applied])
    assert np.abs(twists[:, 1:]).max() < 1e-6, "what was recorded was a motion along y"
    if before is not Mode.POLICY:
        assert np.abs(twists).max() == 0.0
    path = np.array([each.T_base_tcp.position_m for each in sorted(states, key=lambda each: each.stamp_ns)])
    assert np.abs(np.diff(path, axis=0)).max() < 0.002, "the simulator put the arm back"


def bring_to(bench: Bench, mode: Mode) -> None:
    """A cell in that mode, with the arm away from where its episodes start."""
    sink = bench.sink
    sink.drive(FORWARDS)
    sink.until_stamp(sink.now_ns + 1000 * MS)
    if mode is Mode.READY:
        sink.ready()
    elif mode is not Mode.POLICY:
        sink.quiet()
        steps = {Mode.DISARMED: "disarm", Mode.HOLD: "hold", Mode.STOP: "stop"}
        assert sink.ask(steps[mode]) == ""
        sink.until(lambda: sink.mode is mode, str(mode))
    sink.until(lambda: mode is Mode.POLICY or not sink.moving(), "rest")
