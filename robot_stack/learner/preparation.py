"""The phases before online training: demonstrations, encoders, replay, reward model and update loop.

Each is a function that takes what those before it hand on. A run that was killed goes through the same phases: what it
had fitted is loaded, and its checkpoint says where it goes on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from policies.encoders.config import EmbeddedConfig
from policies.encoders.thumbnails import thumbnails_of
from policies.encoders.trunk import Trunk
from policies.familiarity import Familiarity
from policies.learner import LearnerSpec
from policies.registry import find_builders
from reward_models.alarms import Alarm
from robot_stack.learner import fitting
from robot_stack.learner.backend import Arrival, Backend, EpisodeCut, ParamsBoard
from robot_stack.learner.checkpoint import live_version
from robot_stack.learner.data.batches import make_batches
from robot_stack.learner.data.ingest import Ingest
from robot_stack.learner.data.replay_restorer import let_go_of_damaged
from robot_stack.learner.distributed import DistributedLearner
from robot_stack.learner.encoder.refit import Adopted
from robot_stack.learner.held_out import HeldOutEpisodes
from robot_stack.learner.publishing import Publisher
from robot_stack.learner.reward.discount import Discount
from robot_stack.learner.reward.monitor import RewardMonitor, ShapingScores
from robot_stack.learner.reward.refit import Refitter
from robot_stack.learner.reward.rescoring import Rescorer, family_of, make_rescorer
from robot_stack.learner.run_parts import RunParts
from robot_stack.learner.settings import hindsight_of, imitation_window, reward_rule
from robot_stack.learner.update_loop import Governor, UpdateLoop, Updater, check_identity, identity_of
from robot_stack.learner.warm_start import WarmStart
from robot_stack.replay.annotations import read_preferences
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.runs.metrics import read_rows, row_from
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import AlarmRow, CriticRow, FitRow, of_kind
from robot_stack.runs.statistics import EpisodeStatistics
from robot_stack.types.event import Label
from robot_stack.types.help import HelpKind
from robot_stack.types.preferences import Preference
from robot_stack.types.transition import EpisodeHeader, Step

log = logging.getLogger(__name__)

Checkpoint = Mapping[str, Any]
"""What `UpdateLoop.save` keeps of a run: tensors and plain values, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoders:
    """The encoders of a run, fitted or loaded.

    Attributes:
        trunk: What the policy sees through.
        reward: What the reward model sees through: the same, or one of its own.
        sizes: Of a learner on the trunk.
        demos: Episode ids of the demonstrations that they were fitted on.
    """

    trunk: Trunk
    reward: Trunk
    sizes: LearnerSpec
    demos: tuple[str, ...]

    @property
    def one(self) -> bool:
        """Return whether policy and reward model see through the same encoder."""
        return self.trunk is self.reward


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredData:
    """What has been recorded so far, as the learner trains on it.

    Attributes:
        replay: Holds all episodes but evaluations.
        ingest: Adds to it what comes.
        cached: Episodes whose features an earlier learner had kept.
    """

    replay: Replay
    ingest: Ingest
    cached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardParts:
    """The reward model's side of a learner.

    Attributes:
        monitor: Watches the model, and ends trust in it.
        refitter: Fits it again.
        shaping: Chooses whose scores shape the reward.
    """

    monitor: RewardMonitor
    refitter: Refitter
    shaping: ShapingScores


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineLearner:
    """What learns while the robot trains online: replay and ingest, reward model, and update loop."""

    recorded: RestoredData
    reward: RewardParts
    loop: UpdateLoop


def collect_demos(parts: RunParts, backend: Backend, stop: threading.Event, *, fitted: bool) -> tuple[str, ...]:
    """Wait for enough successful demonstrations on disk; returns the ids of those that the run begins from.

    Args:
        parts: Of the run.
        backend: Gives what arrives.
        stop: Ends it.
        fitted: Whether nothing is left to be fitted on demonstrations: then one is enough, for the scale of proprio.

    Raises:
        Stopped: If `stop` is set before.
    """
    statistics, most = parts.statistics, parts.resolved.run.training.demos
    wanted = 1 if fitted else most
    parts.restorer.read(fitting.saved_identity(RunPaths(parts.folder).trunk))
    if len(statistics.demos()) < wanted:
        parts.status.enter("collecting_demos")
    while len(statistics.demos()) < wanted:
        parts.status.say(f"{len(statistics.demos())} of {wanted} demonstrations")
        if stop.is_set():
            raise fitting.Stopped
        backend.arrived.wait(0.1)
        for arrival in backend.take():
            count_arrival(arrival, statistics, parts.store)
        parts.episode_log.log()
    return tuple(account.header.episode_id for account in statistics.demos()[:most])


def count_arrival(arrival: Arrival, statistics: EpisodeStatistics, store: EpisodeStore) -> None:
    """Count in the statistics what came over the link before there is a replay to take it."""
    match arrival:
        case EpisodeHeader():
            statistics.begin(arrival)
        case Step():
            statistics.add(arrival)
        case Label():
            statistics.label(arrival)
        case EpisodeCut(gone=True):
            statistics.forget(arrival.episode_id)
        case EpisodeCut():
            statistics.recount(store.read(arrival.episode_id, images=False))


def load_checkpoint(parts: RunParts) -> Checkpoint | None:
    """Load the newest checkpoint of a run, without the episodes that are damaged; None for a new run.

    Raises:
        ResumeError: If it cannot be read.
    """
    state = parts.checkpoints.folder.load_latest()
    if state is not None:
        let_go_of_damaged(state, parts.store, parts.metrics)
    return state


def fit_encoders(
    parts: RunParts, demo_ids: tuple[str, ...], checkpoint: Checkpoint | None, stop: threading.Event
) -> Encoders:
    """Fit the encoders of policy and reward model on the demonstrations, or load those that are there.

    Raises:
        ResumeError: If the checkpoint is of another algorithm or encoder.
        Stopped: If `stop` is set before they are fitted.
    """
    path, spec, settings = RunPaths(parts.folder).trunk, parts.resolved.spec(), parts.settings
    fitted, seed = path.exists(), parts.resolved.run.seed
    demos = [parts.store.read(name, images=not fitted) for name in demo_ids]
    told = parts.status.says("encoder", stop)
    trunk = fitting.fit_or_load_trunk(path, demos, spec, settings, seed=seed, on_step=told)
    if checkpoint is not None:
        check_identity(checkpoint, settings, trunk)
    return Encoders(
        trunk=trunk,
        reward=fit_reward_encoder(parts, trunk, demo_ids, stop),
        sizes=fitting.learner_spec(trunk, demos, spec, trained=settings.trained_encoder),
        demos=demo_ids,
    )


def fit_reward_encoder(parts: RunParts, trunk: Trunk, demo_ids: tuple[str, ...], stop: threading.Event) -> Trunk:
    """Return the reward model's encoder: the frozen trunk, or its own where that is trained or gives maps."""
    if not parts.settings.trained_encoder and all(part.maps is None for part in trunk.parts):
        return trunk
    return fitting.fit_or_load_trunk(
        RunPaths(parts.folder).reward_trunk,
        [parts.store.read(episode_id) for episode_id in demo_ids],
        parts.resolved.spec(),
        replace(parts.settings, encoder="embedded", encoder_config=EmbeddedConfig()),
        seed=parts.resolved.run.seed,
        on_step=parts.status.says("reward encoder", stop),
    )


def restore_replay(
    parts: RunParts, encoders: Encoders, checkpoint: Checkpoint | None, stop: threading.Event
) -> RestoredData:
    """Load everything recorded so far into a replay; scores join later.

    Raises:
        Stopped: If `stop` is set before it is loaded.
    """
    trained = parts.settings.trained_encoder
    replay = Replay(
        parts.resolved.spec(),
        reward_rule(parts.resolved, parts.settings),
        feature_size=0 if trained else encoders.trunk.feature_size,
        keep_images=trained,
        handover_s=max(arm.teleop.blend_s for arm in parts.resolved.arms.values()),
        task_ids=parts.resolved.task.equal_ids,
        imitation_window=imitation_window(parts.resolved, parts.settings),
        hindsight=hindsight_of(parts.resolved),
    )
    ingest = Ingest(
        trunk=None if trained else encoders.trunk,
        reward_encoder=encoders.reward,
        replay=replay,
        store=parts.store,
        scorer=parts.scorer,
        statistics=parts.statistics,
        cache=parts.restorer.cache,
    )
    known = {} if checkpoint is None else checkpoint["features"]
    cached = parts.restorer.load(ingest, replay, known, stop=stop, say=parts.status.say)
    return RestoredData(replay=replay, ingest=ingest, cached=cached)


def start_rescorer(parts: RunParts, ingest: Ingest, demo_ids: tuple[str, ...]) -> Rescorer | None:
    """Start the large reward model that the run asks for, with one of its demonstrations to show it; None without one.

    Raises:
        RewardError: If its weights, a package or the acceptance of its licence is missing.
    """
    if parts.settings.rescore is None:
        return None
    rescorer = make_rescorer(
        parts.folder,
        parts.resolved,
        parts.settings.rescore,
        parts.store.read(_shown(parts, demo_ids)),
        read=parts.store.read,
        deliver=ingest.add_written_scores,
    )
    parts.status.watched.append(rescorer)
    rescorer.restore(ingest.restore_scores(rescorer.version))
    rescorer.start()
    return rescorer


def _shown(parts: RunParts, demo_ids: tuple[str, ...]) -> str:
    """Return the demonstration that a large model is shown: the first of the run's first fit that still counts.

    After a restart the demonstrations are in another order, and what the model has scored must not depend on it.
    """
    fits = of_kind(read_rows(RunPaths(parts.folder).metrics).rows, FitRow)
    counting = {account.header.episode_id for account in parts.statistics.demos()}
    return next((name for name in (fits[0].demo_ids if fits else ()) if name in counting), demo_ids[0])


def build_reward(parts: RunParts, encoder: Trunk, recorded: RestoredData, rescorer: Rescorer | None) -> RewardParts:
    """Build what fits and watches the reward model behind its encoder; there is no model yet."""

    def report(version: str, alarm: Alarm) -> None:
        log.warning("reward model %s is no longer trusted: %s", version, alarm.words)
        parts.metrics.log(AlarmRow(version=version, alarm=alarm.kind, words=alarm.words, episodes=list(alarm.episodes)))

    task = parts.resolved.task
    shaping = ShapingScores(
        recorded.replay,
        parts.scorer,
        parts.statistics,
        parts.metrics,
        rescorer,
        alarms=parts.settings.reward.alarms,
        log=report,
        lost=rescorer is not None and rescorer.family in {family_of(version) for version in _distrusted(parts)},
    )
    monitor = RewardMonitor(
        parts.settings.reward.alarms,
        thresholds={turn.id: turn.success.threshold for turn in task.turns},
        statistics=parts.statistics,
        scorer=parts.scorer,
        shape=shaping.follow_live,
        log=report,
    )
    refitter = Refitter(
        folder=parts.folder,
        settings=parts.settings.reward,
        spec=parts.resolved.spec(),
        task=task,
        statistics=parts.statistics,
        scorer=parts.scorer,
        monitor=monitor,
        ingest=recorded.ingest,
        metrics=parts.metrics,
        thumbnails=thumbnails_of(encoder),
        seed=parts.resolved.run.seed,
        marks=lambda: parts.store.marks,
        preferences=lambda: _preferences(RunPaths(parts.folder).store.preferences),
        source=lambda name: parts.store.read(name, only=()).arrays["source"],
    )
    return RewardParts(monitor=monitor, refitter=refitter, shaping=shaping)


def _distrusted(parts: RunParts) -> set[str]:
    """Return the versions of reward models in which an alarm has ended trust, in this life of the learner or before."""
    return {row.version for row in of_kind(read_rows(RunPaths(parts.folder).metrics).rows, AlarmRow)}


def _preferences(path: Path) -> list[Preference]:
    """Read the preferences of a run as they are now; lines that are none are named in the log."""
    found = read_preferences(path)
    for where, why in found.damaged.items():
        log.warning("%s is left out: %s", where, why)
    return found.rows


def build_loop(
    parts: RunParts,
    encoders: Encoders,
    recorded: RestoredData,
    reward: RewardParts,
    board: ParamsBoard,
    distributed: DistributedLearner,
) -> UpdateLoop:
    """Build the update loop with a learner that has not learnt anything yet."""
    spec, settings, seed = parts.resolved.spec(), parts.settings, parts.resolved.run.seed
    config = settings.config
    learner = find_builders(settings.algorithm).learner(encoders.sizes, config, seed=seed, device=settings.device)
    learner.ranks = distributed.ranks
    batches = make_batches(recorded.replay, settings.device)
    scheduled = parts.resolved.run.reward.discount == "scheduled"
    discount = Discount(recorded.replay, config.sampling.gamma, scheduled=scheduled)
    held_out = HeldOutEpisodes(
        learner,
        batches=batches,
        replay=recorded.replay,
        statistics=parts.statistics,
        metrics=parts.metrics,
        sampling=config.sampling,
        grippers=encoders.sizes.grippers,
        earlier=of_kind(read_rows(RunPaths(parts.folder).metrics).rows, CriticRow),
        seed=seed,
    )
    loop = parts.status.loop = UpdateLoop(
        updater=Updater(
            learner,
            settings=settings,
            batches=batches,
            discount=discount,
            distributed=distributed,
            held_out=held_out,
            seed=seed,
        ),
        publisher=Publisher(
            learner,
            spec=spec,
            settings=settings,
            trunk=encoders.trunk,
            statistics=parts.statistics,
            board=board,
            familiarity=_familiarity(encoders, recorded) if _asks_by(parts, HelpKind.DISTANCE) else None,
            with_critics=_asks_by(parts, HelpKind.CRITICS),
        ),
        governor=Governor(utd=config.utd, pretrain=config.pretrain_updates),
        replay=recorded.replay,
        statistics=parts.statistics,
        metrics=parts.metrics,
        checkpoints=parts.checkpoints,
        identity=identity_of(settings, encoders.trunk),
        beside=lambda: {
            "refitted_at": reward.refitter.completed_at,
            "reward_trusted": not reward.monitor.lost,
            "live_reward_version": parts.scorer.version,
            "features": {name: torch.from_numpy(f) for name, f in recorded.ingest.uncached().items()},
        },
    )
    return loop


def _asks_by(parts: RunParts, signal: HelpKind) -> bool:
    """Return whether the policy of this run asks for help by that signal."""
    asking = parts.resolved.run.asking
    return asking is not None and signal in asking.signals


def _familiarity(encoders: Encoders, recorded: RestoredData) -> Familiarity | None:
    """Fit what features are compared with, on the demonstrations that the encoders were fitted on."""
    frames = recorded.replay.frames
    rows = [row for name in encoders.demos for row in frames.episode(name).rows]
    return Familiarity.fit(frames.column("features")[rows])


def fit_or_restore(
    parts: RunParts,
    learner: OnlineLearner,
    checkpoint: Checkpoint | None,
    start: WarmStart,
    encoder: Adopted | None,
    stop: threading.Event,
) -> None:
    """Fit the reward model of a new run, or take what it starts from, or restore what a killed one had.

    Args:
        parts: Of the run.
        learner: New.
        checkpoint: Of a killed run.
        start: What the run begins with.
        encoder: The note of one that was fitted again, behind which all begins anew; None while it is the first.
        stop: Ends it.

    Raises:
        ResumeError: If the checkpoint is of another network or knows what is not there.
        Stopped: If `stop` is set before the model is fitted.
    """
    refitter = learner.reward.refitter
    if checkpoint is None:
        if start.reward is None:
            refitter.fit(on_step=parts.status.says("reward model", stop))
        else:
            refitter.load(start.reward, 0, trusted=start.trusted)
            for row in start.told:
                parts.metrics.log(row_from(row))
        if start.learner is not None:
            learner.loop.start_from(start.learner)
        if encoder is not None:
            learner.loop.begin_anew(online_steps=encoder.online_steps, params_version=encoder.params_version)
        else:
            learner.loop.publisher.go_on_without_checkpoint()
        return
    version = live_version(checkpoint)
    trusted = checkpoint["reward_trusted"] and version not in _distrusted(parts)  # an alarm may have come after it
    refitter.load(version, checkpoint["refitted_at"], trusted=trusted)
    learner.loop.restore(_shaped_as_possible(checkpoint, learner))


def _shaped_as_possible(checkpoint: Checkpoint, learner: OnlineLearner) -> Checkpoint:
    """Return a checkpoint whose reward is shaped by what may shape it now, or by no scores.

    A large model that is shown or told something else is of another version, and scores the episodes anew; one whose
    files of scores are damaged is asked about those episodes again.
    """
    replay, earlier = checkpoint["replay"], checkpoint["replay"]["score_version"]
    live = learner.recorded.replay.score_version
    if earlier is None or earlier == live:
        return checkpoint
    version = earlier if learner.reward.shaping.goes_on_with(earlier) else live
    if version != earlier:
        now = "no scores do" if version is None else f"those of {version} do"
        log.warning("scores of %s shaped the reward at the checkpoint, now %s", earlier, now)
    return {**checkpoint, "replay": {**replay, "score_version": version, "scored_episodes": []}}


def log_fit(
    parts: RunParts,
    encoders: Encoders,
    recorded: RestoredData,
    *,
    encoder: Adopted | None,
    encoders_s: float,
    total_s: float,
) -> None:
    """Write the row of a fit: what it was made from and how long it took."""
    cache = parts.restorer.cache
    parts.metrics.log(
        FitRow(
            trunk_s=encoders_s,
            total_s=total_s,
            demos=len(encoders.demos),
            demo_ids=list(encoders.demos),
            trunk=encoders.trunk.identity,
            cached_episodes=recorded.cached,
            damaged_features=0 if cache is None else cache.damaged,
            pretrain_updates=parts.settings.config.pretrain_updates,
            utd=parts.settings.config.utd,
            online_episodes=0 if encoder is None else encoder.online,
        )
    )
