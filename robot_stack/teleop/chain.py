r"""Forward kinematics of a leader arm from its Denavit-Hartenberg rows.

.. math:: {}^{i-1}T_i = R_x(\alpha_{i-1})\, D_x(a_{i-1})\, R_z(\theta_i)\, D_z(d_i)

Source: Craig, Introduction to Robotics, 3rd ed., eq. 3.6 (modified parameters, as arm makers print them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.types.pose import Pose


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One joint and the link before it, m and rad; `sign` turns what the joint reports round, before the offset."""

    name: str
    a_m: float = 0.0
    alpha_rad: float = 0.0
    d_m: float = 0.0
    offset_rad: float = 0.0
    sign: int = 1


class Chain:
    """The joints of a leader arm, from base to handle."""

    def __init__(self, links: Sequence[Link], tip_m: float = 0.0) -> None:
        """Keep the links of the chain; nothing is moved.

        Args:
            links: From the base on.
            tip_m: From the last joint to the handle, along its axis.
        """
        self._links = tuple(links)
        self._tip_m = tip_m

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the joints, in order."""
        return tuple(link.name for link in self._links)

    def pose(self, joints_rad: Sequence[float]) -> Pose:
        """Return the pose of the handle in the base of the chain, for one angle per joint."""
        position, rotation = np.zeros(3), Rotation.identity()
        for link, angle in zip(self._links, joints_rad, strict=True):
            rotation = rotation * Rotation.from_rotvec([link.alpha_rad, 0.0, 0.0])
            position = position + rotation.apply([link.a_m, 0.0, 0.0])
            rotation = rotation * Rotation.from_rotvec([0.0, 0.0, link.sign * angle + link.offset_rad])
            position = position + rotation.apply([0.0, 0.0, link.d_m])
        return Pose.from_rotation(position + rotation.apply([0.0, 0.0, self._tip_m]), rotation)
