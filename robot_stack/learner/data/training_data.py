"""Training data of encoders, baselines and reward models, made from recorded episodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.spatial.transform import Rotation

from policies.encoders.embedded import DemoFrames
from robot_stack.replay.grippers import DiscreteGrippers
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.pose import Pose
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EpisodeKind

TO_GO_SCALE = np.array([0.03, 0.03, 0.03, 0.15, 0.15, 0.15])
"""Metres and radians of "to go" that count as one."""
LEVER_M = 0.05
"""How far from the TCP lies the point whose way counts as progress when the tool turns; about the size of a tool."""


def gripper_changes(episode: StoredEpisode) -> list[int]:
    """Return the frames of an episode at which a discrete gripper is opened or closed, in order."""
    proprio, executed = episode.arrays["proprio"], episode.arrays["executed"]
    grippers = DiscreteGrippers(episode.spec)
    is_open, found = grippers.at_start(proprio[0]), []
    for frame, action in enumerate(executed):
        before, is_open = is_open, grippers.after(action, is_open)
        if (before != is_open).any():
            found.append(frame)
    return found


def next_goals(episode: StoredEpisode, shown: int | None = None) -> np.ndarray:
    """Return the frame to which each frame of a success leads, int64, shape (T+1,).

    It is the next one at which a discrete gripper is opened or closed, there included, or else the last: where a part
    is taken or left, the arm has come to where it wanted to be. Without such a gripper it is always the last frame.

    Source: keyframes where the gripper changes, as in James and Davison, 2022, arXiv:2105.14829.

    Args:
        episode: A success.
        shown: Changes that a demonstration has at most. Of any other success only so many count, the last ones: a
            policy that closed beside the part and opened again had not come to where it wanted to be. None: all count.
    """
    changes, last = gripper_changes(episode), len(episode.arrays["executed"])
    if shown is not None and episode.header.kind is not EpisodeKind.DEMO:
        changes = changes[max(0, len(changes) - shown) :]
    goals, begun = np.full(last + 1, last), 0
    for frame in changes:
        goals[begun : frame + 1], begun = frame, frame + 1
    return goals


def to_go(proprio: np.ndarray, spec: Spec, goals: np.ndarray | None = None) -> np.ndarray:
    """Return the displacement of each TCP from each frame to the one it leads to, in that frame's tcp frame.

    Hindsight from proprioception of a finished demonstration: no object pose is known.

    Args:
        proprio: float32, shape (T+1, P), with the `tcp_pose` of each arm relative to its start pose.
        spec: Of the cell; where poses are not recorded, as of an environment, there is nothing to go that is known.
        goals: From `next_goals`; None is the episode's last frame for all.

    Returns:
        One column per active axis of the arms, scaled by `TO_GO_SCALE`, float32, shape (T+1, G).
    """
    one, recorded = len(spec.arms) == 1, {field.name for field in spec.proprio}
    if not recorded & {"tcp_pose", *(f"{arm.name}.tcp_pose" for arm in spec.arms)}:
        return np.zeros((len(proprio), 0), np.float32)
    goals = np.full(len(proprio), len(proprio) - 1) if goals is None else goals
    parts = [
        _left(proprio[:, spec.part("tcp_pose" if one else f"{arm.name}.tcp_pose")], goals)[:, list(arm.axis_indices)]
        for arm in spec.arms
    ]
    return np.concatenate(parts, axis=1).astype(np.float32)


def _left(rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Return the displacement from each pose (T+1, 6) to that of its goal, in its frame, scaled; float64 (T+1, 6)."""
    poses = [Pose.from_rotation(row[:3], Rotation.from_rotvec(row[3:])) for row in rows.astype(np.float64)]
    left = [poses[goal].relative_to(pose) for pose, goal in zip(poses, goals, strict=True)]
    return np.array([np.concatenate([pose.position_m, pose.rotation.as_rotvec()]) for pose in left]) / TO_GO_SCALE


def distance_progress(proprio: np.ndarray, spec: Spec) -> np.ndarray:
    """Return the progress of a success whose end is a pose: how much nearer the arms are to it than at the start.

    Hindsight from proprioception alone, and not from the clock: pauses and detours are no progress, going back is less
    of it. Of no use where the arm must go away from its last pose first, as in picking and placing.

    Returns:
        1 - d_t / d_0, float64, shape (T+1,), in [0, 1], d in metres with a radian worth `LEVER_M`; the share in time if
        the arm never moved.
    """
    way = TO_GO_SCALE * [1.0, 1.0, 1.0, LEVER_M, LEVER_M, LEVER_M]
    metres = np.concatenate([way[list(arm.axis_indices)] for arm in spec.arms])
    left = np.linalg.norm(to_go(proprio, spec) * metres, axis=1)
    if left[0] < 1e-6:
        return np.linspace(0.0, 1.0, len(proprio))
    return np.clip(1.0 - left / left[0], 0.0, 1.0)


def demo_frames(episodes: Sequence[StoredEpisode]) -> Iterator[DemoFrames]:
    """Convert demonstrations and other successes to input of `fit_trunk`, one by one."""
    counts = [len(gripper_changes(each)) for each in episodes if each.header.kind is EpisodeKind.DEMO]
    return (_demo_frames(each, max(counts, default=None)) for each in episodes)


def _demo_frames(episode: StoredEpisode, shown: int | None) -> DemoFrames:
    arrays, spec = episode.arrays, episode.spec
    return DemoFrames(
        images={camera.name: arrays[f"image_{camera.name}"] for camera in spec.cameras},
        proprio=sensed_only(arrays["proprio"], spec),
        actions=arrays["executed"],
        to_go=to_go(arrays["proprio"], spec, next_goals(episode, shown)),
    )


def sensed_only(proprio: np.ndarray, spec: Spec) -> np.ndarray:
    """Return proprio (T, P) with zeros for what a base policy says: how far a task is does not depend on that."""
    sensed = spec.sensed.proprio_size
    if sensed == spec.proprio_size:
        return proprio
    return np.concatenate([proprio[:, :sensed], np.zeros_like(proprio[:, sensed:])], axis=1)


def reward_inputs(features: np.ndarray, proprio: np.ndarray) -> np.ndarray:
    """Join features (T, F) and proprio (T, P) side by side as input of the progress model, float32."""
    return np.concatenate([features.astype(np.float32), proprio], axis=1)


def proprio_columns(inputs: int, spec: Spec) -> tuple[tuple[str, int, int], ...]:
    """Return name, start and stop of the columns of each part of proprio in `inputs` of `reward_inputs`."""
    first = inputs - spec.proprio_size
    parts = ((field.name, spec.part(field.name)) for field in spec.proprio)
    return tuple((name, first + part.start, first + part.stop) for name, part in parts)
