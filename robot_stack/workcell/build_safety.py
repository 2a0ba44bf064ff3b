"""Builds the safety filter of a cell. Apart from the simulator's builders: the safety process loads no simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from robot_stack.config.collision import HeldPart, Surroundings
from robot_stack.config.resolved import ResolvedRun, RunArm
from robot_stack.control.action_space import ActionSpace
from robot_stack.control.kinematics.body import ArmBody, Capsule, HalfSpace, KeepOut, Matrix, Vector
from robot_stack.control.kinematics.chain import Chain
from robot_stack.control.safety.arm_filter import GuardedArm
from robot_stack.control.safety.cell_filter import SafetyFilter
from robot_stack.control.safety.clearance import clearances_of
from robot_stack.control.safety.limits import JointLimit, SafetyLimits
from robot_stack.control.safety.tracking import TrackingLimits
from robot_stack.workcell.build_arm import build_chain, turns_freely


def build_safety(
    resolved: ResolvedRun, *, attended: bool = True, asleep_ns: Callable[[], int] = lambda: 0
) -> SafetyFilter:
    """Build the safety filter of a cell's arms.

    Args:
        resolved: The run.
        attended: False in a simulation within one process, where there are neither stop buttons nor an operator's page
            and so none are waited for.
        asleep_ns: See `SafetyFilter`.
    """
    space, limits = ActionSpace(resolved.spec()), limits_of(resolved)
    clearances = clearances_of(limits)
    arms = {
        name: GuardedArm(
            limits=limits[name],
            teleop_scale=teleop_scale(arm, space),
            release_s=arm.teleop.release_s,
            blend_s=arm.teleop.blend_s,
            clearance=clearances[name],
            tracking=TrackingLimits(turns=turns_freely(arm.robot)),
        )
        for name, arm in resolved.arms.items()
    }
    return SafetyFilter(
        arms,
        stop_inputs_s=stop_topics(resolved) if attended else {},
        teleop_silence_s=resolved.cell.teleop_silence_s,
        operator_required=attended and resolved.run.operator_required,
        asleep_ns=asleep_ns,
    )


def stop_topics(resolved: ResolvedRun) -> dict[str, float]:
    """Return the topics of a cell's wired stop buttons, and the silence in seconds at which each is missed."""
    buttons = resolved.cell.stop_inputs.items()
    return {button.topic or f"safety/stop_input/{name}": button.timeout_s for name, button in buttons}


def limits_of(resolved: ResolvedRun) -> dict[str, SafetyLimits]:
    """Return the safety limits of each arm of a cell, by its files."""
    return {name: _limits(resolved, arm) for name, arm in resolved.arms.items()}


def _limits(resolved: ResolvedRun, arm: RunArm) -> SafetyLimits:
    """Combine the limits of the cell with the arm's own box and joints."""
    joints = tuple(
        JointLimit(name=j.name, min_rad=j.min_rad, max_rad=j.max_rad, max_speed_rad_s=j.max_speed_rad_s)
        for j in arm.robot.joints
    )
    chain = build_chain(arm.robot)
    home = None if chain is None else chain.pose(np.array(arm.robot.home_rad))
    return SafetyLimits(
        **resolved.safety.model_dump(exclude={"rate_hz"}),
        box_min_m=arm.workspace.min_m,
        box_max_m=arm.workspace.max_m,
        joints=joints,
        body=None if chain is None else _body(resolved, arm, chain),
        yaw_zero_xyzw=None if home is None else tuple(home.quaternion_xyzw.tolist()),
    )


def unwatched_of(resolved: ResolvedRun) -> dict[str, str]:
    """Return the arms whose links are not watched, each with why not and what to do."""
    reasons = {}
    for name, arm in resolved.arms.items():
        if arm.robot.collision is None:
            reasons[name] = "its robot file has no 'collision'; make one with python -m robot_stack.workcell.capsules"
        elif build_chain(arm.robot) is None:
            reasons[name] = "its robot file has no table or URDF file as 'kinematics'; write one there"
    return reasons


def _body(resolved: ResolvedRun, arm: RunArm, chain: Chain) -> ArmBody | None:
    """Build an arm's body of links, hand, held part and surroundings; None if its file has no capsules."""
    collision, placed = arm.robot.collision, resolved.cell.arms.get(arm.name)
    if collision is None:
        return None
    around, capsules = resolved.cell.surroundings, [Capsule(**capsule.model_dump()) for capsule in collision.capsules]
    held = resolved.cell.held if placed is None else placed.held
    if held is not None:
        capsules.append(_held(held, chain))
    base = np.eye(4)
    base[:3, :3], base[:3, 3] = arm.T_cell_base.matrix, arm.T_cell_base.position_m
    return replace(
        body_of(chain, capsules, margin_m=collision.margin_m),
        base_in_cell=_matrix(base),
        unwatched=collision.unwatched,
        half_spaces=tuple(_half_spaces(around)),
        keep_outs=tuple(
            KeepOut(name=name, min_m=region.min_m, max_m=region.max_m) for name, region in around.keep_out.items()
        ),
    )


def body_of(chain: Chain, capsules: Sequence[Capsule], *, margin_m: float) -> ArmBody:
    """Build the body of an arm by itself, with its base at the origin."""
    return ArmBody(
        base_in_cell=_matrix(np.eye(4)),
        origins=tuple(_matrix(origin) for origin in chain.origins),
        axes=tuple(_vector(axis) for axis in chain.axes),
        capsules=tuple(capsules),
        margin_m=margin_m,
    )


def _held(held: HeldPart, chain: Chain) -> Capsule:
    ends = (_vector(chain.tip[:3, :3] @ end + chain.tip[:3, 3]) for end in (held.from_m, held.to_m))
    return Capsule(name="held", link=len(chain.names), from_m=next(ends), to_m=next(ends), radius_m=held.radius_m)


def _half_spaces(around: Surroundings) -> Iterator[HalfSpace]:
    if around.table_z_m is not None:
        yield HalfSpace(name="table", normal=(0.0, 0.0, 1.0), offset_m=around.table_z_m)
    walls = around.walls
    if walls is None:
        return
    for index, axis in enumerate("xyz"):
        normal = np.eye(3)[index]
        yield HalfSpace(name=f"wall at low {axis}", normal=_vector(normal), offset_m=walls.min_m[index])
        yield HalfSpace(name=f"wall at high {axis}", normal=_vector(-normal), offset_m=-walls.max_m[index])


def _vector(numbers: np.ndarray) -> Vector:
    x, y, z = numbers.tolist()
    return (x, y, z)


def _matrix(transform: np.ndarray) -> Matrix:
    return tuple(tuple(row) for row in transform.tolist())


def teleop_scale(arm: RunArm, space: ActionSpace) -> np.ndarray:
    """Return the twist of a full deflection, shape (6,), m/s and rad/s; 0 on axes that the task does not move."""
    scale = arm.teleop.scale
    return np.asarray(space.full_scale(arm.name) * np.array([scale.linear] * 3 + [scale.angular] * 3))
