"""The parts of a run that every phase of its training works with, built in its folder."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner import fitting
from robot_stack.learner.checkpoint import CheckpointFolder, CheckpointWriter
from robot_stack.learner.data.replay_restorer import ReplayRestorer
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.reward.success import success_rule
from robot_stack.learner.settings import LearningSettings, learning_settings
from robot_stack.learner.status import EpisodeLog, StatusBoard
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import CheckpointFailedRow
from robot_stack.runs.statistics import EpisodeStatistics
from robot_stack.types.params import Params

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunParts:
    """The parts of a run that every phase works with.

    Attributes:
        folder: Of the run.
        resolved: Its configuration.
        settings: Its learning side, checked.
        store: Holds the episodes; open once the run is served.
        metrics: Takes a row for whatever happens.
        statistics: Accounts of all episodes.
        scorer: Scores frames with the reward model in use.
        restorer: Knows what was recorded before this start.
        checkpoints: Writes them.
        status: Says what the learner is doing.
        episode_log: Writes a row per finished episode.
    """

    folder: Path
    resolved: ResolvedRun
    settings: LearningSettings
    store: EpisodeStore
    metrics: MetricsLog
    statistics: EpisodeStatistics
    scorer: Scorer
    restorer: ReplayRestorer
    checkpoints: CheckpointWriter
    status: StatusBoard
    episode_log: EpisodeLog


def open_parts(resolved: ResolvedRun, folder: Path, wandb_mode: str) -> RunParts:
    """Build the parts of a run in its folder; nothing is read but the metrics, and no thread is started.

    Raises:
        ConfigError: If a setting of the learning side does not fit.
    """
    spec, settings, paths = resolved.spec(), learning_settings(resolved), RunPaths(folder)
    metrics = MetricsLog(
        paths.metrics,
        wandb_mode=wandb_mode,
        run_name=folder.name,
        config=resolved.document(),
        rate_hz=resolved.run.rate_hz,
    )
    store = EpisodeStore(paths.store.root, spec, resolved.task.name)
    statistics = EpisodeStatistics(spec.rate_hz, [turn.id for turn in resolved.task.turns])
    scorer = Scorer(lambda: success_rule(resolved.task, spec), gate=settings.reward.gate)
    restorer = ReplayRestorer(paths.features, store, spec, statistics)

    def not_saved(why: str) -> None:
        log.warning("%s", why)
        metrics.log(CheckpointFailedRow(reason=why))

    def keep_best(params: Params) -> None:
        fitting.write_params(paths.policy("best"), params)

    return RunParts(
        folder=folder,
        resolved=resolved,
        settings=settings,
        store=store,
        metrics=metrics,
        statistics=statistics,
        scorer=scorer,
        restorer=restorer,
        checkpoints=CheckpointWriter(CheckpointFolder(paths.checkpoints), on_failure=not_saved, on_best=keep_best),
        status=StatusBoard(statistics, restorer),
        episode_log=EpisodeLog(paths.metrics, metrics, statistics, scorer, spec.rate_hz),
    )
