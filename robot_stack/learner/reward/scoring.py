"""Scores frames in the learner process: the running episodes live, finished ones again after each refit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np

from reward_models.decode import gated
from robot_stack.learner.fitting import RewardNetwork
from robot_stack.learner.reward.success import Rule
from robot_stack.types.reward import EpisodeScores, LiveScore


class Scorer:
    """The active progress model, with the inputs of every episode and the newest live scores.

    Args:
        make_rule: Builds the success rule of an episode.
        gate: How fast Φ stops following where the members of the model contradict each other; 0 is no gate. It acts on
            what shapes the reward, whole episodes; live scores are what the model says.

    Attributes:
        trusted: Whether the model may declare success.
    """

    def __init__(self, make_rule: Callable[[], Rule], *, gate: float = 0.0) -> None:
        self._make_rule = make_rule
        self._gate = gate
        self._model: RewardNetwork | None = None
        self._inputs: dict[str, np.ndarray] = {}
        self._proprio: dict[str, np.ndarray] = {}
        self._scored: dict[str, int] = {}
        self._rules: dict[str, Rule] = {}
        self._live: list[LiveScore] = []
        self._dropped = 0
        self._news = threading.Condition()
        self.trusted = True

    @property
    def version(self) -> str:
        """Return the version of the active model, "" before the first."""
        return self._model.version if self._model is not None else ""

    def add(self, episode_id: str, inputs: np.ndarray, proprio: np.ndarray) -> None:
        """Add frames of an episode, in order: model inputs (n, D) and proprio (n, P)."""
        known = self._inputs.get(episode_id)
        self._inputs[episode_id] = inputs if known is None else np.concatenate([known, inputs])
        known = self._proprio.get(episode_id)
        self._proprio[episode_id] = proprio if known is None else np.concatenate([known, proprio])

    def forget_inputs(self) -> None:
        """Forget model and inputs, which another encoder gives anew; live scores go on where they are."""
        self._model = None
        self._inputs, self._proprio = {}, {}

    def holds(self, episode_id: str) -> bool:
        """Return whether an episode's frames are here; those of a damaged one are not."""
        return episode_id in self._inputs

    def inputs(self, episode_id: str) -> np.ndarray:
        """Return the model inputs of an episode so far, (T, D)."""
        return self._inputs[episode_id]

    def proprio(self, episode_id: str) -> np.ndarray:
        """Return the proprio of an episode so far, (T, P)."""
        return self._proprio[episode_id]

    def claimed_at(self, episode_id: str, success: np.ndarray) -> int | None:
        """Return the frame at which a model would declare success in an episode, None if it would not.

        Args:
            episode_id: Of an episode whose frames are here.
            success: What the model says of them, shape (T,).
        """
        rule = self._make_rule()
        for t, (p, proprio) in enumerate(zip(success, self._proprio[episode_id], strict=True)):
            if rule.update(float(p), proprio):
                return t
        return None

    def declares(self, episode_ids: Sequence[str], model: RewardNetwork | None = None) -> int:
        """Return in how many whole episodes a model would declare success, by default the active one."""
        model = self._model if model is None else model
        assert model is not None
        found = (self.claimed_at(name, model.score(self._inputs[name]).success) for name in episode_ids)
        return sum(frame is not None for frame in found)

    def score_live(self, episode_id: str) -> None:
        """Score the frames that came since the last call and tell the readers."""
        model = self._model
        if model is None or episode_id not in self._inputs:
            return
        start = self._scored.get(episode_id, 0)
        scores = model.score(self._inputs[episode_id], start)
        progress, success = scores.progress, scores.success
        rule = self._rules.setdefault(episode_id, self._make_rule())
        fresh = []
        for i, (phi, p) in enumerate(zip(progress, success, strict=True)):
            declared = rule.update(float(p) if self.trusted else np.nan, self._proprio[episode_id][start + i])
            fresh.append(
                LiveScore(
                    episode_id=episode_id,
                    index=start + i,
                    progress=float(phi),
                    success=float(p),
                    declared=declared,
                    version=model.version,
                )
            )
        self._scored[episode_id] = start + len(progress)
        with self._news:
            self._live += fresh
            if len(self._live) > 2000:
                self._dropped += len(self._live) - 1000
                self._live = self._live[-1000:]
            self._news.notify_all()

    def after(self, cursor: int, timeout_s: float) -> tuple[int, list[LiveScore]]:
        """Return the next cursor and the live scores since `cursor`; waits up to `timeout_s` for some."""
        with self._news:
            self._news.wait_for(lambda: self._dropped + len(self._live) > cursor, timeout_s)
            end = self._dropped + len(self._live)
            return end, self._live[max(0, cursor - self._dropped) :]

    def finish(self, episode_id: str) -> EpisodeScores | None:
        """Score a whole episode by the active model; None without a model."""
        return None if self._model is None else self._score(self._model, episode_id)

    def adopt(self, model: RewardNetwork, episode_ids: list[str]) -> list[EpisodeScores]:
        """Score whole episodes with a new model, then make it the active one."""
        scores = [self._score(model, episode_id) for episode_id in episode_ids if episode_id in self._inputs]
        self._model = model
        return scores

    def _score(self, model: RewardNetwork, episode_id: str) -> EpisodeScores:
        progress, success, spread = model.score(self._inputs[episode_id])[:3]
        if self._gate:
            progress = gated(progress, spread, alpha=self._gate).astype(np.float32)
        return EpisodeScores(episode_id=episode_id, version=model.version, progress=progress, success=success)
