"""The rule of `replay_rules` about tracking: what was measured is what was commanded, proved from a log alone.

It shares no code with `control.safety.tracking`, and looks at other windows: half a second at a time, each a tenth of
a second after the one before, of ticks in which somebody drove. The commanded way is summed up in the base frame and
shifted by the lag that fits best. A contact, a force apart from the median of what was felt while nobody drove, may
stop or bend the motion, but not lengthen it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from robot_stack.control.audit.logged import MODES, LogArrays
from robot_stack.types.command import MOVING_MODES

WINDOW_NS, STRIDE_NS = 500_000_000, 100_000_000
FEW_JOINTS = range(1, 6)
"""An arm of so many cannot follow every rotation."""
LAGS_NS = np.arange(0, 260_000_000, 20_000_000)
CONTACT_N, APART_N = 3.0, 2.0
"""A smaller force is none, and one nearer to that at rest no contact."""
TOO_FAR, FAR_M, FAR_RAD = 1.6, 0.02, 0.12
"""The arm may go this many times as far as commanded, and this much further."""
WAY_M, WAY_RAD = 0.012, 0.1
"""A shorter way says nothing of its direction."""
WORST_ANGLE_RAD = 1.25
TURN_RAD_M = 10.0
"""An arm of fewer than six joints may turn its hand by so much on its way."""
STUCK_M, STUCK_RAD = 0.006, 0.05
"""A commanded way that moves the joints of a living arm."""


def strays(log: LogArrays) -> Iterator[tuple[int, str]]:
    """Yield windows in which an arm did not do what it was told: index of their last tick, and a sentence."""
    if len(log.stated) < 2:
        return
    stamps = log.stamp_ns[log.stated]
    driven = np.isin(log.mode[log.stated], [MODES.index(mode) for mode in MOVING_MODES])
    free = _free(log, driven)
    ways, paths = _ways(log, stamps)
    fresh = np.concatenate([[True], np.diff(log.joints_rad, axis=0).any(axis=1) | _moved(log)])
    end_ns = stamps[0] + WINDOW_NS
    while end_ns <= stamps[-1]:
        first, last = np.searchsorted(stamps, [end_ns - WINDOW_NS, end_ns])
        settled = int(np.searchsorted(stamps, end_ns - WINDOW_NS - LAGS_NS[-1]))
        end_ns += STRIDE_NS
        span = slice(settled, last + 1)
        if last - first < 2 or last >= len(stamps) or not driven[span].all():
            continue
        untouched = bool(free[span].all())
        text = _judge(log, stamps, ways, paths, int(first), int(last), untouched=untouched)
        if not text and untouched:
            text = _stuck(log, fresh, paths, int(first), int(last))
        if text:
            yield int(log.stated[last]), text


def _free(log: LogArrays, driven: np.ndarray) -> np.ndarray:
    """Return for each tick with a state whether it touches nothing, shape (M,)."""
    force_n = log.rotation.apply(log.wrench[:, :3])
    rest_n = np.median(force_n[~driven], axis=0) if not driven.all() else np.zeros(3)
    apart_n = np.linalg.norm(force_n - rest_n, axis=1)
    return np.asarray((np.linalg.norm(force_n, axis=1) < CONTACT_N) | (apart_n < APART_N))


def _ways(log: LogArrays, stamps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sums of the commanded motion up to each tick: base frame (M, 6), and lengths (M, 2)."""
    twist = log.twist[log.stated]
    based = np.hstack([log.rotation.apply(twist[:, :3]), log.rotation.apply(twist[:, 3:])])
    dt_s = np.minimum(np.diff(stamps) / 1e9, 0.05)[:, None]
    lengths = np.column_stack([np.linalg.norm(twist[:, :3], axis=1), np.linalg.norm(twist[:, 3:], axis=1)])
    ways = np.vstack([np.zeros(6), np.cumsum(based[:-1] * dt_s, axis=0)])
    return ways, np.vstack([np.zeros(2), np.cumsum(lengths[:-1] * dt_s, axis=0)])


def _moved(log: LogArrays) -> np.ndarray:
    return np.asarray(np.diff(log.position_m, axis=0).any(axis=1))


def _judge(
    log: LogArrays, stamps: np.ndarray, ways: np.ndarray, paths: np.ndarray, first: int, last: int, *, untouched: bool
) -> str:
    went_m = log.position_m[last] - log.position_m[first]
    went_rad = (log.rotation[last] * log.rotation[first].inv()).as_rotvec()
    begin, end = (_sampled(stamps, ways, stamps[index] - LAGS_NS) for index in (first, last))
    longest = (_sampled(stamps, paths, stamps[last] - LAGS_NS) - _sampled(stamps, paths, stamps[first] - LAGS_NS)).max(
        0
    )
    asked = end - begin
    turns = log.joints_rad.shape[1] not in FEW_JOINTS
    if not turns:
        longest[1] += TURN_RAD_M * longest[0]
    for went, half, most, slack, least, unit in (
        (went_m, asked[:, :3], longest[0], FAR_M, WAY_M, "m"),
        (went_rad, asked[:, 3:], longest[1], FAR_RAD, WAY_RAD, "rad"),
    ):
        size = float(np.linalg.norm(went))
        if size > TOO_FAR * float(most) + (slack if untouched else 2.0 * slack):
            return f"TCP went {size:.3f} {unit} in half a second of {most:.3f} commanded"
        sizes = np.linalg.norm(half, axis=1)
        if untouched and size > least and sizes.min() > least and (turns or unit == "m"):
            angle = float(np.arccos(np.clip((half @ went) / (sizes * size), -1.0, 1.0)).min())
            if angle > WORST_ANGLE_RAD:
                return f"TCP went {size:.3f} {unit}, {np.degrees(angle):.0f} degrees off the commanded way"
    return ""


def _stuck(log: LogArrays, fresh: np.ndarray, paths: np.ndarray, first: int, last: int) -> str:
    way_m, way_rad = paths[last] - paths[first]
    turned = way_rad >= STUCK_RAD and log.joints_rad.shape[1] not in FEW_JOINTS
    if fresh[first + 1 : last + 1].any() or (way_m < STUCK_M and not turned):
        return ""
    return f"no joint moved in half a second in which {way_m:.3f} m and {way_rad:.2f} rad were commanded"


def _sampled(stamps: np.ndarray, sums: np.ndarray, when_ns: np.ndarray) -> np.ndarray:
    """Return the sums at some instants, interpolated, shape (L, columns)."""
    return np.column_stack([np.interp(when_ns, stamps, column) for column in sums.T])
