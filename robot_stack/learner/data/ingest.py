"""Turns what arrives from actors into what is trained on: features once per frame, live scores, replay, statistics."""

from __future__ import annotations

import numpy as np

from policies.encoders.trunk import Trunk, encode_frames
from robot_stack.learner.backend import Arrival, EpisodeCut
from robot_stack.learner.data.feature_cache import CachedEpisode, FeatureCache
from robot_stack.learner.data.training_data import reward_inputs, sensed_only
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.replay.columns import IMAGE_PREFIX
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.replay.stored_episode import StoredEpisode
from robot_stack.runs.statistics import EpisodeStatistics
from robot_stack.types.event import Label
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason, EpisodeHeader, EpisodeKind, Step


class Ingest:
    """The intake of episodes: one thread of the learner process calls it; the update loop reads the replay meanwhile.

    Args:
        trunk: Frozen encoder whose features the replay keeps; None where it is trained, from the replay's images.
        reward_encoder: What the reward model sees through; the same, or one of its own.
        replay: Takes steps and features.
        store: Takes scores.
        scorer: Takes what the reward model reads.
        statistics: Counts what arrives.
        cache: Keeps features, where the two encoders are the same; else None, and a resume reads images.
    """

    def __init__(
        self,
        *,
        trunk: Trunk | None,
        reward_encoder: Trunk,
        replay: Replay,
        store: EpisodeStore,
        scorer: Scorer,
        statistics: EpisodeStatistics,
        cache: FeatureCache | None,
    ) -> None:
        self._trunk = trunk
        self._reward_encoder = reward_encoder
        self._replay = replay
        self._store = store
        self._scorer = scorer
        self._statistics = statistics
        self._cache = cache

    def load_cached(self, cached: CachedEpisode) -> None:
        """Load a finished episode whose features are known; its scores join later."""
        self._load(cached.episode, cached.features)

    def load(self, episode: StoredEpisode, known: np.ndarray | None = None) -> None:
        """Load an episode from disk, with its images; its scores join later.

        Args:
            episode: Closed or not.
            known: Features of its first frames as a learner before this one computed them, float16 (k, F): a pass of
                the trunk over other frames beside them may differ in the last bit.
        """
        episode_id, proprio = episode.header.episode_id, episode.arrays["proprio"]
        images = {c.name: episode.arrays[IMAGE_PREFIX + c.name] for c in episode.spec.cameras}
        if self._trunk is not self._reward_encoder:
            self._statistics.recount(episode)
            self._replay.add_episode(episode)
            self._featurise(episode_id, images, proprio, 0)
            return
        known = np.empty((0, self._reward_encoder.feature_size), np.float16) if known is None else known
        known = known[: len(proprio)]  # frames that were lost with the actor's last half second
        images = {name: pixels[len(known) :] for name, pixels in images.items()}
        fresh = encode_frames(self._reward_encoder, images, len(proprio) - len(known))
        self._load(episode, np.concatenate([known, fresh]))
        self._keep(episode_id)

    def _load(self, episode: StoredEpisode, features: np.ndarray) -> None:
        episode_id, proprio = episode.header.episode_id, episode.arrays["proprio"]
        self._statistics.recount(episode)
        self._replay.add_episode(episode)
        self._replay.set_features(episode_id, features)
        self._scorer.add(episode_id, reward_inputs(features, sensed_only(proprio, self._replay.spec)), proprio)

    def restore_scores(self, version: str) -> dict[str, np.ndarray]:
        """Let a reward model's scores on disk join the replay; return Φ per frame of the episodes that have them."""
        found = {}
        for scores in self._store.scores(version):
            if self._replay.frame_count(scores.episode_id) == len(scores.progress):
                self._join(scores)
                found[scores.episode_id] = scores.progress
        return found

    def uncached(self) -> dict[str, np.ndarray]:
        """Return the features that no file of the cache holds yet, float16 (n, F) per episode, for a checkpoint."""
        if self._cache is None:
            return {}
        names = [name for name in self._replay.frames.episode_ids if not self._cache.holds(name)]
        return {name: features for name in names if len(features := self._features(name))}

    def _features(self, episode_id: str) -> np.ndarray:
        """Return the features of an episode's frames so far; another thread may add more meanwhile."""
        episode = self._replay.frames.episode(episode_id)
        rows = episode.rows[: episode.featured]
        return np.asarray(self._replay.frames.column("features")[rows])

    def take(self, arrivals: list[Arrival]) -> None:
        """Take in what came over the link since the last call, in order."""
        steps: list[Step] = []
        for arrival in arrivals:
            if isinstance(arrival, Step):
                steps.append(arrival)
                continue
            self._take_steps(steps)
            steps = []
            if isinstance(arrival, EpisodeHeader):
                self._statistics.begin(arrival)
                self._replay.begin(arrival)
            elif isinstance(arrival, Label):
                self._statistics.label(arrival)
                self._replay.add_label(arrival)
            elif isinstance(arrival, EpisodeCut):
                self._cut(arrival)
        self._take_steps(steps)

    def _take_steps(self, steps: list[Step]) -> None:
        """Take in steps, one episode after the other: one pass of the trunk for all that came together."""
        for episode_id in dict.fromkeys(step.episode_id for step in steps):
            mine = [step for step in steps if step.episode_id == episode_id]
            account = self._statistics.episodes[episode_id]
            if account.header.kind is EpisodeKind.EVAL:
                continue
            mine = [step for step in mine if self._replay.add_step(step)]
            if not mine:
                continue  # loaded from disk before it came out of the inbox
            names = list(mine[0].observation.images)
            images = {name: np.stack([step.observation.images[name] for step in mine]) for name in names}
            proprio = np.stack([step.observation.proprio for step in mine])
            self._featurise(episode_id, images, proprio, mine[0].index)
            for step in mine:  # only now: an account that has ended says that all its frames can be scored
                self._statistics.add(step)
            self._scorer.score_live(episode_id)
            if mine[-1].end is not None:
                self._finish(episode_id)

    def _cut(self, cut: EpisodeCut) -> None:
        """End an episode at its newest frame, where the store has closed it."""
        if cut.gone:
            self._statistics.forget(cut.episode_id)
            return
        episode_id = cut.episode_id
        episode = self._store.read(episode_id, images=False)
        self._statistics.recount(episode)
        if episode.header.kind is not EpisodeKind.EVAL:
            self._replay.end_episode(episode_id, EndReason.FAULT)
            self._finish(episode_id)

    def _featurise(self, episode_id: str, images: dict[str, np.ndarray], proprio: np.ndarray, start: int) -> None:
        seen = encode_frames(self._reward_encoder, images, len(proprio))
        if self._trunk is not None:
            same = self._trunk is self._reward_encoder
            features = seen if same else encode_frames(self._trunk, images, len(proprio))
            self._replay.set_features(episode_id, features, start)
        self._scorer.add(episode_id, reward_inputs(seen, sensed_only(proprio, self._replay.spec)), proprio)

    def _finish(self, episode_id: str) -> None:
        """Score a finished episode as a whole and keep its features."""
        scores = self._scorer.finish(episode_id)
        if scores is not None:
            self.add_scores(scores)
        self._keep(episode_id)

    def _keep(self, episode_id: str) -> None:
        if self._cache is not None:
            self._cache.offer(episode_id, self._features(episode_id))

    def add_scores(self, scores: EpisodeScores) -> None:
        """Let scores of the model in use join the replay, and write them, with a flush to come if the disk refuses now.

        A restart makes anew what was not written.
        """
        self._join(scores)
        self._store.keep_scores(scores)

    def add_written_scores(self, scores: EpisodeScores) -> None:
        """Write scores and let them join the replay: no checkpoint knows of any that a restart would lack.

        Raises:
            StoreError: If the disk refuses; then they do not count.
        """
        self._store.append_scores(scores)
        self._join(scores)

    def _join(self, scores: EpisodeScores) -> None:
        self._replay.add_scores(scores)
        account = self._statistics.episodes.get(scores.episode_id)
        if account is not None and len(scores.progress):
            account.progress = float(scores.progress[-1])
            account.max_progress = float(scores.progress.max())
