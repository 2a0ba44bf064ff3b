"""Updates, publication and checkpoints: what the learner does while the robot trains online.

Waits for neither ingest nor scoring; only the governor holds it back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from policies.encoders.trunk import Trunk
from policies.learner import Learner, TensorBatch
from robot_stack.learner.checkpoint import CheckpointWriter, not_finite
from robot_stack.learner.data.batches import Batches
from robot_stack.learner.distributed import DistributedLearner
from robot_stack.learner.fitting import step_words
from robot_stack.learner.held_out import HeldOutEpisodes
from robot_stack.learner.publishing import Publisher
from robot_stack.learner.reward.discount import Discount
from robot_stack.learner.settings import LearningSettings
from robot_stack.replay.replay import Replay
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.rows import ResumeRow, UpdateRow
from robot_stack.runs.statistics import EpisodeStatistics
from robot_stack.types.errors import ResumeError, StoreError

log = logging.getLogger(__name__)

PUBLISH_EVERY = 50
PUBLISH_S = 2.0
"""Longest time between two publications: an actor that hears nothing for long stops trusting its learner."""
LOG_EVERY = 200
MADE_UP = 6000
"""Updates that a learner makes up for which begins in the middle of a run, beside those on the demonstrations."""
BEHIND = 0.8
"""Share of the updates asked for below which the learner says that it lags."""
BEHIND_STEPS = 100
"""Online steps before which it does not."""
SHIFT_PX = 4
"""Random shifts of images that an encoder is trained on (DrQ, arXiv:2004.13649)."""
CHECKPOINT_S = 20.0
BEST_OF = 20
"""Newest online episodes whose share of successes without an operator's help makes a checkpoint the best."""

_REMEDY = "put run.yaml and trunk.safetensors back as they were, or start a new run"


class Governor:
    """A budget of updates, whatever the hardware is capable of: `pretrain` at once, then `utd` for each online step.

    A fast GPU waits for data instead of overfitting what little there is; a slow CPU is told by how much it lags.
    """

    def __init__(self, *, utd: float, pretrain: int) -> None:
        self._utd = utd
        self._pretrain = pretrain

    def allowed(self, env_steps: int) -> int:
        """Return how many updates may have been done once there are `env_steps` online steps."""
        return self._pretrain + int(self._utd * env_steps)

    def shortfall(self, updates: int, env_steps: int) -> str:
        """Return a line about how far the learner is behind its budget, or "" while it keeps up."""
        if env_steps < BEHIND_STEPS or updates >= self._pretrain + BEHIND * self._utd * env_steps:
            return ""
        return (
            f"updates per online step are {self.made_per_step(updates, env_steps):.1f}, must be {self._utd:g} as "
            "asked; this machine is too slow or too busy: free it, use a GPU, or lower utd"
        )

    def made_per_step(self, updates: int, env_steps: int) -> float:
        """Return the updates per online step, those before the first not counted."""
        return max(0, updates - self._pretrain) / env_steps

    def may_update(self, updates: int, env_steps: int) -> bool:
        """Return True while the learner is below its budget."""
        return updates < self.allowed(env_steps)


def next_batch(batches: Batches, rng: np.random.Generator, settings: LearningSettings, *, gamma: float) -> TensorBatch:
    """Draw the batch of the next update as the settings of a run ask for it, with the discount of now."""
    sampling = settings.config.sampling
    return batches.sample(
        rng,
        settings.config.batch_size,
        gamma=gamma,
        expert_fraction=sampling.expert_fraction,
        n_step=sampling.n_step,
        chunk=sampling.chunk,
        shift=SHIFT_PX if settings.trained_encoder else 0,
    )


class Updater:
    """A learner with the batches that it is updated on: everything that its next update depends on.

    Args:
        learner: Of the run's algorithm.
        settings: Of the learning side.
        batches: Gather what it draws.
        discount: The discount that they are drawn with.
        distributed: Deals them out to the processes that update along.
        held_out: Is told of each update before it is made.
        seed: Of the draws.
    """

    def __init__(
        self,
        learner: Learner,
        *,
        settings: LearningSettings,
        batches: Batches,
        discount: Discount,
        distributed: DistributedLearner,
        held_out: HeldOutEpisodes,
        seed: int,
    ) -> None:
        self.learner = learner
        self.held_out = held_out
        self.forgone = 0
        """Updates that are neither made nor owed: a learner that began in the middle of the run makes up for some."""
        self._settings = settings
        self._distributed = distributed
        self._batches = batches
        self._discount = discount
        self._rng = np.random.default_rng(seed)

    @property
    def updates(self) -> int:
        """Return the number of updates of the run so far: the learner's, and those that it need not make up for."""
        return self.forgone + int(self.learner.updates)

    def update(self) -> dict[str, torch.Tensor]:
        """Draw a batch and make one update; returns its metrics."""
        gamma = self._discount.gamma
        batch = next_batch(self._batches, self._rng, self._settings, gamma=gamma)
        self.held_out.before_update(gamma, self.updates)
        metrics = self.learner.update(self._distributed.deal(batch))
        if (mastered := self._discount.mastered) is not None:
            metrics = {**metrics, "mastered_ticks": torch.tensor(float(mastered))}
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """Return the state of learner and draws, for a checkpoint."""
        return {"learner": self.learner.state_dict(), "rng": _pack_rng(self._rng)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the state of learner and draws.

        Raises:
            ResumeError: If it is of another network.
        """
        self.load_learner(state["learner"])
        self._rng.bit_generator.state = _unpack_rng(state["rng"])

    def load_learner(self, state: Mapping[str, Any]) -> None:
        """Restore the state of the learner alone.

        Raises:
            ResumeError: If it is of another network.
        """
        try:
            self.learner.load_state_dict(state)
        except (RuntimeError, ValueError, KeyError) as error:
            why = " ".join(str(error).split()[:40])
            raise ResumeError(f"checkpoint is of another network ({why}), must be of this run's; {_REMEDY}") from error


class UpdateLoop:
    """The loop that updates, publishes, logs and saves, held back by nothing but its governor.

    Args:
        updater: Makes the updates.
        publisher: Hands the parameters to the actors.
        governor: Says how many updates may be made.
        replay: Is saved along.
        statistics: Of all episodes.
        metrics: Take a row now and then.
        checkpoints: Writes them.
        identity: Of what the learner is, see `identity_of`; stands in each checkpoint.
        beside: What else to keep in a checkpoint; tensors and plain values.
    """

    def __init__(
        self,
        *,
        updater: Updater,
        publisher: Publisher,
        governor: Governor,
        replay: Replay,
        statistics: EpisodeStatistics,
        metrics: MetricsLog,
        checkpoints: CheckpointWriter,
        identity: Mapping[str, str],
        beside: Callable[[], Mapping[str, Any]],
    ) -> None:
        self.updater = updater
        self.publisher = publisher
        self.rate_per_s = 0.0
        self._governor = governor
        self._replay = replay
        self._statistics = statistics
        self._metrics = metrics
        self._checkpoints = checkpoints
        self._identity = identity
        self._beside = beside
        self._behind = False

    @property
    def updates(self) -> int:
        """Return the number of updates of the run so far, see `Updater.updates`."""
        return self.updater.updates

    @property
    def frames(self) -> int:
        """Return the number of frames in the replay."""
        return len(self._replay.frames)

    def learn_from_recorded(self, stop: threading.Event, say: Callable[[str], None], *, online_steps: int = 0) -> None:
        """Do the updates that are owed for so many online steps, or what a stop left of them, while the robot waits."""
        started, before, wanted = time.monotonic(), self.updates, self._governor.allowed(online_steps)
        what = "learning from demonstrations" if online_steps == 0 else "learning from all episodes"
        while self._governor.may_update(self.updates, online_steps) and not stop.is_set():
            self.updater.update()
            done, elapsed_s = self.updates - before, time.monotonic() - started
            say(step_words(what, done, wanted - before, elapsed_s))

    def run(self, over: Callable[[], bool], pause: threading.Event) -> None:
        """Update within the governor's budget until `over`; publish, log and save on the way.

        Args:
            over: Asked before every update.
            pause: Waited on, briefly, while the budget is spent; set, it ends the wait.
        """
        saved_s = clock_s = published_s = time.monotonic()
        counted = published = self.updates
        newest: dict[str, torch.Tensor] = {}
        while not over():
            self.updater.held_out.ask()
            if not self._governor.may_update(self.updates, self._statistics.online_steps):
                pause.wait(0.01)
            else:
                newest |= self.updater.update()  # an update may leave out the actor's
                if self.updates % LOG_EVERY == 0:
                    now_s = time.monotonic()
                    self.rate_per_s = (self.updates - counted) / (now_s - clock_s)
                    counted, clock_s = self.updates, now_s
                    self._log(newest)
                    newest = {}
            now_s = time.monotonic()
            if self.updates - published >= PUBLISH_EVERY or now_s - published_s > PUBLISH_S:
                self.publisher.publish()
                published, published_s = self.updates, now_s
            if now_s - saved_s > CHECKPOINT_S:
                self.save()
                saved_s = now_s

    def save(self, *, wait: bool = False) -> None:
        """Copy all state now and write it in the background; with `wait`, return once it is on disk or refused.

        Raises:
            StoreError: If training has diverged: a next start would go on from what is beyond mending.
        """
        if wait:
            self._checkpoints.wait()
        updating = self.updater.state_dict()
        self._check_finite(updating["learner"])
        beside = self._beside()  # before the replay: a refit that ends in between is done again, not taken for done
        replay = self._replay.state_dict()
        state = {
            **self._identity,
            **updating,
            "replay": replay,
            "reward_version": replay["score_version"],  # of the model in use: a refit may be about to replace it
            **self.publisher.state_dict(),
            "forgone": self.updater.forgone,
            **beside,
        }
        success = self._statistics.recent_success(BEST_OF)
        params = None if np.isnan(success) else self.publisher.seal()
        self._checkpoints.save(self.updates, state, success=success, params=params)
        if wait:
            self._checkpoints.wait()

    def _check_finite(self, learner: Mapping[str, Any]) -> None:
        if (name := next(not_finite(learner), None)) is not None:
            steps = self._checkpoints.folder.steps()
            on = self._checkpoints.folder.path(steps[-1]) if steps else "the recorded episodes"
            raise StoreError(
                f"tensor {name} of the learner is not finite after {self.updates} updates, must be; training diverged "
                f"and that is not saved, the next start goes on from {on}: if it diverges again, begin a new run with "
                "a lower learning rate"
            )

    def start_from(self, learner: Mapping[str, Any]) -> None:
        """Start from an earlier run's learner; it counts as one that has made its updates on the demonstrations.

        Raises:
            ResumeError: If it is of another network.
        """
        self.updater.load_learner({**learner, "updates": self._governor.allowed(0)})

    def begin_anew(self, *, online_steps: int, params_version: int) -> None:
        """Begin with a new learner in the middle of online training: it makes up for some of the updates alone.

        Args:
            online_steps: Of the learners before it.
            params_version: Of the newest parameters before; those of this learner are numbered above it.
        """
        self.updater.forgone = max(0, self._governor.allowed(online_steps) - self._governor.allowed(0) - MADE_UP)
        self.publisher.go_on_above(params_version)
        self.publisher.pass_over_ended()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a checkpoint of this run, once episodes, labels and scores are in the replay.

        Raises:
            ResumeError: If it is of another network, or the replay lacks what it had seen.
        """
        self._replay.load_state_dict(state["replay"])
        self.updater.load_state_dict(state)
        self.publisher.load_state_dict(state)
        self.updater.forgone = state.get("forgone", 0)  # a checkpoint of before has none
        self._metrics.log(ResumeRow(updates=self.updates, env_steps=self._statistics.online_steps))

    def _log(self, metrics: dict[str, torch.Tensor]) -> None:
        steps = self._statistics.online_steps
        shortfall = self._governor.shortfall(self.updates, steps)
        if shortfall and not self._behind:
            log.warning("%s", shortfall)
        self._behind = bool(shortfall)
        self._metrics.log(
            UpdateRow(
                updates=self.updates,
                env_steps=steps,
                utd=self._governor.made_per_step(self.updates, steps) if steps else None,
                updates_per_s=self.rate_per_s,
                replay=len(self._replay.frames),
                params_version=self.publisher.version,
                metrics={name: float(value) for name, value in metrics.items()},
            )
        )


def check_identity(state: Mapping[str, Any], settings: LearningSettings, trunk: Trunk) -> None:
    """Raise ResumeError if a checkpoint is of another algorithm or trunk, before anything in it is used."""
    for name, wanted in identity_of(settings, trunk).items():
        if state.get(name) != wanted:
            raise ResumeError(f"{name} of the checkpoint is {state.get(name)!r}, must be {wanted!r}; {_REMEDY}")


def identity_of(settings: LearningSettings, trunk: Trunk) -> dict[str, str]:
    """Return the algorithm and the trunk by which a checkpoint is recognised."""
    return {"algorithm": settings.algorithm, "trunk": trunk.identity}


def _pack_rng(rng: np.random.Generator) -> dict[str, str]:
    """Pack a PCG64 state as text: its integers are wider than 64 bits."""
    state = rng.bit_generator.state
    inner = {name: str(value) for name, value in state["state"].items()}
    return {**inner, "has_uint32": str(state["has_uint32"]), "uinteger": str(state["uinteger"])}


def _unpack_rng(packed: dict[str, str]) -> dict[str, Any]:
    return {
        "bit_generator": "PCG64",
        "state": {"state": int(packed["state"]), "inc": int(packed["inc"])},
        "has_uint32": int(packed["has_uint32"]),
        "uinteger": int(packed["uinteger"]),
    }
