"""The learner's job from the first demonstration to the last update, phase after phase.

    preparation:      collect_demos -> fit_encoders -> restore_replay -> build_reward -> build_loop -> fit_or_restore
    online_training:  train_online -> finish

Each phase takes what those before it hand on. Where the encoder is fitted again (`encoder.refit`), online training
ends with a new one, and all phases are gone through again behind it. The update loop runs in the main thread and
waits for nobody; ingest and scoring have a thread of their own, and so does each refit of the reward model.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack
from pathlib import Path

import torch

from policies.distributed import ALONE, Ranks
from robot_stack.config.resolved import ResolvedRun
from robot_stack.disk.durable import write_durable
from robot_stack.learner import fitting
from robot_stack.learner.backend import Backend, ParamsBoard
from robot_stack.learner.distributed import DistributedLearner
from robot_stack.learner.encoder.refit import adopt, adopted, finish_adoption, refits_at
from robot_stack.learner.online_training import finish, train_online
from robot_stack.learner.preparation import (
    OnlineLearner,
    build_loop,
    build_reward,
    collect_demos,
    fit_encoders,
    fit_or_restore,
    load_checkpoint,
    log_fit,
    restore_replay,
    start_rescorer,
)
from robot_stack.learner.run_parts import open_parts
from robot_stack.learner.settings import learning_settings
from robot_stack.learner.warm_start import WarmStart, prepare_start, read_start
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.rows import QuarantineRow
from robot_stack.transport.access.security import learner_credentials
from robot_stack.transport.backend import LearnerStatus
from robot_stack.transport.server import LearnerServer
from robot_stack.types.errors import ConfigError


class Training:
    """The training of one run in its folder, which holds all that is needed to go on after a kill."""

    def __init__(
        self, resolved: ResolvedRun, folder: Path, *, wandb_mode: str = "disabled", ranks: Ranks = ALONE
    ) -> None:
        torch.set_num_threads(1)
        if ranks.count > 1 and refits_at(learning_settings(resolved).encoder_config):
            raise ConfigError(
                f"run.encoder.settings.refit_at is set for a learner in {ranks.count} processes, must not be: these "
                "cannot change their encoder together; leave it out, or train in one process"
            )
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
        self.has_trained = False
        """Whether online training has begun, or gone on, since this start."""
        self.finished_s = float("inf")
        """When the run came to its end, by the monotonic clock."""
        self._distributed = DistributedLearner(ranks, self.parts.settings.config.batch_size)
        self._closing = ExitStack()
        self._closing.callback(self.parts.metrics.close)
        self._closing.callback(self.parts.store.close)
        self._closing.callback(self.parts.restorer.close)
        self._scoring = self._closing.enter_context(ExitStack())

    def serve(self, address: str) -> str:
        """Open the store and listen for actors; returns host:port.

        Raises:
            StoreError, TransportError: If the folder is in use or of another run, or the port is taken.
            ConfigError: If the run cannot start from the one that it names.
        """
        parts = self.parts
        prepare_start(parts.resolved, parts.folder)
        parts.store.open()
        self.backend.run_id = f"{parts.folder.name}-{parts.store.id}"  # one that is made anew in its place is another
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
        write_durable(RunPaths(parts.folder).address, bound)
        return bound

    def run(self, stop: threading.Event) -> None:
        """Run all phases, or until `stop`; a stop in training saves a checkpoint first.

        Raises:
            StoreError: If the disk refused the last checkpoint.
            Exception: Whatever ended one of the threads: the process must not go on without it.
        """
        again = True
        while again:
            try:
                learner = self.prepare(stop)
            except fitting.Stopped:
                return
            if stop.is_set():
                return
            self.has_trained = True
            again = train_online(self.parts, self.backend, learner, stop)
            if again:
                self._take_encoder(learner)
                del learner
        if not stop.is_set():
            finish(self.parts, learner)
            self.finished_s = time.monotonic()

    def _take_encoder(self, learner: OnlineLearner) -> None:
        """Put the encoder that lies ready in the place of the one in use; what was made behind that is forgotten."""
        parts = self.parts
        parts.status.enter("fitting")
        self._scoring.close()
        parts.restorer.close()
        parts.scorer.forget_inputs()
        parts.store.flush()
        adopt(parts.folder, online_steps=parts.statistics.online_steps, params_version=learner.loop.publisher.version)
        parts.status.loop = None  # or the old replay and learner stay in memory while the new ones are made

    def prepare(self, stop: threading.Event) -> OnlineLearner:
        """Run the phases before online training, or restore what a killed run left of them.

        Raises:
            Stopped: If `stop` was set before the encoder, the replay and the reward model were there.
            ResumeError: If what a killed run left cannot be gone on with exactly.
        """
        parts = self.parts
        finish_adoption(parts.folder)
        refitted = adopted(parts.folder)
        start = read_start(parts.folder) if refitted is None else WarmStart()
        begun = start.learner is not None or refitted is not None
        fitted = refitted is not None or (start.learner is not None and start.reward is not None)
        demos = collect_demos(parts, self.backend, stop, fitted=fitted or bool(parts.checkpoints.folder.steps()))
        started_s = time.monotonic()
        parts.status.enter("fitting")
        checkpoint = load_checkpoint(parts)
        encoders = fit_encoders(parts, demos, checkpoint, stop)
        parts.restorer.keep_features(encoders.trunk.identity if encoders.one else None)
        encoders_s = time.monotonic() - started_s
        recorded = restore_replay(parts, encoders, checkpoint, stop)
        rescorer = start_rescorer(parts, recorded.ingest, demos)
        if rescorer is not None:
            self._scoring.callback(parts.status.watched.remove, rescorer)
            self._scoring.callback(rescorer.close)
        reward = build_reward(parts, encoders.reward, recorded, rescorer)
        loop = build_loop(parts, encoders, recorded, reward, self.board, self._distributed)
        learner = OnlineLearner(recorded=recorded, reward=reward, loop=loop)
        if refitted is not None:
            parts.statistics.counts_above = refitted.params_version
        fit_or_restore(parts, learner, checkpoint, start, refitted, stop)
        if checkpoint is None and begun:
            loop.save(wait=True)  # other processes of the learner take it from there
        self._distributed.begin(encoders.sizes, resumed=checkpoint is not None or begun)
        earlier = 0 if refitted is None else refitted.online_steps
        loop.learn_from_recorded(stop, parts.status.say, online_steps=earlier)
        if stop.is_set():  # what has not learned yet is not handed to an actor that may go on by itself
            loop.save(wait=True)
            raise fitting.Stopped
        loop.publisher.publish()
        loop.save(wait=True)
        total_s = time.monotonic() - started_s
        log_fit(parts, encoders, recorded, encoder=refitted, encoders_s=encoders_s, total_s=total_s)
        return learner

    def close(self) -> None:
        """Stop serving and close the store; what arrived is on disk."""
        self._closing.close()

    def status(self) -> LearnerStatus:
        """Return the learner's status, for actors and the console."""
        return self.parts.status.status()
