"""The learner's job from the first demonstration to the last update.

Phases: starting -> collecting_demos -> fitting -> training -> done. The update loop runs in the main thread and waits
for nobody; ingest and scoring have a thread of their own, and so does each refit of the reward model.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from policies.distributed import ALONE, Ranks
from policies.encoders.embedded import EmbeddedConfig
from policies.encoders.trunk import Trunk
from reward_models.alarms import Alarm
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner import fitting
from robot_stack.learner.backend import Backend, EpisodeCut, ParamsBoard
from robot_stack.learner.checkpoint import CheckpointFolder, CheckpointWriter
from robot_stack.learner.distributed import DistributedLearner
from robot_stack.learner.ingest import Ingest
from robot_stack.learner.replay_restorer import ReplayRestorer, let_go_of_damaged
from robot_stack.learner.reward.monitor import RewardMonitor
from robot_stack.learner.reward.refit import Refitter
from robot_stack.learner.reward.rescoring import Rescorer, make_rescorer
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.reward.success import success_rule
from robot_stack.learner.settings import learning_settings
from robot_stack.learner.update_loop import UpdateLoop, check_identity
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.replay.rewards import RewardRule
from robot_stack.runs.metrics import MetricsLog, read_metrics
from robot_stack.runs.statistics import EpisodeStatistics
from robot_stack.transport.access.security import learner_credentials
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.server import LearnerServer
from robot_stack.types.errors import StoreError
from robot_stack.types.params import Params
from robot_stack.types.transition import EpisodeKind

log = logging.getLogger(__name__)


def _live_version(state: dict[str, Any]) -> str:
    """Return the version of the embedded model in use at a checkpoint: a refit may have been about to replace it.

    What shapes the reward may be nothing, or a large model: their versions carry its name and a dash.
    """
    active, live = state["reward_version"], state["live_reward_version"]
    return live if active is None or "-" in active else active


class Training:
    """The training of one run in its folder, which holds all that is needed to go on after a kill."""

    def __init__(
        self, resolved: ResolvedRun, folder: Path, *, wandb_mode: str = "disabled", ranks: Ranks = ALONE
    ) -> None:
        torch.set_num_threads(1)
        self.folder = folder
        self._resolved = resolved
        self._spec = resolved.spec()
        self._settings = learning_settings(resolved)
        self._distributed = DistributedLearner(ranks, self._settings.config.batch_size)
        self._seed = resolved.run.seed
        self._metrics = MetricsLog(
            folder / "metrics.jsonl", wandb_mode=wandb_mode, run_name=folder.name, config=resolved.document()
        )
        self._store = EpisodeStore(folder / "store", self._spec, resolved.task.name)
        self._statistics = EpisodeStatistics(self._spec.rate_hz, goes_back=self._spec.goes_back)
        self._scorer = Scorer(lambda: success_rule(resolved.task, self._spec), gate=self._settings.reward.gate)
        self._board = ParamsBoard()
        self._checkpoints = CheckpointFolder(folder / "checkpoints")
        self._writer = CheckpointWriter(self._checkpoints, on_failure=self._not_saved, on_best=self._keep_best)
        self._recorded = ReplayRestorer(folder / "features", self._store, self._spec, self._statistics)
        self._phase, self._message = "starting", ""
        self._logged = {row["episode_id"] for row in read_metrics(folder / "metrics.jsonl") if row["kind"] == "episode"}
        self._failure: Exception | None = None
        self.finished_s = float("inf")
        self._loop: UpdateLoop | None = None
        self._ingest: Ingest | None = None
        self._refitter: Refitter | None = None
        self._rescorer: Rescorer | None = None
        self._backend: Backend | None = None
        self._server: LearnerServer | None = None
        self._quit = threading.Event()

    # ------------------------------------------------------------------------------------------------ life cycle
    def serve(self, address: str) -> str:
        """Open the store and listen for actors; returns host:port.

        Raises:
            StoreError, TransportError: If the folder is in use or of another run, or the port is taken.
        """
        self._store.open()
        for name, reason in self._store.quarantined.items():
            self._metrics.log("quarantine", episode_id=name, reason=reason)
        self._backend = Backend(
            spec=self._spec,
            task=self._resolved.task.name,
            run_id=self.folder.name,
            store=self._store,
            scorer=self._scorer,
            board=self._board,
            status=self.status,
        )
        self._backend.start()
        credentials = learner_credentials(self._resolved.cell.learner_certs, self.folder)
        server = LearnerServer(self._backend, address, credentials)
        bound = server.start()
        self._backend.on_durable = server.durable_advanced
        self._server = server
        (self.folder / "learner.address").write_text(bound)
        return bound

    def close(self) -> None:
        """Stop serving and close the store; what arrived is on disk."""
        self._quit.set()
        self._distributed.end()
        if self._server is not None:
            self._server.stop()
        if self._backend is not None:
            self._backend.stop()
        if self._recorded.cache is not None:
            self._recorded.cache.stop()
        if self._rescorer is not None:
            self._rescorer.close()
        self._store.close()
        self._metrics.close()

    def run(self, stop: threading.Event) -> None:
        """Run all phases, or until `stop`; a stop in training saves a checkpoint first.

        Raises:
            StoreError: If the disk refused the last checkpoint.
            Exception: Whatever ended one of the threads: the process must not go on without it.
        """
        assert self._backend is not None
        if not self._collect(stop):
            return
        try:
            self._fit(stop)
        except fitting.FitStopped:
            return
        if stop.is_set():
            return
        worker = threading.Thread(target=self._work, name="ingest", daemon=True)
        worker.start()
        assert self._loop is not None
        assert self._refitter is not None
        self._phase, self._message = "training", ""
        try:
            self._loop.run(lambda: stop.is_set() or self._quit.is_set() or self._enough(), self._quit)
            self._await_last_labels()
        finally:
            self._loop.save(wait=True)
            self._quit.set()
            worker.join(10.0)
            self._refitter.stop()
        if self._failure is not None:
            raise self._failure
        if self._writer.failure:
            raise StoreError(self._writer.failure)
        if not stop.is_set():
            self._finish()

    # ------------------------------------------------------------------------------------------------ phases
    def _collect(self, stop: threading.Event) -> bool:
        """Wait for enough successful demonstrations on disk; False if stopped."""
        assert self._backend is not None
        self._recorded.read(fitting.saved_identity(self.folder / fitting.TRUNK))
        wanted = self._resolved.run.training.demos
        self._phase = "fitting" if len(self._statistics.demos()) >= wanted else "collecting_demos"
        while len(self._statistics.demos()) < wanted:
            self._message = f"{len(self._statistics.demos())} of {wanted} demonstrations"
            if stop.is_set():
                return False
            self._backend.arrived.wait(0.1)
            for arrival in self._backend.take():
                self._ledger_takes(arrival)
            self._log_episodes()
        return True

    def _ledger_takes(self, arrival: Any) -> None:
        if hasattr(arrival, "started_unix_s"):
            self._statistics.begin(arrival)
        elif hasattr(arrival, "verdict"):
            self._statistics.label(arrival)
        elif isinstance(arrival, EpisodeCut):
            self._statistics.recount(self._store.read(arrival.episode_id, images=False))
        else:
            self._statistics.episodes[arrival.episode_id].add(arrival)

    def _fit(self, stop: threading.Event) -> None:
        """Fit trunk and reward model and begin the learner, or restore what a killed run left of them."""
        self._phase, self._message = "fitting", ""
        spec, settings, seed = self._spec, self._settings, self._seed
        started = time.monotonic()
        state = self._checkpoints.load_latest()
        if state is not None:
            let_go_of_damaged(state, self._store, self._metrics)
        chosen = [a.header.episode_id for a in self._statistics.demos()[: self._resolved.run.training.demos]]
        fitted = (self.folder / fitting.TRUNK).exists()
        demos = [self._store.read(episode_id, images=not fitted) for episode_id in chosen]
        trunk = fitting.fit_or_load_trunk(
            self.folder / fitting.TRUNK, demos, spec, settings, seed=seed, on_step=self._says("encoder", stop)
        )
        if state is not None:
            check_identity(state, settings, trunk)
        trained = settings.trained_encoder
        reward_encoder = self._reward_trunk(trunk, chosen, stop)
        self._recorded.keep_features(trunk.identity if reward_encoder is trunk else None)
        cache = self._recorded.cache
        trunk_s = time.monotonic() - started
        config = settings.config
        self._replay = Replay(
            spec,
            RewardRule(shaping=config.shaping_weight, form=self._resolved.run.reward.form),
            feature_size=0 if trained else trunk.feature_size,
            keep_images=trained,
        )
        ingest = self._ingest = Ingest(
            trunk=None if trained else trunk,
            reward_encoder=reward_encoder,
            replay=self._replay,
            store=self._store,
            scorer=self._scorer,
            ledger=self._statistics,
            cache=cache,
        )
        sizes = fitting.learner_spec(trunk, demos, spec, trained=trained)
        known = state["features"] if state is not None else {}
        loaded = self._recorded.load(ingest, self._replay, known, stop=stop, say=self._say)
        back = self._resolved.task.backward
        trust = RewardMonitor(
            settings.reward.alarms, threshold=self._resolved.task.success.threshold,
            back_threshold=1.0 if back is None else back.success.threshold, ledger=self._statistics,
            scorer=self._scorer, shape=self._shape, log=self._alarm,
        )  # fmt: skip
        refitter = self._refitter = Refitter(
            folder=self.folder, settings=settings.reward, spec=spec, task=self._resolved.task, ledger=self._statistics,
            scorer=self._scorer, trust=trust, ingest=self._ingest, metrics=self._metrics, seed=seed,
        )  # fmt: skip
        self._loop = UpdateLoop(
            spec=spec, settings=settings, sizes=sizes, trunk=trunk, replay=self._replay, statistics=self._statistics,
            metrics=self._metrics, board=self._board, checkpoints=self._writer, distributed=self._distributed,
            seed=seed,
            beside=lambda: {
                "refitted_at": refitter.completed_at,
                "reward_trusted": not trust.lost,
                "live_reward_version": self._scorer.version,
                "features": {name: torch.from_numpy(f) for name, f in ingest.uncached().items()},
            },
        )  # fmt: skip
        if settings.rescore is not None:
            rescorer = self._rescorer = make_rescorer(
                self.folder, self._resolved, settings.rescore, self._store.read(chosen[0]), read=self._store.read,
                deliver=ingest.add_scores,
            )  # fmt: skip
            rescorer.restore(ingest.restore_scores(rescorer.version))
            rescorer.start()
        if state is None:
            refitter.fit(on_step=self._says("reward model", stop))
        else:
            refitter.load(_live_version(state), state["refitted_at"], trusted=state["reward_trusted"])
            self._loop.restore(state)
        self._distributed.begin(sizes, resumed=state is not None)
        self._loop.learn_from_demos(stop, self._say)
        self._loop.publish()
        self._loop.save(wait=True)
        self._metrics.log(
            "fit",
            trunk_s=trunk_s,
            total_s=time.monotonic() - started,
            demos=len(demos),
            demo_ids=chosen,
            trunk=trunk.identity,
            cached_episodes=loaded,
            damaged_features=0 if cache is None else cache.damaged,
            pretrain_updates=config.pretrain_updates,
        )

    def _reward_trunk(self, trunk: Trunk, demos: Sequence[str], stop: threading.Event) -> Trunk:
        """Return the reward model's encoder: the frozen one, or its own where that is trained or gives maps."""
        if not self._settings.trained_encoder and all(part.maps is None for part in trunk.parts):
            return trunk
        return fitting.fit_or_load_trunk(
            self.folder / "reward_trunk.safetensors",
            [self._store.read(episode_id) for episode_id in demos],
            self._spec,
            replace(self._settings, encoder="embedded", encoder_config=EmbeddedConfig()),
            seed=self._seed,
            on_step=self._says("reward encoder", stop),
        )

    def _await_last_labels(self, timeout_s: float = 3.0) -> None:
        """Wait for the verdict on the last episode, which follows its last frame.

        The wait is bounded, since a real cell may have none.
        """
        deadline_s = time.monotonic() + timeout_s
        last = self._statistics.accounts[-1:]
        while any(a.end is not None and not a.verdicts for a in last) and time.monotonic() < deadline_s:
            if self._quit.wait(0.05):
                return

    def _enough(self) -> bool:
        training = self._resolved.run.training
        online = self._statistics.ended(EpisodeKind.ONLINE)
        minutes = self._statistics.online_steps / self._spec.rate_hz / 60
        if len(online) >= training.max_episodes or minutes >= training.max_robot_minutes:
            return True
        return self._statistics.recent_success(training.enough.episodes) >= training.enough.success

    def _finish(self) -> None:
        """Write the final parameters to disk; actors are told by the phase."""
        assert self._loop is not None
        self._write_params("policy", self._loop.finish())
        self._log_episodes(final=True)
        frames = self._replay.frames
        self._metrics.log(
            "end",
            updates=self._loop.updates,
            env_steps=self._statistics.online_steps,
            replay_bytes_per_transition=frames.bytes_per_transition,
            replay_transitions=sum(max(0, len(frames.episode(name).rows) - 1) for name in frames.episode_ids),
        )
        self._phase, self._message = "done", ""
        self.finished_s = time.monotonic()

    # ------------------------------------------------------------------------------------------------ pieces
    def _work(self) -> None:
        """Take in whatever arrives, at once, on the ingest thread; what ends it ends the process: see `run`."""
        assert self._backend is not None
        assert self._ingest is not None
        assert self._refitter is not None
        try:
            while not self._quit.is_set():
                self._backend.arrived.wait(0.05)
                arrivals = self._backend.take()
                if arrivals:
                    self._ingest.take(arrivals)
                    self._log_episodes()
                self._refitter.maybe_start()
                if self._rescorer is not None:
                    self._rescore(self._rescorer)
        except Exception as error:  # the top of this thread
            self._failure = error
            self._quit.set()

    def _say(self, message: str) -> None:
        self._message = message

    def _says(self, what: str, stop: threading.Event) -> fitting.OnStep:
        started = time.monotonic()

        def say(step: int, steps: int, loss: float) -> None:
            self._message = fitting.step_words(what, step, steps, time.monotonic() - started, loss)

        return fitting.unless(stop, say)

    def _shape(self, by_scores: bool) -> None:
        """Let the live model's scores shape the reward from here on, or none do; a large one's do in any case."""
        if self._rescorer is None or self._replay.score_version != self._rescorer.version:
            self._replay.activate_scores(self._scorer.version if by_scores else None)

    def _rescore(self, rescorer: Rescorer) -> None:
        """Offer what has ended to the large model; its scores count once it knows nearly all of it."""
        ended = [
            a.header.episode_id
            for a in self._statistics.accounts
            if a.end is not None and a.header.kind is not EpisodeKind.EVAL
        ]
        for episode_id in ended:
            rescorer.offer(episode_id)
        if self._replay.score_version != rescorer.version and rescorer.ready(ended):
            self._replay.activate_scores(rescorer.version)
            self._metrics.log("rescored", version=rescorer.version, episodes=len(rescorer.known))

    def _alarm(self, version: str, alarm: Alarm) -> None:
        log.warning("reward model %s is no longer trusted: %s", version, alarm.words)
        self._metrics.log("alarm", version=version, alarm=alarm.kind, words=alarm.words, episodes=list(alarm.episodes))

    def _not_saved(self, why: str) -> None:
        log.warning("%s", why)
        self._metrics.log("checkpoint_failed", reason=why)

    def _keep_best(self, params: Params) -> None:
        self._write_params("best", params)

    def _write_params(self, name: str, params: Params) -> None:
        fitting.write_tensors(
            self.folder / f"{name}.safetensors",
            {name: torch.from_numpy(np.array(value)) for name, value in params.tensors.items()},
            {**params.metadata, "version": str(params.version)},
        )

    def _trouble(self) -> str:
        """Return what an operator should know before anything else, or ""."""
        disk = self._backend.failure if self._backend is not None else ""
        cache, rescorer = self._recorded.cache, self._rescorer
        kept = cache.failure if cache is not None else ""
        return disk or self._writer.failure or kept or (rescorer.failure if rescorer is not None else "")

    # ------------------------------------------------------------------------------------------------ accounts
    def _log_episodes(self, *, final: bool = False) -> None:
        """Log a row per finished episode, two episodes later: its labels come once its steps are on disk."""
        accounts = self._statistics.accounts
        for account in accounts if final else accounts[:-2]:
            episode_id = account.header.episode_id
            if account.end is not None and episode_id not in self._logged:
                self._logged.add(episode_id)
                self._metrics.log("episode", **account.row(self._spec.rate_hz), reward_version=self._scorer.version)

    def status(self) -> LearnerStatus:
        """Return the learner's status, for actors and the console."""
        online = self._statistics.ended(EpisodeKind.ONLINE)
        last = [a for a in online if not a.header.backward][-20:]
        loop, cache = self._loop, self._recorded.cache
        return LearnerStatus(
            phase=self._phase,
            message=self._trouble() or self._message,
            counters={
                "demos": float(len(self._statistics.demos())),
                "episodes": float(len(online)),
                "env_steps": float(self._statistics.online_steps),
                "success_last20": float(np.mean([a.success for a in last])) if last else 0.0,
                "autonomous_last20": float(np.mean([a.success and not a.human_steps for a in last])) if last else 0.0,
                "human_share_last20": self._statistics.human_share(last),
                "progress": float(np.nan_to_num(online[-1].max_progress)) if online else 0.0,
                "updates": float(loop.updates) if loop is not None else 0.0,
                "updates_per_s": loop.rate_per_s if loop is not None else 0.0,
                "params_version": float(loop.params_version) if loop is not None else 0.0,
                "frames": float(len(self._replay.frames)) if loop is not None else 0.0,
                "damaged_features": float(cache.damaged) if cache is not None else 0.0,
            },
        )
