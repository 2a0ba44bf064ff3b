"""Kinematic chains from tables of Denavit-Hartenberg parameters, as manufacturers print them.

Standard (Denavit and Hartenberg, 1955): T_i = Rz(theta) Tz(d) Tx(a) Rx(alpha).
Modified (Craig, "Introduction to Robotics", 1986): T_i = Rx(alpha) Tx(a) Rz(theta) Tz(d), with a and alpha of the link
before the joint.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_stack.control.kinematics.chain import Chain, ChainJoint

Z = np.array([0.0, 0.0, 1.0])


@dataclass(frozen=True, slots=True, kw_only=True)
class DhRow:
    """One row of a Denavit-Hartenberg table; `theta_rad` is added to the joint's angle."""

    a_m: float
    alpha_rad: float
    d_m: float
    theta_rad: float = 0.0


def chain_of_dh(
    names: Sequence[str], rows: Sequence[DhRow], *, modified: bool, base: np.ndarray, tcp: np.ndarray
) -> Chain:
    """Build the kinematic chain of an arm from its Denavit-Hartenberg table.

    Args:
        names: Of the joints, one per row.
        rows: From base to flange.
        modified: Craig's convention instead of the standard one.
        base: T_base_0: from the frame that poses are given in to frame 0 of the table, shape (4, 4).
        tcp: T_n_tcp: from the last frame of the table to the TCP, shape (4, 4).
    """
    joints, before = [], base
    for name, row in zip(names, rows, strict=True):
        turn, shift = _about_z(row.theta_rad), _along(z=row.d_m)
        link = _about_x(row.alpha_rad) @ _along(x=row.a_m)
        if modified:
            joints.append(ChainJoint(name=name, origin=before @ link @ shift @ turn, axis=Z))
            before = np.eye(4)
        else:
            joints.append(ChainJoint(name=name, origin=before @ turn, axis=Z))
            before = shift @ link
    return Chain(joints, before @ tcp)


def _along(*, x: float = 0.0, z: float = 0.0) -> np.ndarray:
    transform = np.eye(4)
    transform[:3, 3] = (x, 0.0, z)
    return transform


def _about_x(angle: float) -> np.ndarray:
    transform = np.eye(4)
    transform[1:3, 1:3] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    return transform


def _about_z(angle: float) -> np.ndarray:
    transform = np.eye(4)
    transform[:2, :2] = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    return transform
