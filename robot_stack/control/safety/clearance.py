r"""Limits on how near a twist may bring the parts of an arm to the table, the walls, each other and other arms.

Parts are capsules on the links. With z_j the axis of joint j through o_j, n the unit vector to the part from what is
near it, and p the part's nearest point, a distance changes at :math:`\dot d = \sum_j D_j \dot q_j` with

.. math:: D_j = n \cdot (z_j \times (p - o_j)) = z_j \cdot (p \times n) + n \cdot (o_j \times z_j)

over the joints that move the part and not what it is watched against. Joint speeds follow from the twist as the
drivers find them (`damped_inverse`), so :math:`\dot d = D\,G\,v = A v`. What a redundant arm does besides, in its null
space, is not known here: what it was measured to do there is taken to go on, if it brings something nearer.

The twist is shortened in its own direction until every distance obeys d' >= -(d - margin) / approach_s: as with the
walls of the workspace, speed falls with the room that is left. Within the margin only motion passes that brings
nothing nearer. Towards another arm each takes half of the room, so that both may move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np

from robot_stack.control.kinematics.body import DEEP_M
from robot_stack.control.kinematics.joint_motion import damped_inverse
from robot_stack.control.kinematics.posed_arm import PosedArm, closest_points, cross, dot, to_boxes
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.types.reason import Refusal, RefusalKind
from robot_stack.types.robot import RobotState

STILL = 1e-6
"""Approach below this is none, m/s."""
SHARED = 0.5
"""Of the room between two arms, what each may use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """All watched distances of one arm at one state, N of them.

    Attributes:
        left_m: Between the surfaces, negative inside, shape (N,).
        by_joint: How each changes with the joints, shape (N, J), m/rad.
        pairs: Index of the part, and of what it is watched against, in `Clearance.parts`, shape (N, 2).
    """

    left_m: np.ndarray
    by_joint: np.ndarray
    pairs: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class _Near:
    """The K distances that a twist within the limits could bring below what is allowed."""

    left_m: np.ndarray
    by_twist: np.ndarray
    """Shape (K, 6), tcp frame."""
    drift_m_s: np.ndarray
    """By what the twist does not say, at most 0."""
    per_s: np.ndarray
    """Speed of approach that a metre of room allows, 1/s."""


class Clearance:
    """The watch over the distances of one arm's parts, which slows a twist that would bring them too near.

    Args:
        arm: Whose parts.
        limits: Of the arm.
        others: Other arms of the cell, whose own `Clearance` tells them their states.
    """

    def __init__(self, arm: PosedArm, limits: SafetyLimits, others: Iterable[PosedArm] = ()) -> None:
        self._arm, self._others = arm, list(others)
        body, moving = arm.body, np.flatnonzero(arm.links > 0)
        own, planes, boxes = len(body.capsules), len(body.half_spaces), len(body.keep_outs)
        theirs = [f"{each.name} of arm {them.name}" for them in self._others for each in them.body.capsules]
        named = ([c.name for c in body.capsules], [s.name for s in body.half_spaces], [b.name for b in body.keep_outs])
        self.parts = [*chain(*named), *theirs]
        """Names of all that can be near: own capsules, half-spaces, boxes, capsules of other arms."""
        first_other = own + planes + boxes
        pairs = [
            *body.self_pairs,
            *((int(mine), first_other + each) for mine in moving for each in range(len(theirs))),
        ]
        self._pairs = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        self._columns = np.where(self._pairs < first_other, self._pairs, self._pairs - first_other + own)
        """Of the pairs in the ends of all capsules, one's own before the others'."""
        self._reach_m = np.concatenate([arm.radii_m, *(each.radii_m for each in self._others)])[self._columns].sum(
            axis=0
        )
        self._planed = np.tile(np.repeat(moving, planes), 2)  # both ends of each part, against each plane
        self._normals = np.array([each.normal for each in body.half_spaces]).reshape(-1, 3)
        self._offsets = np.array([each.offset_m for each in body.half_spaces])
        self._boxed = np.repeat(moving, boxes)
        self._low = np.tile(np.array([each.min_m for each in body.keep_outs]).reshape(-1, 3).T, len(moving))
        self._high = np.tile(np.array([each.max_m for each in body.keep_outs]).reshape(-1, 3).T, len(moving))
        against = [
            self._pairs[1],
            np.tile(own + np.arange(planes), 2 * len(moving)),
            np.tile(own + planes + np.arange(boxes), len(moving)),
        ]
        part = np.concatenate([self._pairs[0], self._planed, self._boxed])
        partner = np.concatenate(against)
        self._rows = np.stack([part, partner], axis=1)
        turns = (np.arange(arm.joints) < arm.links[:, None]).astype(np.float64)
        """Whether a joint, a column, moves a capsule, a row: joint j moves link j + 1 and those beyond."""
        turns = np.concatenate([turns, np.zeros((len(self.parts) - own, arm.joints))])
        self._turns = turns[part] - turns[partner]
        self._shared = partner >= first_other
        self._plane_normals = np.tile(self._normals.T, 2 * len(moving))
        self._moving = moving
        self._seen: tuple[RobotState | None, ...] = ()
        self._distances: Distances | None = None
        self._near: _Near | None = None
        self.limit(limits)

    def limit(self, limits: SafetyLimits) -> None:
        """Set the limits that hold from now on."""
        approach_s = max(limits.approach_s, limits.tilt_approach_s)
        self._per_s = np.where(self._shared, SHARED, 1.0) / approach_s
        self._fastest = np.array([limits.max_speed_m_s, limits.max_rotation_speed_rad_s])
        self._timeout_s = limits.state_timeout_s
        self._seen = ()

    def hear(self, state: RobotState) -> None:
        """Take a checked state of the arm; other arms see it too."""
        self._arm.hear(state)

    def distances(self) -> Distances | None:
        """Measure every watched distance at the newest states; None before the arm's first."""
        if not self._arm.pose():
            return None
        states = (self._arm.state, *(other.state for other in self._others))
        if len(states) != len(self._seen) or any(new is not old for new, old in zip(states, self._seen)):
            self._distances = self._measure()
            self._near = self._nearest(self._distances)
            self._seen = states
        return self._distances

    def slowed(self, twist: np.ndarray, last: np.ndarray, age_s: float) -> np.ndarray:
        """Shorten a twist in its own direction so that no part comes nearer faster than its room allows.

        Args:
            twist: Shape (6,), m/s and rad/s, tcp frame.
            last: Twist that was let through before; the state is carried forward by it.
            age_s: Age of the state.

        Returns:
            Shape (6,).
        """
        if not twist.any():  # nothing is shortened, so that an arm that stands costs no measuring
            return twist
        self.distances()
        near = self._near
        if near is None or not len(near.left_m):
            return twist
        nearing = -(near.by_twist @ twist)
        if float(nearing.max()) <= STILL:
            return twist
        left_m = near.left_m + np.minimum(near.by_twist @ last, 0.0) * age_s
        allowed = np.maximum(np.maximum(left_m, 0.0) * near.per_s + near.drift_m_s, 0.0)
        fast = nearing > np.maximum(allowed, STILL)
        return twist * float((allowed[fast] / nearing[fast]).min()) if fast.any() else twist

    def inside(self) -> Refusal | None:
        """Name two parts of which one is inside the other, at the newest states."""
        distances = self.distances()
        if distances is None or not len(distances.left_m):
            return None
        worst = int(np.argmin(distances.left_m))
        depth_m = -float(distances.left_m[worst])
        if depth_m <= DEEP_M:
            return None
        part, partner = (self.parts[index] for index in distances.pairs[worst])
        text = (
            f"{part} is {depth_m * 1000:.0f} mm inside {partner}, must be outside; move it away by the robot's own "
            "means, or correct the robot's 'collision' or the cell's 'surroundings'"
        )
        return Refusal(kind=RefusalKind.OUTSIDE, text=text)

    def _measure(self) -> Distances:
        arm = self._arm
        heard = [other.pose() for other in self._others]
        ends0, ends1 = np.concatenate([arm.ends, *(other.ends for other in self._others)], axis=2)
        one, other = self._columns
        point, there = closest_points(ends0[:, one], ends1[:, one], ends0[:, other], ends1[:, other])
        between = point - there
        gap_m = np.sqrt(dot(between, between))
        left_m = gap_m - self._reach_m
        if not all(heard):  # an arm that was never heard is nowhere
            left_m = np.where(self._shared[: len(left_m)], np.inf, left_m)
        points, normals, lefts = [point], [between / np.maximum(gap_m, 1e-9)], [left_m]
        if len(self._planed):
            moving = arm.ends[:, :, self._moving]
            heights = (self._normals @ moving).transpose(0, 2, 1) - self._offsets - arm.radii_m[self._moving, None]
            lefts.append(heights.reshape(-1))
            points += [arm.ends[0][:, self._planed[: len(self._planed) // 2]]]
            points += [arm.ends[1][:, self._planed[: len(self._planed) // 2]]]
            normals.append(self._plane_normals)
        if len(self._boxed):
            box_m, place, outward = to_boxes(
                arm.ends[0][:, self._boxed], arm.ends[1][:, self._boxed], self._low, self._high
            )
            points.append(place)
            normals.append(outward)
            lefts.append(box_m - arm.radii_m[self._boxed])
        p, n = np.concatenate(points, axis=1), np.concatenate(normals, axis=1)
        by_joint = cross(p, n).T @ arm.axes + n.T @ cross(arm.points, arm.axes)
        return Distances(left_m=np.concatenate(lefts), by_joint=by_joint * self._turns, pairs=self._rows)

    def _nearest(self, distances: Distances) -> _Near:
        """Return the distances that matter at this state, with how each changes with the twist."""
        arm, state = self._arm, self._arm.state
        assert state is not None
        R_cell_base = arm.base[:3, :3]
        R_cell_tcp = R_cell_base @ _matrix_of(state.T_base_tcp.quaternion_xyzw)
        tcp = R_cell_base @ state.T_base_tcp.position_m + arm.base[:3, 3]
        jacobian = np.concatenate([cross(arm.axes, tcp[:, None] - arm.points), arm.axes])
        follow, _ = damped_inverse(jacobian)
        measured = state.joint_speeds_rad_s
        drift = np.minimum(distances.by_joint @ (measured - follow @ (jacobian @ measured)), 0.0)
        follow[:, :3], follow[:, 3:] = follow[:, :3] @ R_cell_tcp, follow[:, 3:] @ R_cell_tcp
        by_twist = distances.by_joint @ follow
        squares = by_twist * by_twist
        fastest = np.sqrt(squares @ HALVES) @ self._fastest
        room_m = distances.left_m - arm.body.margin_m
        near = (room_m - fastest * self._timeout_s) * self._per_s + drift < fastest
        return _Near(left_m=room_m[near], by_twist=by_twist[near], drift_m_s=drift[near], per_s=self._per_s[near])


def clearances_of(limits: Mapping[str, SafetyLimits]) -> dict[str, Clearance | None]:
    """Build for each arm of a cell the watch over its links, also against the other arms; None where it has no body."""
    posed = {name: PosedArm(name, each.body) for name, each in limits.items() if each.body is not None}
    return {
        name: Clearance(posed[name], each, [other for key, other in posed.items() if key != name])
        if name in posed
        else None
        for name, each in limits.items()
    }


HALVES = np.array([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3)


def _matrix_of(quaternion_xyzw: np.ndarray) -> np.ndarray:
    """Return the rotation matrix of a unit quaternion, in a tenth of the time that scipy takes."""
    x, y, z, w = quaternion_xyzw.tolist()
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - z * w), 2.0 * (x * z + y * w)],
            [2.0 * (x * y + z * w), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - x * w)],
            [2.0 * (x * z - y * w), 2.0 * (y * z + x * w), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )
