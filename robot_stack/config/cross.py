"""Rules between the parts of a run: what no single file can know."""

from __future__ import annotations

from collections.abc import Iterator

from robot_stack.config.drivers import ServoRobot, keeps_last_speed
from robot_stack.config.mistake import Mistake
from robot_stack.config.resolved import ResolvedRun


def contradictions(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Each place where one part asks for what another forbids."""
    yield from _box_frame(resolved)
    yield from _action_scale(resolved)
    yield from _rates(resolved)
    yield from _driver(resolved)


def _mistake(resolved: ResolvedRun, key: str, text: str) -> Mistake:
    node, _ = resolved.tree.nearest(key.split("."))
    return Mistake(mark=node.mark, key=key, text=text)


def _box_frame(resolved: ResolvedRun) -> Iterator[Mistake]:
    frame, base = resolved.cell.workspace.frame, resolved.robot.base_frame
    if frame != base:
        text = f"input should be the robot's base frame '{base}' (got '{frame}'); give the box in that frame"
        yield _mistake(resolved, "cell.workspace.frame", text)


def _action_scale(resolved: ResolvedRun) -> Iterator[Mistake]:
    rate_hz, arm, safety = resolved.run.rate_hz, resolved.task.arm, resolved.safety
    for name, step, unit, limit in (
        ("translation_m", arm.translation_m, "m/s", safety.max_speed_m_s),
        ("rotation_rad", arm.rotation_rad, "rad/s", safety.max_rotation_speed_rad_s),
    ):
        speed = step * rate_hz
        if speed > limit * (1 + 1e-9):
            text = (
                f"{step} per step at {rate_hz} Hz is {speed:.4g} {unit}, must be at most the safety limit {limit} "
                f"{unit}; lower it or run.rate_hz"
            )
            yield _mistake(resolved, f"task.arm.{name}", text)


def _rates(resolved: ResolvedRun) -> Iterator[Mistake]:
    rate_hz, safety = resolved.run.rate_hz, resolved.safety
    if safety.policy_timeout_s * rate_hz <= 1.0:
        text = (
            f"input should be more than one control period, {1 / rate_hz:.4g} s at {rate_hz} Hz "
            f"(got {safety.policy_timeout_s}); the robot would hold between any two actions, raise run.rate_hz"
        )
        yield _mistake(resolved, "safety.policy_timeout_s", text)
    if safety.teleop_timeout_s * resolved.teleop.rate_hz <= 1.0:
        text = (
            f"input should be more than one sample of the device, {1 / resolved.teleop.rate_hz:.4g} s "
            f"(got {safety.teleop_timeout_s}); raise teleop.rate_hz"
        )
        yield _mistake(resolved, "safety.teleop_timeout_s", text)
    for name, camera in resolved.cameras.items():
        if camera.rate_hz < rate_hz:
            text = (
                f"input should be at least run.rate_hz ({rate_hz}) (got {camera.rate_hz}); "
                "raise it or lower run.rate_hz"
            )
            yield _mistake(resolved, f"cameras.{name}.rate_hz", text)


def _driver(resolved: ResolvedRun) -> Iterator[Mistake]:
    robot, safety = resolved.robot, resolved.safety
    if keeps_last_speed(robot) and resolved.cell.downstream_timeout_s is None:
        text = (
            "a forward velocity controller keeps the last speeds for ever, so that an arm whose commander has died "
            "goes on moving; take a joint trajectory, or say with cell.downstream_timeout_s what stops the arm"
        )
        yield _mistake(resolved, "robot.backend", text)
    if isinstance(robot, ServoRobot) and robot.command_in == "unitless":
        for name, scale, limit in (
            ("linear_scale_m_s", robot.linear_scale_m_s, safety.max_speed_m_s),
            ("rotational_scale_rad_s", robot.rotational_scale_rad_s, safety.max_rotation_speed_rad_s),
        ):
            if scale < limit:
                text = (
                    f"input should be at least the safety limit {limit} (got {scale}): Servo drops a unitless command "
                    "beyond 1; raise it here and in Servo's scale, or lower the limit"
                )
                yield _mistake(resolved, f"robot.{name}", text)
    if resolved.task.arm.gripper != "none" and robot.gripper is None:
        text = f"input should be 'none' (got '{resolved.task.arm.gripper}'): the robot has no gripper; add one there"
        yield _mistake(resolved, "task.arm.gripper", text)
