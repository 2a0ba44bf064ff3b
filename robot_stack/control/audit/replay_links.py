"""The rules of `replay_checker` about the links of an arm and the turn of its tool.

Nothing here is the filter's: poses come from products of matrices over all ticks at once, distances from points along
the capsules, joint speeds from a pseudo-inverse of a Jacobian of finite differences, turns from Euler angles. Sampled
points overestimate a distance by less than SAMPLED_M for capsules as long as a forearm, and never underestimate it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.config.safety import CAPS
from robot_stack.control.audit.logged import LogArrays
from robot_stack.control.kinematics.body import ArmBody
from robot_stack.control.safety.limits import SafetyLimits

SAMPLES = 9
"""Points along a capsule."""
SAMPLED_M = 0.006
STEP_S = 1e-3
"""How far ahead a distance is looked at."""
CHUNK = 500
"""Ticks at a time, for the memory."""
WEAK = 0.05
"""Directions of the TCP that joints reach with less than this, m/rad, are left out: near a singularity an arm does not
follow them."""
TURNED_OVER = 0.98
"""Cosine beyond which Euler angles of a tool on its side mean nothing."""


def approaches(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[tuple[int, str]]:
    """Yield ticks whose twist brings a part nearer than can still be stopped before the margin, and that do not brake.

    A twist v stops within t = |v| / a, so a distance that it shrinks at r shrinks by r t / 2 more.
    """
    body, rows = limits.body, log.stated
    if body is None or not len(rows) or log.joints_rad.shape[1] != len(body.axes):
        return
    twists = log.twist[rows]
    stop_s = np.maximum(
        np.linalg.norm(twists[:, :3], axis=1) / limits.max_acceleration_m_s2,
        np.linalg.norm(twists[:, 3:], axis=1) / limits.max_rotation_acceleration_rad_s2,
    )
    slowing = np.diff(np.linalg.norm(twists, axis=1), prepend=np.inf) < 0.0
    judged = np.flatnonzero((np.abs(twists).max(axis=1) > 1e-6) & ~slowing)
    for first in range(0, len(judged), CHUNK):
        picked = judged[first : first + CHUNK]
        speeds = _joint_speeds(body, log, picked)
        now, names = own_distances(body, log.joints_rad[picked])
        soon, _ = own_distances(body, log.joints_rad[picked] + speeds * STEP_S)
        rate = (now - soon) / STEP_S
        room = now - body.margin_m + SAMPLED_M + slack
        shrinks = rate * np.maximum(stop_s[picked], 0.0)[:, None] / 2.0
        for row, pair in np.argwhere((rate > 0.01) & (shrinks > np.maximum(room, 0.0))):
            one, other = names[pair]
            text = f"{one} nears {other} at {rate[row, pair]:.3f} m/s, {now[row, pair]:.4f} m from it, cannot stop"
            yield int(rows[picked[row]]), f"{text} {body.margin_m:g} m before"


def depths(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[tuple[int, str]]:
    """Yield ticks at which a part that was outside the margin has come inside by more than sampling error and slack."""
    body, rows = limits.body, log.stated
    if body is None or not len(rows) or log.joints_rad.shape[1] != len(body.axes):
        return
    before: np.ndarray | None = None
    for first in range(0, len(rows), CHUNK):
        now, names = own_distances(body, log.joints_rad[first : first + CHUNK])
        least = body.margin_m - 2.0 * SAMPLED_M - slack
        earlier = np.concatenate([now[:1] if before is None else before, now[:-1]])
        for row, pair in np.argwhere((now < least) & (earlier >= least)):
            one, other = names[pair]
            text = f"{one} is {now[row, pair]:.4f} m from {other}, must keep {body.margin_m:g} m"
            yield int(rows[first + row]), text
        before = now[-1:]


def apart(
    one: LogArrays, one_limits: SafetyLimits, other: LogArrays, other_limits: SafetyLimits, slack: float
) -> Iterator[tuple[int, str]]:
    """Yield ticks of the first arm's log at which it has come inside the margin of the other arm.

    Ticks at which the other log has none, or no young one, prove nothing and are left out.

    Args:
        one: Log of one arm.
        one_limits: Limits of that arm.
        other: Log of another arm of the cell, on the same clock.
        other_limits: Limits of the other arm.
        slack: In metres.
    """
    mine, theirs = one_limits.body, other_limits.body
    if mine is None or theirs is None or not len(one.stated) or not len(other.stated):
        return
    if one.joints_rad.shape[1] != len(mine.axes) or other.joints_rad.shape[1] != len(theirs.axes):
        return
    stamps, mine_ns = other.stamp_ns[other.stated], one.stamp_ns[one.stated]
    newest = np.maximum(np.searchsorted(stamps, mine_ns, side="right") - 1, 0)
    age_ns = mine_ns - stamps[newest]
    judged = np.flatnonzero((age_ns >= 0) & (age_ns <= other_limits.state_timeout_s * 1e9))
    was_near = True
    for first in range(0, len(judged), CHUNK):
        rows = judged[first : first + CHUNK]
        here = _points(mine, one.joints_rad[rows])[:, [c.link > 0 for c in mine.capsules]]
        there = _points(theirs, other.joints_rad[newest[rows]])
        radii = np.array([c.radius_m for c in mine.capsules if c.link > 0])
        gaps = np.stack(
            [
                np.linalg.norm(here[:, :, :, None] - there[:, None, index, None], axis=4).min(axis=(2, 3))
                - radii
                - capsule.radius_m
                for index, capsule in enumerate(theirs.capsules)
            ],
            axis=2,
        )
        least = gaps.min(axis=(1, 2))
        for row in range(len(rows)):
            near = bool(least[row] < mine.margin_m - 2.0 * SAMPLED_M - slack)
            if near and not was_near:
                text = f"arms are {least[row]:.4f} m apart, must keep {mine.margin_m:g} m"
                yield int(one.stated[rows[row]]), text
            was_near = near


def turns(log: LogArrays, limits: SafetyLimits, slack: float) -> Iterator[tuple[int, str]]:
    """Yield ticks that turn the tool outward although it cannot stop within its range, and that do not brake.

    The turn is the heading of the tool's x axis, unwrapped over the ticks; judged only where the tool's axis is within
    what Euler angles can tell.
    """
    if limits.yaw_range_rad >= CAPS["yaw_range_rad"] or not len(log.stated):
        return
    zero = log.rotation[0] if limits.yaw_zero_xyzw is None else Rotation.from_quat(limits.yaw_zero_xyzw)
    matrices = (zero.inv() * log.rotation).as_matrix()
    # turn about z of the rotation that first tilts z the shortest way: the trace of its upper left block tells
    turn = np.unwrap(np.arctan2(matrices[:, 1, 0] - matrices[:, 0, 1], matrices[:, 0, 0] + matrices[:, 1, 1]))
    upright = matrices[:, 2, 2] > 1.0 - TURNED_OVER
    speed = log.twist[log.stated, 5]
    side = np.sign(turn)
    outward = side * speed
    room = np.maximum(0.0, limits.yaw_range_rad + 20.0 * slack - np.abs(turn))
    stoppable = np.sqrt(2.0 * limits.max_rotation_acceleration_rad_s2 * room) + 1e-3
    tilting = np.linalg.norm(log.twist[log.stated, 3:5], axis=1) * np.sqrt(np.maximum(0.0, 1.0 - matrices[:, 2, 2]))
    braking = np.diff(outward, prepend=0.0) < -1e-9
    for row in np.flatnonzero((outward > stoppable + tilting) & ~braking & upright):
        text = f"{outward[row]:.4f} rad/s outward at a turn of {turn[row]:.3f} rad, cannot stop within its range"
        yield int(log.stated[row]), text


def own_distances(body: ArmBody, joints_rad: np.ndarray) -> tuple[np.ndarray, list[tuple[str, str]]]:
    """Measure the distances of an arm from itself and its surroundings.

    Args:
        body: Links and surroundings of the arm.
        joints_rad: Angles of its joints, shape (N, J).

    Returns:
        Distances (N, P), and the names of the two parts of each.
    """
    points, names, columns = _points(body, joints_rad), [], []
    for one, other in body.self_pairs:
        a, b = body.capsules[one], body.capsules[other]
        gaps = np.linalg.norm(points[:, one, :, None] - points[:, other, None], axis=3)
        columns.append(gaps.min(axis=(1, 2)) - a.radius_m - b.radius_m)
        names.append((a.name, b.name))
    for index, capsule in enumerate(body.capsules):
        if capsule.link == 0:
            continue
        for space in body.half_spaces:
            heights = points[:, index] @ np.array(space.normal) - space.offset_m
            columns.append(heights.min(axis=1) - capsule.radius_m)
            names.append((capsule.name, space.name))
        for box in body.keep_outs:
            low, high = np.array(box.min_m), np.array(box.max_m)
            beyond = np.maximum(np.maximum(low - points[:, index], points[:, index] - high), 0.0)
            columns.append(np.linalg.norm(beyond, axis=2).min(axis=1) - capsule.radius_m)
            names.append((capsule.name, box.name))
    return np.stack(columns, axis=1) if columns else np.zeros((len(points), 0)), names


def _points(body: ArmBody, joints_rad: np.ndarray) -> np.ndarray:
    """Return points along each capsule in the frame of the cell, shape (N, C, SAMPLES, 3)."""
    frames = _frames(body, joints_rad)
    shares = np.linspace(0.0, 1.0, SAMPLES)[:, None]
    columns = []
    for capsule in body.capsules:
        start, end = np.array(capsule.from_m), np.array(capsule.to_m)
        local = start + shares * (end - start)
        frame = frames[capsule.link]
        columns.append(np.einsum("nij,sj->nsi", frame[:, :3, :3], local) + frame[:, None, :3, 3])
    return np.stack(columns, axis=1)


def _frames(body: ArmBody, joints_rad: np.ndarray) -> Sequence[np.ndarray]:
    """Return T_cell_link of the base and each link, (N, 4, 4) each."""
    frames = [np.broadcast_to(np.array(body.base_in_cell), (len(joints_rad), 4, 4))]
    for joint, (origin, axis) in enumerate(zip(body.origins, body.axes)):
        turned = np.tile(np.eye(4), (len(joints_rad), 1, 1))
        turned[:, :3, :3] = Rotation.from_rotvec(joints_rad[:, joint, None] * np.array(axis)).as_matrix()
        frames.append(frames[-1] @ np.array(origin) @ turned)
    return frames


def _joint_speeds(body: ArmBody, log: LogArrays, picked: np.ndarray) -> np.ndarray:
    """Return the smallest joint speeds that give the executed twists, shape (K, J), rad/s."""
    joints = log.joints_rad[picked]
    base = np.array(body.base_in_cell)[:3, :3]
    R_base_tcp = log.rotation[picked].as_matrix()
    last = _frames(body, joints)[-1]
    R_cell_tcp = base @ R_base_tcp
    tcp = log.position_m[picked] @ base.T + np.array(body.base_in_cell)[:3, 3]
    lever = np.einsum("nji,nj->ni", last[:, :3, :3], tcp - last[:, :3, 3])  # of the TCP in the last link
    columns = []
    for joint in range(joints.shape[1]):
        moved = joints.copy()
        moved[:, joint] += 1e-5
        after = _frames(body, moved)[-1]
        shift = np.einsum("nij,nj->ni", after[:, :3, :3] - last[:, :3, :3], lever) + after[:, :3, 3] - last[:, :3, 3]
        turn = Rotation.from_matrix(after[:, :3, :3] @ last[:, :3, :3].transpose(0, 2, 1)).as_rotvec()
        columns.append(np.concatenate([shift, turn], axis=1) / 1e-5)
    jacobian = np.stack(columns, axis=2)
    twists = log.twist[log.stated[picked]]
    in_cell = np.concatenate(
        [np.einsum("nij,nj->ni", R_cell_tcp, half) for half in (twists[:, :3], twists[:, 3:])], axis=1
    )
    inverse = np.linalg.pinv(jacobian, rcond=WEAK / 2.0)
    return np.asarray(np.einsum("nij,nj->ni", inverse, in_cell))
