"""When a driver's answer agrees with the robot file, what is said where it does not, and what holds the arm."""

from __future__ import annotations

import pytest

from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.control.drivers.handshake import (
    AGAIN_NS,
    PACE_MESSAGES,
    PATIENCE_NS,
    RETRY_NS,
    Handshake,
    Pace,
    Question,
    Rule,
    Standing,
    Way,
    agrees,
    contradiction,
)
from robot_stack.types.reason import FaultKind
from robot_stack.workcell.driver_questions import questions_about

S = 1_000_000_000
UNITS = Question(field="command_in", way=Way.PARAMETER, of="/servo", name="units", says="speed_units")
SCALE = Question(field="scale", way=Way.PARAMETER, of="/servo", name="scale", says=0.4)
RATE = Question(field="rate", way=Way.RATE, of="/joint_states", says=500.0, rule=Rule.FAST_ENOUGH)
LOADED = Question(field="controllers", way=Way.CONTROLLERS, of="/cm", says=("a", "b"), rule=Rule.CONTAINS)
EPSILON = Question(field="epsilon", way=Way.PARAMETER, of="/hand", name="outer", says=0.08, rule=Rule.AT_LEAST)
ABOUT_TOOL = Question(
    field="about", way=Way.PARAMETER, of="/servo", name="about", says=True, optional=True, in_file=False
)


@pytest.mark.parametrize(
    ("question", "answer", "same"),
    [
        (UNITS, "speed_units", True),
        (UNITS, "unitless", False),
        (UNITS, 0.4, False),
        (SCALE, 0.4, True),
        (SCALE, 0.4 + 1e-6, True),
        (SCALE, 1.0, False),
        (SCALE, float("nan"), False),
        (SCALE, "0.4", False),
        (SCALE, True, False),
        (RATE, 500.0, True),
        (RATE, 1000.0, True),
        (RATE, 351.0, True),
        (RATE, 349.0, False),
        (LOADED, ("a", "b", "c"), True),
        (LOADED, ("a",), False),
        (LOADED, "a", False),
        (EPSILON, 0.08, True),
        (EPSILON, 0.2, True),
        (EPSILON, 0.005, False),
        (EPSILON, "not set", False),
        (ABOUT_TOOL, True, True),
        (ABOUT_TOOL, False, False),
    ],
)
def test_an_answer_agrees_or_not(question: Question, answer: object, same: bool) -> None:
    assert agrees(question, answer) is same
    assert (contradiction(question, answer) is None) is same


@pytest.mark.parametrize(
    ("question", "answer", "text"),
    [
        (
            UNITS,
            "unitless",
            "command_in is speed_units, must be what units of /servo says: unitless; write command_in: unitless in the "
            "robot file, or change the driver",
        ),
        (
            RATE,
            10.0,
            "rate is 500, must be what rate of /joint_states says: 10; make the driver faster, or write rate: 10 in "
            "the robot file",
        ),
        (
            LOADED,
            ("a",),
            "controllers is [a, b], must be what controllers of /cm says: [a]; start what is missing, or correct "
            "controllers in the robot file",
        ),
        (
            EPSILON,
            0.005,
            "outer of /hand is 0.005, must be at least 0.08, as epsilon says; write it in the driver's own file, and "
            "start the driver again",
        ),
        (
            ABOUT_TOOL,
            False,
            "about is true, must be what about of /servo says: false; write about: true in the driver's own file",
        ),
    ],
)
def test_a_contradiction_names_field_file_driver_and_the_line_to_write(question, answer, text) -> None:
    fault = contradiction(question, answer)
    assert fault is not None
    assert fault.kind is FaultKind.CONTRADICTION
    assert fault.text == text


def test_the_arm_is_not_ready_until_every_question_is_answered() -> None:
    handshake = Handshake([UNITS, SCALE], 0)
    assert handshake.due(0) == [UNITS, SCALE]
    kinds = []
    for question, answer in ((UNITS, "speed_units"), (SCALE, 0.4)):
        fault = handshake.fault(S)
        kinds.append(None if fault is None else fault.kind)
        handshake.answered(question, answer, S)
    assert kinds == [FaultKind.NOT_READY, FaultKind.NOT_READY]
    assert handshake.fault(S) is None
    assert handshake.due(100 * S) == []


def test_an_unanswered_question_is_asked_again_and_after_a_while_it_is_a_missing_input() -> None:
    handshake = Handshake([UNITS], 0)
    handshake.due(0)
    assert handshake.due(RETRY_NS - 1) == []
    assert handshake.due(RETRY_NS) == [UNITS]
    assert handshake.fault(PATIENCE_NS - 1).kind is FaultKind.NOT_READY
    late = handshake.fault(PATIENCE_NS)
    assert late.kind is FaultKind.INPUT_MISSING
    assert late.text == "units of /servo is not answered; start it, or correct command_in in the robot file"
    handshake.answered(UNITS, "speed_units", PATIENCE_NS)
    assert handshake.fault(PATIENCE_NS) is None


def test_controllers_are_asked_for_again_each_second_and_one_that_was_stopped_holds() -> None:
    handshake = Handshake([UNITS, LOADED], 0)
    assert handshake.due(0) == [UNITS, LOADED]
    handshake.answered(UNITS, "speed_units", 0)
    handshake.answered(LOADED, ("a", "b"), 0)
    asked = [now_ns for now_ns in range(0, 5 * S, S // 100) if handshake.due(now_ns) == [LOADED]]
    assert len(asked) == 5
    assert handshake.fault(5 * S) is None  # while no answer comes the last one counts
    assert handshake.due(6 * S) == [LOADED]
    handshake.answered(LOADED, ("a", "freedrive"), 6 * S)
    assert handshake.fault(6 * S).kind is FaultKind.CONTRADICTION
    assert handshake.due(7 * S) == [LOADED]
    handshake.answered(LOADED, ("a", "b"), 7 * S)
    assert handshake.fault(7 * S) is None


def test_a_contradiction_stays_until_another_answer_agrees() -> None:
    handshake = Handshake([UNITS, SCALE], 0)
    handshake.due(0)
    handshake.answered(UNITS, "unitless", 0)
    assert handshake.fault(100 * S).kind is FaultKind.CONTRADICTION
    handshake.due(RETRY_NS)
    assert UNITS not in handshake.due(RETRY_NS + AGAIN_NS - 1)
    assert UNITS in handshake.due(RETRY_NS + AGAIN_NS)
    handshake.answered(UNITS, "speed_units", 2 * S)
    assert handshake.contradiction() is None
    assert handshake.fault(2 * S).kind is FaultKind.NOT_READY  # of the other one


def test_what_a_maker_has_no_answer_for_holds_nothing_and_is_told_apart() -> None:
    handshake = Handshake([ABOUT_TOOL, LOADED, UNITS], 0)
    handshake.answered(ABOUT_TOOL, None, 0)
    handshake.cannot_ask(LOADED)
    handshake.answered(UNITS, "speed_units", 0)
    assert handshake.fault(100 * S) is None
    assert handshake.standing() == {
        ABOUT_TOOL: Standing.UNASKABLE,
        LOADED: Standing.UNASKABLE,
        UNITS: Standing.AGREED,
    }


def test_a_parameter_that_must_be_there_and_is_not_contradicts() -> None:
    handshake = Handshake([UNITS], 0)
    handshake.answered(UNITS, None, 0)
    assert "says: not set" in str(handshake.fault(0))


def test_after_a_restart_all_is_asked_anew() -> None:
    handshake = Handshake([UNITS], 0)
    handshake.answered(UNITS, "speed_units", 0)
    handshake.restart(5 * S)
    assert handshake.due(5 * S) == [UNITS]
    assert handshake.fault(5 * S).kind is FaultKind.NOT_READY


def test_a_rate_is_measured_by_stamps_and_lost_messages_count_little() -> None:
    pace = Pace()
    for tick in range(2 * PACE_MESSAGES):
        if tick % 5:  # one in five is lost; all arrive late and in bursts
            pace.heard(10_000_000 * (tick + 1), 100 * S + tick)
    assert pace.rate_hz() == pytest.approx(100.0)


def test_a_rate_without_stamps_is_measured_by_arrival_and_needs_enough_messages() -> None:
    pace = Pace()
    for tick in range(PACE_MESSAGES):
        assert pace.rate_hz() is None
        pace.heard(0, tick * 100_000_000)
    assert pace.rate_hz() == pytest.approx(10.0)
    pace.forget()
    assert pace.rate_hz() is None


def test_stamps_of_two_clocks_in_turn_give_no_rate() -> None:
    pace = Pace()
    for tick in range(10 * PACE_MESSAGES):
        pace.heard(tick * 10_000_000 + (S if tick % 2 else 2 * S), tick)
    assert pace.rate_hz() is None


def asked(robot: str) -> dict[str, tuple[Way, str, object]]:
    config = load(config_root() / "robots" / f"{robot}.yaml", ROBOTS)
    return {each.field: (each.way, each.of, each.says) for each in questions_about(config, lambda name: name)}


def test_a_ur_is_asked_for_its_controllers_its_gripper_and_its_joint_states() -> None:
    questions = asked("ur5e")
    assert questions["gripper.command_type"] == (
        Way.ACTION_TYPE,
        "/robotiq_gripper_controller/gripper_cmd",
        "control_msgs/ParallelGripperCommand",
    )
    assert "scaled_joint_trajectory_controller" in questions["driver.controllers"][2]
    assert questions["driver.joint_states_rate_hz"] == (Way.RATE, "/joint_states", 500.0)
    assert questions["driver.joint_states_publisher"] == (Way.PUBLISHERS, "/joint_states", "joint_state_broadcaster")


def test_an_xarm_is_asked_at_its_own_servo_node_for_units_and_scales() -> None:
    questions = asked("xarm7")
    assert {of for way, of, _ in questions.values() if way is Way.PARAMETER} == {"/servo_server"}
    assert (questions["command_in"][2], questions["linear_scale_m_s"][2]) == ("speed_units", 0.4)


def test_the_franka_hand_is_asked_whether_it_holds_what_is_thicker_than_5_mm() -> None:
    """It closes as a grasp of width 0, which fails, and lets go, around what is wider by more than an epsilon."""
    assert asked("fr3_franka")["gripper.grasp_epsilon_m"] == (Way.PARAMETER, "/franka_gripper", 0.08)
    assert "gripper.grasp_epsilon_m" not in asked("xarm7")
