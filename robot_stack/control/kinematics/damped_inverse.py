"""Joint speeds of a twist: differential inverse kinematics by damped least squares.

With the singular value decomposition J = U S V^T, speeds are V diag(s / (s^2 + l^2)) U^T v. Damping l is zero while the
smallest singular value is above EPSILON and grows to MAX_DAMPING at a singularity: l^2 = (1 - (s_min / EPSILON)^2)
MAX_DAMPING^2. Source: Chiaverini, Siciliano, Egeland, 1994, "Review of the damped least-squares inverse kinematics".

Rotation counts ROTATION_M metres per radian, so that where both cannot be had (an arm of five joints) the TCP's
position is followed first.
"""

from __future__ import annotations

import numpy as np

EPSILON = 0.02
MAX_DAMPING = 0.05
ROTATION_M = 0.1
WEIGHTS = np.array([1.0, 1.0, 1.0, ROTATION_M, ROTATION_M, ROTATION_M])


def damped_inverse(jacobian: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Invert a Jacobian (6, J) by damped least squares.

    Returns:
        The inverse, shape (J, 6), and orthonormal rows that span the joint speeds which move the TCP, shape
        (min(6, J), J).
    """
    left, values, right = np.linalg.svd(WEIGHTS[:, None] * jacobian, full_matrices=False)
    damping = MAX_DAMPING**2 * max(0.0, 1.0 - (float(values[-1]) / EPSILON) ** 2)
    gains = values / (values**2 + damping + 1e-12)
    return (right.T * gains) @ (left.T * WEIGHTS), right
