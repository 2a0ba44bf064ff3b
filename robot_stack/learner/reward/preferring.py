"""Preferences of a large model: it is asked which of two recorded moments got further, and its answers are logged.

As in RL-VLM-F (Wang et al., 2024, arXiv:2402.03681), a model that only tells which of two images is further becomes
usable for a Φ: the embedded model is fitted on its answers. Deviations: each pair is asked in both orders, since such
models prefer a place as well as an image, and an answer that turns with the order is none; pairs are chosen where Φ is
least sure; Φ is fitted on them beside its other labels.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from reward_models.interface import ClipQuery, Frame, Instruction, PairQuery, RewardModel
from robot_stack.config.resolve import load_resolved
from robot_stack.datasets.catalogue import Catalogue
from robot_stack.datasets.comparing import Comparing
from robot_stack.datasets.pairs import Pair
from robot_stack.datasets.store_view import open_store
from robot_stack.learner.reward.judged_model import Wanted, large_model
from robot_stack.learner.reward.labelled import labels_of, recorded_frames, shown_task, store_of
from robot_stack.replay.layout import SUFFIX
from robot_stack.replay.stored_episode import read_episode
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError, RewardError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.preferences import Further, Preference

TIE = 0.05
"""Scores that differ by less say that both moments got equally far."""
KEPT_EPISODES = 8
"""Whose frames are held in memory."""

Say = Callable[[str, int, int], None]
"""Told (what, number, of so many)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferred:
    """What a model answered.

    Attributes:
        by: Name and version of the model, as its answers are signed.
        answered: Pairs of which it named the further moment, or said that both are the same.
        same: Of these, those that are the same.
        contradicted: Pairs of which it said something else when they were shown the other way round; logged as
            "unknown", so that they are not asked about again.
        unreadable: Pairs without a readable answer; nothing is logged of them.
    """

    by: str
    answered: int
    same: int
    contradicted: int
    unreadable: int


def ask_preferences(folder: Path, wanted: Wanted, *, pairs: int, seed: int, say: Say) -> Preferred:
    """Ask a large model about pairs of moments of a run or a dataset; each answer is on disk before the next question.

    Args:
        folder: Of the run, which may be going on, or of a dataset.
        wanted: Which model.
        pairs: So many at most.
        seed: Of the choice.
        say: Told how far it is.

    Raises:
        ConfigError: If the model is a fitted one, scores neither pairs nor progress, or its settings are missing.
        RewardError: If there are no two moments to ask about, the model cannot be had, or it does not answer.
        StoreError: If the folder holds no episodes, or the disk refuses.
    """
    if not wanted.large:
        raise ConfigError(
            f"reward model is {wanted.name!r}, must be a large one: a fitted one would be asked about what it learned; "
            "name one behind a server or with weights"
        )
    resolved = load_resolved(RunPaths(folder).resolved) if RunPaths(folder).resolved.is_file() else None
    model = large_model(wanted, resolved)
    if model.capabilities.pair is None and not model.capabilities.progress:
        raise ConfigError(
            f"reward model {wanted.name} scores neither pairs nor progress, must score one of them to say which of two "
            "moments got further; name another model"
        )
    turns = () if resolved is None else resolved.task.turns
    texts = {turn.id: turn.text for turn in turns[1:]} or None
    catalogue = Catalogue(open_store(store_of(folder).root, turns[0].text if turns else None, texts))
    catalogue.refresh()
    asked = _Asked(folder, model, catalogue)
    comparing = Comparing(catalogue, seed)
    counts = {"answered": 0, "same": 0, "contradicted": 0, "unreadable": 0}
    for number in range(pairs):
        pair, _ = comparing.next(without=asked.shown, of_one_episode=model.capabilities.pair is not None)
        if pair is None:
            break
        say("pair", number + 1, pairs)
        found = asked.about(pair)
        if found is None:
            counts["unreadable"] += 1
            continue
        comparing.say(_preference(pair, found, asked.by))
        counts["contradicted" if found is Further.UNKNOWN else "answered"] += 1
        counts["same"] += found is Further.SAME
    if not any(counts.values()):
        raise RewardError(
            f"pairs of moments in {folder.name} that were not asked about are 0, must be 1 at least; record episodes "
            "of two steps or more that are not discarded"
        )
    return Preferred(by=asked.by, **counts)


class _Asked:
    """A model with what it is shown of a folder's tasks.

    Attributes:
        by: Name and version, as its answers are signed.
        shown: The episodes that it is shown as demonstrations, one a task, and not asked about; empty where it needs
            none.
    """

    def __init__(self, folder: Path, model: RewardModel, catalogue: Catalogue) -> None:
        self._store = store_of(folder)
        self._model = model
        self.by = f"{model.name} {model.version}"
        self._frames = lru_cache(maxsize=KEPT_EPISODES)(self._read)
        view, can = catalogue.view, model.capabilities
        headers = {entry.header.episode_id: entry.header for entry in catalogue.entries()}
        self._task_ids = {name: header.task_id for name, header in headers.items()}
        self._tasks = {header.task_id: Instruction(text=view.text_of(header)) for header in headers.values()}
        demonstrations = _first_successes(folder, self._task_ids) if can.needs_goal or can.needs_reference else {}
        for task_id, name in demonstrations.items():
            self._tasks[task_id] = shown_task(self._tasks[task_id].text, self._frames(name))
        self.shown = frozenset(demonstrations.values())

    def _read(self, episode_id: str) -> tuple[Frame, ...]:
        return recorded_frames(read_episode(self._store.episodes / f"{episode_id}{SUFFIX}"))

    def about(self, pair: Pair) -> Further | None:
        """Return which of two moments the model finds further, "unknown" if it contradicts itself, None unreadable."""
        return self._by_progress(pair) if self._model.capabilities.pair is None else self._by_order(pair)

    def _by_order(self, pair: Pair) -> Further | None:
        frames, task = self._frames(pair[0].episode_id), self._tasks[self._task_ids[pair[0].episode_id]]
        first, second = (frames[moment.frame] for moment in pair)
        there, back = (
            PairQuery(instruction=task, before=before, after=after, start=frames[0])
            for before, after in ((first, second), (second, first))
        )
        forward, backward = (score.value for score in self._model.score_pairs([there, back]))
        return further(forward, backward)

    def _by_progress(self, pair: Pair) -> Further | None:
        task = self._tasks[self._task_ids[pair[0].episode_id]]  # both are of one task
        clips = [
            ClipQuery(instruction=task, frames=self._frames(moment.episode_id)[: moment.frame + 1]) for moment in pair
        ]
        first, second = (score.value for score in self._model.score_progress(clips))
        return further(second - first, first - second)


def _first_successes(folder: Path, task_ids: Mapping[str, str]) -> dict[str, str]:
    """Return the first success of each task, by task id."""
    verdicts, found = labels_of(folder), dict[str, str]()
    for name in sorted(verdicts):
        if verdicts[name] is Verdict.SUCCESS and name in task_ids:
            found.setdefault(task_ids[name], name)
    return found


def further(forward: float, backward: float) -> Further | None:
    """Return the answer that two scores of a pair give: from the first moment to the second, and the other way round.

    >>> further(1.0, -1.0), further(1.0, 1.0), further(0.01, 0.0), further(float("nan"), -1.0)
    (<Further.SECOND: 'second'>, <Further.UNKNOWN: 'unknown'>, <Further.SAME: 'same'>, None)
    """
    if math.isnan(forward) or math.isnan(backward):
        return None
    if max(abs(forward), abs(backward)) < TIE:
        return Further.SAME
    if forward * backward >= 0:
        return Further.UNKNOWN
    return Further.SECOND if forward > 0 else Further.FIRST


def _preference(pair: Pair, found: Further, by: str) -> Preference:
    first, second = pair
    return Preference(
        first=first, second=second, further=found, source=LabelSource.MODEL, by=by, stamp_unix_s=time.time()
    )
