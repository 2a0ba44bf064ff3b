"""Formulas of a run's task by a language model: asked on what was recorded, tried on it, and the best of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reward_models.expression.asking import EpisodeValues, Formulas, Tried, question, read
from reward_models.vlm.config import ServerSettings
from reward_models.vlm.registry import make_endpoint
from robot_stack.config.resolve import load_resolved
from robot_stack.learner.reward.labelled import labels_of, store_of
from robot_stack.replay.layout import SUFFIX
from robot_stack.replay.stored_episode import read_episode
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import RewardError
from robot_stack.types.event import Verdict
from robot_stack.types.spec import Spec

NEWEST = 50
"""Episodes that formulas are tried on."""
MOST_TOKENS = 2000

Say = Callable[[str, int, int], None]
"""Told (what, number, of so many)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """The best formulas that a language model wrote.

    Attributes:
        formulas: Of progress and success.
        tried: What they are worth on the recorded episodes.
        asked: Questions.
        refused: Answers whose formulas could not be taken.
        episodes: That they were tried on.
    """

    formulas: Formulas
    tried: Tried
    asked: int
    refused: int
    episodes: int


def write_formulas(folder: Path, server: ServerSettings, *, rounds: int, say: Say) -> Written:
    """Ask a language model for the formulas of a run's task, telling it each time what came of its answer.

    Args:
        folder: Of the run, which may be going on; nothing in it is changed.
        server: Where the model is.
        rounds: Questions at most.
        say: Told how far it is.

    Raises:
        RewardError: If there is no recorded success, the model does not answer, or wrote nothing that can be taken.
        StoreError: If an episode cannot be read.
    """
    resolved = load_resolved(RunPaths(folder).resolved)
    if len(resolved.task.turns) > 1:
        raise RewardError(
            f"run {folder.name} has {len(resolved.task.turns)} tasks, must have one: what is asked about is its words "
            "and its successes; write the formulas by hand, with the task's entry of proprio"
        )
    episodes = _recorded(folder, resolved.spec())
    if not any(episode.success for episode in episodes):
        raise RewardError(f"successes in {folder.name} are 0, must be 1 at least; record a demonstration")
    endpoint, earlier = make_endpoint(server), list[tuple[str, Tried]]()
    for number in range(rounds):
        say("question", number + 1, rounds)
        try:
            (answer,) = endpoint.answer([question(resolved.task.text, episodes, earlier)], max_tokens=MOST_TOKENS)
        except RewardError:
            if all(tried.formulas is None for _, tried in earlier):
                raise
            break
        tried = (
            read(answer.text, episodes)
            if answer.complete
            else Tried(formulas=None, refusal=f"the answer is longer than {MOST_TOKENS} tokens")
        )
        earlier.append((answer.text, tried))
    best = max((tried for _, tried in earlier), key=lambda tried: tried.worth)
    if best.formulas is None:
        raise RewardError(
            f"answers of {endpoint.name} are {len(earlier)}, and none holds formulas that can be taken "
            f"({best.refusal}); take a larger model, or write them by hand"
        )
    return Written(
        formulas=best.formulas,
        tried=best,
        asked=len(earlier),
        refused=sum(tried.formulas is None for _, tried in earlier),
        episodes=len(episodes),
    )


def _recorded(folder: Path, spec: Spec) -> list[EpisodeValues]:
    """Read proprio of the newest labelled episodes that have ended, oldest first."""
    labels, root = labels_of(folder), store_of(folder).episodes
    found: list[EpisodeValues] = []
    for name in sorted(labels, reverse=True):
        path = root / f"{name}{SUFFIX}"
        if len(found) == NEWEST:
            break
        if not path.exists():  # removed by an edit
            continue
        stored = read_episode(path, images=False)
        proprio = np.asarray(stored.arrays["proprio"], np.float64)
        if stored.end is None or len(proprio) < 3:
            continue
        values = {field.name: proprio[:, spec.part(field.name)] for field in spec.sensed.proprio}
        found.append(EpisodeValues(values=values, success=labels[name] is Verdict.SUCCESS))
    return found[::-1]
