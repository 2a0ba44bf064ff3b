"""Checks of frames: dropped, out of order, late, frozen, dark or bright, with impossible values, or of jerky motion.

Pure functions over the arrays of one episode. T actions, T+1 frames; frame indices count from 0.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robot_stack.datasets.findings import CheckLimits, Span, spans, stretches
from robot_stack.types.command import Source
from robot_stack.types.spec import Spec

POSE = "tcp_pose"
"""Proprio field with a TCP's position in m and rotation vector in rad; with several arms "<arm>.tcp_pose"."""


def motion_axes(spec: Spec) -> np.ndarray:
    """Return the positions of everything but grippers in the action vector, int, shape (M,)."""
    return np.setdiff1d(np.arange(spec.action_size), spec.gripper_indices)


def jerky(executed: np.ndarray, source: np.ndarray, limits: CheckLimits) -> list[Span]:
    """Find stretches in which an operator's action leaps from one step to the next; value: the largest leap.

    A policy that explores leaps on purpose, so both steps must be the operator's.

    Args:
        executed: Without grippers, float32, shape (T, M), in [-1, 1].
        source: `Source`, shape (T,).
        limits: `jerk`.

    Returns:
        Spans of frames: the first one is where the action before the leap began.
    """
    leaps = np.abs(np.diff(executed, axis=0)).max(axis=1, initial=0.0)
    human = source == Source.HUMAN
    found = spans((leaps > limits.jerk) & human[1:] & human[:-1], leaps)
    return [Span(first=span.first, last=span.last + 1, value=span.value) for span in found]


def roughness(executed: np.ndarray) -> float:
    r"""Measure how rough a motion is, at any speed and length: :math:`\mathrm{rms}(\Delta^2 v) / \mathrm{rms}(v)`.

    v is the commanded velocity, so its second difference is the jerk per squared period. A dimensionless jerk in the
    sense of Hogan and Sternad, 2009 (J. Motor Behavior 41(6)), but without their cube of the duration, which would
    make a long demonstration a rough one. 0 for a constant velocity, 4 for one that turns over at each step.

    Args:
        executed: Without grippers, shape (T, M).

    Returns:
        NaN for fewer than three steps or an arm that never moves.
    """
    speed = float(np.sqrt(np.mean(np.square(executed, dtype=np.float64)))) if executed.size else 0.0
    if len(executed) < 3 or speed == 0.0:
        return float("nan")
    jerk = np.diff(executed.astype(np.float64), n=2, axis=0)
    return float(np.sqrt(np.mean(np.square(jerk)))) / speed


def outliers(values: Mapping[str, float], limits: CheckLimits) -> dict[str, float]:
    """Return the modified z-score of the episodes whose value lies far above the others'.

    0.6745 (x - median) / MAD, Iglewicz and Hoaglin, 1993; needs five values or more. NaN is left out.
    """
    known = {name: value for name, value in values.items() if np.isfinite(value)}
    if len(known) < 5:
        return {}
    array = np.array(list(known.values()))
    median = np.median(array)
    spread = max(float(np.median(np.abs(array - median))), 0.05 * abs(float(median)), 1e-9)
    scores = 0.6745 * (array - median) / spread
    return {name: float(score) for name, score in zip(known, scores, strict=True) if score > limits.jerk_score}


def dropped(stamp_ns: np.ndarray, period_s: float, limits: CheckLimits) -> list[Span]:
    """Find pairs of frames with more time between them than a period and its jitter; value: the gap in seconds.

    Args:
        stamp_ns: Control ticks, int64, shape (T+1,), nanoseconds.
        period_s: Of the control loop.
        limits: `gap_periods`.
    """
    gaps_s = np.diff(stamp_ns) * 1e-9
    at = np.flatnonzero(gaps_s > limits.gap_periods * period_s)
    return [Span(first=int(i), last=int(i) + 1, value=float(gaps_s[i])) for i in at]


def disordered(stamp_ns: np.ndarray) -> list[Span]:
    """Find pairs of frames of which the second is not later; value: seconds between them, at most 0."""
    gaps_s = np.diff(stamp_ns) * 1e-9
    return [Span(first=int(i), last=int(i) + 1, value=float(gaps_s[i])) for i in np.flatnonzero(gaps_s <= 0)]


def late(age_s: np.ndarray, limits: CheckLimits) -> list[Span]:
    """Find stretches of frames with an old part; value: the largest age in seconds. `age_s`: shape (T+1,)."""
    return spans(age_s > limits.late_s, age_s)


def skewed(skew_s: np.ndarray, period_s: float, limits: CheckLimits) -> list[Span]:
    """Find stretches of frames whose parts were not captured together; value: seconds. `skew_s`: shape (T+1,)."""
    return spans(skew_s > limits.skew_periods * period_s, skew_s)


def frozen(images: np.ndarray, travelled: np.ndarray, limits: CheckLimits) -> list[Span]:
    """Find stretches in which a camera repeats one image while the arm moves; value: how far, in full steps.

    A scene in which nothing moves may well look the same twice, so the arm must have moved. The first frame of a span
    is the one that is repeated.

    Args:
        images: uint8, shape (T+1, H, W, 3).
        travelled: Distance from each frame to the next, shape (T,), as `travel` returns it.
        limits: `frozen_pairs`, `frozen_steps`.
    """
    rows = images.reshape(len(images), -1)
    same = (rows[1:] == rows[:-1]).all(axis=1)
    found = []
    for first, last in stretches(same):
        moved = float(travelled[first : last + 1].sum())
        if last - first + 1 >= limits.frozen_pairs and moved >= limits.frozen_steps:
            found.append(Span(first=first, last=last + 1, value=moved))
    return found


def blank(images: np.ndarray, limits: CheckLimits) -> list[Span]:
    """Find stretches of images that are nearly black or nearly white; value: the mean pixel of the first. uint8."""
    means: np.ndarray = images[:, ::2, ::2].reshape(len(images), -1).mean(axis=1, dtype=np.float32)
    return [
        Span(first=a, last=b, value=float(means[a]))
        for mask in (means < limits.dark, means > limits.bright)
        for a, b in stretches(mask)
    ]


def out_of_range(arrays: Mapping[str, np.ndarray]) -> list[tuple[str, Span]]:
    """Find stretches of rows with an entry that cannot be, with the name of their array.

    Actions must be finite and within [-1, 1], proprio finite, ages and skews finite and at least 0. Value: the first
    bad entry.
    """
    found = []
    for name in ("executed", "proposed", "human"):
        found += _bad(name, arrays[name], ~(np.abs(arrays[name]) <= 1.0 + 1e-5))
    found += _bad("proprio", arrays["proprio"], ~np.isfinite(arrays["proprio"]))
    for name in ("age_s", "skew_s", "params_age_s"):
        found += _bad(name, arrays[name], ~((arrays[name] >= 0) & (arrays[name] < np.inf)))
    return found


def _bad(name: str, values: np.ndarray, mask: np.ndarray) -> list[tuple[str, Span]]:
    rows = mask.reshape(len(mask), -1)
    flat = values.reshape(len(values), -1)
    bad = np.asarray(rows.any(axis=1))
    return [(name, Span(first=a, last=b, value=float(flat[a, int(rows[a].argmax())]))) for a, b in stretches(bad)]


def travel(proprio: np.ndarray, executed: np.ndarray, spec: Spec) -> np.ndarray:
    """Measure how far the arm that moved most came from each frame to the next, in control steps at full speed.

    Measured where the proprio vector has the pose of a TCP, else as commanded.

    Args:
        proprio: float32, shape (T+1, P).
        executed: float32, shape (T, A), in [-1, 1].
        spec: Of the cell.

    Returns:
        float64, shape (T,).
    """
    parts = []
    at = 0
    for arm in spec.arms:
        axes = executed[:, at : at + len(arm.axes)].astype(np.float64)
        parts.append(np.abs(axes).max(axis=1, initial=0.0))
        at += arm.size
    measured = poses(proprio, spec)
    if measured:
        parts = []
        for name, pose in measured.items():
            arm = next((a for a in spec.arms if name == f"{a.name}.{POSE}"), spec.arms[0])
            step = np.diff(pose, axis=0)
            parts.append(np.linalg.norm(step[:, :3], axis=1) / arm.translation_m)
            parts.append(np.linalg.norm(step[:, 3:], axis=1) / arm.rotation_rad)
    return np.max(parts, axis=0)


def poses(proprio: np.ndarray, spec: Spec) -> dict[str, np.ndarray]:
    """Return the TCP poses, float64, shape (T+1, 6), of each proprio field that holds some."""
    found, at = {}, 0
    for field in spec.proprio:
        if field.size == 6 and field.name.split(".")[-1] == POSE:
            found[field.name] = proprio[:, at : at + 6].astype(np.float64)
        at += field.size
    return found


def jumps(proprio: np.ndarray, spec: Spec, limits: CheckLimits) -> list[Span]:
    """Find pairs of frames between which a TCP's position jumps; value: metres. Empty where no pose is recorded.

    Only positions: a rotation vector turns over at half a turn without any motion.
    """
    found = []
    for name, pose in poses(proprio, spec).items():
        arm = next((a for a in spec.arms if name == f"{a.name}.{POSE}"), spec.arms[0])
        far = np.linalg.norm(np.diff(pose[:, :3], axis=0), axis=1)
        at = np.flatnonzero(far > limits.jump_steps * arm.translation_m * np.sqrt(3))
        found += [Span(first=int(i), last=int(i) + 1, value=float(far[i])) for i in at]
    return found
