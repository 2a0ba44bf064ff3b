"""The checks that decide whether a model may be used: gates on dangerous faults, and the null models it must beat.

A null model looks at no image: one that does not beat the clock has seen nothing that matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from reward_models.evaluate.accuracy import (
    AGAINST,
    Accuracy,
    Discrimination,
    Ordering,
    discrimination,
    finals,
    ordering,
)
from reward_models.evaluate.axioms import Axioms
from reward_models.evaluate.done_metrics import DoneRule
from reward_models.evaluate.estimate import of_groups
from reward_models.evaluate.judge import Judged, from_scores
from reward_models.evaluate.kinds import KindOfFailure
from reward_models.evaluate.rank_metrics import auc
from reward_models.evaluate.seen import Seen
from reward_models.interface import LabelledEpisode
from reward_models.metrics import clock_scores

NULLS: Mapping[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "clock": lambda frames, rng: clock_scores(frames),
    "constant": lambda frames, rng: np.full(frames, 0.5),
    "random": lambda frames, rng: rng.random(frames),
}
"""Name -> Φ of an episode of so many frames. The clock even knows how long the episode will be: its VOC is 1."""
FEWEST = 4
"""Episodes of a class without which nothing is said of it: of two, any model is right by chance."""
FALSE_DONE, MISMATCH, HOLD, AUC = 0.05, 0.2, 0.02, 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Null:
    """The results of a null model, and whether a model beats it.

    Attributes:
        mae: Mean absolute error of Φ over all episodes.
        beaten_on: Class of at least `FEWEST` episodes -> the model tells successes from it better, its AUC being above
            the null's with 97.5 % certainty (paired bootstrap over episodes).
    """

    ordering: Ordering
    discrimination: Discrimination
    mae: float
    beaten_on: dict[str, bool]

    @property
    def beaten(self) -> bool | None:
        """Return whether the model wins on every class that there is; None if there is none to win on."""
        return all(self.beaten_on.values()) if self.beaten_on else None


def judge_null(
    name: str, episodes: Sequence[LabelledEpisode], rule: DoneRule, rng: np.random.Generator
) -> list[Judged]:
    """Put a null model's Φ beside the truth of each episode; its probability of done is its Φ."""
    answers = [NULLS[name](len(episode.frames), rng) for episode in episodes]
    return [from_scores(episode, phi, phi, rule) for episode, phi in zip(episodes, answers, strict=True)]


def against_null(judged: Sequence[Judged], null: Sequence[Judged], rng: np.random.Generator, *, dt_s: float) -> Null:
    """Compare a model with a null model on the same episodes."""
    errors = [np.nanmean(np.abs(one.phi - one.truth)) for one in null if np.isfinite(one.truth).any()]
    return Null(
        ordering=ordering(null, rng),
        discrimination=discrimination(null, rng, dt_s=dt_s),
        mae=float(np.mean(errors)) if errors else float("nan"),
        beaten_on={name: better for name in AGAINST if (better := _beaten(judged, null, name, rng)) is not None},
    )


def _beaten(judged: Sequence[Judged], null: Sequence[Judged], name: str, rng: np.random.Generator) -> bool | None:
    def rows(of: Callable[[Judged], bool]) -> np.ndarray:
        pairs = [(a.final, b.final) for a, b in zip(judged, null, strict=True) if of(a) and np.isfinite(a.final)]
        return np.array(pairs, dtype=np.float64).reshape(-1, 2)

    def gain(won: np.ndarray, lost: np.ndarray) -> float:
        return auc(won[:, 0], lost[:, 0]) - auc(won[:, 1], lost[:, 1])

    if len(finals([one for one in judged if one.group == name])) < FEWEST:
        return None
    return of_groups(gain, [rows(lambda one: one.success), rows(lambda one: one.group == name)], rng).low > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A condition that a model must pass to be used.

    Attributes:
        passed: None if these episodes cannot tell.
    """

    name: str
    found: str
    wanted: str
    passed: bool | None


def checks(
    found: Discrimination,
    by_class: Mapping[str, Accuracy],
    by_kind: Mapping[str, KindOfFailure],
    axioms: Axioms,
    nulls: Mapping[str, Null],
    *,
    other_words: bool = False,
) -> tuple[Check, ...]:
    """Check all conditions, in the order in which a reader wants to see them.

    Args:
        other_words: Every mismatch was refused by name, which is better than a low Φ.
    """
    false_done, mismatch = found.false_done, by_class.get("mismatch")
    told_apart = found.auc if found.auc.n else found.auc_done
    words = _below("Φ under other words", mismatch.final_phi.value if mismatch else float("nan"), MISMATCH)
    if other_words:
        words = replace(words, found="refused by name", passed=True)
    rows = [
        _beats_clock(nulls["clock"], refused=("mismatch",) if other_words else ()),
        Check(
            name="false done",
            found=f"{false_done.count} of {false_done.n}, at most {100 * false_done.high:.1f} %",
            wanted=f"upper limit below {100 * FALSE_DONE:.0f} %",
            passed=false_done.high < FALSE_DONE if false_done.n else None,
        ),
        _each_kind(by_kind),
        words,
        _below("Φ while nothing happens", axioms.hold_change.value, HOLD, "|ΔΦ| "),
        Check(
            name="success from the rest",
            found=f"AUC {told_apart.value:.3f}" if told_apart.n else "not known",
            wanted=f"above {AUC}",
            passed=told_apart.value > AUC if told_apart.n else None,
        ),
        Check(
            name="reads no future",
            found=f"changed by {axioms.future_change:.2g}",
            wanted="nothing before an edit changes",
            passed=axioms.causal,
        ),
    ]
    return tuple(rows)


def honest(seen: Seen, judged: Collection[str]) -> Check:
    """Check that a model was not trained on what it is judged by: then nothing is known of how good it is."""
    return Check(
        name="judged by other episodes",
        found=seen.words(judged),
        wanted="none that it was trained on",
        passed=True if seen.trained(judged) == 0 else None,
    )


def _beats_clock(clock: Null, refused: Sequence[str]) -> Check:
    against = [name for name in AGAINST if name not in refused]
    beaten = [name for name, better in clock.beaten_on.items() if better]
    lost = [name for name in clock.beaten_on if name not in beaten]
    unknown = [name for name in against if name not in clock.beaten_on]
    parts = (("on", beaten), ("not on", lost), ("too few of", unknown))
    return Check(
        name="beats the clock",
        found="; ".join(f"{words} {', '.join(names)}" for words, names in parts if names),
        wanted=f"on {', '.join(against)}",
        passed=False if lost else None if unknown else True,
    )


def _each_kind(kinds: Mapping[str, KindOfFailure]) -> Check:
    """Check each kind of failure by itself: a model that falls for one kind is not saved by the others."""
    wrong = [
        f"{name}: {of.false_done.count} of {of.false_done.n} done, AUC {of.auc.value:.3f}"
        for name, of in kinds.items()
        if of.false_done.n >= FEWEST and (of.false_done.count > FALSE_DONE * of.false_done.n or of.auc.value <= AUC)
    ]
    few = [name for name, of in kinds.items() if of.false_done.n < FEWEST or not of.auc.n]
    unseen = sum(of.unseen is True for of in kinds.values())
    good = f"{len(kinds) - len(few)} kinds, {unseen} of them never shown to the model"
    return Check(
        name="every kind of failure",
        found="; ".join([*(wrong or [good]), *([f"too few of {', '.join(few)}"] if few else [])]),
        wanted=f"of none more than {100 * FALSE_DONE:.0f} % done, AUC above {AUC} against each",
        passed=False if wrong else None if few or not kinds else True,
    )


def _below(name: str, value: float, limit: float, what: str = "") -> Check:
    known = not math.isnan(value)
    return Check(
        name=name,
        found=f"{what}{value:.3f}" if known else "not known",
        wanted=f"below {limit}",
        passed=value < limit if known else None,
    )
