"""Replay: an index over frames in memory. Draws batches; labels and scores join when they come."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from robot_stack.replay.columns import check_step
from robot_stack.replay.frames import FrameTable
from robot_stack.replay.outcome import Outcome, OutcomeColumn
from robot_stack.replay.pools import Pools
from robot_stack.replay.potential import PotentialColumn
from robot_stack.replay.rewards import RewardRule, returns
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.types.batch import Batch
from robot_stack.types.command import Source
from robot_stack.types.errors import ResumeError, StoreError
from robot_stack.types.event import Label
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """B transitions as row numbers, before anything is gathered.

    Attributes:
        rows: Rows of o, int64, shape (B,).
        next_rows: Rows of o', int64, shape (B,).
        reward: float32, shape (B,).
        discount: float32, shape (B,).
        expert: Drawn from the expert pool, bool, shape (B,).
    """

    rows: np.ndarray
    next_rows: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    expert: np.ndarray


class Replay:
    """Transitions of all demo and online episodes. Safe for one writer and one sampler thread.

    Args:
        spec: Shapes.
        rule: What outcomes are worth.
        feature_size: F of a frozen trunk, or 0; then a transition counts once both frames have features.
        keep_images: False where features replace images.
    """

    def __init__(
        self, spec: Spec, rule: RewardRule | None = None, *, feature_size: int = 0, keep_images: bool = True
    ) -> None:
        self.frames = FrameTable(spec, feature_size=feature_size, keep_images=keep_images)
        self._spec = spec
        self._rule = rule if rule is not None else RewardRule()
        self._lock = threading.RLock()
        self._headers: dict[str, EpisodeHeader] = {}
        self._outcomes = OutcomeColumn()
        self._potential = PotentialColumn()
        self._pools: Pools | None = None
        self._batches = 0

    @property
    def pools(self) -> Pools:
        """The pools as of now."""
        with self._lock:
            if self._pools is None:
                self._pools = Pools.of(
                    self.frames,
                    (
                        (self.frames.episode(episode_id), header.kind)
                        for episode_id, header in sorted(self._headers.items())
                        if header.kind is not EpisodeKind.EVAL and self._outcomes.of(episode_id) is not Outcome.DISCARD
                    ),
                )
            return self._pools

    @property
    def rejected_scores(self) -> int:
        """Scores dropped since their length was not that of their episode."""
        return self._potential.rejected

    def frame_count(self, episode_id: str) -> int:
        """Frames held of an episode: the index of the step it takes next."""
        with self._lock:
            return len(self.frames.episode(episode_id).rows) if episode_id in self._headers else 0

    def outcome(self, episode_id: str) -> Outcome:
        """What an episode counts as, as of now."""
        with self._lock:
            return self._outcomes.of(episode_id)

    def begin(self, header: EpisodeHeader) -> None:
        """Announce an episode; repeating it is harmless."""
        with self._lock:
            self._headers.setdefault(header.episode_id, header)
            self._settle(header.episode_id)

    def add_step(self, step: Step) -> bool:
        """Take the next step; False if it is there already, its episode has ended, or it is of an EVAL episode.

        Raises:
            StoreError: On a gap or an unknown episode.
            SpecError: If the step does not fit the spec.
        """
        with self._lock:
            header = self._header(step.episode_id)
            held = self.frame_count(step.episode_id)
            if header.kind is EpisodeKind.EVAL or step.index < held or step.episode_id in self._outcomes.ends:
                return False
            if step.index > held:
                raise StoreError(f"step index of {step.episode_id} is {step.index}, must be {held}; resend from there")
            check_step(step, self._spec)
            self.frames.add(step)
            self._pools = None
            if step.end is not None:
                self.end_episode(step.episode_id, step.end)
            return True

    def add_episode(self, episode: StoredEpisode) -> None:
        """Take an episode from disk, closed or not."""
        self.begin(episode.header)
        for step in episode.steps():
            self.add_step(step)

    def end_episode(self, episode_id: str, end: EndReason) -> None:
        """End an episode at its newest frame, as when its actor is gone; a second end is ignored."""
        with self._lock:
            if self._header(episode_id).kind is EpisodeKind.EVAL:
                return
            if episode_id not in self._outcomes.ends:
                self._outcomes.ends[episode_id] = end
                self._settle(episode_id)
                self._potential.join(episode_id, self.frames.episode(episode_id))

    def set_features(self, episode_id: str, features: np.ndarray, start: int = 0) -> None:
        """Set the frozen trunk's features, float16 (n, F), of frames start, start+1, ..."""
        with self._lock:
            self._header(episode_id)
            self.frames.set_features(episode_id, features, start)
            self._pools = None

    def add_label(self, label: Label) -> None:
        """Take a label, also of an episode not known yet; it may flip outcome, reward and discount."""
        with self._lock:
            self._outcomes.add_label(label)
            self._settle(label.episode_id)

    def add_scores(self, scores: EpisodeScores) -> None:
        """Take scores of any version and episode, in any order; they count once version and episode are settled.

        Raises:
            StoreError: If they are malformed.
        """
        with self._lock:
            ended = scores.episode_id in self._outcomes.ends
            self._potential.add(scores, self.frames.episode(scores.episode_id) if ended else None)

    def activate_scores(self, version: str | None) -> None:
        """Shape rewards by Φ of `version` from the next draw on; None leaves the sparse reward alone."""
        with self._lock:
            self._potential.activate(version)
            for episode_id in self._outcomes.ends:
                self._potential.join(episode_id, self.frames.episode(episode_id))

    def draw(
        self,
        rng: np.random.Generator,
        batch_size: int,
        *,
        gamma: float,
        expert_fraction: float = 0.5,
        n_step: int = 1,
    ) -> Draw:
        """Draw transitions, `expert_fraction` of them from the expert pool, uniformly in each pool.

        Raises:
            StoreError: If there is nothing to draw, or an argument is out of range.
        """
        if batch_size < 1 or n_step < 1 or not 0.0 <= expert_fraction <= 1.0 or not 0.0 <= gamma <= 1.0:
            raise StoreError(
                f"draw is of {batch_size} rows, {n_step} steps, expert fraction {expert_fraction}, gamma {gamma}, "
                "must be of 1 or more rows and steps, fraction and gamma in [0, 1]"
            )
        with self._lock:
            pools = self.pools
            if not len(pools.expert) and not len(pools.online):
                raise StoreError("replay size is 0 transitions, must be 1 or more; record or load episodes first")
            rows, expert = pools.draw(rng, batch_size, expert_fraction)
            next_rows, steps = self.frames.walk(rows, n_step)
            reward, discount = returns(
                self._rule,
                gamma,
                steps=steps,
                outcome=self._outcomes.at(next_rows),
                phi=self._potential.at(rows),
                next_phi=self._potential.at(next_rows),
            )
            self._batches += 1
        return Draw(rows=rows, next_rows=next_rows, reward=reward, discount=discount, expert=expert)

    def gather(self, draw: Draw) -> Batch:
        """Fetch what a draw points at."""
        column, rows = self.frames.column, draw.rows
        silent = (column("source")[rows] == Source.HUMAN) & ~column("gripper_pressed")[rows]
        features, proprio = column("features"), column("proprio")
        return Batch(
            features=features[rows],
            proprio=proprio[rows],
            action=column("executed")[rows],
            reward=draw.reward,
            discount=draw.discount,
            next_features=features[draw.next_rows],
            next_proprio=proprio[draw.next_rows],
            expert=draw.expert,
            gripper_label=~silent,
            episode=column("episode")[rows].astype(np.int64),
            frame=column("frame")[rows].astype(np.int64),
        )

    def sample(
        self,
        rng: np.random.Generator,
        batch_size: int,
        *,
        gamma: float,
        expert_fraction: float = 0.5,
        n_step: int = 1,
    ) -> Batch:
        """`gather` of a `draw`."""
        return self.gather(self.draw(rng, batch_size, gamma=gamma, expert_fraction=expert_fraction, n_step=n_step))

    def images(self, draw: Draw) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Images of o and of o', camera name -> uint8 (B, H, W, 3), for a trunk that is trained."""
        return self.frames.images(draw.rows), self.frames.images(draw.next_rows)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint needs to know of the replay, as JSON; the frames themselves are on disk."""
        with self._lock:
            return {
                "batches": self._batches,
                "score_version": self._potential.version,
                "scored_episodes": self._potential.scored(self._potential.version),
                "labels": self._outcomes.label_count,
                "episodes": {i: len(self.frames.episode(i).rows) for i in sorted(self._outcomes.ends)},
            }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint, after episodes, labels and scores were loaded.

        Raises:
            ResumeError: If something that was there at the checkpoint is missing; the message names it.
        """
        with self._lock:
            for episode_id, frames in state["episodes"].items():
                if self.frame_count(episode_id) != frames or episode_id not in self._outcomes.ends:
                    raise ResumeError(
                        f"episode {episode_id} has {self.frame_count(episode_id)} frames, must have {frames} as at "
                        "the checkpoint; restore it or start a new run"
                    )
            version = state["score_version"]
            for what, found, wanted in (
                ("labels", self._outcomes.label_count, state["labels"]),
                (f"episodes scored by {version}", self._potential.scored(version), state["scored_episodes"]),
            ):
                if found < wanted:
                    raise ResumeError(f"number of {what} is {found}, must be {wanted} or more as at the checkpoint")
            self.activate_scores(version)
            self._batches = int(state["batches"])

    def _header(self, episode_id: str) -> EpisodeHeader:
        if episode_id not in self._headers:
            raise StoreError(f"episode is {episode_id!r}, must be one that has begun; call begin first")
        return self._headers[episode_id]

    def _settle(self, episode_id: str) -> None:
        rows = self.frames.episode(episode_id).rows if episode_id in self._headers else []
        if self._outcomes.settle(episode_id, rows[-1] if rows else None):
            self._pools = None
