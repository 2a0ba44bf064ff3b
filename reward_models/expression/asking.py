"""Questions to a language model for the formulas of a task, and what its answers are worth on recorded episodes.

As Eureka does (Ma et al., 2023, arXiv:2310.12931), each answer is tried and the model is told what came of it; but it
is tried on recorded successes and failures, not by training a policy on it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict

from reward_models.expression.formula import FUNCTIONS, LONGEST, Formula, FormulaError
from reward_models.metrics import mean_voc
from reward_models.vlm.prompt import Prompt

MEANINGS: Mapping[str, str] = {
    "tcp_pose": "x, y, z of the tool in metres, then its rotation vector in radians",
    "tcp_twist": "velocity of the tool: x, y, z in m/s, then rx, ry, rz in rad/s",
    "wrench": "force at the tool: x, y, z in N, then torque in Nm",
    "gripper": "opening, 0 closed to 1 open",
    "joints": "joint angles in radians",
    "joint_speeds": "joint speeds in rad/s",
}
SYSTEM = "You write potential functions for robot learning. Answer with one JSON object and nothing else."
MOST_BRACES = 100
SHOWN = 4
"""Earlier answers that a model is told of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeValues:
    """The numbers of a recorded episode.

    Attributes:
        values: By part of proprio, float64, shape (T, K).
        success: Whether it succeeded.
    """

    values: Mapping[str, np.ndarray]
    success: bool


class Formulas(BaseModel):
    """The two formulas of an answer."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    progress: str
    success: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What an answer was worth.

    Attributes:
        formulas: Those of it; None where they could not be taken.
        refusal: Why not.
        voc: How well progress rises over the successes, 1 at best.
        ends_done: Share of the successes whose last frame is called done.
        early_done: Share of the frames in the first half of the successes that are called done.
        failures_done: Share of the failures with a frame that is called done; NaN without failures.
    """

    formulas: Formulas | None
    refusal: str = ""
    voc: float = float("nan")
    ends_done: float = float("nan")
    early_done: float = float("nan")
    failures_done: float = float("nan")

    @property
    def worth(self) -> float:
        """Return how good it is, to choose by; below anything if it was refused."""
        if self.formulas is None:
            return -np.inf
        return self.voc + self.ends_done - self.early_done - float(np.nan_to_num(self.failures_done))

    @property
    def sentence(self) -> str:
        """Return what came of it, in words."""
        if self.formulas is None:
            return self.refusal
        failures = "" if np.isnan(self.failures_done) else f", {self.failures_done:.0%} of the failures are called done"
        return (
            f"progress rises with rank correlation {self.voc:.2f} over successes (1 is best), {self.ends_done:.0%} of "
            f"their last frames are called done, {self.early_done:.0%} of the frames in their first half{failures}"
        )


def question(text: str, episodes: Sequence[EpisodeValues], earlier: Sequence[tuple[str, Tried]] = ()) -> Prompt:
    """Build the prompt for the formulas of a task.

    Args:
        text: What the robot is told to do.
        episodes: What was recorded, one success at least.
        earlier: Answers, and what they were worth.
    """
    successes = [episode.values for episode in episodes if episode.success]
    lines = [f"Task of the robot: {text}", "", "Numbers of each time step, by name, over recorded successes:"]
    for name in successes[0]:
        first, last = (np.array([values[name][at] for values in successes]) for at in (0, -1))
        whole = np.concatenate([values[name] for values in successes])
        meaning = MEANINGS.get(name.rpartition(".")[2], "")
        lines.append(f"- {name}, {first.shape[1]} numbers{f' ({meaning})' if meaning else ''}:")
        lines += [
            f"  [{i}] begins at {_spread(first[:, i])}, ends at {_spread(last[:, i])}, from {whole[:, i].min():.4g} to "
            f"{whole[:, i].max():.4g}"
            for i in range(first.shape[1])
        ]
    lines += [
        "",
        "Write two expressions over them: `progress`, 0 at the start of the task and 1 once it is done, which rises as "
        "the task comes nearer to its end and falls as it is undone; and `success`, true once the task is done.",
        f"Python's syntax, at most {LONGEST} characters each: names, name[i], name[a:b], lists of numbers, "
        "+ - * / **, < <= > >=, and, or, not, A if C else B, and the functions "
        f"{', '.join(FUNCTIONS)}. first(x) is x at the start of the episode, highest(x) and lowest(x) its extremes so "
        "far; norm, min and max of one argument go over its numbers. Nothing else: no assignments, attributes, other "
        "functions or strings.",
        'Answer: {"progress": "...", "success": "..."}',
    ]
    for answer, tried in earlier[-SHOWN:]:
        lines += ["", f"An earlier answer: {answer[: 2 * LONGEST]}", f"What came of it: {tried.sentence}. Do better."]
    return Prompt(user=("\n".join(lines),), system=SYSTEM)


def read(answer: str, episodes: Sequence[EpisodeValues]) -> Tried:
    """Read an answer, check its formulas and try them on recorded episodes."""
    formulas = _formulas(answer)
    if formulas is None:
        return Tried(formulas=None, refusal='the answer is no JSON object like {"progress": "...", "success": "..."}')
    sizes = {name: values.shape[1] for name, values in episodes[0].values.items()}
    checked = {}
    for name in ("progress", "success"):
        try:
            checked[name] = Formula(getattr(formulas, name))
            checked[name].check(sizes)
        except FormulaError as error:
            return Tried(formulas=None, refusal=f"{name}: {error}")
    progress, done = (
        [np.nan_to_num(checked[name](episode.values)) for episode in episodes] for name in ("progress", "success")
    )
    good = [number for number, episode in enumerate(episodes) if episode.success]
    bad = [number for number, episode in enumerate(episodes) if not episode.success]
    return Tried(
        formulas=formulas,
        voc=mean_voc([np.clip(progress[i], 0.0, 1.0) for i in good]),
        ends_done=float(np.mean([done[i][-1] > 0.5 for i in good])),
        early_done=float(np.mean(np.concatenate([done[i][: len(done[i]) // 2] > 0.5 for i in good]))),
        failures_done=float(np.mean([(done[i] > 0.5).any() for i in bad])) if bad else float("nan"),
    )


def _formulas(answer: str) -> Formulas | None:
    """Return the first JSON object in an answer that holds both formulas."""
    for place in itertools.islice((at for at, sign in enumerate(answer) if sign == "{"), MOST_BRACES):
        try:
            return Formulas.model_validate(json.JSONDecoder().raw_decode(answer, place)[0])
        except (ValueError, RecursionError):  # of JSON, of a number with too many digits, of pydantic
            continue
    return None


def _spread(values: np.ndarray) -> str:
    return f"{values.mean():.4g} ± {values.std():.2g}"
