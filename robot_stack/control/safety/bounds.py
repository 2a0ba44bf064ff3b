"""Bounds of a twist: speed, acceleration, jerk, workspace box, tilt cone, contact force and torque.

Pure functions from a twist to a twist. Limits of rates act on norms,
so that direction is kept. Approach to an edge slows in proportion to the distance left, so the arm comes
to rest on the edge instead of being thrown against a clip. Outside an edge only the way back passes.
"""

from __future__ import annotations

import math

import numpy as np


def limit_norm(vector: np.ndarray, largest: float) -> np.ndarray:
    """Shorten a vector that is longer than `largest` to that norm, in its own direction."""
    size = norm(vector)
    return vector if size <= largest else vector * (largest / size)


def norm(vector: np.ndarray) -> float:
    """Return the Euclidean norm of a vector, shape (N,), in a fifth of the time that `np.linalg.norm` takes."""
    return math.sqrt(vector.dot(vector))


def limit_acceleration(target: np.ndarray, last: np.ndarray, acceleration: float, dt_s: float) -> np.ndarray:
    """Step from `last` towards `target`, by at most `acceleration * dt_s`."""
    return np.asarray(last + limit_norm(target - last, acceleration * dt_s))


def limit_jerk(
    target: np.ndarray, last: np.ndarray, last_acceleration: np.ndarray, acceleration: float, jerk: float, dt_s: float
) -> np.ndarray:
    r"""Return the next velocity on a jerk-limited way to `target` that lands without overshoot.

    Braking from acceleration :math:`n j\,dt` by one quantum :math:`j\,dt` a tick covers
    :math:`j\,dt^2\, n(n+1)/2` of velocity. So the acceleration wanted now is the n that solves this for what is left.

    Args:
        target: Wanted velocity, shape (3,).
        last: Velocity of the previous tick, shape (3,).
        last_acceleration: Acceleration of the previous tick, shape (3,).
        acceleration: Largest norm of acceleration.
        jerk: Largest norm of its change per second.
        dt_s: Since the previous tick, above 0.

    Returns:
        Shape (3,).
    """
    quantum = jerk * dt_s
    left = target - last
    distance = norm(left)
    if distance == 0.0:
        wanted = np.zeros_like(left)
    else:
        n = (math.sqrt(1.0 + 8.0 * distance / (quantum * dt_s)) - 1.0) / 2.0
        wanted = left / distance * min(acceleration, distance / dt_s if n <= 1.0 else n * quantum)
    change = limit_norm(wanted - last_acceleration, quantum)
    landed = last + limit_norm(last_acceleration + change, acceleration) * dt_s
    return target.copy() if norm(landed - target) < 1e-9 else np.asarray(landed)


OUTSIDE_M = 0.002
"""Beyond the wall by more than this, motion along the wall stops too; less is measurement noise."""


def inside_box(
    velocity: np.ndarray, position_m: np.ndarray, low_m: np.ndarray, high_m: np.ndarray, approach_s: float
) -> np.ndarray:
    """Return the largest part of a velocity that keeps the TCP inside the box, axis by axis.

    Args:
        velocity: Of the TCP, shape (3,), m/s, base frame.
        position_m: Of the TCP, shape (3,), base frame.
        low_m: Lowest corner, shape (3,).
        high_m: Highest corner, shape (3,).
        approach_s: Speed towards a wall is at most the distance left divided by this.

    Returns:
        Shape (3,), m/s, base frame.
    """
    up = np.maximum(high_m - position_m, 0.0) / approach_s
    down = np.maximum(position_m - low_m, 0.0) / approach_s
    allowed: np.ndarray = np.clip(velocity, -down, up)
    outside = (position_m < low_m - OUTSIDE_M) | (position_m > high_m + OUTSIDE_M)
    if outside.any():
        allowed = np.where(outside, allowed, 0.0)
    return allowed


def inside_cone(angular: np.ndarray, tool_axis: np.ndarray, cone_rad: float, approach_s: float) -> np.ndarray:
    """Return the largest part of a rotation that keeps the tool within a cone around straight down.

    With a the tool's z axis, d straight down and n the unit vector of a x d, tilt changes at -w.n; rotation about a
    itself is free.

    Args:
        angular: Angular velocity, shape (3,), rad/s, base frame.
        tool_axis: Unit z axis of the tool, shape (3,), base frame.
        cone_rad: Half angle; pi or more never limits.
        approach_s: As in `inside_box`.

    Returns:
        Shape (3,), rad/s, base frame.
    """
    if cone_rad >= math.pi:
        return angular
    inward = np.array([-tool_axis[1], tool_axis[0], 0.0])  # a x d; np.cross would take half of a tick's time
    length = norm(inward)
    tilt_rad = math.atan2(length, -float(tool_axis[2]))
    spin = (angular @ tool_axis) * tool_axis
    lateral = angular - spin
    room = max(cone_rad - tilt_rad, 0.0) / approach_s
    if length < 1e-9:
        size = norm(lateral)
        return spin + lateral * min(1.0, room / size) if size > 0 and tilt_rad < 1.0 else angular
    inward = inward / length
    if tilt_rad > cone_rad:
        return np.asarray(spin + max(0.0, float(lateral @ inward)) * inward)
    outward = -float(lateral @ inward)
    return np.asarray(angular + max(0.0, outward - room) * inward)


def soften_push(velocity: np.ndarray, load: np.ndarray, soft: float, hard: float) -> np.ndarray:
    """Scale down the motion against a contact, from all of it at `soft` to none at `hard`.

    Args:
        velocity: Shape (3,), m/s; or the angular one, rad/s.
        load: Force on the TCP from outside, shape (3,), N, same frame; of an angular velocity the torque, Nm.
        soft: Where scaling starts.
        hard: Where nothing is left. The way out of the contact is never touched.

    Returns:
        Shape (3,), of the unit of `velocity`; the very same array where nothing is scaled.
    """
    size = norm(load)
    if size <= soft:
        return velocity
    away = load / size
    push = max(0.0, -float(velocity @ away))
    left = max(0.0, (hard - size) / (hard - soft))
    return np.asarray(velocity + (1.0 - left) * push * away)
