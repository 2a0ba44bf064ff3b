"""Restores what a run recorded before this start: first its statistics, then, once there is a trunk, its replay."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from robot_stack.learner import fitting
from robot_stack.learner.data.feature_cache import CachedEpisode, FeatureCache
from robot_stack.learner.data.ingest import Ingest
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.runs.metrics import MetricsLog
from robot_stack.runs.rows import LostRow
from robot_stack.runs.statistics import EpisodeStatistics
from robot_stack.types.errors import StoreError
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EpisodeKind

log = logging.getLogger(__name__)


class ReplayRestorer:
    """A restorer of the store's episodes and labels, and of the features that an earlier learner kept of them.

    Args:
        folder: Of the features.
        store: Open.
        spec: Of the cell.
        statistics: Takes the accounts.
    """

    def __init__(self, folder: Path, store: EpisodeStore, spec: Spec, statistics: EpisodeStatistics) -> None:
        self.cache: FeatureCache | None = None
        """Of the trunk in use; None where the replay keeps images."""
        self._folder = folder
        self._store = store
        self._spec = spec
        self._statistics = statistics
        self._cached: dict[str, CachedEpisode] = {}

    def read(self, trunk: str | None) -> None:
        """Count what is on disk in the statistics.

        No image is decoded, and none later of an episode whose features are cached.

        Args:
            trunk: Identity of the one that the run had, None before its first fit.
        """
        if trunk is not None:
            self.cache = self._cache_of(trunk)
        for episode_id in (*self._store.episodes, *self._store.unfinished):
            cached = self.cache.read(episode_id) if self.cache is not None else None
            if cached is not None:
                self._cached[episode_id] = cached
            with self._unless_gone(episode_id):
                self._statistics.recount(cached.episode if cached else self._store.read(episode_id, images=False))
        self._statistics.order_by_start()
        for label in self._store.labels:
            self._statistics.label(label)

    def keep_features(self, trunk: str | None) -> None:
        """Keep features in the cache of a trunk from now on, None for nowhere; those of another are forgotten."""
        if trunk is None:
            self.cache, self._cached = None, {}
        elif self.cache is None or self.cache.trunk != trunk:
            self.cache, self._cached = self._cache_of(trunk), {}
        if self.cache is not None:
            self.cache.start()

    def close(self) -> None:
        """Write the features that are left; the store must still be open."""
        if self.cache is not None:
            self.cache.stop()

    @property
    def failure(self) -> str:
        """Return why the newest features are not on disk, or ""."""
        return "" if self.cache is None else self.cache.failure

    def load(
        self,
        ingest: Ingest,
        replay: Replay,
        features: Mapping[str, torch.Tensor],
        *,
        stop: threading.Event,
        say: Callable[[str], None],
    ) -> int:
        """Load every episode into the replay; returns how many came from the cache.

        Args:
            ingest: Takes the episodes.
            replay: Takes the labels.
            features: What the checkpoint holds of frames that were in no file of the cache.
            stop: Ends it.
            say: Told what it is at.

        Raises:
            Stopped: If it was told to end.
        """
        self._store.flush()  # what the inbox has handed out already is read from disk here
        count = len(self._cached)
        for episode_id in (*self._store.episodes, *self._store.unfinished):
            if stop.is_set():
                raise fitting.Stopped
            cached = self._cached.pop(episode_id, None)
            with self._unless_gone(episode_id):
                if cached is not None:
                    ingest.load_cached(cached)
                elif self._store.header(episode_id).kind is not EpisodeKind.EVAL:
                    say(f"features of {episode_id}")
                    known = features.get(episode_id)
                    ingest.load(self._store.read(episode_id), None if known is None else known.numpy())
        for label in self._store.labels:
            replay.add_label(label)
        return count

    @contextmanager
    def _unless_gone(self, episode_id: str) -> Iterator[None]:
        """Pass over an episode that the store removes while it is read: it had no frame, and its actor is elsewhere."""
        try:
            yield
        except StoreError:
            if episode_id in (*self._store.episodes, *self._store.unfinished):
                raise
            log.warning("episode %s is passed over: it had no frame, and the store has removed it", episode_id)

    def _cache_of(self, trunk: str) -> FeatureCache:
        return FeatureCache(self._folder, self._store, trunk=trunk, spec=self._spec)


def let_go_of_damaged(state: Mapping[str, Any], store: EpisodeStore, metrics: MetricsLog) -> None:
    """Remove from a checkpoint the episodes that the disk has damaged since, and log each.

    What is set aside is gone from training. What is unfinished goes on: the rest of it may be with its actor still.
    """
    aside, replay = store.quarantined, state["replay"]
    held = replay["episodes"]
    lost = {name: aside[name] for name in held if name in aside}
    for name in set(held) & set(store.unfinished):
        lost[name] = "it had ended and its manifest is missing: taken as running, its actor may send the rest"
    for name, reason in sorted(lost.items()):
        log.warning("the checkpoint knows episode %s, which is damaged and left out: %s", name, reason)
        metrics.log(LostRow(episode_id=name, reason=reason))
        del held[name]
    replay["scored_episodes"] = [name for name in replay["scored_episodes"] if name not in lost]
