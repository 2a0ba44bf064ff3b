"""Which of two moments got further: what is asked next, and the log of answers, which is written at once.

The log has a lock of its own, so that answers come while a learner writes to the store; it reads the log at its next
fit.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Collection

import numpy as np

from robot_stack.datasets.catalogue import Catalogue, Entry
from robot_stack.datasets.declared import check_scores
from robot_stack.datasets.pairs import Pair, choose_pair
from robot_stack.disk.durable import disk_errors
from robot_stack.replay.annotations import PreferenceLog, ScoreFiles, read_preferences
from robot_stack.replay.durable import writing
from robot_stack.types.preferences import Moment, Preference, check_preference
from robot_stack.types.transition import EpisodeKind

EPISODES = 40
"""Episodes that a pair is chosen from, drawn anew for each."""


class Comparing:
    """The asker and the writer of preferences. Safe to use from several threads.

    Args:
        catalogue: Of the folder.
        seed: Of the draws.
    """

    def __init__(self, catalogue: Catalogue, seed: int = 0) -> None:
        self._catalogue = catalogue
        self._rng = np.random.default_rng(seed)
        self._lock = threading.Lock()
        self._shown: set[frozenset[Moment]] = set()

    def next(self, *, without: Collection[str] = (), of_one_episode: bool = False) -> tuple[Pair | None, int]:
        """Return two moments that were not asked about yet, None without any, and how many answers there are.

        Args:
            without: Episodes that are left alone.
            of_one_episode: Both moments are of the same episode.
        """
        with self._lock:
            said = read_preferences(self._catalogue.view.paths.preferences).rows
            asked = self._shown | {frozenset((each.first, each.second)) for each in said}
            progress = self._progress(without)
            pools = [{name: phi} for name, phi in progress.items()] if of_one_episode else [progress]
            found = (choose_pair(pool, asked, self._rng) for pool in pools)
            pair = next((each for each in found if each is not None), None)
            if pair is not None:
                self._shown.add(frozenset(pair))
            return pair, len(said)

    def say(self, preference: Preference) -> None:
        """Append an answer; on disk when this returns.

        Raises:
            SpecError: If it cannot be, see `check_preference`.
            StoreError: If the disk refuses, or another process appends in this moment.
        """
        check_preference(preference, {entry.header.episode_id: entry.steps + 1 for entry in self._catalogue.entries()})
        paths = self._catalogue.view.paths
        with self._lock, disk_errors("writing a preference"), writing(paths.preferences_lock):
            log = PreferenceLog(paths.preferences)
            log.open()
            log.append(preference)

    def _progress(self, without: Collection[str]) -> dict[str, np.ndarray]:
        """Return the newest Φ of some episodes of one task that a reward model learns from, NaN where there is none."""
        tasks: dict[str, list[Entry]] = defaultdict(list)
        for entry in self._catalogue.entries():
            kept = entry.header.kind is not EpisodeKind.EVAL and entry.outcome != "discard"
            if kept and entry.header.episode_id not in without:
                tasks[entry.header.task_id].append(entry)
        if not tasks:
            return {}
        sizes = np.array([len(entries) for entries in tasks.values()], np.float64)
        entries = list(tasks.values())[int(self._rng.choice(len(sizes), p=sizes / sizes.sum()))]
        drawn = self._rng.choice(len(entries), size=min(EPISODES, len(entries)), replace=False)
        return {entries[i].header.episode_id: self._scores(entries[i]) for i in drawn}

    def _scores(self, entry: Entry) -> np.ndarray:
        root, name, frames = self._catalogue.view.paths.scores, entry.header.episode_id, entry.steps + 1
        check_scores(root, name)
        newest = [one.progress for one in ScoreFiles(root).of(name) if len(one.progress) == frames]
        return newest[-1] if newest else np.full(frames, np.nan, np.float32)
