r"""The turn of a tool about its own axis, whole turns included: it twists a cable along the arm.

With q the orientation since zero as a unit quaternion xyzw, taken apart into a turn about z and then a tilt of z, the
turn is :math:`\psi = 2\,\mathrm{atan2}(z, w)`. It does not depend on the way there, except for whole turns, which are
counted from state to state. With the angular velocity w_x, w_y, w_z in the frame of the tool it changes at

.. math:: \dot\psi = \omega_z + \frac{(x z - w y)\,\omega_x + (w x + y z)\,\omega_y}{w^2 + z^2}

Source: Dobrowolski, 2015, "Swing-twist decomposition in Clifford algebra", arXiv:1506.05481; the rate follows from
:math:`\dot q = \tfrac12 q\,\omega`.
"""

from __future__ import annotations

import math

import numpy as np

TURN_RAD = 2.0 * math.pi
UPSIDE_DOWN = 1e-4
"""With the axis turned over, w^2 + z^2 is zero and a turn about it means nothing."""
NEGLIGIBLE_RAD_S = 1e-9
"""A degree in half a year: so little too fast is rounding, for which no tilt is refused."""


class TurnCounter:
    """A counter of one tool's turn about its own axis.

    Args:
        zero_xyzw: Orientation of the tool in the base at which the turn is 0; None takes the first that is seen.
    """

    def __init__(self, zero_xyzw: tuple[float, float, float, float] | None) -> None:
        self._zero = None if zero_xyzw is None else np.array(zero_xyzw)
        self._seen: np.ndarray | None = None
        self.turn_rad = 0.0
        """Since zero; more than pi after more than half a turn."""
        self.by_tilt = (0.0, 0.0)
        """How fast the turn grows with w_x and w_y; with w_z it grows one to one."""

    def watch(self, quaternion_xyzw: np.ndarray) -> None:
        """Take an orientation of the tool in the base, less than half a turn from the last."""
        if quaternion_xyzw is self._seen:
            return
        self._seen = quaternion_xyzw
        if self._zero is None:
            self._zero = quaternion_xyzw.copy()
        x, y, z, w = _since(self._zero.tolist(), quaternion_xyzw.tolist())
        size = w * w + z * z
        if size < UPSIDE_DOWN:
            self.by_tilt = (0.0, 0.0)
            return
        self.turn_rad = self._nearest(2.0 * math.atan2(z, w))
        self.by_tilt = ((x * z - w * y) / size, (w * x + y * z) / size)

    def way_to(self, quaternion_xyzw: np.ndarray, range_rad: float) -> float:
        """Return the turn left to an orientation of the tool, in rad: the shorter way if it ends inside.

        Args:
            quaternion_xyzw: Orientation in the base, not turned over.
            range_rad: Largest turn to either side.
        """
        zero = quaternion_xyzw if self._zero is None else self._zero
        _, _, z, w = _since(zero.tolist(), quaternion_xyzw.tolist())
        there = self._nearest(2.0 * math.atan2(z, w))
        round_about = there - math.copysign(TURN_RAD, there)
        ends = round_about if abs(there) > range_rad >= abs(round_about) else there
        return ends - self.turn_rad

    def _nearest(self, turn_rad: float) -> float:
        """Return the turn, whole ones added, that is nearest to where the tool is."""
        return turn_rad + TURN_RAD * round((self.turn_rad - turn_rad) / TURN_RAD)


def inside_turn(
    angular: np.ndarray, turn_rad: float, by_tilt: tuple[float, float], range_rad: float, approach_s: float
) -> np.ndarray:
    """Take the part out of a rotation that would turn the tool too far about its own axis.

    Args:
        angular: Angular velocity, shape (3,), rad/s, tcp frame.
        turn_rad: Where the tool is, see `TurnCounter`.
        by_tilt: See there.
        range_rad: Largest turn to either side.
        approach_s: Speed towards the end is at most the turn left divided by this; beyond it only the way back passes.

    Returns:
        Shape (3,), rad/s, tcp frame; no entry is larger than before.
    """
    tilting = by_tilt[0] * float(angular[0]) + by_tilt[1] * float(angular[1])
    spin = float(angular[2])
    side = 1.0 if tilting + spin > 0.0 else -1.0
    outward = side * (tilting + spin)
    allowed = max(range_rad - side * turn_rad, 0.0) / approach_s
    if outward <= allowed + NEGLIGIBLE_RAD_S:
        return angular
    excess = outward - allowed
    if side * spin >= excess:  # the turn about the own axis bears it all
        return np.array([angular[0], angular[1], spin - side * excess])
    kept = min(side * spin, 0.0)
    tilt_fits = side * tilting + kept <= allowed + NEGLIGIBLE_RAD_S
    share = 1.0 if tilt_fits else (allowed - kept) / (side * tilting)
    return np.array([angular[0] * share, angular[1] * share, side * kept])


def _since(zero: list[float], now: list[float]) -> tuple[float, float, float, float]:
    """Return the rotation from `zero` to `now`, the quaternion zero^-1 now, xyzw."""
    a, b, c, d = -zero[0], -zero[1], -zero[2], zero[3]
    x, y, z, w = now
    return (
        d * x + a * w + b * z - c * y,
        d * y - a * z + b * w + c * x,
        d * z + a * y - b * x + c * w,
        d * w - a * x - b * y - c * z,
    )
