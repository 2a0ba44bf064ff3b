"""Limits on the speed, acceleration and jerk of a velocity. They act on norms, so that direction is kept."""

from __future__ import annotations

import math

import numpy as np


def limit_norm(vector: np.ndarray, largest: float) -> np.ndarray:
    """Shorten a vector that is longer than `largest` to that norm, in its own direction."""
    size = float(np.linalg.norm(vector))
    return vector if size <= largest else vector * (largest / size)


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
    distance = float(np.linalg.norm(left))
    if distance == 0.0:
        wanted = np.zeros_like(left)
    else:
        n = (math.sqrt(1.0 + 8.0 * distance / (quantum * dt_s)) - 1.0) / 2.0
        wanted = left / distance * min(acceleration, distance / dt_s if n <= 1.0 else n * quantum)
    change = limit_norm(wanted - last_acceleration, quantum)
    landed = last + limit_norm(last_acceleration + change, acceleration) * dt_s
    return target.copy() if float(np.linalg.norm(landed - target)) < 1e-9 else np.asarray(landed)
