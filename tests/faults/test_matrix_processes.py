"""The fault matrix: whole cells whose processes are killed, frozen and crowded. Run by `make faults`."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from robot_stack.runs.paths import RunPaths
from tests.faults.matrix_rows import Measured

pytest.importorskip("rclpy", reason="no ROS on this machine")

import rclpy
from geometry_msgs.msg import TwistStamped
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from rosgraph_msgs.msg import Clock
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from robot_stack.cli import check_log
from robot_stack.config.resolve import load_resolved
from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes import topics
from robot_stack.nodes.actor.cell import RosCell
from robot_stack.nodes.conversion import time_of
from robot_stack.nodes.qos import NEWEST
from robot_stack.processes.prepared_run import PreparedRun
from robot_stack.processes.profile import PROFILE_FILE, ros_environment
from robot_stack.processes.shared_memory import remove_stale
from robot_stack.processes.supervisor import ARM_LOST, Supervisor
from robot_stack.processes.table import cell_processes, namespace_of
from robot_stack.types.command import Mode
from robot_stack.types.transition import EndReason
from robot_stack.workcell.build_safety import limits_of
from tests.faults.fault_actor import Episode, joined
from tests.faults.fault_bench import ARM, DOMAIN, ROOT, START_S, Bench, bench_of, fault_run, heard, ros_in_this_process
from tests.faults.fault_sink import MS, FaultSink

SLOWLY = [0.005, 0.0, 0.0, 0.0, 0.0, 0.0]
BEST_EFFORT = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
pytestmark = pytest.mark.slow


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with bench_of(fault_run(), tmp_path) as bench:
        yield bench


@contextmanager
def supervised(bench: Bench, *names: str) -> Iterator[Supervisor]:
    """Those rows of the shipped process table, under the supervisor that `robot-stack up` uses."""
    table = [spec for spec in cell_processes(bench.run, bench.folder) if not names or spec.name in names]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with Supervisor(table, environment=environment, log_folder=bench.folder / "log") as supervisor:
        heard(bench)
        yield supervisor


@pytest.mark.row(3)
def test_row_3_a_killed_robot_process_holds_and_ends_the_run_by_name(bench: Bench, row: Measured) -> None:
    with supervised(bench, "robot", "safety") as supervisor:
        bench.sink.drive(SLOWLY)
        killed_ns = _kill(supervisor, "robot")
        row.took(bench.sink.mode_after_s(killed_ns, Mode.HOLD))
        row.took(bench.sink.safe_after_s(killed_ns))
        assert "fr3/state is" in bench.sink.banner
        assert supervisor.run(timeout_s=20.0) == ARM_LOST
        assert "robot ended by SIGKILL" in str(supervisor.ending)


def _kill(supervisor: Supervisor, name: str) -> int:
    os.kill(supervisor.pid(name), signal.SIGKILL)
    return time.monotonic_ns()


@contextmanager
def launched(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], FaultSink]]:
    """`robot-stack up RUN --cell-only` in a process of its own, moving the arm."""
    folder = tmp_path / "run"
    words = ["up", "peg_insert", "--cell-only", "--folder", str(folder), "--set", f"cell.dds_domain={DOMAIN}"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with (tmp_path / "up.log").open("wb") as log:
        up = subprocess.Popen(
            [sys.executable, "-m", "robot_stack.cli.main", *words], env=environment, stdout=log, stderr=log
        )
    try:
        deadline_s = time.monotonic() + START_S
        while not (folder / "log" / "safety.log").exists():
            assert up.poll() is None and time.monotonic() < deadline_s, (tmp_path / "up.log").read_text()  # noqa: PT018
            time.sleep(0.05)
        run, key = load_resolved(RunPaths(folder).resolved), WireKey.of_folder(folder)
        domain = int((folder / "domain").read_text())
        exports = ros_environment((folder / PROFILE_FILE).resolve(), domain)
        ready = PreparedRun(folder=folder, domain=domain, environment={**os.environ, **exports})
        with (
            ros_in_this_process(ready),
            FaultSink(namespace_of(run), run.robot.name, limits_of(run)[run.robot.name], key) as sink,
        ):
            bench = Bench(run, ready, sink)
            heard(bench)
            sink.until(lambda: sink.node.count_publishers(topics.teleop(ARM)), "the teleop process", START_S)
            yield up, sink
    finally:
        up.kill()
        up.wait(5.0)


def _moving(sink: FaultSink) -> None:
    """The policy of the test drives; the scripted operator of the run arms and resumes."""
    sink.out(TwistStamped, topics.policy(ARM))
    sink.until(lambda: sink.mode is Mode.READY, "READY", START_S)
    sink.policy = np.array(SLOWLY)
    sink.start()
    sink.until(lambda: sink.moving() and np.abs(sink.log.applied[-1].twist).max() > 0, "motion at the robot", 10.0)


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.row(5)
def test_row_5_nothing_survives_a_killed_launcher(tmp_path: Path, row: Measured) -> None:
    with launched(tmp_path) as (up, sink):
        _moving(sink)
        children = _children(up.pid)
        logs = list((tmp_path / "run" / "log").glob("*.log"))
        assert len(children) == len(logs) >= 7  # one each
        up.kill()
        killed_ns = time.monotonic_ns()
        sink.until(lambda: not any(map(_alive, children)), "the end of every process", 5.0)
        row.took((time.monotonic_ns() - killed_ns) / 1e9)
        sink.until(lambda: not np.any(sink.log.applied[-1].twist), "a zero as the last word of the robot process", 1.0)


@pytest.mark.row(6)
def test_row_6_sigterm_ends_the_stack_with_a_zero_at_the_robot(tmp_path: Path, row: Measured) -> None:
    with launched(tmp_path) as (up, sink):
        commands = tmp_path / "run" / "commands"
        sink.until(lambda: list(commands.glob("*/*.gz")), "the command log", START_S)
        _moving(sink)
        children = _children(up.pid)
        up.terminate()
        asked_s = time.monotonic()
        assert up.wait(10.0) == 0
        row.took(time.monotonic() - asked_s)
        assert not any(map(_alive, children))
        sink.until(lambda: not np.any(sink.commands[-1][1]), "a zero as the last command", 1.0)
        zero_ns = next(stamp_ns for stamp_ns, twist in reversed(sink.commands) if np.any(twist))
        sink.until(lambda: not np.any(sink.log.applied[-1].twist), "a zero at the motors", 1.0)
        assert sink.log.applied[-1].stamp_ns > zero_ns
    (log,) = commands.glob("*/*.jsonl.gz")
    assert check_log.run([log]) == 0
    assert "killing it" not in (tmp_path / "up.log").read_text()


@pytest.mark.row(7)
def test_row_7_a_killed_camera_holds_comes_back_and_marks_the_episode(bench: Bench, row: Measured) -> None:
    sink = bench.sink
    with supervised(bench, "robot", "safety", "camera_wrist", "camera_front") as supervisor, joined(bench) as cell:
        sink.ready()
        episode = Episode(bench, cell)
        sink.until(sink.driven, "the actor's motion", 10.0)
        killed_ns = _kill(supervisor, "camera_wrist")
        row.took(sink.mode_after_s(killed_ns, Mode.HOLD))
        assert "camera wrist" in cell.problem()
        sink.until(lambda: supervisor.step() or cell.observe() is not None, "the camera's return", START_S)
        assert supervisor.restarts("camera_wrist") == 1
        outcome = episode.end()
        assert outcome.ticks.blind_ticks > 0
        assert outcome.end is not EndReason.SUCCESS


@pytest.mark.row(10)
def test_row_10_watchdogs_do_not_follow_a_clock_that_stands_still(bench: Bench, row: Measured) -> None:
    sink = bench.sink
    bench.node("robot")
    bench.node("safety", "--ros-args", "-p", "use_sim_time:=true")
    heard(bench)
    clock = sink.out(Clock, "/clock")
    for second in range(5):
        clock.publish(Clock(clock=time_of(second * 1_000_000_000)))
    sink.drive(SLOWLY)  # from here on no /clock any more
    bench.script("stream_process", "policy")
    sink.quiet()
    sink.order("policy", twist=SLOWLY)
    sink.until(sink.driven, "the policy's motion", START_S)
    row.took(sink.safe_after_s(bench.kill("policy")))
    assert sink.mode is Mode.HOLD


@pytest.mark.row(24)
def test_row_24_a_busy_machine_delays_no_decision_and_a_stall_is_a_hold(bench: Bench, row: Measured) -> None:
    sink = bench.sink
    with supervised(bench, "robot", "safety") as supervisor:
        bench.script("stream_process", "policy")
        sink.ready()
        sink.order("policy", twist=SLOWLY)
        sink.start()
        sink.until(sink.driven, "motion", START_S)
        sink.order("policy", twist=SLOWLY, stall_s=0.2)
        stalled_ns = sink.now_ns
        sink.until(lambda: sink.mode is Mode.HOLD, "HOLD")
        last_ns = max(t.stamp_ns for t in sink.ticks() if t.stamp_ns < stalled_ns + 100 * MS)
        row.took(sink.safe_after_s(last_ns))

        pids = [supervisor.pid(name) for name in ("robot", "safety")]
        before = {pid: os.sched_getaffinity(pid) for pid in pids}
        core = min(before[pids[1]])
        with _burners(core, 3):
            for pid in pids:
                _pin(pid, {core})
            sink.until(sink.driven, "motion")
            begin, until_ns = sink.mark(), sink.now_ns + 3000 * MS
            sink.until(lambda: sink.now_ns > until_ns, "three busy seconds", 10.0)
            stamps = [tick.stamp_ns for tick in sink.ticks(begin)]
        for pid in pids:
            _pin(pid, before[pid])
        sink.until(sink.driven, "recovery")
        assert sink.violations() == []
        row.saw(f"largest gap of decisions {np.diff(stamps).max() / MS:.0f} ms beside 3 busy processes on its core")


def _pin(pid: int, cores: set[int]) -> None:
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


@contextmanager
def _burners(core: int, count: int) -> Iterator[None]:
    code = f"import os; os.sched_setaffinity(0, {{{core}}})\nwhile True: pass"
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait(5.0)


@pytest.mark.row(25)
def test_row_25_a_frozen_recorder_keeps_nobody_waiting(bench: Bench, row: Measured) -> None:
    sink = bench.sink
    with supervised(bench, "robot", "safety", "command_recorder") as supervisor:
        commands = bench.folder / "commands"
        sink.until(lambda: list(commands.glob("*/*.gz")), "the log", START_S)
        sink.drive(SLOWLY)
        os.kill(supervisor.pid("command_recorder"), signal.SIGSTOP)
        begin = sink.mark()
        sink.until_stamp(sink.now_ns + 3000 * MS)
        stamps = np.array([tick.stamp_ns for tick in sink.ticks(begin)])
        os.kill(supervisor.pid("command_recorder"), signal.SIGCONT)
        row.took(float(np.diff(stamps).max()) / 1e9)
        assert all(np.abs(each.twist).max() > 0 for each in sink.log.applied if stamps[5] < each.stamp_ns < stamps[-1])


@pytest.mark.row(26)
def test_row_26_who_cannot_be_heard_is_named_and_arming_is_refused(bench: Bench, row: Measured) -> None:
    sink = bench.sink
    bench.node("safety")
    sink.until(lambda: sink.log.decisions, "the safety process", START_S)
    context = rclpy.Context()
    rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
    node = rclpy.create_node("stranger", context=context, namespace="sim")
    begun_s = time.monotonic()
    elsewhere = node.create_publisher(JointState, "/another/_wire/fr3/state", NEWEST)
    sink.until(lambda: "there is /another/_wire/fr3/state" in sink.ask("arm"), "the other namespace")
    row.took(time.monotonic() - begun_s)
    node.destroy_publisher(elsewhere)
    bench.script("kinematic_robot")
    heard(bench)
    sink.until(lambda: sink.ask("arm") == "", "arming")
    assert sink.ask("disarm") == ""
    for kind, topic, profile, words in (
        (TwistStamped, topics.policy(ARM), BEST_EFFORT,
         "policy/cmd from /sim/stranger is offered BEST_EFFORT VOLATILE, must be RELIABLE VOLATILE as /sim/safety"),
        (String, topics.teleop(ARM), NEWEST,
         "teleop/cmd from /sim/stranger is std_msgs/msg/String, must be sensor_msgs/msg/Joy"),
    ):  # fmt: skip
        begun_s = time.monotonic()
        publisher = node.create_publisher(kind, topic, profile)
        sink.until(lambda words=words: words in sink.ask("arm"), words)
        sink.until(lambda words=words: sink.said("safety: wiring", words), "ERROR")
        row.took(time.monotonic() - begun_s)
        assert sink.diagnostics["safety: wiring"][0] == 2
        node.destroy_publisher(publisher)
        sink.until(lambda: sink.ask("arm") == "", "arming")
        assert sink.ask("disarm") == ""
    node.destroy_node()
    rclpy.try_shutdown(context=context)


SOAK_S = 60.0
KILL_EVERY_S = 5.0


@pytest.mark.row(30)
@pytest.mark.timeout(180)
def test_row_30_a_minute_of_random_kills_leaves_nothing_behind(bench: Bench, row: Measured) -> None:
    """Robot and safety process are required: their death ends a run, which rows 2 and 3 show."""
    sink, rng = bench.sink, random.Random(30)
    with supervised(bench) as supervisor, joined(bench) as cell:
        stop, episodes = threading.Event(), []
        worker = threading.Thread(target=_train_online, args=(bench, cell, stop, episodes), daemon=True)
        worker.start()
        sink.until(lambda: sink.mode is Mode.POLICY, "online training", START_S)
        kept = [supervisor.pid(name) for name in ("robot", "safety")]
        before = [_weigh(pid) for pid in kept]
        ends_s, kills = time.monotonic() + SOAK_S, 0
        kill_s = time.monotonic() + KILL_EVERY_S
        names = ["camera_wrist", "camera_front", "teleop", "command_recorder"]
        while time.monotonic() < ends_s:
            supervisor.step()
            assert supervisor.ending is None
            if time.monotonic() >= kill_s:
                _kill(supervisor, rng.choice([name for name in names if name in supervisor.alive()]))
                kill_s, kills = time.monotonic() + KILL_EVERY_S, kills + 1
            time.sleep(0.02)
        sink.until(lambda: supervisor.step() or set(names) <= set(supervisor.alive()), "everybody", START_S)
        after = [_weigh(pid) for pid in kept]
        stop.set()
        worker.join(15.0)
        for (files, memory_mb), (files_after, memory_after_mb) in zip(before, after):
            assert files_after <= files + 4
            assert memory_after_mb <= memory_mb + 10
        assert remove_stale() < kills * 32e6  # each leaves 35 MB, which the next start of a process has swept
        assert sink.violations() == []
        decisions = len(sink.log.decisions)
    for log in (bench.folder / "commands").glob("*/*.jsonl.gz"):
        assert check_log.violations(check_log.read_log(log)) == []
    assert sum(episodes) > 0
    grown = max(b[1] - a[1] for a, b in zip(before, after))
    row.saw(f"{kills} kills, {decisions:,} decisions, 0 violations, {grown:+.1f} MB")


def _train_online(bench: Bench, cell: RosCell, stop: threading.Event, ended: list[int]) -> None:
    """Episodes of three seconds, one after the other; one that fails is followed by the next."""
    while not stop.is_set():
        try:
            episode = Episode(bench, cell)
            stop.wait(3.0)
            episode.end(20.0)
            ended.append(1)
        except AssertionError:
            stop.wait(0.5)


def _weigh(pid: int) -> tuple[int, float]:
    """Open files, and resident memory in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return len(list(Path(f"/proc/{pid}/fd").iterdir())), pages * os.sysconf("SC_PAGE_SIZE") / 1e6
