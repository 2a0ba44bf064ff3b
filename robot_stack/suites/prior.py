"""Prior data from files of other people, as a replay of which half of each batch is drawn."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from robot_stack.replay.replay import Replay
from robot_stack.replay.rewards import RewardRule
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind

LAYOUT = ("observations", "actions", "masks", "terminals")


def prior_replay(spec: Spec, rule: RewardRule, arrays: Mapping[str, np.ndarray]) -> Replay:
    """Return the transitions of recorded trajectories, cut into episodes at each success.

    A trajectory may pass through success and go on, as play does; here the task ends there, and what follows is the
    beginning of another episode.

    Args:
        spec: Of a cell without cameras; the numbers of an observation are its proprio.
        rule: What outcomes are worth.
        arrays: In a layout of OGBench, one trajectory after the other. That of its files: `observations` (N, P),
            `actions` (N, A) in [-1, 1], `masks` (N,), 0 where the action was the task's last, and `terminals` (N,),
            true in the last row of each trajectory, whose action leads to nothing that was recorded. Those that its
            `load_dataset` returns (ogbench/utils.py at 1d4140997f60): with `next_observations` (N, P) there is no such
            row, and with `valids` (N,), false in it, `terminals` are true in the row before too.

    Raises:
        SpecError: If an array is missing, of another size or not finite, or if successes are marked where nothing
            follows, as in D4RL.
    """
    arrays = _as_in_files(arrays)
    rows = _checked(spec, arrays)
    replay = Replay(spec, rule, keep_images=False)
    ended = np.asarray(arrays["masks"]) == 0
    last = np.flatnonzero(arrays["terminals"])
    number = 0
    for first, final in zip([0, *(last[:-1] + 1)], last, strict=True):
        cuts = first + np.flatnonzero(ended[first:final]) + 1
        for start, stop in zip([first, *cuts], [*cuts, final], strict=True):
            if stop > start:
                end = EndReason.SUCCESS if ended[stop - 1] else EndReason.TIMEOUT
                replay.add_episode(_episode(spec, rows, slice(start, stop + 1), number=number, end=end))
                number += 1
    return replay


def _as_in_files(arrays: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Return arrays of another of OGBench's layouts in that of its files: with the last observation of each trajectory.

    Raises:
        SpecError: If those beside each other are of other lengths.
    """
    beside = [name for name in ("next_observations", "valids") if name in arrays]
    known = {name: arrays[name] for name in (*LAYOUT, *beside) if name in arrays}
    if not beside or set(LAYOUT) - set(arrays) or "timeouts" in arrays:  # which is refused
        return arrays
    if len({len(each) for each in known.values()}) > 1:
        lengths = {name: len(each) for name, each in known.items()}
        raise SpecError(f"lengths of the prior data are {lengths}, must be the same; they are of several datasets")
    if "valids" in arrays:
        return {**arrays, "terminals": np.asarray(arrays["valids"]) == 0}
    last = np.flatnonzero(arrays["terminals"])
    ends = {
        "observations": np.asarray(arrays["next_observations"])[last],
        "actions": np.zeros((len(last), *np.shape(arrays["actions"])[1:])),
        "masks": np.ones(len(last)),
        "terminals": np.ones(len(last)),
    }
    before = {**arrays, "terminals": np.zeros(len(arrays["terminals"]))}
    return {name: np.insert(before[name], last + 1, ends[name], axis=0) for name in LAYOUT}


def _episode(spec: Spec, rows: Mapping[str, np.ndarray], part: slice, *, number: int, end: EndReason) -> StoredEpisode:
    frames = rows["observations"][part]
    actions = rows["actions"][part][:-1]
    count = len(actions)
    header = EpisodeHeader(
        episode_id=f"{number:07d}-prior",
        kind=EpisodeKind.ONLINE,
        task="prior",
        actor="prior",
        started_unix_s=0.0,
        seed=number,
    )
    arrays = {
        "proprio": frames,
        "stamp_ns": np.arange(len(frames)) * round(spec.period_s * 1e9),
        "executed": actions,
        "proposed": actions,
        "human": np.zeros_like(actions),
        "gripper_pressed": np.zeros(count, np.bool_),
        "source": np.full(count, Source.POLICY, np.uint8),
    }
    return StoredEpisode(header=header, spec=spec, end=end, arrays=arrays)


def _checked(spec: Spec, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return observations and actions as float32, if all arrays fit."""
    if missing := sorted(set(LAYOUT) - set(arrays)):
        raise SpecError(f"arrays of the prior data are {sorted(arrays)}, must have {missing} too; add them")
    count = len(arrays["terminals"])
    wanted = {"observations": (count, spec.proprio_size), "actions": (count, spec.action_size), "masks": (count,)}
    for name, shape in wanted.items():
        if arrays[name].shape != shape:
            raise SpecError(f"shape of {name} is {arrays[name].shape}, must be {shape}; it is of another environment")
    rows = {name: np.asarray(arrays[name], np.float32) for name in ("observations", "actions")}
    for name, values in rows.items():
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values).all(axis=1)))
            raise SpecError(f"{name} of row {row} are {values[row]}, must be finite; leave its trajectory out")
    if count and np.abs(rows["actions"]).max() > 1.0 + 1e-5:
        raise SpecError(f"largest action is {np.abs(rows['actions']).max()}, must be at most 1; scale them to [-1, 1]")
    if "timeouts" in arrays:
        raise SpecError(
            "arrays have 'timeouts', as D4RL's do, must have terminals alone, true in the last row of each trajectory; "
            "make terminals of both, and repeat the last observation behind each success"
        )
    ended = np.asarray(arrays["masks"]) == 0
    if ended.any() and (ended <= (np.asarray(arrays["terminals"]) != 0)).all():
        raise SpecError(
            "masks are 0 only in last rows of trajectories, behind which nothing was recorded, must be 0 in the row "
            "before the last; repeat the last observation behind each success"
        )
    if not count or not arrays["terminals"][-1]:
        raise SpecError("terminals do not end with true, must in the last row; cut the unfinished trajectory off")
    return rows
