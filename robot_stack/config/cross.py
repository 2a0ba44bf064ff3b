"""Rules between the parts of a run: what no single file can know."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np

from robot_stack.config.base import SavedBase, ServedBase
from robot_stack.config.camera import (
    CameraConfig,
    LiveCameraConfig,
    SimCameraConfig,
    TopicCameraConfig,
    V4l2CameraConfig,
)
from robot_stack.config.drivers import DriverRobot, ServoRobot
from robot_stack.config.files.mistake import Mistake, hint
from robot_stack.config.kinematics import DhKinematics, UrdfFile
from robot_stack.config.resolved import ResolvedRun, RunArm
from robot_stack.config.shapes.boxes import Box, gap_m
from robot_stack.config.teleop import (
    GamepadTeleop,
    JoyTeleop,
    KeyboardTeleop,
    LeaderTeleop,
    ScriptedTeleop,
    SpaceMouseTeleop,
    looks_on_request,
    page_hand,
)
from robot_stack.config.teleop_parts import Match
from robot_stack.types.spec import DIRECTION, OPENING, PROPRIO_SIZES

LEAST_DEMOS = 2
"""Of each of several tasks: a classifier of success wants two of a kind."""
ROUNDED_M = 1e-4
"""Angles of a mount are written with few digits."""


def contradictions(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Yield a mistake for each place where one part of a run asks for what another forbids."""
    wrong = list(_arm_names(resolved))
    yield from wrong
    if wrong:
        return  # nothing can be said of arms that a task does not know
    if resolved.is_environment:
        yield from _environment(resolved)
        yield from _hindsight(resolved)
        yield from _asking(resolved)
        return  # it has no limits, places or rates that could contradict each other
    if not resolved.cameras:
        yield resolved.mistake("cell.cameras", "there is none, must be one at least; add a camera")
    for arm in resolved.arms.values():
        yield from _box_frame(resolved, arm)
        yield from _action_scale(resolved, arm)
        yield from _home(resolved, arm)
        yield from _driver(resolved, arm)
    yield from _apart(resolved)
    yield from _table(resolved)
    yield from _one_operator(resolved)
    yield from _pages(resolved)
    yield from _own_devices(resolved)
    yield from _rates(resolved)
    yield from _poses(resolved)
    yield from _camera_sources(resolved)
    yield from _lenses(resolved)
    yield from _one_world(resolved)
    yield from _own_topics(resolved)
    yield from _in_turn(resolved)
    yield from _proprio(resolved)
    yield from _base(resolved)
    yield from _hindsight(resolved)
    yield from _asking(resolved)


def _environment(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse a run of an environment in which nobody demonstrates, or a policy sees through what is not there."""
    run = resolved.run
    if resolved.task.sim.get("expert") is None and run.start_from is None:
        text = (
            f"field required: the run asks for {run.training.demos} demonstrations, and an environment has no "
            "operator; name a function as module:function, or start from an earlier run"
        )
        yield resolved.mistake("task.sim.expert", text)
    if not resolved.cameras and run.encoder.name != "none":
        text = f"input is {run.encoder.name!r}, must be 'none' for an environment without images; write name: none"
        yield resolved.mistake("run.encoder.name", text)


def _hindsight(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse goals that are relabelled where there is none, or where Φ would go on to say how far the old one is."""
    run = resolved.run
    if run.hindsight and resolved.task.goal is None:
        text = (
            f"{run.hindsight} of a batch is relabelled, must be 0 for a task without goal; add goal: {{desired: ..., "
            "achieved: ..., within: ...}} to the task"
        )
        yield resolved.mistake("run.hindsight", text)
    if run.hindsight and run.reward.form != "sparse":
        text = f"input is '{run.reward.form}', must be 'sparse' with hindsight: Φ is of the goal that was given"
        yield resolved.mistake("run.reward.form", text)


def _asking(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse an operator who waits to be asked by a policy that never asks, and a base that leads and is not there."""
    asking = resolved.run.asking
    if asking is not None and asking.base_after_s is not None and resolved.run.base is None:
        text = f"input is {asking.base_after_s:g} in a run without a base policy, must be null; add a base: to it"
        yield resolved.mistake("run.asking.base_after_s", text)
    for name, teleop in resolved.teleops.items():
        if isinstance(teleop, ScriptedTeleop) and looks_on_request(teleop) and resolved.run.asking is None:
            key = f"teleops.{name}.operator.attention" if name else "teleop.operator.attention"
            text = "input is 'on_request' in a run whose policy never asks, must be a share; add asking: {} to the run"
            yield resolved.mistake(key, text)


def _arm_names(resolved: ResolvedRun) -> Iterator[Mistake]:
    there, asked = list(resolved.robots), list(resolved.task.arms)
    for name in asked:
        if name not in there:
            text = f"there is no arm '{name}' in the cell{hint(name, there)}"
            yield resolved.mistake(f"task.arms.{name}", text)
    missing = [name for name in there if name not in asked]
    if asked and missing:
        text = f"arms are {', '.join(asked)}, must be those of the cell; add {', '.join(missing)}"
        yield resolved.mistake("task.arms", text)


def _key(resolved: ResolvedRun, arm: RunArm, key: str) -> str:
    """Return the key under which a setting of an arm is written, in its part's short form or its long one."""
    part, _, rest = key.partition(".")
    several = resolved.cell.arms if part == "cell" else resolved.task.arms
    if several:
        return f"{part}.arms.{arm.name}.{rest}"
    return key if part == "cell" else f"{part}.arm.{rest}"


def _box_frame(resolved: ResolvedRun, arm: RunArm) -> Iterator[Mistake]:
    frame, base = arm.workspace.frame, arm.robot.base_frame
    if frame != base:
        text = f"input should be the robot's base frame '{base}' (got '{frame}'); give the box in that frame"
        yield resolved.mistake(_key(resolved, arm, "cell.workspace.frame"), text)


def _apart(resolved: ResolvedRun) -> Iterator[Mistake]:
    boxes = {
        name: Box(pose=arm.T_cell_base, low_m=np.array(arm.workspace.min_m), high_m=np.array(arm.workspace.max_m))
        for name, arm in resolved.arms.items()
    }
    least_m = resolved.cell.apart_m
    for one, other in combinations(boxes, 2):
        gap = gap_m(boxes[one], boxes[other])
        if gap <= 0 or gap < least_m - ROUNDED_M:
            how = f"overlap by {-gap:.3f} m" if gap <= 0 else f"are {gap:.3f} m apart"
            rule = f"must be at least {least_m} m apart (apart_m)" if least_m else "must be apart"
            text = f"workspaces of {one} and {other} {how} in the cell, {rule}; make one smaller or move a mount"
            yield resolved.mistake(f"cell.arms.{other}.workspace", text)


def _table(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse a table that all of an arm's box is under: its height is of the cell's frame, not above the floor."""
    table_z_m = resolved.cell.surroundings.table_z_m
    if table_z_m is None:
        return
    for name, arm in resolved.arms.items():
        corners = np.array(list(product(*zip(arm.workspace.min_m, arm.workspace.max_m))))
        top_m = float((corners @ arm.T_cell_base.matrix.T + arm.T_cell_base.position_m)[:, 2].max())
        if table_z_m >= top_m:
            text = (
                f"table is at {table_z_m} m, must be below the top of the workspace of {name} ({top_m:.3g} m); "
                "give its height above the base of the arm"
            )
            yield resolved.mistake("cell.surroundings.table_z_m", text)


def _one_operator(resolved: ResolvedRun) -> Iterator[Mistake]:
    for name, teleop in resolved.teleops.items():
        if name and teleop.device == "scripted":
            text = "a scripted operator has a hand for each arm; give the cell one 'teleop' and the arms none"
            yield resolved.mistake(f"cell.arms.{name}.teleop", text)


def _pages(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse a page that moves real arms, and a page that moves arms through more than one device."""
    moved = [name for name, teleop in resolved.teleops.items() if page_hand(teleop) is not None]
    real = [name for name, robot in resolved.robots.items() if robot.backend != "sim"]
    for name in moved:
        key = f"teleops.{name}.device" if name else "teleop.device"
        if real:
            text = f"a page moves simulated arms only, and {real[0]} is a real one; take a device at the robot"
            yield resolved.mistake(key, text)
        elif name != moved[0]:
            text = f"a page moves the cell already, as the device of {moved[0]}; give the cell one 'teleop' instead"
            yield resolved.mistake(key, text)


def _own_devices(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse devices of two arms that may be one and the same: one push would move both."""
    at_ports = (SpaceMouseTeleop, GamepadTeleop, KeyboardTeleop)
    by_topic = (JoyTeleop, LeaderTeleop)
    for (one, first), (name, second) in combinations(resolved.teleops.items(), 2):
        if isinstance(first, by_topic) and isinstance(second, by_topic):
            below = f"/{resolved.cell.namespace or resolved.run.cell}/"
            if first.topic.removeprefix(below) == second.topic.removeprefix(below):
                text = f"input is {second.topic!r}, which also moves arm {one}; give each arm a teleop file of its own"
                yield resolved.mistake(f"teleops.{name}.topic", text)
        elif (
            isinstance(first, at_ports)
            and isinstance(second, at_ports)
            and first.device == second.device
            and not _told_apart(first.match, second.match)
        ):
            text = (
                f"one {second.device} may fit this and the match of arm {one}, must fit one of them; give both a "
                "match with a serial or usb of its own, in a teleop file each"
            )
            yield resolved.mistake(f"teleops.{name}.device", text)


def _told_apart(one: Match, other: Match) -> bool:
    """Return whether no device fits both, as far as can be said: both ask for something, and not for the same."""
    exact = ((one.usb, other.usb), (one.serial, other.serial))
    if any(None not in both and len(set(both)) == 2 for both in exact):
        return True
    if one.name is None or other.name is None:
        return False
    short, long = sorted((one.name.lower(), other.name.lower()), key=len)
    return short not in long


def _action_scale(resolved: ResolvedRun, arm: RunArm) -> Iterator[Mistake]:
    rate_hz, action, safety = resolved.run.rate_hz, arm.action, resolved.safety
    for name, step, unit, limit in (
        ("translation_m", action.translation_m, "m/s", safety.max_speed_m_s),
        ("rotation_rad", action.rotation_rad, "rad/s", safety.max_rotation_speed_rad_s),
    ):
        speed = step * rate_hz
        if speed > limit * (1 + 1e-9):
            text = (
                f"{step} per step at {rate_hz} Hz is {speed:.4g} {unit}, must be at most the safety limit {limit} "
                f"{unit}; lower it or run.rate_hz"
            )
            yield resolved.mistake(_key(resolved, arm, f"task.{name}"), text)


def _rates(resolved: ResolvedRun) -> Iterator[Mistake]:
    rate_hz, safety = resolved.run.rate_hz, resolved.safety
    if safety.policy_timeout_s * rate_hz <= 1.0:
        limit = resolved.mistake("safety.policy_timeout_s", "").mark
        text = (
            f"{rate_hz} Hz is an action every {1 / rate_hz:.4g} s, must be less than policy_timeout_s "
            f"({safety.policy_timeout_s} s, {limit}); the robot would hold between any two actions, raise run.rate_hz"
        )
        yield resolved.mistake("run.rate_hz", text)
    for name, teleop in resolved.teleops.items():
        if safety.teleop_timeout_s * teleop.rate_hz <= 1.0:
            key = f"teleops.{name}.rate_hz" if name else "teleop.rate_hz"
            text = (
                f"input should be more than one sample of the device, {1 / teleop.rate_hz:.4g} s "
                f"(got {safety.teleop_timeout_s}); raise {key}"
            )
            yield resolved.mistake("safety.teleop_timeout_s", text)
    for name, camera in resolved.cameras.items():
        if camera.rate_hz < rate_hz:
            text = (
                f"input should be at least run.rate_hz ({rate_hz}) (got {camera.rate_hz}); "
                "raise it or lower run.rate_hz"
            )
            yield resolved.mistake(f"cameras.{name}.rate_hz", text)


def _poses(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse taught poses, starts and camera mounts that do not fit the arms of the cell."""
    one, reset = not resolved.cell.arms, resolved.task.reset
    if one and reset.starts:
        text = "the cell has one arm, must be said with 'start' then; write its settings there"
        yield resolved.mistake("task.reset.starts", text)
        return
    if not one and reset.start is not None:
        text = f"the cell has the arms {', '.join(resolved.robots)}; say with 'starts' where each goes"
        yield resolved.mistake("task.reset.start", text)
    if not one and resolved.cell.poses:
        text = f"the cell has the arms {', '.join(resolved.robots)}; move them to the 'poses' of their arm"
        yield resolved.mistake("cell.poses", text)
    for name in reset.starts:
        if name not in resolved.robots:
            text = f"there is no arm '{name}' in the cell{hint(name, resolved.robots)}"
            yield resolved.mistake(f"task.reset.starts.{name}", text)
    for arm in resolved.arms.values():
        yield from _taught(resolved, arm)
        yield from _start(resolved, arm, "task.reset.start" if one else f"task.reset.starts.{arm.name}")
    for name, camera in resolved.cell.cameras.items():
        whose = None if camera.mount is None else camera.mount.arm
        if whose is not None and whose not in resolved.cell.arms:
            text = f"there is no arm '{whose}' in the cell{hint(whose, resolved.cell.arms)}"
            yield resolved.mistake(f"cell.cameras.{name}.mount.arm", text)


def _taught(resolved: ResolvedRun, arm: RunArm) -> Iterator[Mistake]:
    joints = arm.robot.joints
    part = f"cell.arms.{arm.name}.poses" if resolved.cell.arms else "cell.poses"
    for name, pose in arm.poses.items():
        key, angles = f"{part}.{name}.joints_rad", pose.joints_rad
        if len(angles) != len(joints):
            text = f"{len(angles)} angles, must be {len(joints)}, one per joint of the robot; teach the pose again"
            yield resolved.mistake(key, text)
            continue
        for joint, angle in zip(joints, angles):
            if not joint.min_rad <= angle <= joint.max_rad:
                text = (
                    f"{joint.name} is {angle}, must be within [{joint.min_rad}, {joint.max_rad}]; teach the pose again"
                )
                yield resolved.mistake(key, text)


def _start(resolved: ResolvedRun, arm: RunArm, key: str) -> Iterator[Mistake]:
    start = arm.start
    if start is None:
        return
    if start.pose not in arm.poses:
        legal = ", ".join(arm.poses) or "(none yet)"
        text = f"input should be one of the cell's poses, {legal} (got '{start.pose}'); robot-stack calibrate pose"
        yield resolved.mistake(f"{key}.pose", text)
    else:
        at, box = arm.poses[start.pose].position_m, arm.workspace
        for axis, there, low, high in zip("xyz", at, box.min_m, box.max_m, strict=True):
            if not low <= there <= high:
                text = (
                    f"{axis} of '{start.pose}' is {there} m, must be within the arm's workspace, {low} to {high}; "
                    "teach it again or correct the workspace"
                )
                yield resolved.mistake(f"{key}.pose", text)
    if start.path == "joints" and not isinstance(arm.robot.kinematics, DhKinematics | UrdfFile):
        have = "come over a topic" if arm.robot.kinematics else "are missing"
        text = (
            f"kinematics of robot {arm.robot.name} {have}, must be in its file for a way along the joints; "
            "write a table of them or the path of a URDF there, or take path: over"
        )
        yield resolved.mistake(f"{key}.path", text)


def _home(resolved: ResolvedRun, arm: RunArm) -> Iterator[Mistake]:
    """Refuse a home at which a joint stands where the safety filter lets it only move back."""
    share = resolved.safety.joint_range_share
    part = f"robots.{arm.name}" if resolved.cell.arms else "robot"
    for joint, home_rad in zip(arm.robot.joints, arm.robot.home_rad):
        middle, half = (joint.max_rad + joint.min_rad) / 2, (joint.max_rad - joint.min_rad) / 2
        if abs(home_rad - middle) > share * half:
            text = (
                f"home of {joint.name} is {home_rad}, must be within {middle - share * half:.4g} to "
                f"{middle + share * half:.4g}, the share of its range that safety.joint_range_share ({share}) leaves; "
                "choose another home or raise that"
            )
            yield resolved.mistake(f"{part}.home_rad", text)


def _camera_sources(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse a camera without a source, and two cameras that share one."""
    taken: dict[tuple[str, str], str] = {}
    for name, camera in resolved.cameras.items():
        key, source = _source(camera)
        if isinstance(camera, V4l2CameraConfig) and not source:
            text = "field required with backend v4l2; give the cell's camera its 'serial', or else its 'device'"
            yield resolved.mistake(f"cameras.{name}.serial", text)
        elif source and (key, source) in taken:
            text = f"input is {source!r}, which is also that of {taken[key, source]}; give each camera its own"
            yield resolved.mistake(f"cameras.{name}.{key}", text)
        elif source:
            taken[key, source] = name


def _lenses(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse a lens that cannot be the camera's: of a simulated one, of images turned otherwise or of another shape."""
    for name, mounted in resolved.cell.cameras.items():
        camera, lens = resolved.cameras[name], mounted.lens
        if lens is None:
            continue
        if isinstance(camera, SimCameraConfig):
            text = "lens is given for a simulated camera, must be absent: the simulator tells how it draws; delete it"
            yield resolved.mistake(f"cell.cameras.{name}.lens", text)
        elif isinstance(camera, LiveCameraConfig) and camera.flip != lens.flip:
            text = f"lens is of images with flip {lens.flip!r}, must be of the camera's {camera.flip!r}; calibrate anew"
            yield resolved.mistake(f"cell.cameras.{name}.lens", text)
        elif abs(lens.width_px * camera.height_px - lens.height_px * camera.width_px) > lens.width_px + lens.height_px:
            text = (
                f"lens is of {lens.width_px}x{lens.height_px} pixels, must have the proportions of the "
                f"{camera.width_px}x{camera.height_px} that are captured; calibrate it at that size"
            )
            yield resolved.mistake(f"cell.cameras.{name}.lens", text)


def _source(camera: CameraConfig) -> tuple[str, str]:
    """Return the key that says where images come from, and its value, "" if there is none that two cannot share."""
    if isinstance(camera, V4l2CameraConfig):
        return ("device", camera.device) if camera.device else ("serial", camera.serial or "")
    if isinstance(camera, TopicCameraConfig):
        return "source_topic", camera.source_topic
    return "backend", ""


def _driver(resolved: ResolvedRun, arm: RunArm) -> Iterator[Mistake]:
    """Refuse settings of a robot's driver that do not fit the cell, the limits or the task."""
    robot, safety = arm.robot, resolved.safety
    part = f"robots.{arm.name}" if resolved.cell.arms else "robot"
    if robot.keeps_last_speed and resolved.cell.downstream_timeout_s is None:
        text = (
            "a forward velocity controller keeps the last speeds for ever, so that an arm whose commander has died "
            "goes on moving; take a joint trajectory, or say with cell.downstream_timeout_s what stops the arm"
        )
        yield resolved.mistake(f"{part}.backend", text)
    for name, hard, limit in (
        ("max_speed_m_s", robot.max_tcp_speed_m_s, safety.max_speed_m_s),
        ("max_rotation_speed_rad_s", robot.max_tcp_rotation_speed_rad_s, safety.max_rotation_speed_rad_s),
    ):
        if limit > hard:
            text = (
                f"input should be at most {hard:g} (got {limit:g}), the hard limit of robot {robot.name}: its process "
                "refuses what is faster; lower it here"
            )
            yield resolved.mistake(f"safety.{name}", text)
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
                yield resolved.mistake(f"{part}.{name}", text)
    if arm.action.gripper != "none" and robot.gripper is None:
        text = f"input should be 'none' (got '{arm.action.gripper}'): the robot has no gripper; add one there"
        yield resolved.mistake(_key(resolved, arm, "task.gripper"), text)


def _own_topics(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse two arms that are commanded on one topic: both would follow both."""
    taken: dict[str, str] = {}
    for name, robot in resolved.robots.items():
        for key, topic in robot.command_topics.items() if isinstance(robot, DriverRobot) else ():
            full = topic if topic.startswith("/") else f"/{resolved.run.cell}/{topic}"
            if full in taken:
                text = (
                    f"input is {topic!r}, which also commands arm {taken[full]}; give each arm a robot file of its own"
                )
                yield resolved.mistake(f"robots.{name}.{key}", text)
            taken.setdefault(full, name)


def _one_world(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse simulated arms beside real ones, and a simulator that is to put a real scene back."""
    backends = {name: robot.backend for name, robot in resolved.robots.items()}
    real = [name for name, backend in backends.items() if backend != "sim"]
    if real and len(real) < len(backends):
        text = (
            f"backend is {backends[real[0]]!r} beside simulated arms, must be 'sim' for all arms or for none; name "
            "other robots"
        )
        yield resolved.mistake(f"robots.{real[0]}.backend", text)
    elif real and resolved.task.reset.by == "sim":
        text = (
            f"input should be 'operator' (got 'sim'): arm {real[0]} is real, and nobody else puts its scene back; "
            "write 'operator'"
        )
        yield resolved.mistake("task.reset.by", text)


def _in_turn(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse what cannot go with a way back or with several tasks.

    Both would say where the next episode starts, or one text would serve for two.
    """
    run, turns = resolved.run, resolved.task.turns
    if len(turns) < 2:
        return
    back = resolved.task.backward is not None
    this, each = ("task.backward", "two for each way") if back else ("run.tasks", "two for each task")
    if run.training.protocol.max_level:
        why = "the scene stays as it was left" if back else "the next episode is of another task"
        text = f"input should be 0 with {this}: {why}, nobody goes back to a start"
        yield resolved.mistake("run.training.protocol.max_level", text)
    if run.training.demos < LEAST_DEMOS * len(turns):
        have = run.training.demos
        text = f"input should be {LEAST_DEMOS * len(turns)} at least with {this} (got {have}), {each}; raise it"
        yield resolved.mistake("run.training.demos", text)
    if run.reward.rescore is not None:
        text = f"a large model is told one task only, must be left out with {this}; remove it"
        yield resolved.mistake("run.reward.rescore", text)
    if run.base is not None and not back:
        text = f"a base policy is told one task only, must be left out with {this}; remove it"
        yield resolved.mistake("run.base", text)


def _proprio(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse proprio fields that nobody measures, and sizes that are not those of the arm."""
    arms = resolved.arms
    first = next(iter(arms))
    for index, field in enumerate(resolved.task.proprio):
        key = f"task.proprio.{index}"
        name, owner = field.name.rpartition(".")[2], field.name.rpartition(".")[0]
        if name not in PROPRIO_SIZES:
            yield resolved.mistake(f"{key}.name", f"nobody measures '{name}'{hint(name, PROPRIO_SIZES)}")
            continue
        if owner and owner not in arms:
            yield resolved.mistake(f"{key}.name", f"there is no arm '{owner}' in the cell{hint(owner, arms)}")
            continue
        if not owner and len(arms) > 1 and name != DIRECTION:
            text = f"the field must name its arm, as the cell has {', '.join(arms)}; write {first}.{name}"
            yield resolved.mistake(f"{key}.name", text)
            continue
        robot = arms[owner or first].robot
        size = PROPRIO_SIZES[name] or len(robot.joints)
        if field.size != size:
            text = f"input should be {size} for {name} of robot {robot.name} (got {field.size}); correct the size"
            yield resolved.mistake(f"{key}.size", text)
        if name == "wrench" and isinstance(robot, DriverRobot) and robot.wrench is None:
            text = f"robot {robot.name} has no wrench to measure; leave the field out, or give its file a 'wrench'"
            yield resolved.mistake(f"{key}.name", text)
        if name == OPENING and robot.gripper is None:
            text = f"robot {robot.name} has no gripper to measure; leave the field out, or give its file one"
            yield resolved.mistake(f"{key}.name", text)


def _base(resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse a base policy that is shown or asked for what this cell does not have, or leaves an entry to nobody."""
    base = resolved.run.base
    if base is None or isinstance(base, SavedBase):
        return
    spec = resolved.spec().sensed
    fields, cameras = [*(field.name for field in spec.proprio), *spec.places], [each.name for each in spec.cameras]
    for name in base.cameras:
        if name not in cameras:
            text = f"there is no camera '{name}' in the cell{hint(name, cameras)}"
            yield resolved.mistake(f"run.base.cameras.{name}", text)
    for index, shown in enumerate(base.state):
        if shown.field not in fields:
            text = f"the task records no '{shown.field}'{hint(shown.field, fields)}"
            yield resolved.mistake(f"run.base.state.{index}", text)
    asked = [entry.name for entry in base.action if entry.name is not None]
    for index, entry in enumerate(base.action):
        if entry.name is not None and entry.name not in spec.action_names:
            text = f"there is no action '{entry.name}' in this run{hint(entry.name, spec.action_names)}"
            yield resolved.mistake(f"run.base.action.{index}", text)
    left = [name for name in spec.action_names if name not in asked]
    if left:
        text = f"nobody proposes {', '.join(left)}, must be in it; name them in the order of the base's action"
        yield resolved.mistake("run.base.action", text)
    yield from _frame_of(base, resolved)


def _frame_of(base: ServedBase, resolved: ResolvedRun) -> Iterator[Mistake]:
    """Refuse motion along the axes of the robot's base where an arm's own axes cannot all follow it."""
    for arm in resolved.spec().arms:
        turns = len([axis for axis in arm.axes if axis.startswith("r")])
        if base.frame == "base" and (len(arm.axes) - turns < 3 or turns not in (0, 3)):
            text = (
                f"input is 'base' where {arm.name} moves along {', '.join(arm.axes)} of its tool, must be 'tool' where "
                "the task lacks x, y or z, or has some of rx, ry and rz; have the server turn it, or add axes"
            )
            yield resolved.mistake("run.base.frame", text)
