"""One-shot adaptation of a run's reward model to a changed scene, cell or operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from policies.encoders.thumbnails import thumbnails_of
from policies.encoders.trunk import encode_frames
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig
from reward_models.progress.fit import fit
from reward_models.progress.model import ProgressModel
from robot_stack.config.resolve import load_resolved
from robot_stack.learner.data.training_data import distance_progress, reward_inputs, sensed_only
from robot_stack.learner.fitting import OnStep, save_reward
from robot_stack.learner.reward.evaluation import check_same_cell
from robot_stack.learner.reward.labelled import labels_of, store_of
from robot_stack.learner.reward.success_model import newest_model
from robot_stack.learner.settings import learning_settings
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.durable import writing
from robot_stack.replay.layout import SUFFIX
from robot_stack.replay.stored_episode import StoredEpisode, read_episode
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.reward_version import newest_reward
from robot_stack.runs.rows import RewardFitRow
from robot_stack.types.errors import RewardError
from robot_stack.types.event import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Adapted:
    """A model that was adapted.

    Attributes:
        version: Of the adapted model, which is now the newest of its run.
        start: Of the model that it was before.
        episode: The demonstration.
        before: Φ at the end of the demonstration by the model as it was.
        after: The same by the adapted model, which has been trained on it.
    """

    version: str
    start: str
    episode: str
    before: float
    after: float


def adapt(
    model: ProgressModel,
    episodes: Sequence[ScoredEpisode],
    config: ProgressConfig,
    *,
    seed: int,
    on_step: OnStep = lambda step, steps, loss: None,
) -> ProgressModel:
    """Go on fitting a progress model on demonstrations of a changed scene, with the steps of a refit.

    Args:
        model: As the run has it.
        episodes: At least one success, on the features of the same trunk.
        config: Of the run.
        seed: Of the draws.
        on_step: Told of each step; may raise to end it.

    Raises:
        RewardError: If there is no success.
    """
    adapted, _ = fit(episodes, config.for_refit(), text=model.text, seed=seed, start=model, on_step=on_step)
    return adapted


def adapt_run(folder: Path, demo: Path, episode: str | None, *, on_step: OnStep) -> Adapted:
    """Adapt a run's newest reward model by one demonstration, and make the result the newest of the run.

    What judges by the run's newest model takes it from now on; a learner that goes on has that of its checkpoint.

    Args:
        folder: Of the run, which must not be going on.
        demo: Folder of a run or a dataset with the demonstration, recorded on the same cell.
        episode: Which; None is the newest success.
        on_step: Told of each step; may raise to end it.

    Raises:
        StoreError: If the run is going on, has no reward model yet, or the disk refuses.
        ConfigError: If the demonstration is of another cell.
        RewardError: If there is no such success, or the model is not one that can be adapted.
    """
    paths = RunPaths(folder)
    resolved = load_resolved(paths.resolved)
    config = learning_settings(resolved).reward
    with writing(paths.store.lock):
        trunk, model = newest_model(folder, resolved)
        if not isinstance(model, ProgressModel) or not isinstance(config, ProgressConfig):
            raise RewardError(
                f"reward model of run {folder.name} is a {type(model).__name__}, must be the embedded one of a single "
                "task, without a classifier; fit that anew"
            )
        stored = _success(demo, episode)
        check_same_cell(demo, stored.spec, folder, resolved.spec())
        proprio = stored.arrays["proprio"]
        images = {view: stored.arrays[IMAGE_PREFIX + view] for view in trunk.shapes}
        shown = ScoredEpisode(
            frames=reward_inputs(encode_frames(trunk, images, len(proprio)), sensed_only(proprio, stored.spec)),
            success=True,
            done_frames=config.done_frames,
            progress=distance_progress(proprio, stored.spec) if config.labels == "distance" else None,
            thumbnails=thumbnails_of(trunk),
        )
        before = newest_reward(folder)
        assert before is not None
        adapted = adapt(model, [shown], config, seed=resolved.run.seed, on_step=on_step)
        save_reward(paths.reward(adapted.version), adapted)
        log = MetricsLog(paths.metrics)
        name = stored.header.episode_id
        log.log(
            RewardFitRow(
                version=adapted.version,
                episodes=1,
                trained_on=None if before.trained_on is None else tuple(sorted({*before.trained_on, name})),
                held_out=tuple(sorted(before.held_out - {name})),
            )
        )
        log.close()
    ended, after = (float(one.score(shown.frames, len(proprio) - 1).progress[0]) for one in (model, adapted))
    return Adapted(
        version=adapted.version,
        start=model.version,
        episode=name,
        before=ended,
        after=after,
    )


def _success(folder: Path, episode: str | None) -> StoredEpisode:
    """Read a success of a run or a dataset by its id, or the newest."""
    labels, there = labels_of(folder), sorted(path.stem for path in store_of(folder).episodes.glob("*" + SUFFIX))
    won = [name for name in there if labels.get(name) is Verdict.SUCCESS]
    if episode is not None and episode not in won:
        raise RewardError(
            f"demonstration is {episode!r}, must be one of the {len(won)} successes in {folder}; robot-stack data list "
            "names them"
        )
    if not won:
        raise RewardError(f"successes in {folder} are 0, must be at least 1; record a demonstration and label it")
    return read_episode(store_of(folder).episode(episode or won[-1]))
