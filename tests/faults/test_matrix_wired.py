"""The fault matrix: the operator's device and the wired stop buttons. Over DDS."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.faults.matrix_rows import Measured

pytest.importorskip("rclpy", reason="no ROS on this machine")

from geometry_msgs.msg import TwistStamped
from sensor_msgs.msg import Joy

from robot_stack.nodes import topics
from robot_stack.types.command import Mode
from tests.faults.fault_bench import ARM, START_S, Bench, bench_of, fault_run, heard
from tests.faults.fault_sink import MS, FaultSink

SLOWLY = [0.005, 0.0, 0.0, 0.0, 0.0, 0.0]
BUTTONS = [topics.stop_input("desk"), topics.stop_input("door")]


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    run = fault_run(cell="teleop_silence_s: 0.5\nstop_inputs: {desk: {timeout_s: 0.5}, door: {timeout_s: 0.5}}\n")
    with bench_of(run, tmp_path_factory.mktemp("wired")) as bench:
        bench.node("robot")
        bench.node("safety")
        yield heard(bench)


class Buttons:
    """Two stop buttons that say how they are, ten times a second."""

    def __init__(self, sink: FaultSink) -> None:
        self.pressed = dict.fromkeys(BUTTONS, False)
        self._sink, self._stop = sink, threading.Event()
        self._thread = threading.Thread(target=self._say, daemon=True)

    def __enter__(self) -> Buttons:
        for topic in BUTTONS:
            self._sink.button(False, topic)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(2.0)

    def _say(self) -> None:
        while not self._stop.wait(0.1):
            for topic, pressed in list(self.pressed.items()):
                self._sink.button(pressed, topic)


def attended(sink: FaultSink) -> None:
    """The policy drives, an operator's device is there with its deadman released."""
    sink.out(Joy, topics.teleop(ARM))
    sink.out(TwistStamped, topics.policy(ARM))
    sink.hand, sink.deadman = np.zeros(6), False

    def ready() -> bool:
        step = {Mode.STOP: "clear_stop", Mode.DISARMED: "arm", Mode.HOLD: "resume"}.get(sink.mode, "end_episode")
        sink.ask(step)
        return sink.mode is Mode.READY

    sink.until(ready, "READY", 15.0)
    sink.policy = np.array(SLOWLY)
    sink.start()
    sink.until(sink.driven, "motion")


@pytest.mark.row(39)
def test_row_39_a_stop_outlives_a_full_disk_and_a_restart(tmp_path: Path, row: Measured) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.getuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False).returncode:
        pytest.skip("a disk that is full needs root and mount")
    try:
        with bench_of(fault_run(), tmp_path / "run") as bench:
            bench.node("robot")
            bench.node("safety", "--state", str(disk))
            sink = heard(bench).sink
            sink.drive(SLOWLY)
            with pytest.raises(OSError, match="No space left"):
                (disk / "fill").write_bytes(b"x" * (2 << 20))
            pressed_ns = sink.press("stop")
            sink.mode_after_s(pressed_ns, Mode.STOP)
            sink.until(lambda: sink.estop, "the announcement")
            sink.quiet()
            bench.kill("safety")
            begin = sink.mark()
            bench.node("safety", "--state", str(disk))
            sink.until(lambda: sink.mark() > begin, "the safety process", START_S)
            assert {tick.decision.mode for tick in sink.ticks(begin)} == {Mode.STOP}
            sink.until(lambda: "stop pressed (keyboard), since 20" in sink.banner, "since when and who")
            assert not sink.said("safety: stop file", "not written")
    finally:
        subprocess.run(["umount", "-l", disk], check=False)
    row.saw("STOP after the restart, with since when and who")


@pytest.mark.row(37)
def test_row_37_a_device_that_is_gone_while_the_policy_drives_is_a_hold(wired: Bench, row: Measured) -> None:
    sink = wired.sink
    with Buttons(sink):
        attended(sink)
        sink.until_stamp(sink.now_ns + 300 * MS)
        sink.hand = None
        row.took(sink.mode_after_s(time.monotonic_ns(), Mode.HOLD))
        sink.until(lambda: "HOLD (teleop silent)" in sink.banner, "the reason")
        assert "teleop is silent" in sink.ask("resume")
        sink.hand = np.zeros(6)
        sink.until(lambda: sink.ask("resume") == "", "resuming with the device back")
        sink.quiet()


@pytest.mark.row(38)
def test_row_38_each_stop_button_counts_by_itself(wired: Bench, row: Measured) -> None:
    sink = wired.sink
    desk, door = BUTTONS
    with Buttons(sink) as buttons:
        attended(sink)
        buttons.pressed[desk] = True
        sink.until(lambda: sink.mode is Mode.STOP, "STOP")
        sink.quiet()
        until_s = time.monotonic() + 2.0
        while time.monotonic() < until_s:  # the other goes on saying "released"
            assert f"{desk} is pressed" in sink.ask("clear_stop")
            time.sleep(0.05)
        buttons.pressed[desk] = False
        sink.until(lambda: sink.ask("clear_stop") == "", "clearing")
        attended(sink)
        del buttons.pressed[door]  # dies
        sink.until(lambda: sink.mode is Mode.HOLD, "HOLD")
        sink.until(lambda: f"{door} is silent" in sink.banner, "the reason")
        sink.quiet()
    row.saw("2 s of the other's word cleared nothing; the dead one was named")
