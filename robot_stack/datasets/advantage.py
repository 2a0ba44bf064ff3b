"""Progress and advantage of recorded steps, for programs that train on some steps more than on others.

Source: RECAP of π*0.6, Physical Intelligence 2025, arXiv:2511.14759: actions are told apart by whether they did better
than expected, and an operator's corrections always count as good. Deviations: the value function is the progress Φ of
the run's reward model instead of one trained on returns, and the threshold is drawn over the policy's own steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from robot_stack.datasets.declared import check_scores
from robot_stack.datasets.store_view import StoreView
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.replay.outcome import Outcome, trained_outcome
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.transition import EpisodeKind

LOOKAHEAD_S = 1.0
"""Over which an advantage is taken."""
POSITIVE_SHARE = 0.3
"""Most of the policy's own steps of a task that count as better than expected; fewer where many are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWorth:
    """The worth of the T steps of an episode.

    Attributes:
        progress: Φ at each step's frame, float32 (T,), in [0, 1].
        advantage: By how much more the task progressed in the next second than in a usual success, float32 (T,).
        positive: Whether the step counts as better than expected, bool (T,): an operator's always does, but in a
            demonstration that failed, whose are judged as the policy's are; one in which nobody moved the arm never.
    """

    progress: np.ndarray
    advantage: np.ndarray
    positive: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Advantages:
    """The worth of all steps of several episodes.

    Attributes:
        version: Of the reward model whose progress it is.
        usual_steps: L per task id, the length of a usual success.
        episodes: Episode id -> its steps.
        left_out: Episodes that this model has not scored.
    """

    version: str
    usual_steps: Mapping[str, float]
    episodes: Mapping[str, StepWorth]
    left_out: tuple[str, ...]


def measure_advantages(view: StoreView, episode_ids: Sequence[str], version: str | None) -> Advantages:
    r"""Measure the advantage of each step.

    :math:`A_t = \Phi_{t+n} - \Phi_t - n / L` with n the steps of a second, fewer at the end of an episode, and
    L the median length of the task's successes among them: a step that a usual success takes too has 0. At its end an
    episode has :math:`\Phi_T` = 1 if it succeeded, 0 if it failed, and what was scored if it was cut short, be it by a
    claim of success that was refused.

    Args:
        view: The folder.
        episode_ids: Which.
        version: Of the reward model; None: the one that scored most of them.

    Raises:
        StoreError: If there is no such version, the scores of an episode are not of its frames, or a task has no
            success.
    """
    view.check_there(episode_ids)
    chosen, scored = _scores(view, episode_ids, version)
    kept = [episode_id for episode_id in episode_ids if episode_id in scored]
    episodes = {episode_id: view.read(episode_id, images=False) for episode_id in kept}
    counts = {name: trained_outcome(view.labels_of(name), episode.end) for name, episode in episodes.items()}
    usual = _usual_steps(episodes, counts)
    ahead = max(1, round(LOOKAHEAD_S * view.spec.rate_hz))
    progress, advantage = {}, {}
    for name, episode in episodes.items():
        phi = _filled(scored[name], episode)
        progress[name] = phi[:-1]
        advantage[name] = _advantage(phi, counts[name], usual[episode.header.task_id], ahead)
    source = {name: episode.arrays["source"] for name, episode in episodes.items()}
    shown = {name: not _demo_without_success(episode, counts[name]) for name, episode in episodes.items()}
    thresholds = _thresholds(episodes, advantage, {name: each == Source.POLICY for name, each in source.items()})
    return Advantages(
        version=chosen,
        usual_steps=usual,
        episodes={
            name: StepWorth(
                progress=progress[name],
                advantage=advantage[name],
                positive=((source[name] == Source.HUMAN) & shown[name])
                | (
                    np.isin(source[name], (Source.POLICY, Source.HUMAN))
                    & (advantage[name] > thresholds[episodes[name].header.task_id])
                ),
            )
            for name in episodes
        },
        left_out=tuple(episode_id for episode_id in episode_ids if episode_id not in scored),
    )


def _scores(view: StoreView, episode_ids: Sequence[str], version: str | None) -> tuple[str, Mapping[str, np.ndarray]]:
    """Return the version and its progress of each of these episodes that it has scored, (T+1,)."""
    check_scores(view.paths.scores)
    files = ScoreFiles(view.paths.scores)
    found = {
        each: {one.episode_id: one.progress for one in files.read(each) if one.episode_id in episode_ids}
        for each in files.versions
    }
    told = ", ".join(f"{each} ({len(scored)})" for each, scored in found.items()) or "none"
    if version is None:
        most = max((len(scored) for scored in found.values()), default=0)
        best = [each for each, scored in found.items() if most and len(scored) == most]
        if len(best) != 1:
            raise StoreError(
                f"{len(best)} reward models have scored most of the {len(episode_ids)} episodes, must be one; name it "
                f"with --scores, or let the run score them; there are: {told}"
            )
        version = best[0]
    if not found.get(version):
        raise StoreError(f"{version!r} has scored none of these episodes, must have scored some; there are: {told}")
    return version, found[version]


def _demo_without_success(episode: StoredEpisode, counts: Outcome) -> bool:
    return episode.header.kind is EpisodeKind.DEMO and counts is not Outcome.SUCCESS


def _usual_steps(episodes: Mapping[str, StoredEpisode], counts: Mapping[str, Outcome]) -> dict[str, float]:
    """Return the median length of the successes of each task."""
    lengths: dict[str, list[int]] = {}
    for name, episode in episodes.items():
        found = lengths.setdefault(episode.header.task_id, [])
        if counts[name] is Outcome.SUCCESS:
            found.append(episode.length)
    for task, found in lengths.items():
        if not found:
            raise StoreError(f"no success of {task} is among the episodes, must be one: how long it takes is not known")
    return {task: float(np.median(found)) for task, found in lengths.items()}


def _filled(progress: np.ndarray, episode: StoredEpisode) -> np.ndarray:
    """Return Φ of each frame, (T+1,); a frame without a valid score has that of the nearest one before, or after."""
    known = np.flatnonzero(~np.isnan(progress))
    if len(progress) != episode.length + 1 or not len(known):
        raise StoreError(
            f"episode {episode.header.episode_id} has {len(known)} valid scores for {episode.length + 1} frames, must "
            "have one at least; leave it out"
        )
    nearest = np.maximum(np.searchsorted(known, np.arange(len(progress)), side="right") - 1, 0)
    return progress[known[nearest]]


def _advantage(progress: np.ndarray, counts: Outcome, usual_steps: float, ahead: int) -> np.ndarray:
    steps = len(progress) - 1
    later = np.minimum(np.arange(steps) + ahead, steps)
    worth = progress.astype(np.float64)
    if counts in (Outcome.SUCCESS, Outcome.FAILURE):
        worth[-1] = counts is Outcome.SUCCESS
    expected = (later - np.arange(steps)) / usual_steps
    return (worth[later] - progress[:-1] - expected).astype(np.float32)


def _thresholds(
    episodes: Mapping[str, StoredEpisode], advantage: Mapping[str, np.ndarray], by_policy: Mapping[str, np.ndarray]
) -> dict[str, float]:
    """Return per task the advantage above which at most `POSITIVE_SHARE` of the policy's own steps are."""
    own: dict[str, list[np.ndarray]] = {}
    for name, episode in episodes.items():
        own.setdefault(episode.header.task_id, []).append(advantage[name][by_policy[name]])
    whole = {task: np.concatenate(found) for task, found in own.items()}
    return {
        task: float(np.quantile(found, 1 - POSITIVE_SHARE)) if len(found) else np.inf for task, found in whole.items()
    }
