"""Updates, publication and checkpoints: what the learner does while the robot trains online.

Waits for neither ingest nor scoring; only the governor holds it back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from policies.acting import actor_metadata, pack_tensors
from policies.encoders.trunk import Trunk
from policies.learner import LearnerSpec, WatchesEpisodes
from policies.registry import find_algorithm
from robot_stack.learner.backend import ParamsBoard
from robot_stack.learner.batches import make_batches
from robot_stack.learner.checkpoint import CheckpointWriter
from robot_stack.learner.distributed import DistributedLearner
from robot_stack.learner.fitting import step_words
from robot_stack.learner.settings import LearningSettings
from robot_stack.replay.replay import Replay
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.rows import ResumeRow, UpdateRow
from robot_stack.runs.statistics import EpisodeStatistics
from robot_stack.transport.bundle import SPEC_DIGEST, seal
from robot_stack.types.errors import ResumeError
from robot_stack.types.params import Params
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EpisodeKind

PUBLISH_EVERY = 50
PUBLISH_S = 2.0
"""Longest time between two publications: an actor that hears nothing for long stops trusting its learner."""
LOG_EVERY = 200
SHIFT_PX = 4
"""Random shifts of images that an encoder is trained on (DrQ, arXiv:2004.13649)."""
CHECKPOINT_S = 20.0
BEST_OF = 20
"""Newest online episodes whose share of successes without an operator's help makes a checkpoint the best."""
HELD_BACK = 2
"""Newest ended episodes that a learner which watches them is not told of yet: their verdicts may still be to come."""
VERSIONS_PER_LIFE = 20_000
"""A resumed learner numbers this far above its checkpoint: actors hold versions that the checkpoint never saw."""

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

    def may_update(self, updates: int, env_steps: int) -> bool:
        """Return True while the learner is below its budget."""
        return updates < self.allowed(env_steps)


class UpdateLoop:
    """The update loop of a learner, with everything that its next update depends on.

    Args:
        beside: What else to keep in a checkpoint; tensors and plain values.
    """

    def __init__(
        self,
        *,
        spec: Spec,
        settings: LearningSettings,
        sizes: LearnerSpec,
        trunk: Trunk,
        replay: Replay,
        statistics: EpisodeStatistics,
        metrics: MetricsLog,
        board: ParamsBoard,
        checkpoints: CheckpointWriter,
        distributed: DistributedLearner,
        beside: Callable[[], Mapping[str, Any]],
        seed: int,
    ) -> None:
        self._spec = spec
        self._settings = settings
        self._trunk = trunk
        self._replay = replay
        self._statistics = statistics
        self._metrics = metrics
        self._board = board
        self._checkpoints = checkpoints
        self._beside = beside
        config = settings.config
        self._learner = find_algorithm(settings.algorithm).learner(sizes, config, seed=seed, device=settings.device)
        self._learner.ranks = distributed.ranks
        self._distributed = distributed
        self._batches = make_batches(replay, settings.device)
        self._rng = np.random.default_rng(seed)
        self._governor = Governor(utd=config.utd, pretrain=config.pretrain_updates)
        self._told: list[str] = []
        self._untold: list[str] = []
        """Online episodes that have ended, in the order in which they were seen to end."""
        self.params_version = 0
        self.rate_per_s = 0.0

    @property
    def updates(self) -> int:
        """Return the number of updates done so far."""
        return int(self._learner.updates)

    @property
    def frames(self) -> int:
        """Return the number of frames in the replay."""
        return len(self._replay.frames)

    def learn_from_demos(self, stop: threading.Event, say: Callable[[str], None]) -> None:
        """Do the updates before the first online step, or what a stop left of them."""
        started, before, wanted = time.monotonic(), self.updates, self._governor.allowed(0)
        while self._governor.may_update(self.updates, 0) and not stop.is_set():
            self._update()
            done, elapsed_s = self.updates - before, time.monotonic() - started
            say(step_words("learning from demonstrations", done, wanted - before, elapsed_s))

    def run(self, over: Callable[[], bool], pause: threading.Event) -> None:
        """Update within the governor's budget until `over`; publish, log and save on the way.

        Args:
            over: Asked before every update.
            pause: Waited on, briefly, while the budget is spent; set, it ends the wait.
        """
        saved_s = clock_s = published_s = time.monotonic()
        counted = published = self.updates
        while not over():
            if not self._governor.may_update(self.updates, self._statistics.online_steps):
                pause.wait(0.01)
            else:
                metrics = self._update()
                if self.updates % LOG_EVERY == 0:
                    now_s = time.monotonic()
                    self.rate_per_s = (self.updates - counted) / (now_s - clock_s)
                    counted, clock_s = self.updates, now_s
                    self._log(metrics)
            now_s = time.monotonic()
            if self.updates - published >= PUBLISH_EVERY or now_s - published_s > PUBLISH_S:
                self.publish()
                published, published_s = self.updates, now_s
            if now_s - saved_s > CHECKPOINT_S:
                self.save()
                saved_s = now_s

    def finish(self) -> Params:
        """Return the last parameters: all verdicts are here, so the learner hears of every episode first."""
        self._tell(held_back=0)
        return self._seal()

    def _seal(self) -> Params:
        """Seal the actor's parameters as they are now, under the next version."""
        self.params_version += 1
        return self._sealed()

    def _sealed(self) -> Params:
        config = self._settings.config
        metadata = actor_metadata(
            self._trunk,
            algorithm=self._settings.algorithm,
            config=config,
            trained=self._settings.trained_encoder,
        )
        return seal(
            version=self.params_version,
            tensors=pack_tensors(self._trunk, self._learner.actor_tensors(), self._learner.trunk_tensors()),
            metadata={**metadata, SPEC_DIGEST: self._spec.digest},
        )

    def publish(self) -> None:
        """Publish the parameters to all actors; the learner first hears how the episodes since have ended."""
        self._tell(held_back=HELD_BACK)
        self._board.publish(self._seal())

    def _tell(self, *, held_back: int) -> None:
        """Tell a learner that watches episodes of each once, in the order in which they ended, but for the newest."""
        if not isinstance(self._learner, WatchesEpisodes):
            return
        online = (a for a in self._statistics.ended(EpisodeKind.ONLINE) if a.header.first_task)
        ended = {account.header.episode_id: account for account in online}
        seen = dict.fromkeys((*self._untold, *ended))  # the statistics are in the order of their start
        told = set(self._told)
        untold = [name for name in seen if name in ended and name not in told]
        due = max(0, len(untold) - held_back)
        for name in untold[:due]:
            self._learner.episode_ended(success=ended[name].success, human_steps=ended[name].human_steps)
        self._told += untold[:due]
        self._untold = untold[due:]

    def save(self, *, wait: bool = False) -> None:
        """Copy all state now and write it in the background; with `wait`, return once it is on disk or refused."""
        if wait:
            self._checkpoints.wait()
        beside = self._beside()  # before the replay: a refit that ends in between is done again, not taken for done
        replay = self._replay.state_dict()
        state = {
            **_identity(self._settings, self._trunk),
            "learner": self._learner.state_dict(),
            "replay": replay,
            "rng": _pack_rng(self._rng),
            "reward_version": replay["score_version"],  # of the model in use: a refit may be about to replace it
            "params_version": self.params_version,
            "told_episodes": self._told,
            "untold_episodes": self._untold,
            **beside,
        }
        success = self._statistics.recent_success(BEST_OF)
        params = None if np.isnan(success) else self._sealed()
        self._checkpoints.save(self.updates, state, success=success, params=params)
        if wait:
            self._checkpoints.wait()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a checkpoint of this run, once episodes, labels and scores are in the replay.

        Raises:
            ResumeError: If it is of another network, or the replay lacks what it had seen.
        """
        self._replay.load_state_dict(state["replay"])
        try:
            self._learner.load_state_dict(state["learner"])
        except (RuntimeError, ValueError, KeyError) as error:
            why = " ".join(str(error).split()[:40])
            raise ResumeError(f"checkpoint is of another network ({why}), must be of this run's; {_REMEDY}") from error
        self._told, self._untold = state["told_episodes"], state["untold_episodes"]
        self._rng.bit_generator.state = _unpack_rng(state["rng"])
        self.params_version = state["params_version"] + VERSIONS_PER_LIFE
        self._metrics.log(ResumeRow(updates=self.updates, env_steps=self._statistics.online_steps))

    def _update(self) -> dict[str, torch.Tensor]:
        sampling = self._settings.config.sampling
        batch = self._batches.sample(
            self._rng,
            self._settings.config.batch_size,
            gamma=sampling.gamma,
            expert_fraction=sampling.expert_fraction,
            n_step=sampling.n_step,
            chunk=sampling.chunk,
            shift=SHIFT_PX if self._settings.trained_encoder else 0,
        )
        metrics: dict[str, torch.Tensor] = self._learner.update(self._distributed.deal(batch))
        return metrics

    def _log(self, metrics: dict[str, torch.Tensor]) -> None:
        steps = self._statistics.online_steps
        self._metrics.log(
            UpdateRow(
                updates=self.updates,
                env_steps=steps,
                utd=self.updates / steps if steps else None,
                updates_per_s=self.rate_per_s,
                replay=len(self._replay.frames),
                params_version=self.params_version,
                metrics={name: float(value) for name, value in metrics.items()},
            )
        )


def check_identity(state: Mapping[str, Any], settings: LearningSettings, trunk: Trunk) -> None:
    """Raise ResumeError if a checkpoint is of another algorithm or trunk, before anything in it is used."""
    for name, wanted in _identity(settings, trunk).items():
        if state.get(name) != wanted:
            raise ResumeError(f"{name} of the checkpoint is {state.get(name)!r}, must be {wanted!r}; {_REMEDY}")


def _identity(settings: LearningSettings, trunk: Trunk) -> dict[str, str]:
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
