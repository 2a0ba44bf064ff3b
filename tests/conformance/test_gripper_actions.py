"""A gripper behind an action: its goals are cancelled where nothing may move, and sent again where they are refused.

One that takes positions is sent to where it is.

The message types of gripper actions are not among the wheels of ROS 2, so that the server is stood in for.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from action_msgs.msg import GoalStatus
from rclpy.task import Future

from robot_stack.config.driver_parts import ActionGripper
from robot_stack.config.files.library import config_root
from robot_stack.config.files.loader import load
from robot_stack.config.kinds import ROBOTS
from robot_stack.nodes.drivers import grippers
from robot_stack.nodes.drivers.grippers import ActionMover, GripperFace, PositionMover


class Handle:
    """Of a goal."""

    def __init__(self, accepted: bool) -> None:
        self.accepted = accepted
        self.cancelled = 0
        self.result = Future()

    def cancel_goal_async(self) -> None:
        self.cancelled += 1

    def get_result_async(self) -> Future:
        return self.result

    def end(self, status: int, *, reached_goal: bool = False) -> None:
        """Answer as GripperCommand and ParallelGripperCommand do."""
        self.result.set_result(SimpleNamespace(status=status, result=SimpleNamespace(reached_goal=reached_goal)))


class Server:
    """An action's server as its client sees it."""

    def __init__(self) -> None:
        self.ready = True
        self.goals: list[float] = []
        self.answers: list[Future] = []

    def server_is_ready(self) -> bool:
        return self.ready

    def send_goal_async(self, goal: float) -> Future:
        self.goals.append(goal)
        self.answers.append(Future())
        return self.answers[-1]

    def answer(self, *, accepted: bool = True) -> Handle:
        handle = Handle(accepted)
        self.answers[-1].set_result(handle)
        return handle


class Clock:
    """Steady, and turned by hand."""

    def __init__(self) -> None:
        self.now_ns = 10**9

    def monotonic_ns(self) -> int:
        return self.now_ns

    def passes(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


class Log:
    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(grippers.time, "monotonic_ns", clock.monotonic_ns)
    return clock


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def face(server: Server, clock: Clock, log: Any) -> GripperFace:
    return face_of("fr3_franka", server, log)


@pytest.fixture
def robotiq(server: Server, clock: Clock, log: Any) -> GripperFace:
    return face_of("ur5e", server, log)


def face_of(robot: str, server: Server, log: Any) -> GripperFace:
    gripper = load(config_root() / "robots" / f"{robot}.yaml", ROBOTS).gripper
    assert isinstance(gripper, ActionGripper)
    return GripperFace(ActionMover(server, lambda position: position), gripper, log)


def halt_at(face: GripperFace, clock: Clock, moving_at: Sequence[float | None], *, every_s: float) -> None:
    """Halt again and again, as the robot process does, with what is measured meanwhile."""
    for opening in moving_at:
        clock.passes(every_s)
        face.halt(opening)


def test_a_goal_on_its_way_is_cancelled_where_nothing_may_move(face: GripperFace, server: Server) -> None:
    face.follow(0.0)
    handle = server.answer()
    for _ in range(3):
        face.halt(0.6)
    assert handle.cancelled == 1
    face.follow(0.0)  # the same opening, wanted again
    assert server.goals == [0.0, 0.0]


def test_a_goal_that_is_accepted_only_after_the_halt_is_cancelled_then(face: GripperFace, server: Server) -> None:
    face.follow(0.0)
    face.halt(0.6)
    assert server.answer().cancelled == 1


def test_a_goal_that_is_done_is_left_alone_and_the_hand_goes_on_holding(face: GripperFace, server: Server) -> None:
    face.follow(0.0)
    handle = server.answer()
    handle.end(GoalStatus.STATUS_SUCCEEDED, reached_goal=True)
    for moving_at in (0.1, None):  # what is measured comes late
        face.halt(moving_at)
    assert (handle.cancelled, server.goals) == (0, [0.0])


def test_a_robotiq_that_still_closes_after_its_goal_is_done_is_stopped_where_it_is(
    robotiq: GripperFace, server: Server, clock: Clock
) -> None:
    """Its speed always reads 0, so that its controller takes it for stalled 50 ms after it has the goal."""
    robotiq.follow(0.0)
    handle = server.answer()
    clock.passes(0.05)
    handle.end(GoalStatus.STATUS_SUCCEEDED)
    halt_at(robotiq, clock, (0.8, 0.79, None, 0.78), every_s=0.008)
    assert handle.cancelled == 0
    assert server.goals == pytest.approx([0.7929, 0.2 * 0.7929])
    assert server.answer().cancelled == 0
    robotiq.follow(0.0)  # the same opening, wanted again
    assert server.goals[2:] == [0.7929]


def test_a_robotiq_whose_joint_seems_to_stand_between_two_readings_is_stopped_too(
    robotiq: GripperFace, server: Server, clock: Clock
) -> None:
    """Joint states come at 500 Hz, of a position that is read some 20 times a second."""
    robotiq.follow(0.0)
    server.answer().end(GoalStatus.STATUS_SUCCEEDED)
    clock.passes(0.5)
    halt_at(robotiq, clock, (None, None, None, None, 0.4), every_s=0.008)
    assert server.goals == pytest.approx([0.7929, 0.6 * 0.7929])


def test_a_gripper_whose_server_ignores_cancels_is_sent_to_where_it_is(server: Server, clock: Clock, log: Any) -> None:
    """xarm_ros2 answers that it cancels, and goes on; only another goal stops its gripper."""
    face = face_of("xarm7", server, log)
    face.follow(0.0)
    handle = server.answer()
    halt_at(face, clock, (0.9, 0.9, 0.8, 0.8, 0.7, 0.7), every_s=0.05)
    assert handle.cancelled == 1
    assert server.goals == pytest.approx([0.85, 0.3 * 0.85])
    handle.end(GoalStatus.STATUS_SUCCEEDED)
    assert server.answer().cancelled == 0


def test_a_hand_whose_server_has_cancelled_is_not_sent_anywhere(
    face: GripperFace, server: Server, clock: Clock
) -> None:
    """A goal for where the Franka Hand was a moment ago may open it, or close it with all its force."""
    face.follow(0.0)
    handle = server.answer()
    face.halt(0.6)
    clock.passes(0.06)
    handle.end(GoalStatus.STATUS_CANCELED)
    halt_at(face, clock, [0.55] * 20, every_s=0.01)  # its joint states come at 15 Hz
    assert (handle.cancelled, server.goals) == (1, [0.0])


def test_a_goal_that_is_never_answered_is_stopped_by_another(face: GripperFace, server: Server, clock: Clock) -> None:
    face.follow(0.0)
    halt_at(face, clock, [0.5] * 10, every_s=0.04)
    assert server.goals == pytest.approx([0.0, 0.02], abs=2e-3)


def test_one_that_stands_goes_on_squeezing_though_its_goal_is_not_done(
    robotiq: GripperFace, server: Server, clock: Clock
) -> None:
    """A cancelled goal makes ros2_control hold the measured position: what the fingers hold falls.

    Kinova's controller waits a second until it takes the fingers for stalled.
    """
    robotiq.follow(0.0)
    handle = server.answer()
    clock.passes(0.6)
    for _ in range(100):
        clock.passes(0.008)
        robotiq.halt(None)
    assert (handle.cancelled, server.goals) == (0, [0.7929])


def test_one_that_may_be_about_to_move_is_cancelled_at_once(robotiq: GripperFace, server: Server, clock: Clock) -> None:
    robotiq.follow(0.0)
    handle = server.answer()
    clock.passes(0.03)
    robotiq.halt(None)
    assert handle.cancelled == 1


def test_one_whose_server_takes_its_goal_late_in_a_halt_is_cancelled_then(
    robotiq: GripperFace, server: Server, clock: Clock
) -> None:
    robotiq.follow(0.0)
    for _ in range(100):
        clock.passes(0.008)
        robotiq.halt(None)
    assert server.answer().cancelled == 1


def test_one_that_moves_after_its_late_goal_was_cancelled_in_vain_is_sent_to_where_it_is(
    robotiq: GripperFace, server: Server, clock: Clock
) -> None:
    robotiq.follow(0.0)
    for _ in range(100):
        clock.passes(0.008)
        robotiq.halt(None)
    server.answer()
    halt_at(robotiq, clock, (None, 0.9, 0.5, 0.4, 0.3, 0.2), every_s=0.04)
    assert server.goals == pytest.approx([0.7929, 0.6 * 0.7929])


def test_one_that_refused_its_goal_may_be_moved_by_another(robotiq: GripperFace, server: Server, clock: Clock) -> None:
    robotiq.follow(0.0)
    server.answer(accepted=False)
    clock.passes(1.0)
    halt_at(robotiq, clock, (None, None, None, 0.5, 0.5, 0.5), every_s=0.2)
    assert server.goals == [0.7929]


def test_one_that_is_done_before_the_halt_and_moves_only_after_it_is_stopped_then(
    robotiq: GripperFace, server: Server, clock: Clock
) -> None:
    robotiq.follow(0.0)
    server.answer().end(GoalStatus.STATUS_SUCCEEDED)
    halt_at(robotiq, clock, (None, None, 0.9, 0.8), every_s=0.03)
    assert server.goals == pytest.approx([0.7929, 0.1 * 0.7929])


def test_a_goal_that_another_has_replaced_before_it_was_accepted_is_cancelled(
    face: GripperFace, server: Server
) -> None:
    face.follow(0.0)
    first = server.answers[-1]
    face.follow(1.0)
    late = Handle(True)
    first.set_result(late)
    newest = server.answer()
    assert (late.cancelled, newest.cancelled) == (1, 0)


def test_a_refused_goal_is_sent_again_and_said(
    face: GripperFace, server: Server, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 10**9
    monkeypatch.setattr(grippers.time, "monotonic_ns", lambda: now_ns)
    face.follow(0.0)
    server.answer(accepted=False)
    for _ in range(5):
        face.follow(0.0)
    assert server.goals == [0.0]
    now_ns += round(grippers.REFUSED_S * 1e9)
    face.follow(0.0)
    assert server.goals == [0.0, 0.0]
    assert len(log.warnings) == 1
    assert "/franka_gripper/gripper_action" in log.warnings[0]
    server.answer()
    face.follow(0.0)
    assert server.goals == [0.0, 0.0]


def test_a_goal_that_the_server_gives_up_is_said_once_and_not_repeated(
    face: GripperFace, server: Server, clock: Clock, log: Log
) -> None:
    """The Franka Hand takes a goal wider than homing has found it to be, and aborts it; a grasp may fail too."""
    face.follow(1.0)
    server.answer().end(GoalStatus.STATUS_ABORTED)
    for _ in range(20):
        clock.passes(0.1)
        face.follow(1.0)
    assert len(server.goals) == 1
    assert len(log.warnings) == 1
    assert "/franka_gripper/gripper_action" in log.warnings[0]
    assert "home" in log.warnings[0]
    face.follow(0.0)
    face.follow(1.0)
    server.answer().end(GoalStatus.STATUS_ABORTED)
    face.follow(1.0)
    assert len(server.goals) == 3
    assert len(log.warnings) == 2


def test_nothing_is_said_of_goals_that_were_replaced_or_stopped(
    face: GripperFace, server: Server, clock: Clock, log: Log
) -> None:
    face.follow(0.0)
    first = server.answer()
    face.follow(1.0)
    first.end(GoalStatus.STATUS_ABORTED)
    second = server.answer()
    face.follow(1.0)
    face.halt(0.5)
    second.end(GoalStatus.STATUS_CANCELED)
    face.follow(1.0)
    server.answer().end(GoalStatus.STATUS_SUCCEEDED)
    face.follow(1.0)
    assert log.warnings == []


def test_without_its_server_nothing_counts_as_sent(face: GripperFace, server: Server) -> None:
    server.ready = False
    face.follow(0.0)
    server.ready = True
    face.follow(0.0)
    assert server.goals == [0.0]


def test_a_gripper_that_takes_positions_is_stopped_also_where_it_begins_to_move_only_after_the_halt(
    log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns, sent = 10**9, list[float]()
    monkeypatch.setattr(grippers.time, "monotonic_ns", lambda: now_ns)
    gripper = load(config_root() / "robots" / "fr3_franka.yaml", ROBOTS).gripper
    assert gripper is not None
    face = GripperFace(PositionMover(sent.append), gripper, log)
    face.follow(0.0)
    for moving_at in (None, None, None, 0.9, 0.9):  # its dead time, then what is measured
        now_ns += 20_000_000
        face.halt(moving_at)
    closed, opened = gripper.closed, gripper.open
    assert sent == [closed, closed + 0.9 * (opened - closed)]
    face.follow(0.0)  # the same opening, wanted again
    assert sent[2:] == [closed]
