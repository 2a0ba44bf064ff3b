"""Whether a reward model answers sensibly, by three clips whose course is known: finished, stalled, and turned back.

It shows that prompts, images and answers come through in their places. How good a model is, an evaluation says.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from reward_models.evaluate.judge import ask_pairs, said_along
from reward_models.interface import ClipQuery, Frame, Instruction, PairQuery, RewardModel, Score, Unsupported
from reward_models.potential import ENOUGH_READ, knows_phi, questions
from robot_stack.types.errors import RewardError
from robot_stack.types.finding import Finding, Level

Clip = Literal["finished", "stalled", "reversed"]

SHOWN = 7
"""Frames of the demonstration that the clips are made of."""
HIGH = 0.7
"""Φ that a finished task must end at."""
RISE = 0.4
"""By how much Φ must rise on the way there."""
STAYS = 0.15
"""By how much Φ may change while the same frame is held."""
FALL = 0.3
"""By how much Φ must fall when everything is undone."""
DONE = 0.5
"""Probability from which on a model that knows no Φ calls a frame done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The result of a probe.

    Attributes:
        said: Clip -> Φ per frame, or probability of done, or signs of pairs; NaN where unreadable.
        findings: One a clip, whose check is its name, and one about what could not be read, whose check is "all".
        questions: That were asked.
        unreadable: Share of them whose answer could not be read.
        alone_s: From a single question to its answer.
        each_s: Time per question where several are asked at once.
    """

    model: str
    said: dict[Clip, np.ndarray]
    findings: tuple[Finding, ...]
    questions: int
    unreadable: float
    alone_s: float
    each_s: float

    @property
    def sensible(self) -> bool:
        """Return whether every clip was answered as it should be."""
        return all(finding.level is Level.OK for finding in self.findings)

    def document(self) -> dict[str, Any]:
        """Return the result as JSON can hold it; null is what could not be read."""
        curves = {name: [round(v, 6) if np.isfinite(v) else None for v in phi] for name, phi in self.said.items()}
        findings = [{"clip": f.check, "passed": f.level is Level.OK, "words": f.text} for f in self.findings]
        return {
            "model": self.model, "sensible": self.sensible, "sentence": self.sentence, "said": curves,
            "findings": findings, "questions": self.questions, "unreadable": self.unreadable,
            "alone_s": self.alone_s, "each_s": self.each_s,
        }  # fmt: skip

    @property
    def sentence(self) -> str:
        """Return the result in one sentence."""
        wrong = [finding.text for finding in self.findings if finding.level is not Level.OK]
        words = wrong or [finding.text for finding in self.findings]
        return (
            f"{self.model} {'answers sensibly' if self.sensible else 'does not answer sensibly'}: {'; '.join(words)} "
            f"({self.questions} questions, {100 * self.unreadable:.0f} % unreadable, {self.alone_s:.2f} s for one "
            f"alone, {self.each_s:.2f} s each together)"
        )


def known_clips(demo: Sequence[Frame]) -> dict[Clip, tuple[Frame, ...]]:
    """Make the three clips from a finished demonstration of at least two frames.

    The stalled one goes half of the way and holds its last frame; the reversed one goes all the way and back again.

    Raises:
        RewardError: If there is no second frame.
    """
    if len(demo) < 2:
        raise RewardError(f"demonstration has {len(demo)} frames, must have at least 2; take a whole one")
    picked = [demo[i] for i in np.linspace(0, len(demo) - 1, SHOWN).round().astype(int)]
    half = picked[: SHOWN // 2 + 1]
    return {
        "finished": tuple(picked),
        "stalled": (*half, *(half[-1],) * (SHOWN - len(half))),
        "reversed": (*picked, *picked[-2::-1]),
    }


def probe(model: RewardModel, task: Instruction, demo: Sequence[Frame]) -> Probe:
    """Ask a model about the three clips, the first question alone.

    Args:
        task: With goal and reference of another episode than `demo`.
        demo: A finished demonstration.

    Raises:
        RewardError: If the model does not answer, or lacks what it needs.
    """
    watched, clips = _Watched(model), known_clips(demo)
    say = _pairs_along if not knows_phi(model.capabilities) and not model.capabilities.done else said_along
    begun = time.perf_counter()
    _ask_one(watched, task, clips["finished"][:2])
    alone_s = time.perf_counter() - begun
    asked, begun = watched.asked, time.perf_counter()
    said = {name: say(watched, task, frames) for name, frames in clips.items()}
    each_s = (time.perf_counter() - begun) / (watched.asked - asked)
    unreadable = watched.unreadable / watched.asked
    return Probe(
        model=model.name,
        said=said,
        findings=(_readable(unreadable), *_judged(model, said)),
        questions=watched.asked,
        unreadable=unreadable,
        alone_s=alone_s,
        each_s=each_s,
    )


def _ask_one(model: RewardModel, task: Instruction, frames: tuple[Frame, ...]) -> None:
    """Ask a single one of the questions that are asked about the clips."""
    parts = questions(frames, task, model.capabilities).parts()
    start, after = frames
    of_pair = PairQuery(instruction=task, start=start, before=start, after=after)
    kind, query = (parts[0][1], parts[0][2][-1]) if parts else ("pair", of_pair)
    asks: dict[str, Callable[[Any], list[Score]]] = {
        "pair": model.score_pairs, "progress": model.score_progress, "done": model.score_done,
    }  # fmt: skip
    asks[kind]([query])


def _pairs_along(model: RewardModel, task: Instruction, frames: tuple[Frame, ...]) -> np.ndarray:
    """Return which is further, each frame or the one before it: 1 or -1, 0 for the first, shape (T,)."""
    if model.capabilities.pair is None:
        raise Unsupported(f"{model.name} answers no question, must answer one")
    pairs = list(itertools.pairwise(frames))
    return np.concatenate([[0.0], ask_pairs(model, task, frames[0], pairs)])


def _readable(unreadable: float) -> Finding:
    words = f"{100 * unreadable:.0f} % of its answers cannot be read, at most {100 * (1 - ENOUGH_READ):.0f} % may be so"
    passed = unreadable <= 1 - ENOUGH_READ + 1e-9
    return _finding("all", passed, "its answers can be read" if passed else words)


def _finding(clip: Clip | Literal["all"], passed: bool, words: str, must: str = "") -> Finding:
    """Make a finding of a clip; what the model `must` have said is added where it did not pass."""
    text = words if passed or not must else f"{words}, must {must}"
    return Finding(level=Level.OK if passed else Level.FAIL, check=clip, text=text)


def _judged(model: RewardModel, said: dict[Clip, np.ndarray]) -> list[Finding]:
    if knows_phi(model.capabilities):
        return _by_phi(said)
    return _by_done(said) if model.capabilities.done else _by_signs(said)


def _by_phi(said: dict[Clip, np.ndarray]) -> list[Finding]:
    end, start = float(said["finished"][-1]), float(said["finished"][0])
    held = said["stalled"][SHOWN // 2 :]
    moved, stays = _span(held), float(held[-1])
    top, back = _largest(said["reversed"]), float(said["reversed"][-1])
    passed = moved <= STAYS and stays < end
    changes = f"the stalled one changes by {moved:.2f} while nothing happens and ends at {stays:.2f}"
    return [
        _finding(
            "finished", end >= HIGH and end - start >= RISE, f"the finished clip goes from {start:.2f} to {end:.2f}",
            f"rise by {RISE} to at least {HIGH}",
        ),
        _finding(
            "stalled", passed, f"the stalled one stays at {stays:.2f}" if passed else changes,
            f"change by at most {STAYS} and stay below the finished one's end",
        ),
        _finding(
            "reversed", top - back >= FALL, f"the reversed one goes from {top:.2f} to {back:.2f}",
            f"fall by at least {FALL}",
        ),
    ]  # fmt: skip


def _by_done(said: dict[Clip, np.ndarray]) -> list[Finding]:
    start, end = float(said["finished"][0]), float(said["finished"][-1])
    stalled, back = _largest(said["stalled"]), float(said["reversed"][-1])
    return [
        _finding(
            "finished", start < DONE <= end, f"the finished clip is done with {end:.2f}, its start with {start:.2f}",
            f"be at least {DONE} at the end and less at the start",
        ),
        _finding("stalled", stalled < DONE, f"the stalled one with at most {stalled:.2f}", f"be less than {DONE}"),
        _finding("reversed", back < DONE, f"what was undone with {back:.2f}", f"be less than {DONE}"),
    ]  # fmt: skip


def _by_signs(said: dict[Clip, np.ndarray]) -> list[Finding]:
    ahead = said["finished"][1:]
    back = said["reversed"][SHOWN:]
    right, turned = float((ahead > 0).mean()), float((back < 0).mean())
    parts: list[tuple[Clip, float, str]] = [("finished", right, "the later"), ("reversed", turned, "the earlier")]
    sentence = "in the {} clip {} frame is further in {:.0f} % of the pairs"
    must = f"be in at least {100 * HIGH:.0f} %"
    return [
        _finding(clip, share >= HIGH, sentence.format(clip, which, 100 * share), must) for clip, share, which in parts
    ]


def _largest(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else float("nan")


def _span(values: np.ndarray) -> float:
    known = values[np.isfinite(values)]
    return float(np.ptp(known)) if len(known) else float("nan")


class _Watched:
    """A model whose questions and unreadable answers are counted; implements `RewardModel`."""

    def __init__(self, model: RewardModel) -> None:
        self.name, self.version, self.capabilities = model.name, model.version, model.capabilities
        self._model = model
        self.asked = self.unreadable = 0

    def score_pairs(self, queries: Sequence[PairQuery]) -> list[Score]:
        """Pass queries on and count."""
        return self._counted(self._model.score_pairs, queries)

    def score_progress(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Pass queries on and count."""
        return self._counted(self._model.score_progress, queries)

    def score_done(self, queries: Sequence[ClipQuery]) -> list[Score]:
        """Pass queries on and count."""
        return self._counted(self._model.score_done, queries)

    def _counted(self, ask: Callable[[Any], list[Score]], queries: Sequence[Any]) -> list[Score]:
        scores = ask(queries)
        self.asked += len(scores)
        self.unreadable += sum(not score.valid for score in scores)
        return scores
