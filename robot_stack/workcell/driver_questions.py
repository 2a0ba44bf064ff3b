"""Questions that a robot file raises: one for each of its fields that the driver can be asked about."""

from __future__ import annotations

from collections.abc import Callable

from robot_stack.config.driver_parts import ActionGripper
from robot_stack.config.drivers import DriverRobot, ServoRobot, asked_controllers
from robot_stack.control.drivers.handshake import Question, Rule, Said, Way

PREFIX = "moveit_servo"
"""MoveIt Servo declares all its parameters below this."""
GRASP_EPSILON = "default_grasp_epsilon.outer"
"""Parameter of franka_gripper."""


def questions_about(robot: DriverRobot, resolve: Callable[[str], str]) -> tuple[Question, ...]:
    """Return all questions to the driver of an arm."""
    return (*_of_servo(robot, resolve), *_of_controllers(robot, resolve), *_of_gripper(robot, resolve),
            *_of_joint_states(robot, resolve))  # fmt: skip


def _of_servo(robot: DriverRobot, resolve: Callable[[str], str]) -> tuple[Question, ...]:
    if not isinstance(robot, ServoRobot):
        return ()
    node = resolve(robot.node)

    def asked(field: str, parameter: str, says: Said, *, in_file: bool = True) -> Question:
        name = f"{PREFIX}.{parameter}"
        return Question(
            field=field, way=Way.PARAMETER, of=node, name=name, says=says, optional=not in_file, in_file=in_file
        )

    about_tool = "apply_twist_commands_about_ee_frame"
    return (
        asked("command_in", "command_in_type", robot.command_in),
        asked("linear_scale_m_s", "scale.linear", robot.linear_scale_m_s),
        asked("rotational_scale_rad_s", "scale.rotational", robot.rotational_scale_rad_s),
        asked(f"{PREFIX}.{about_tool}", about_tool, True, in_file=False),
    )


def _of_controllers(robot: DriverRobot, resolve: Callable[[str], str]) -> tuple[Question, ...]:
    asked = asked_controllers(robot)
    if not asked or robot.driver.controller_manager is None:
        return ()
    manager = resolve(robot.driver.controller_manager)
    field = "driver.controllers"
    return (Question(field=field, way=Way.CONTROLLERS, of=manager, says=asked, rule=Rule.CONTAINS),)


def _of_gripper(robot: DriverRobot, resolve: Callable[[str], str]) -> tuple[Question, ...]:
    gripper = robot.gripper
    if not isinstance(gripper, ActionGripper):
        return ()
    action = resolve(gripper.command)
    kind = Question(field="gripper.command_type", way=Way.ACTION_TYPE, of=action, says=gripper.command_type)
    if gripper.grasp_epsilon_m is None:
        return (kind,)
    field, node = "gripper.grasp_epsilon_m", action.rpartition("/")[0]
    says, name = gripper.grasp_epsilon_m, GRASP_EPSILON
    return kind, Question(field=field, way=Way.PARAMETER, of=node, name=name, says=says, rule=Rule.AT_LEAST)


def _of_joint_states(robot: DriverRobot, resolve: Callable[[str], str]) -> tuple[Question, ...]:
    topic, says = resolve(robot.joint_states), robot.driver
    found: list[Question] = []
    if says.joint_states_publisher is not None:
        field, node = "driver.joint_states_publisher", says.joint_states_publisher
        found.append(Question(field=field, way=Way.PUBLISHERS, of=topic, says=node, rule=Rule.CONTAINS))
    if says.joint_states_rate_hz is not None:
        field, rate = "driver.joint_states_rate_hz", says.joint_states_rate_hz
        found.append(Question(field=field, way=Way.RATE, of=topic, says=rate, rule=Rule.FAST_ENOUGH))
    return tuple(found)
