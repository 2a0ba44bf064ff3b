"""The thread that serves the servos, on emulated servos behind a pseudo-terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from robot_stack.config.feetech import ServoPort
from robot_stack.control.drivers.feetech import calibrations_of, chosen
from robot_stack.nodes.drivers.servo_bus import LeaderServos, ServoBus
from robot_stack.nodes.drivers.servo_line import DirectLine, LeRobotLine, ServoLine, ServoSilence, open_line
from robot_stack.types.errors import ConfigError
from robot_stack.types.reason import FaultKind
from tests.servos.sts_emulator import GOAL, NAMES, STATUS, TORQUE, StsBus

LINES: dict[str, type[DirectLine] | type[LeRobotLine]] = {"direct": DirectLine}
try:
    import lerobot.motors.feetech  # noqa: F401

    LINES["lerobot"] = LeRobotLine
except ImportError:
    pass  # it cannot live beside this project's torch; the same tests run through it where it is


def until(fact: Callable[[], object], within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not fact():
        assert time.monotonic() < deadline, "it has not happened in time"
        time.sleep(0.005)


@pytest.fixture(params=sorted(LINES))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def port(bus: StsBus, calibration: Path, kind: str) -> ServoPort:
    return ServoPort.model_construct(port=bus.port, calibration=str(calibration), bus=kind, baud=1_000_000, reply_s=0.1)


def lines(bus: StsBus, port: ServoPort, calibration: Path) -> Callable[[], ServoLine]:
    """Opens whatever port the bus has now."""
    servos = chosen(calibrations_of(calibration.read_text(), "it"), list(NAMES), "it")
    return lambda: open_line(port.model_copy(update={"port": bus.port}), servos)


@pytest.fixture
def line(bus: StsBus, port: ServoPort, calibration: Path) -> Iterator[ServoLine]:
    made = lines(bus, port, calibration)()
    yield made
    made.close()


@pytest.fixture
def arm(bus: StsBus, port: ServoPort, calibration: Path) -> Iterator[ServoBus]:
    servos = chosen(calibrations_of(calibration.read_text(), "it"), list(NAMES), "it")
    made = ServoBus(lines(bus, port, calibration), servos, port=bus.port, source=str(calibration), rate_hz=50.0)
    made.start()
    yield made
    made.stop()


def alive(arm: ServoBus) -> ServoBus:
    until(lambda: arm.newest is not None and not arm.problem)
    return arm


def drive(arm: ServoBus, goals: dict[str, int], fact: Callable[[], object]) -> None:
    """As the loop does: goals are wanted again at each tick, for a busy machine may be slower than they live."""
    deadline = time.monotonic() + 20.0
    while not fact():
        assert time.monotonic() < deadline, "it has not happened in time"
        arm.want(goals)
        time.sleep(0.02)


def goals(ticks: int = 2100) -> dict[str, int]:
    return dict.fromkeys(NAMES, ticks)


def test_positions_are_read_and_goals_are_written(bus: StsBus, line: ServoLine):
    bus.servos[3].put(56, 1234, 2)
    assert line.sync_read("Present_Position") == {**dict.fromkeys(NAMES, 2048), "elbow_flex": 1234}
    line.sync_write("Goal_Position", {"gripper": 900})
    line.write("Torque_Enable", "gripper", 1)
    assert line.read("Torque_Enable", "gripper") == 1
    assert bus.servos[6].get(GOAL, 2) == 900


def test_a_negative_position_is_negative(bus: StsBus, line: ServoLine):
    bus.servos[5].put(56, 1 << 15 | 20, 2)
    assert line.sync_read("Present_Position")["wrist_roll"] == -20


def test_a_servo_that_is_missing_is_a_silence_within_the_deadline(bus: StsBus, line: ServoLine):
    bus.silent = {3}
    began = time.monotonic()
    with pytest.raises(ServoSilence):
        line.sync_read("Present_Position")
    assert time.monotonic() - began < 20.0


def test_the_direct_line_names_the_servo_that_is_missing(bus: StsBus, line: ServoLine, kind: str):
    if kind != "direct":
        pytest.skip("LeRobot says which servos it asked, not which was missing")
    bus.silent = {3}
    with pytest.raises(ServoSilence, match=r"servo elbow_flex \(id 3\) .* nothing came"):
        line.sync_read("Present_Position")


def test_a_wrong_checksum_is_a_silence_and_the_next_answer_is_believed(bus: StsBus, line: ServoLine):
    bus.corrupt = True
    with pytest.raises(ServoSilence):
        line.sync_read("Present_Position")
    bus.corrupt = False
    until(lambda: _reads(line))


def test_an_answer_that_comes_late_is_not_taken_for_the_next_one(bus: StsBus, line: ServoLine, kind: str):
    if kind != "direct":
        pytest.skip("LeRobot waits longer than it is late here")
    bus.late_s = {6: 0.2}
    with pytest.raises(ServoSilence):
        line.sync_read("Present_Position")
    bus.late_s = {}
    time.sleep(0.3)
    bus.servos[6].put(56, 999, 2)
    assert line.sync_read("Present_Position")["gripper"] == 999


def test_a_port_that_is_not_there_is_an_os_error(port: ServoPort, calibration: Path):
    servos = calibrations_of(calibration.read_text(), "it")
    with pytest.raises(OSError, match="/dev/no_such_port"):
        open_line(port.model_copy(update={"port": "/dev/no_such_port"}), servos)


def test_without_lerobot_its_bus_is_refused_with_what_to_do(port: ServoPort, calibration: Path):
    if "lerobot" in LINES:
        pytest.skip("it is here")
    servos = calibrations_of(calibration.read_text(), "it")
    with pytest.raises(ConfigError, match=r"servos.bus is 'lerobot'.*constraints.txt.*bus: direct"):
        open_line(port.model_copy(update={"bus": "lerobot"}), servos)


def test_nothing_is_written_before_the_first_goal(bus: StsBus, arm: ServoBus):
    alive(arm)
    time.sleep(0.2)
    assert not bus.goals
    assert not any(servo.torque for servo in bus.servos.values())


def test_the_first_goal_sets_each_servos_goal_to_where_it_stands_and_then_its_torque(bus: StsBus, arm: ServoBus):
    alive(arm)
    for servo in bus.servos.values():
        servo.put(56, 1500, 2)
    until(lambda: arm.newest is not None and arm.newest.ticks["gripper"] == 1500)
    drive(arm, goals(2100), lambda: len(bus.goals) >= 2)
    assert set(bus.goals[0].values()) == {1500}
    assert set(bus.goals[1].values()) == {2100}
    writes = [place for place, each in enumerate(bus.packets) if each[1] == 3 and each[2][:1] == bytes([TORQUE])]
    sync_writes = [place for place, each in enumerate(bus.packets) if each[1] == 0x83]
    assert sync_writes[0] < writes[0] < writes[-1] < sync_writes[1]
    assert all(servo.torque for servo in bus.servos.values())


def test_a_goal_that_has_waited_through_a_stall_is_not_sent(bus: StsBus, arm: ServoBus):
    alive(arm)
    bus.silent = set(bus.servos)
    until(lambda: arm.problem)
    arm.want(goals())
    time.sleep(0.2)
    bus.silent = set()
    until(lambda: not arm.problem)
    time.sleep(0.1)
    assert not bus.goals


def test_an_old_goal_of_the_arm_is_not_sent_along_with_a_young_one_of_the_gripper(bus: StsBus, arm: ServoBus):
    alive(arm)
    drive(arm, {"gripper": 1000}, lambda: len(bus.goals) >= 2)
    bus.silent = set(bus.servos)
    until(lambda: arm.problem)
    before = len(bus.goals)
    arm.want({"elbow_flex": 2500})
    time.sleep(0.2)
    bus.silent = set()
    drive(arm, {"gripper": 1100}, lambda: len(bus.goals) > before)
    assert all(3 not in each for each in bus.goals[before:])


def test_no_call_of_the_loop_ever_waits_for_the_bus(bus: StsBus, arm: ServoBus):
    alive(arm)
    bus.late_s = dict.fromkeys(bus.servos, 0.5)
    longest_s = 0.0
    for _ in range(50):
        began = time.monotonic()
        arm.want(goals())
        assert arm.newest is not None
        longest_s = max(longest_s, time.monotonic() - began)
        time.sleep(0.005)
    assert longest_s < 0.02


def test_a_bus_that_stalls_ages_and_comes_back(bus: StsBus, arm: ServoBus):
    alive(arm)
    bus.silent = {2}
    until(lambda: arm.problem)
    assert arm.newest is not None
    stamp_ns = arm.newest.stamp_ns
    time.sleep(0.2)
    assert arm.newest.stamp_ns == stamp_ns, "what is old must not look new"
    bus.silent = set()
    until(lambda: arm.newest is not None and arm.newest.stamp_ns > stamp_ns)


def test_a_cable_that_is_pulled_is_told_and_found_again_without_a_goal_of_before(bus: StsBus, arm: ServoBus):
    alive(arm)
    drive(arm, goals(2100), lambda: bus.goals)
    bus.pull()
    until(lambda: arm.problem)
    arm.want(goals(3000))
    time.sleep(0.2)
    sent = len(bus.goals)
    bus.plug()
    until(lambda: arm.counters["openings"] == 2 and not arm.problem)
    time.sleep(0.1)
    assert len(bus.goals) == sent


@pytest.mark.parametrize("bits", [0x04, 0x20])
def test_a_servo_that_protects_itself_is_a_fault_and_gets_no_goals(bus: StsBus, arm: ServoBus, bits: int):
    alive(arm)
    bus.servos[2].put(STATUS, bits, 1)
    until(lambda: arm.fault is not None)
    assert arm.fault is not None
    assert arm.fault.kind is FaultKind.PROTECTIVE_STOP
    sent = len(bus.goals)
    arm.want(goals())
    time.sleep(0.2)
    assert len(bus.goals) == sent
    bus.servos[2].put(STATUS, 0, 1)
    until(lambda: arm.fault is None)


def test_torque_that_is_lost_is_a_fault_until_a_person_recovers(bus: StsBus, arm: ServoBus):
    alive(arm)
    drive(arm, goals(), lambda: all(servo.torque for servo in bus.servos.values()))
    until(lambda: bus.goals[1:])
    bus.servos[4].put(TORQUE, 0, 1)
    until(lambda: arm.fault is not None)
    assert arm.fault is not None
    assert "wrist_flex" in arm.fault.text
    assert arm.fault.kind is FaultKind.DRIVER_ERROR
    time.sleep(0.3)
    assert arm.fault is not None, "it lasts"
    arm.rearm()
    until(lambda: arm.fault is None)
    drive(arm, goals(), lambda: bus.servos[4].torque)


def test_a_calibration_of_another_arm_is_a_contradiction_and_nothing_moves(bus: StsBus, arm: ServoBus):
    alive(arm)
    bus.servos[1].put(31, 77, 2)
    arm.rearm()
    until(lambda: arm.fault is not None)
    assert arm.fault is not None
    assert arm.fault.kind is FaultKind.CONTRADICTION
    arm.want(goals())
    time.sleep(0.2)
    assert not bus.goals
    bus.servos[1].put(31, 0, 2)
    arm.rearm()
    until(lambda: arm.fault is None)


def test_stopping_ends_in_time_and_leaves_the_torque_on(bus: StsBus, arm: ServoBus):
    alive(arm)
    drive(arm, goals(), lambda: bus.servos[6].torque)
    began = time.monotonic()
    arm.stop()
    assert time.monotonic() - began < 20.0
    assert all(servo.torque for servo in bus.servos.values())
    until(lambda: not arm._thread.is_alive())


def test_temperature_and_voltage_are_told(arm: ServoBus):
    alive(arm)
    until(lambda: arm.extremes)
    assert arm.extremes == {"hottest_c": 31, "lowest_v": 7.4}


def test_a_leader_is_limp_and_only_read(bus: StsBus, line: ServoLine):
    for servo in bus.servos.values():
        servo.put(TORQUE, 1, 1)
    leader = opened_leader(bus, line)
    assert not any(servo.torque for servo in bus.servos.values())
    until(leader.read)
    leader.close()
    assert not bus.goals


def test_a_leader_that_is_silent_or_unplugged_is_gone(bus: StsBus, line: ServoLine):
    leader = opened_leader(bus, line)
    bus.silent = {1}
    until(lambda: _gone(leader))
    leader.close()


def opened_leader(bus: StsBus, line: ServoLine) -> LeaderServos:
    """A leader whose servos have answered; a busy machine may be late, and the teleop process asks again too."""
    deadline_s = time.monotonic() + 20.0
    while True:
        try:
            return LeaderServos(line, port=bus.port, rate_hz=50.0, timeout_s=0.15)
        except ServoSilence:
            assert time.monotonic() < deadline_s, "servos that never answer"


def _reads(line: ServoLine) -> bool:
    try:
        return bool(line.sync_read("Present_Position"))
    except ServoSilence:
        return False


def _gone(leader: LeaderServos) -> bool:
    try:
        leader.read()
    except OSError:
        return True
    return False
