"""What the doctor says about measurements, one sentence per illness."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.config.resolve import load_run
from robot_stack.processes.table import process_table
from robot_stack.types.command import Mode
from robot_stack.types.finding import Level
from robot_stack.types.pose import Pose
from robot_stack.types.robot import RobotState
from robot_stack.workcell.bring_up import Heard, Stage
from robot_stack.workcell.checkup import finding, graph, host, operator, streams
from robot_stack.workcell.checkup.operator import Reach
from robot_stack.workcell.qos import Qos

ROOT = Path(__file__).resolve().parents[2]
LOGS = Path("runs/doctor/bench/log")
RUN = load_run("peg_insert")
ARM = RUN.arms["fr3"]
MS = 1_000_000


def filled(stream, *, rate_hz: float, age_ms: float = 10.0, count: int = 100, start_ns: int = 10**9):
    for index in range(count):
        arrived_ns = start_ns + round(index * 1e9 / rate_hz)
        stream.add(arrived_ns, arrived_ns - round(age_ms * MS))
    return stream


def camera(rate_hz: float = 30.0, age_ms: float = 40.0, **fields):
    return filled(streams.CameraStream(size="64x64", **fields), rate_hz=rate_hz, age_ms=age_ms)


@pytest.mark.parametrize(
    ("stream", "level", "words"),
    [
        (camera(), Level.OK, "wrist 30.0 Hz, age p99 40 ms, 64x64"),
        (camera(rate_hz=28.0), Level.WARN, "should be 30 Hz"),
        (camera(rate_hz=11.2), Level.FAIL, "wrist 11.2 Hz, must be 30; end other programs"),
        (camera(age_ms=120), Level.WARN, "at 150 ms the robot holds"),
        (camera(age_ms=200), Level.FAIL, "must be below 150 ms"),
        (camera(frozen="90 identical images in 3.0 s"), Level.FAIL, "frozen: 90 identical images"),
        (camera(brightness=3.0), Level.WARN, "dark; is the cap on"),
        (streams.CameraStream(), Level.FAIL, "no image; read runs/doctor/bench/log/camera_wrist.log"),
        (filled(streams.CameraStream(), rate_hz=30, age_ms=2000, start_ns=MS), Level.FAIL, "stamps are not set"),
    ],
)
def test_a_camera(stream, level, words) -> None:
    found = streams.judge_camera("wrist", stream, RUN.cameras["wrist"], LOGS)
    assert (found.level, words in found.text) == (level, True), found


def test_a_slow_camera_at_a_port_is_not_the_computers_fault() -> None:
    found = streams.judge_camera("wrist", camera(rate_hz=11.2), load_run("fr3_table").cameras["wrist"], LOGS)
    assert "slow USB port" in found.text


def state(x: float = 0.5, fault: str = "") -> RobotState:
    place = Pose(position_m=np.array([x, 0.0, 0.1]), quaternion_xyzw=np.array([1, 0, 0, 0]))
    return RobotState(
        arm="fr3",
        stamp_ns=1,
        T_base_tcp=place,
        twist=np.zeros(6),
        wrench=np.zeros(6),
        joints_rad=np.zeros(7),
        joint_speeds_rad_s=np.zeros(7),
        gripper=0.5,
        fault=fault,
    )


def test_a_robot_that_is_well_is_ok_in_two_lines() -> None:
    found = streams.judge_state(filled(streams.Stream(), rate_hz=100), state(), "", RUN, ARM, LOGS)
    assert [each.level for each in found] == [Level.OK, Level.OK]


@pytest.mark.parametrize(
    ("rate_hz", "age_ms", "x", "fault", "level", "words"),
    [
        (100, 10, 0.5, "joint 3 over torque", Level.FAIL, "joint 3 over torque; clear it"),
        (100, 150, 0.5, "", Level.FAIL, "are the hosts' clocks aligned?"),
        (5, 10, 0.5, "", Level.WARN, "a gap above 100 ms holds the robot"),
        (100, 10, 0.7, "", Level.WARN, "x = 0.700 m, must be within 0.4 to 0.6"),
    ],
)
def test_an_ill_robot_is_named(rate_hz, age_ms, x, fault, level, words) -> None:
    found = streams.judge_state(
        filled(streams.Stream(), rate_hz=rate_hz, age_ms=age_ms), state(x), fault, RUN, ARM, LOGS
    )
    assert [each.level for each in found if words in each.text] == [level], found


def test_a_force_at_standstill_is_a_warning_with_its_remedy() -> None:
    pushed = replace(state(), wrench=np.array([0.0, 0.0, 9.0, 0.0, 0.0, 0.0]))
    found = streams.judge_state(filled(streams.Stream(), rate_hz=100), pushed, None, RUN, ARM, LOGS)
    assert [(each.check, each.level) for each in found if each.level is not Level.OK] == [("force", Level.WARN)]
    assert "feels 9 N while it stands, must be below 3 N unless it touches something; set the payload" in found[-1].text


def test_a_slow_robot_is_still_somewhere() -> None:
    slow, place = streams.judge_state(filled(streams.Stream(), rate_hz=5), state(), "", RUN, ARM, LOGS)
    assert (slow.level, place.check, place.level) == (Level.WARN, "workspace", Level.OK)


def test_a_silent_robot_fails() -> None:
    (found,) = streams.judge_state(streams.Stream(), None, "", RUN, ARM, LOGS)
    assert found.level is Level.FAIL
    assert "no state; read runs/doctor/bench/log/robot.log" in found.text


@pytest.mark.parametrize(
    ("mode", "rate_hz", "level"),
    [
        ((Mode.DISARMED, ""), 100, Level.OK),
        ((Mode.STOP, "pressed"), 100, Level.WARN),
        ((Mode.READY, ""), 20, Level.FAIL),
    ],
)
def test_the_safety_process(mode, rate_hz, level) -> None:
    assert streams.judge_safety(filled(streams.Stream(), rate_hz=rate_hz), mode, RUN, LOGS).level is level


@pytest.mark.parametrize(
    ("rest", "deadman", "rate_hz", "level", "words"),
    [
        ({"x": 0.01}, False, 50, Level.OK, "at rest"),
        ({"x": 0.01, "rz": -0.2}, False, 50, Level.WARN, "rz -0.20"),
        ({}, True, 50, Level.WARN, "deadman is pressed"),
        ({}, False, 20, Level.FAIL, "must be 50 Hz"),
    ],
)
def test_a_device_at_rest(rest, deadman, rate_hz, level, words) -> None:
    stream = filled(streams.Stream(), rate_hz=rate_hz)
    found = streams.judge_teleop(stream, rest, LOGS, deadman=deadman, config=RUN.teleop)
    assert (found.level, words in found.text) == (level, True), found


def test_the_mean_of_each_axis_is_named() -> None:
    assert streams.axis_means([np.array([0, 0, 0, 0, 0, 0.2]), np.zeros(6)])["rz"] == pytest.approx(0.1)
    assert streams.axis_means([]) == {}


IMAGE = "sensor_msgs/msg/Image"


def end(topic: str, node: str, *, publishes: bool, kind: str = IMAGE, **qualities) -> graph.TopicEnd:
    qos = Qos(**{"reliable": True, "latched": False, **qualities})
    return graph.TopicEnd(topic=topic, node=node, publishes=publishes, kind=kind, qos=qos)


def test_a_graph_without_fault_is_one_line() -> None:
    pair = [end("/a/x", "/a/one", publishes=True), end("/a/x", "/a/two", publishes=False, reliable=False)]
    (found,) = graph.judge_graph(pair, commands=["/a/x"], absent=[])
    assert found == finding.ok("topics", "1 topics, every listener has a publisher that suits it")


@pytest.mark.parametrize(
    ("offers", "wants"),
    [
        ({"reliable": False}, {"reliable": True}),
        ({"latched": False}, {"latched": True}),
        ({}, {"deadline_s": 0.1}),
        ({"deadline_s": 0.3}, {"deadline_s": 0.1}),
    ],
)
def test_a_mismatch_of_qos_names_topic_and_both(offers, wants) -> None:
    pair = [end("/a/x", "/a/driver", publishes=True, **offers), end("/a/x", "/a/actor", publishes=False, **wants)]
    (found,) = graph.judge_graph(pair, commands=[], absent=[])
    assert (found.level, found.check) == (Level.FAIL, "qos")
    for endpoint in pair:
        assert f"{endpoint.node} {'offers' if endpoint.publishes else 'wants'} {endpoint.qos}" in found.text


def test_another_type_on_the_same_topic_fails() -> None:
    pair = [
        end("/a/x", "/a/one", publishes=True, kind="a/msg/A"),
        end("/a/x", "/a/two", publishes=False, kind="a/msg/B"),
    ]
    (found,) = graph.judge_graph(pair, commands=[], absent=[])
    assert "sends a/msg/A, /a/two expects a/msg/B" in found.text


def test_two_commanders_fail_and_are_both_named() -> None:
    twice = [end("/a/cmd", f"/a/{name}", publishes=True) for name in ("safety", "other")]
    (found,) = graph.judge_graph(twice, commands=["/a/cmd"], absent=[])
    assert found.text == "/a/cmd has /a/other, /a/safety, must have one; end the others"
    assert graph.judge_graph(twice, commands=[], absent=[])[0].level is Level.OK


def test_a_topic_that_nobody_fills_is_known_unless_it_may_be_empty() -> None:
    alone = [end("/a/x", "/a/actor", publishes=False)]
    (found,) = graph.judge_graph(alone, commands=[], absent=[])
    assert (found.level, found.check) == (Level.WARN, "silence")
    assert graph.judge_graph(alone, commands=[], absent=["/a/x"])[0].level is Level.OK


@pytest.mark.long
@given(st.lists(st.builds(
    end, st.sampled_from(["/a/x", "/a/y"]), st.sampled_from(["/a/n", "/a/m"]), publishes=st.booleans(),
    reliable=st.booleans(), latched=st.booleans(),
)))  # fmt: skip
def test_a_graph_fails_exactly_where_a_listener_asks_for_more_than_is_offered(endpoints) -> None:
    def refused(offers, wants) -> bool:
        return (wants.qos.reliable > offers.qos.reliable) or (wants.qos.latched > offers.qos.latched)

    failed = any(each.level is Level.FAIL for each in graph.judge_graph(endpoints, commands=[], absent=[]))
    pairs = [(a, b) for a in endpoints for b in endpoints if a.topic == b.topic and a.publishes and not b.publishes]
    ears = {(a, b.node): [c for other, c in pairs if other is a and c.node == b.node] for a, b in pairs}
    assert failed == any(all(refused(a, ear) for ear in each) for (a, _), each in ears.items())


def test_a_button_is_heard_by_a_node_that_also_asks_for_what_it_said_before() -> None:
    """As the safety process listens to a wired stop."""
    button = end("/a/stop_input", "/a/button", publishes=True)
    ears = [end("/a/stop_input", "/a/safety", publishes=False, latched=latched) for latched in (False, True)]
    assert graph.judge_graph([button, *ears], commands=[], absent=[])[0].level is Level.OK
    deaf = graph.judge_graph([button, ears[1]], commands=[], absent=[])[0]
    assert (deaf.level, deaf.check) == (Level.FAIL, "qos")


def test_frames_that_nobody_publishes_are_named_where_anybody_publishes_one() -> None:
    assert graph.judge_frames({"base", "tcp"}, set()) == []
    (found,) = graph.judge_frames({"base", "tcp"}, {"base", "world"})
    assert "nobody publishes tcp" in found.text


def test_nodes_without_life_or_not_active_are_named() -> None:
    active, broken = Heard(stage=Stage.ACTIVE), Heard(stage=Stage.UNCONFIGURED, reason="no such device")
    found = graph.judge_nodes(
        ["robot", "camera", "teleop"], {"robot", "camera"}, {"robot": active, "camera": broken}, LOGS
    )
    assert [each.text for each in found] == [
        "camera is not active: unconfigured: no such device",
        "teleop gives no sign of life; read runs/doctor/bench/log/teleop.log",
    ]
    assert graph.judge_nodes(["robot"], {"robot"}, {"robot": active}, LOGS)[0].level is Level.OK


@pytest.mark.parametrize(
    ("free_gb", "mb_s", "level"),
    [(100, 300, Level.OK), (10, 300, Level.WARN), (1, 300, Level.FAIL), (100, 2, Level.WARN), (100, 0.5, Level.FAIL)],
)
def test_a_disk(free_gb, mb_s, level, tmp_path) -> None:
    assert host.judge_disk(free_gb * 1e9, mb_s, 1.0, tmp_path).level is level


def test_the_disk_is_measured_and_left_as_it_was(tmp_path) -> None:
    assert "MB/s" in host.measure_disk(tmp_path, RUN).text
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_fails(tmp_path) -> None:
    (tmp_path / "runs").touch()
    found = host.measure_disk(tmp_path / "runs", RUN)
    assert found.level is Level.FAIL
    assert "is not writable" in found.text


def test_who_may_not_go_before_others_is_given_a_command_that_allows_it(monkeypatch) -> None:
    """It is also on the page, and needs no group that a machine may not have."""
    monkeypatch.setattr(host.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(host.resource, "getrlimit", lambda _: (0, 0))
    found = host.judge_priority()
    assert found.level is Level.WARN
    (command,) = re.findall(r"type: (echo .*\.conf); then log out and in", found.text)
    assert f"\n{command}\n" in (ROOT / "docs/bringup.md").read_text()
    script = f'sudo() {{ echo "$*"; cat; }}; USER=ada; {command}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, timeout=10)
    written, line = done.stdout.splitlines()
    assert written == "tee -a /etc/security/limits.d/robot-stack.conf"
    who, kind, item, highest = line.split()
    assert (who, kind, item) == ("ada", "-", "rtprio")
    assert int(highest) >= max(row.realtime for row in process_table(RUN, Path("runs/x")))
    monkeypatch.setattr(host.resource, "getrlimit", lambda _: (int(highest), int(highest)))
    assert host.judge_priority().level is Level.OK


@pytest.mark.parametrize(("megabytes", "level"), [(64, Level.FAIL), (1024, Level.OK)])
def test_shared_memory(megabytes, level) -> None:
    assert host.judge_shared_memory(megabytes * 1e6, 8).level is level


def test_the_kernel_says_how_far_the_clock_may_be_off() -> None:
    synchronised, error_s = host.clock_synchronised()
    assert isinstance(synchronised, bool)
    assert error_s >= 0.0


@pytest.mark.parametrize(
    ("offsets", "synchronised", "alone", "level"),
    [
        ({"robot": 0.001}, True, False, Level.OK),
        ({"robot": 0.001}, False, True, Level.OK),
        ({"robot": 0.001}, False, False, Level.WARN),
        ({"robot": 0.001, "camera": -0.3}, True, True, Level.FAIL),
        ({}, True, True, Level.OK),
    ],
)
def test_clocks(offsets, synchronised, alone, level) -> None:
    found = host.judge_clock(offsets, synchronised=synchronised, error_s=0.01, alone=alone)
    assert found.level is level
    assert ("camera is -300 ms off" in found.text) == (level is Level.FAIL)


@pytest.mark.parametrize(
    ("times_s", "lost", "level"),
    [([0.002] * 50, 0, Level.OK), ([0.05] * 50, 0, Level.WARN), ([0.002], 1, Level.WARN), ([], 50, Level.FAIL)],
)
def test_round_trips(times_s, lost, level) -> None:
    assert host.judge_round_trip(times_s, lost).level is level


def test_a_starved_doctor_says_so() -> None:
    assert host.judge_load(0.05) == []
    (found,) = host.judge_load(3.4)
    assert "kept waiting for 3.4 s by other programs" in found.text


@pytest.mark.parametrize(
    ("reaches", "deadman", "level", "words"),
    [
        ({"x": Reach(low=-1, high=1), "rz": Reach(low=-0.5, high=0.5)}, True, Level.OK, "x, rz move both ways"),
        ({"x": Reach(low=-1, high=1), "rz": Reach(low=-0.5, high=0.1)}, True, Level.WARN, "rz+ never moved"),
        ({"x": Reach(low=-1, high=1), "rz": Reach(low=-0.5, high=0.5)}, False, Level.FAIL, "deadman was never pressed"),
        ({}, False, Level.FAIL, "no axis ever moved"),
    ],
)
def test_axes_of_the_device(reaches, deadman, level, words) -> None:
    found = operator.judge_axes("spacemouse", reaches, ("x", "rz"), deadman=deadman)
    assert (found.level, words in found.text) == (level, True), found


@given(st.lists(st.floats(-1, 1)))
def test_an_axis_has_reached_what_it_was_moved_to(values) -> None:
    reach = Reach()
    for value in values:
        reach = reach.widened(value)
    assert (reach.low, reach.high) == (min([0.0, *values]), max([0.0, *values]))
    stuck = {"x+": reach.high <= operator.MOVED, "x-": reach.low >= -operator.MOVED}
    assert operator.unmoved({"x": reach}, ["x"]) == [side for side, still in stuck.items() if still]


@pytest.mark.parametrize(
    ("fields", "level", "words"),
    [
        ({"pressed": False, "seen_ms": None, "released": False}, Level.FAIL, "was not seen pressed"),
        ({"pressed": True, "seen_ms": 12.0, "released": True}, Level.OK, "pressed and released, seen in 12 ms"),
        ({"pressed": True, "seen_ms": None, "released": False}, Level.WARN, "not cleared: arm moves"),
    ],
)
def test_the_emergency_stop(fields, level, words) -> None:
    found = operator.judge_estop(**fields, refusal="arm moves" if not fields["released"] else "")
    assert (found.level, words in found.text) == (level, True), found


def test_the_table_is_aligned_and_its_last_line_says_what_to_do() -> None:
    found = [finding.ok("ros", "jazzy"), finding.warn("teleop", "drifts"), finding.fail("camera", "front is slow")]
    lines = finding.table(found).splitlines()
    assert lines == ["ok    ros     jazzy", "warn  teleop  drifts", "FAIL  camera  front is slow"]
    assert finding.closing(found, "again", "onward") == "1 failed, 1 warning. Next: mend what FAIL names, then again"
    assert finding.closing(found[:1], "again", "onward") == "all is well. Next: onward"
    assert finding.exit_code(found) == 1
    assert finding.exit_code(found[:2]) == 0
    assert json.loads(json.dumps(finding.plain(found)))[2] == {
        "level": "FAIL",
        "check": "camera",
        "text": "front is slow",
    }


def test_a_node_that_nothing_is_heard_of_says_how_it_failed_where_that_is_known() -> None:
    failures = {"camera_wrist": "camera_wrist ended with exit code 1: no such device"}
    told = graph.judge_nodes(["camera_wrist", "camera_front"], [], {}, LOGS, failures)
    assert [each.text for each in told] == [
        "camera_wrist ended with exit code 1: no such device",
        "camera_front gives no sign of life; read runs/doctor/bench/log/camera_front.log",
    ]
