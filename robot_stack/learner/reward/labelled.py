"""A run's recorded episodes with the verdicts of operators or the simulator, as reward models are evaluated on."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from reward_models.interface import Frame, Instruction, LabelledEpisode
from robot_stack.learner.data.training_data import sensed_only
from robot_stack.replay.annotations import read_labels
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.layout import SUFFIX, StorePaths
from robot_stack.replay.stored_episode import StoredEpisode, read_episode
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import RewardError, StoreError
from robot_stack.types.event import LabelSource, Verdict

_RANK = (LabelSource.TRUTH, LabelSource.OPERATOR)
"""Whose verdict is the label: the simulator's where there is one, else the operator's. Never the model's own."""


REFERENCE_FRAMES = 11
"""Images of a demonstration that are kept for models that look at one; each takes as many as it was made for."""


def labels_of(folder: Path) -> dict[str, Verdict]:
    """Return each episode's success or failure, by the simulator or the operator; others are left out.

    So is what the operator has discarded, whatever the simulator says of it.

    Args:
        folder: Of the run, which may still be going on, or of a dataset: nothing in it is touched.
    """
    said: dict[str, dict[LabelSource, Verdict]] = {}
    labels = read_labels(store_of(folder).labels).rows
    for label in sorted(
        labels, key=lambda label: (label.stamp_unix_s, label.verdict)
    ):  # of one source the newest counts
        said.setdefault(label.episode_id, {})[label.source] = label.verdict
    found: dict[str, Verdict] = {}
    for episode_id, verdicts in said.items():
        verdict = next((verdicts[source] for source in _RANK if source in verdicts), None)
        discarded = verdicts.get(LabelSource.OPERATOR) is Verdict.DISCARD
        if verdict in (Verdict.SUCCESS, Verdict.FAILURE) and not discarded:
            found[episode_id] = verdict
    return found


def labelled_episodes(
    folder: Path, text: str, *, newest: int | None = None, trained_on: Collection[str] = ()
) -> tuple[list[LabelledEpisode], dict[str, str]]:
    """Read the recorded episodes that have a label, by name, and tell why others are left out.

    Progress is not known. That a success is done is known only of its last frame: it was true before somebody said so,
    so a model that says it earlier is not early.

    Args:
        folder: Of the run, or of a dataset.
        text: What the robot was told.
        newest: Only so many, the newest; all if None.
        trained_on: Names of those that the model was trained on, which are left out.
    """
    labels = labels_of(folder)
    found: list[LabelledEpisode] = []
    left_out: dict[str, str] = {}
    for path in sorted(store_of(folder).episodes.glob("*" + SUFFIX), reverse=True):
        if newest is not None and len(found) == newest:
            break
        if path.stem not in labels:
            left_out[path.stem] = "nobody has said whether it succeeded"
            continue
        if path.stem in trained_on:
            left_out[path.stem] = "the model was trained on it"
            continue
        stored = _read(path)
        if isinstance(stored, str):
            left_out[path.stem] = stored
        else:
            found.append(_labelled(stored, labels[path.stem] is Verdict.SUCCESS, text))
    return found[::-1], left_out


def first_successes(folder: Path, text: str, count: int) -> list[LabelledEpisode]:
    """Read the first `count` successes of a run, or all that there are, and no other episode of it."""
    labels = labels_of(folder)
    paths = sorted(store_of(folder).episodes.glob("*" + SUFFIX))
    won = (_read(path) for path in paths if labels.get(path.stem) is Verdict.SUCCESS)
    return [
        _labelled(stored, True, text)
        for stored in itertools.islice((one for one in won if isinstance(one, StoredEpisode)), count)
    ]


def _read(path: Path) -> StoredEpisode | str:
    """Read an episode that a model can be evaluated on, or return why it cannot."""
    try:
        stored = read_episode(path)
    except StoreError as error:
        return str(error)
    if stored.end is None or stored.length < 1:
        return "it has not ended"
    return stored if stored.header.first_task else f"it is of the task {stored.header.task_id}"


def store_of(folder: Path) -> StorePaths:
    """Return where the episodes of a run or of a dataset lie."""
    own = RunPaths(folder).store
    return own if own.identity.is_file() else StorePaths(folder)


def shown_task(text: str, demo: Sequence[Frame]) -> Instruction:
    """Say the task in words, and show it by a demonstration: its end, and some of its frames."""
    picked = np.unique(np.linspace(0, len(demo) - 1, REFERENCE_FRAMES).astype(int))
    return Instruction(text=text, goal=demo[-1], reference=tuple(demo[t] for t in picked))


def shown_by_first_success(
    episodes: Sequence[LabelledEpisode], left_out: dict[str, str]
) -> tuple[list[LabelledEpisode], dict[str, str]]:
    """Show the first success to a model, as a run shows its first demonstration, and evaluate on the others.

    Raises:
        RewardError: If there is no success to show, or nothing else is left.
    """
    first = next((episode for episode in episodes if episode.success), None)
    rest = [episode for episode in episodes if episode is not first]
    if first is None or not rest:
        raise RewardError(
            f"labelled episodes are {len(episodes)}, must be a success, which the model is shown, and others to score; "
            "record or label more"
        )
    task = shown_task(first.instruction.text, first.frames)
    told = {first.name: "it is the demonstration that the model is shown"}
    return [replace(episode, instruction=task) for episode in rest], left_out | told


def _labelled(stored: StoredEpisode, success: bool, text: str) -> LabelledEpisode:
    frames = recorded_frames(stored)
    return LabelledEpisode(
        name=stored.header.episode_id,
        kind="success" if success else "fail",
        frames=frames,
        instruction=Instruction(text=text),
        success=success,
        done_at=len(frames) - 1 if success else None,
        progress=np.full(len(frames), np.nan),
    )


def recorded_frames(stored: StoredEpisode) -> tuple[Frame, ...]:
    """Return the frames of an episode on disk, T+1 of them."""
    arrays, proprio = stored.arrays, sensed_only(stored.arrays["proprio"], stored.spec)
    return tuple(
        Frame(
            images={camera.name: arrays[IMAGE_PREFIX + camera.name][t] for camera in stored.spec.cameras},
            proprio=proprio[t],
        )
        for t in range(len(proprio))
    )
