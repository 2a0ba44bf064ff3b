"""The learner's job from the first demonstration to the last update, phase after phase.

    open_parts -> collect_demos -> fit_encoders -> restore_replay -> build_reward -> build_loop -> fit_or_restore
               -> train_online -> finish

Each phase takes what those before it hand on. The update loop runs in the main thread and waits for nobody; ingest and
scoring have a thread of their own, and so does each refit of the reward model.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from policies.distributed import ALONE, Ranks
from policies.encoders.embedded import EmbeddedConfig
from policies.encoders.trunk import Trunk
from policies.learner import LearnerSpec
from reward_models.alarms import Alarm
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner import fitting
from robot_stack.learner.backend import Arrival, Backend, EpisodeCut, ParamsBoard
from robot_stack.learner.checkpoint import CheckpointFolder, CheckpointWriter
from robot_stack.learner.distributed import DistributedLearner
from robot_stack.learner.ingest import Ingest
from robot_stack.learner.replay_restorer import ReplayRestorer, let_go_of_damaged
from robot_stack.learner.reward.monitor import RewardMonitor, ShapingScores
from robot_stack.learner.reward.refit import Refitter
from robot_stack.learner.reward.rescoring import Rescorer, make_rescorer
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.reward.success import success_rule
from robot_stack.learner.settings import LearningSettings, learning_settings
from robot_stack.learner.status import EpisodeLog, StatusBoard
from robot_stack.learner.update_loop import UpdateLoop, check_identity
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.replay.rewards import RewardRule
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.rows import (
    AlarmRow,
    CheckpointFailedRow,
    EndRow,
    FitRow,
    QuarantineRow,
)
from robot_stack.runs.statistics import EpisodeStatistics
from robot_stack.transport.access.security import learner_credentials
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.server import LearnerServer
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Label
from robot_stack.types.params import Params
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step

log = logging.getLogger(__name__)

LABELS_WITHIN_S = 3.0
"""After the last frame of a run, in which the verdict on it comes, if it comes."""

Checkpoint = Mapping[str, Any]
"""What `UpdateLoop.save` keeps of a run: tensors and plain values, by name."""


class Training:
    """The training of one run in its folder, which holds all that is needed to go on after a kill."""

    def __init__(
        self, resolved: ResolvedRun, folder: Path, *, wandb_mode: str = "disabled", ranks: Ranks = ALONE
    ) -> None:
        torch.set_num_threads(1)
        self.parts = open_parts(resolved, folder, wandb_mode)
        self.board = ParamsBoard()
        self.backend = Backend(
            spec=resolved.spec(),
            task=resolved.task.name,
            run_id=folder.name,
            store=self.parts.store,
            scorer=self.parts.scorer,
            board=self.board,
            status=self.parts.status.status,
        )
        self.parts.status.watched = [self.backend, self.parts.checkpoints, self.parts.restorer]
        self.finished_s = float("inf")
        """When the run came to its end, by the monotonic clock."""
        self._distributed = DistributedLearner(ranks, self.parts.settings.config.batch_size)
        self._closing = ExitStack()
        self._closing.callback(self.parts.metrics.close)
        self._closing.callback(self.parts.store.close)

    def serve(self, address: str) -> str:
        """Open the store and listen for actors; returns host:port.

        Raises:
            StoreError, TransportError: If the folder is in use or of another run, or the port is taken.
        """
        parts = self.parts
        parts.store.open()
        for name, reason in parts.store.quarantined.items():
            parts.metrics.log(QuarantineRow(episode_id=name, reason=reason))
        self.backend.start()
        self._closing.callback(self.backend.stop)
        server = LearnerServer(
            self.backend, address, learner_credentials(parts.resolved.cell.learner_certs, parts.folder)
        )
        bound = server.start()
        self._closing.callback(server.stop)
        self._closing.callback(self._distributed.end)
        self.backend.on_durable = server.durable_advanced
        (parts.folder / "learner.address").write_text(bound)
        return bound

    def run(self, stop: threading.Event) -> None:
        """Run all phases, or until `stop`; a stop in training saves a checkpoint first.

        Raises:
            StoreError: If the disk refused the last checkpoint.
            Exception: Whatever ended one of the threads: the process must not go on without it.
        """
        try:
            learner = self.prepare(stop)
        except fitting.Stopped:
            return
        if stop.is_set():
            return
        train_online(self.parts, self.backend, learner, stop)
        if not stop.is_set():
            finish(self.parts, learner)
            self.finished_s = time.monotonic()

    def prepare(self, stop: threading.Event) -> OnlineLearner:
        """Run the phases before online training, or restore what a killed run left of them.

        Raises:
            Stopped: If `stop` was set before the encoder, the replay and the reward model were there.
            ResumeError: If what a killed run left cannot be gone on with exactly.
        """
        parts = self.parts
        demos = collect_demos(parts, self.backend, stop)
        started_s = time.monotonic()
        parts.status.enter("fitting")
        checkpoint = load_checkpoint(parts)
        encoders = fit_encoders(parts, demos, checkpoint, stop)
        parts.restorer.keep_features(encoders.trunk.identity if encoders.one else None)
        self._closing.callback(parts.restorer.close)
        encoders_s = time.monotonic() - started_s
        recorded = restore_replay(parts, encoders, checkpoint, stop)
        rescorer = start_rescorer(parts, recorded.ingest, demos[0])
        if rescorer is not None:
            self._closing.callback(rescorer.close)
        reward = build_reward(parts, recorded, rescorer)
        loop = build_loop(parts, encoders, recorded, reward, self.board, self._distributed)
        learner = OnlineLearner(recorded=recorded, reward=reward, loop=loop)
        fit_or_restore(parts, learner, checkpoint, stop)
        self._distributed.begin(encoders.sizes, resumed=checkpoint is not None)
        loop.learn_from_demos(stop, parts.status.say)
        loop.publish()
        loop.save(wait=True)
        log_fit(parts, encoders, recorded, encoders_s=encoders_s, total_s=time.monotonic() - started_s)
        return learner

    def close(self) -> None:
        """Stop serving and close the store; what arrived is on disk."""
        self._closing.close()

    def status(self) -> LearnerStatus:
        """Return the learner's status, for actors and the console."""
        return self.parts.status.status()


# ------------------------------------------------------------------------------------------------ what is handed on
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
class Recorded:
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
        monitor: Ends trust in the model.
        refitter: Fits it again.
        shaping: Chooses whose scores shape the reward.
    """

    monitor: RewardMonitor
    refitter: Refitter
    shaping: ShapingScores


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineLearner:
    """What learns while the robot trains online: replay and ingest, reward model, and update loop."""

    recorded: Recorded
    reward: RewardParts
    loop: UpdateLoop


# ------------------------------------------------------------------------------------------------ starting
def open_parts(resolved: ResolvedRun, folder: Path, wandb_mode: str) -> RunParts:
    """Build the parts of a run in its folder; nothing is read but the metrics, and no thread is started.

    Raises:
        ConfigError: If a setting of the learning side does not fit.
    """
    spec, settings = resolved.spec(), learning_settings(resolved)
    metrics = MetricsLog(
        folder / "metrics.jsonl", wandb_mode=wandb_mode, run_name=folder.name, config=resolved.document()
    )
    store = EpisodeStore(folder / "store", spec, resolved.task.name)
    statistics = EpisodeStatistics(spec.rate_hz, [turn.id for turn in resolved.task.turns])
    scorer = Scorer(lambda: success_rule(resolved.task, spec), gate=settings.reward.gate)
    restorer = ReplayRestorer(folder / "features", store, spec, statistics)

    def not_saved(why: str) -> None:
        log.warning("%s", why)
        metrics.log(CheckpointFailedRow(reason=why))

    def keep_best(params: Params) -> None:
        fitting.write_params(folder / "best.safetensors", params)

    return RunParts(
        folder=folder,
        resolved=resolved,
        settings=settings,
        store=store,
        metrics=metrics,
        statistics=statistics,
        scorer=scorer,
        restorer=restorer,
        checkpoints=CheckpointWriter(CheckpointFolder(folder / "checkpoints"), on_failure=not_saved, on_best=keep_best),
        status=StatusBoard(statistics, restorer),
        episode_log=EpisodeLog(folder / "metrics.jsonl", metrics, statistics, scorer, spec.rate_hz),
    )


# ------------------------------------------------------------------------------------------------ collecting_demos
def collect_demos(parts: RunParts, backend: Backend, stop: threading.Event) -> tuple[str, ...]:
    """Wait for enough successful demonstrations on disk; returns the ids of those that the run begins from.

    Raises:
        Stopped: If `stop` is set before.
    """
    statistics, wanted = parts.statistics, parts.resolved.run.training.demos
    parts.restorer.read(fitting.saved_identity(parts.folder / fitting.TRUNK))
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
    return tuple(account.header.episode_id for account in statistics.demos()[:wanted])


def count_arrival(arrival: Arrival, statistics: EpisodeStatistics, store: EpisodeStore) -> None:
    """Count in the statistics what came over the link before there is a replay to take it."""
    match arrival:
        case EpisodeHeader():
            statistics.begin(arrival)
        case Step():
            statistics.episodes[arrival.episode_id].add(arrival)
        case Label():
            statistics.label(arrival)
        case EpisodeCut():
            statistics.recount(store.read(arrival.episode_id, images=False))


# ------------------------------------------------------------------------------------------------ fitting
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
    path, spec, settings = parts.folder / fitting.TRUNK, parts.resolved.spec(), parts.settings
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
        parts.folder / "reward_trunk.safetensors",
        [parts.store.read(episode_id) for episode_id in demo_ids],
        parts.resolved.spec(),
        replace(parts.settings, encoder="embedded", encoder_config=EmbeddedConfig()),
        seed=parts.resolved.run.seed,
        on_step=parts.status.says("reward encoder", stop),
    )


def restore_replay(
    parts: RunParts, encoders: Encoders, checkpoint: Checkpoint | None, stop: threading.Event
) -> Recorded:
    """Load everything recorded so far into a replay; scores join later.

    Raises:
        Stopped: If `stop` is set before it is loaded.
    """
    trained = parts.settings.trained_encoder
    replay = Replay(
        parts.resolved.spec(),
        RewardRule(shaping=parts.settings.config.shaping_weight, form=parts.resolved.run.reward.form),
        feature_size=0 if trained else encoders.trunk.feature_size,
        keep_images=trained,
    )
    ingest = Ingest(
        trunk=None if trained else encoders.trunk,
        reward_encoder=encoders.reward,
        replay=replay,
        store=parts.store,
        scorer=parts.scorer,
        ledger=parts.statistics,
        cache=parts.restorer.cache,
    )
    known = {} if checkpoint is None else checkpoint["features"]
    cached = parts.restorer.load(ingest, replay, known, stop=stop, say=parts.status.say)
    return Recorded(replay=replay, ingest=ingest, cached=cached)


def start_rescorer(parts: RunParts, ingest: Ingest, demo_id: str) -> Rescorer | None:
    """Start the large reward model that the run asks for, with one demonstration to show it; None without one.

    Raises:
        RewardError: If its weights, a package or the acceptance of its licence is missing.
    """
    if parts.settings.rescore is None:
        return None
    rescorer = make_rescorer(
        parts.folder,
        parts.resolved,
        parts.settings.rescore,
        parts.store.read(demo_id),
        read=parts.store.read,
        deliver=ingest.add_scores,
    )
    parts.status.watched.append(rescorer)
    rescorer.restore(ingest.restore_scores(rescorer.version))
    rescorer.start()
    return rescorer


def build_reward(parts: RunParts, recorded: Recorded, rescorer: Rescorer | None) -> RewardParts:
    """Build what fits and watches the reward model; there is no model yet."""

    def report(version: str, alarm: Alarm) -> None:
        log.warning("reward model %s is no longer trusted: %s", version, alarm.words)
        parts.metrics.log(AlarmRow(version=version, alarm=alarm.kind, words=alarm.words, episodes=alarm.episodes))

    task = parts.resolved.task
    shaping = ShapingScores(recorded.replay, parts.scorer, parts.statistics, parts.metrics, rescorer)
    monitor = RewardMonitor(
        parts.settings.reward.alarms,
        thresholds={turn.id: turn.success.threshold for turn in task.turns},
        ledger=parts.statistics,
        scorer=parts.scorer,
        shape=shaping.follow_live,
        log=report,
    )
    refitter = Refitter(
        folder=parts.folder,
        settings=parts.settings.reward,
        spec=parts.resolved.spec(),
        task=task,
        ledger=parts.statistics,
        scorer=parts.scorer,
        trust=monitor,
        ingest=recorded.ingest,
        metrics=parts.metrics,
        seed=parts.resolved.run.seed,
    )
    return RewardParts(monitor=monitor, refitter=refitter, shaping=shaping)


def build_loop(
    parts: RunParts,
    encoders: Encoders,
    recorded: Recorded,
    reward: RewardParts,
    board: ParamsBoard,
    distributed: DistributedLearner,
) -> UpdateLoop:
    """Build the update loop with a learner that has not learnt anything yet."""
    loop = parts.status.loop = UpdateLoop(
        spec=parts.resolved.spec(),
        settings=parts.settings,
        sizes=encoders.sizes,
        trunk=encoders.trunk,
        replay=recorded.replay,
        statistics=parts.statistics,
        metrics=parts.metrics,
        board=board,
        checkpoints=parts.checkpoints,
        distributed=distributed,
        seed=parts.resolved.run.seed,
        beside=lambda: {
            "refitted_at": reward.refitter.completed_at,
            "reward_trusted": not reward.monitor.lost,
            "live_reward_version": parts.scorer.version,
            "features": {name: torch.from_numpy(f) for name, f in recorded.ingest.uncached().items()},
        },
    )
    return loop


def fit_or_restore(
    parts: RunParts, learner: OnlineLearner, checkpoint: Checkpoint | None, stop: threading.Event
) -> None:
    """Fit the reward model of a new run, or restore reward model and learner of a killed one.

    Raises:
        ResumeError: If the checkpoint is of another network or knows what is not there.
        Stopped: If `stop` is set before the model is fitted.
    """
    refitter = learner.reward.refitter
    if checkpoint is None:
        refitter.fit(on_step=parts.status.says("reward model", stop))
        return
    trusted = checkpoint["reward_trusted"]
    refitter.load(live_version(checkpoint), checkpoint["refitted_at"], trusted=trusted)
    learner.loop.restore(checkpoint)


def live_version(checkpoint: Checkpoint) -> str:
    """Return the version of the embedded model in use at a checkpoint: a refit may have been about to replace it.

    What shapes the reward may be nothing, or a large model: their versions carry its name and a dash.
    """
    active: str | None = checkpoint["reward_version"]
    live: str = checkpoint["live_reward_version"]
    return live if active is None or "-" in active else active


def log_fit(parts: RunParts, encoders: Encoders, recorded: Recorded, *, encoders_s: float, total_s: float) -> None:
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
        )
    )


# ------------------------------------------------------------------------------------------------ training
def train_online(parts: RunParts, backend: Backend, learner: OnlineLearner, stop: threading.Event) -> None:
    """Update while the robot trains, until it is enough or `stop` is set; the last state is on disk on return.

    Raises:
        StoreError: If the disk refused the last checkpoint.
        Exception: Whatever ended the ingest thread.
    """
    intake = IngestThread(parts, backend, learner)
    parts.status.enter("training")
    intake.start()
    try:
        learner.loop.run(lambda: stop.is_set() or intake.over.is_set() or enough(parts), intake.over)
        await_last_labels(parts.statistics, intake.over)
    finally:
        learner.loop.save(wait=True)
        intake.stop()
        learner.reward.refitter.stop()
    if intake.failure is not None:
        raise intake.failure
    if parts.checkpoints.failure:
        raise StoreError(parts.checkpoints.failure)


class IngestThread:
    """The thread that takes in whatever arrives, at once; what ends it must end the process.

    Attributes:
        over: Set once it is told to end, or has ended on an error.
        failure: That error.
    """

    def __init__(self, parts: RunParts, backend: Backend, learner: OnlineLearner) -> None:
        self.over = threading.Event()
        self.failure: Exception | None = None
        self._parts = parts
        self._backend = backend
        self._learner = learner
        self._thread = threading.Thread(target=self._work, name="ingest", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what has not been taken in is on disk."""
        self.over.set()
        self._thread.join(10.0)

    def _work(self) -> None:
        try:
            while not self.over.is_set():
                self._backend.arrived.wait(0.05)
                arrivals = self._backend.take()
                if arrivals:
                    self._learner.recorded.ingest.take(arrivals)
                    self._parts.episode_log.log()
                self._learner.reward.refitter.maybe_start()
                self._learner.reward.shaping.rescore()
        except Exception as error:  # the top of this thread: `train_online` raises it where the process can end
            self.failure = error
            self.over.set()


def enough(parts: RunParts) -> bool:
    """Return whether the run has its episodes or minutes, or succeeds often enough."""
    training, statistics = parts.resolved.run.training, parts.statistics
    minutes = statistics.online_steps / parts.resolved.spec().rate_hz / 60
    if len(statistics.ended(EpisodeKind.ONLINE)) >= training.max_episodes or minutes >= training.max_robot_minutes:
        return True
    return statistics.recent_success(training.enough.episodes) >= training.enough.success


def await_last_labels(statistics: EpisodeStatistics, over: threading.Event) -> None:
    """Wait for the verdict on the last episode, which follows its last frame; a real cell may have none."""
    deadline_s = time.monotonic() + LABELS_WITHIN_S
    last = statistics.accounts[-1:]
    while any(a.end is not None and not a.verdicts for a in last) and time.monotonic() < deadline_s:
        if over.wait(0.05):
            return


# ------------------------------------------------------------------------------------------------ done
def finish(parts: RunParts, learner: OnlineLearner) -> None:
    """Write the final parameters to disk; actors are told by the phase."""
    fitting.write_params(parts.folder / "policy.safetensors", learner.loop.finish())
    parts.episode_log.log(final=True)
    frames = learner.recorded.replay.frames
    parts.metrics.log(
        EndRow(
            updates=learner.loop.updates,
            env_steps=parts.statistics.online_steps,
            replay_bytes_per_transition=frames.bytes_per_transition,
            replay_transitions=sum(max(0, len(frames.episode(name).rows) - 1) for name in frames.episode_ids),
        )
    )
    parts.status.enter("done")
