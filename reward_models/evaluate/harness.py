"""Evaluates a reward model on labelled episodes and on changed ones, and null models beside it.

An episode that the model cannot be asked about is named and left out; the rest goes on. Which figures are made from
what, and by which convention, is said in the module of each section. The second part of D is here: the same videos
under other words, which a model that does not read scores all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from reward_models.evaluate.accuracy import (
    Accuracy,
    Discrimination,
    Ordering,
    Ranking,
    accuracy,
    discrimination,
    ordering,
    ranking,
)
from reward_models.evaluate.axioms import Axioms, axioms
from reward_models.evaluate.canaries import Canary, canaries
from reward_models.evaluate.cost import Cost, Counted, cost
from reward_models.evaluate.done_metrics import DoneRule
from reward_models.evaluate.judge import Judged, judge, said_at_end, thinned
from reward_models.evaluate.kinds import KindOfFailure, failures_by_kind
from reward_models.evaluate.opd import GroupOpd, opd_of_groups
from reward_models.evaluate.order_metrics import Backwards, backwards
from reward_models.evaluate.rank_metrics import diagonal_margin
from reward_models.evaluate.robustness import Change, robustness
from reward_models.evaluate.seen import Seen
from reward_models.evaluate.verdict import NULLS, Check, Null, against_null, checks, honest, judge_null
from reward_models.interface import LabelledEpisode, OtherWords, RewardModel
from robot_stack.types.errors import RewardError

VIDEOS = 4
"""Of each text."""
SAMPLE = 12
"""Episodes of which changed versions are scored as well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The mean final Φ of successful videos under each text.

    Attributes:
        texts: Those that a video shows first, then the others.
        matrix: Row i, videos of text i; column j, shown under text j; shape (rows, texts).
        margin: Mean over rows of the own text's less the best other's; NaN with a single text.
    """

    texts: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]
    margin: float


def words(model: RewardModel, episodes: Sequence[LabelledEpisode], refused: dict[str, str]) -> Words:
    """Score some successes under every text that occurs; nothing if the model will not, and `refused` says why."""
    try:
        return _words(model, episodes)
    except RewardError as error:
        refused["other words"] = str(error)
        return Words(texts=(), matrix=(), margin=float("nan"))


def _words(model: RewardModel, episodes: Sequence[LabelledEpisode]) -> Words:
    videos: dict[str, list[LabelledEpisode]] = {}
    for episode in episodes:
        if episode.success:
            videos.setdefault(episode.instruction.text, []).append(episode)
    others = sorted({episode.instruction.text for episode in episodes} - set(videos))
    texts = (*videos, *others)
    rows = []
    for shown in videos.values():
        chosen = shown[:VIDEOS]
        clips = [(replace(e.instruction, text=text), e.frames) for text in texts for e in chosen]
        phi = said_at_end(model, clips).reshape(len(texts), len(chosen))
        rows.append([float(np.nanmean(row)) if np.isfinite(row).any() else float("nan") for row in phi])
    matrix = np.array(rows).reshape(len(videos), len(texts))
    return Words(texts=texts, matrix=tuple(map(tuple, matrix.tolist())), margin=diagonal_margin(matrix))


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The result of evaluating one model.

    Attributes:
        seed: Of what was drawn.
        seen: Which recorded episodes the model was fitted on; None of one that was fitted on none.
        dt_s: Time between two frames that were scored.
        refused: Episode -> why the model could not be asked about it.
        other_words: The model refused every mismatch by name, as one of a single task should.
        skipped: Episode or clip -> why the model could not be asked about it otherwise: changed, in pairs, as a canary.
        unreadable: Share of frames whose Φ could not be read, and was interpolated.
        judged: Episode by episode.
        ordering: Section A.
        backwards: Section A, asked in other ways.
        accuracy: Section B, by class and "all".
        discrimination: Section C.
        kinds: Section C, by kind of failure.
        ranking: Section D.
        words: Section D, videos by texts.
        axioms: Section E.
        opd: Section F, by kind.
        robustness: Section G, by change.
        cost: Section H.
        canaries: By kind of canary.
        nulls: By null model.
        checks: Whether the model may be used.
    """

    model: str
    version: str
    seed: int
    seen: Seen | None
    dt_s: float
    refused: dict[str, str]
    other_words: bool
    skipped: dict[str, str]
    unreadable: float
    judged: tuple[Judged, ...] = field(repr=False)
    ordering: Ordering
    backwards: Backwards
    accuracy: dict[str, Accuracy]
    discrimination: Discrimination
    kinds: dict[str, KindOfFailure]
    ranking: Ranking
    words: Words
    axioms: Axioms
    opd: dict[str, GroupOpd]
    robustness: dict[str, Change]
    cost: Cost
    canaries: dict[str, Canary]
    nulls: dict[str, Null]
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> str:
        """Return "accepted", "rejected", or "not known" where these episodes cannot tell."""
        passed = [check.passed for check in self.checks]
        return "rejected" if False in passed else "not known" if None in passed else "accepted"


def evaluate(
    model: RewardModel,
    episodes: Sequence[LabelledEpisode],
    seed: int,
    *,
    rule: DoneRule,
    dt_s: float,
    every: int = 1,
    fitted_on: Collection[str] | None = None,
    seen: Seen | None = None,
    on_episode: Callable[[int, int], None] = lambda number, episodes: None,
) -> Report:
    """Evaluate a reward model on labelled episodes.

    Args:
        model: Asked as it is on a robot: each frame with its own past only.
        seed: Of the bootstrap and of what is sampled.
        rule: When the verdict is "done": threshold, n of m, gate, as they are deployed.
        dt_s: Time between two frames of the episodes.
        every: Score each n-th frame only, for slow models; the rule then counts these frames.
        fitted_on: Kinds of episodes that the model was fitted on; None if that is not known.
        seen: Recorded episodes that it was fitted on; its calibration is judged by others. None if it was on none.
        on_episode: Told (number, episodes) after each.

    Raises:
        RewardError: If there is no episode, or none that the model can be asked about.
    """
    if not episodes:
        raise RewardError("labelled episodes are 0, must be at least 1; record or make up some first")
    counted, rng = Counted(model), np.random.default_rng(seed)
    judged, kept, refused, deaf = judge_all(counted, [thinned(e, every) for e in episodes], rule, on_episode)
    mismatched = {episode.name for episode in episodes if episode.kind == "mismatch"}
    other_words = bool(mismatched) and mismatched <= deaf
    if not judged:
        name, reason = next(iter(refused.items()))
        raise RewardError(f"none of {len(episodes)} episodes could be scored by {model.name}; of {name}: {reason}")
    dt_s *= every
    sample = _sample(kept, rng)
    names = {one.name for one in judged}
    found = discrimination(judged, rng, dt_s=dt_s, calibrated_on={n for n in names if seen and seen.knows(n)})
    by_class = accuracy(judged, rng)
    nulls = {name: against_null(judged, judge_null(name, kept, rule, rng), rng, dt_s=dt_s) for name in NULLS}
    skipped: dict[str, str] = {}
    checked = axioms(counted, sample, rng, skipped)
    kinds = sorted({one.kind for one in judged})
    by_kind = failures_by_kind(judged, rng, fitted_on=fitted_on)
    return Report(
        model=model.name,
        version=model.version,
        seed=seed,
        seen=seen,
        dt_s=dt_s,
        refused=refused,
        other_words=other_words,
        skipped=skipped,
        unreadable=sum(one.unreadable for one in judged) / sum(len(one.phi) for one in judged),
        judged=tuple(judged),
        ordering=ordering(judged, rng),
        backwards=backwards(counted, [e for e in kept if e.kind == "success"], rng, skipped),
        accuracy=by_class,
        discrimination=found,
        kinds=by_kind,
        ranking=ranking(judged, rng),
        words=words(counted, kept, skipped),
        axioms=checked,
        opd=opd_of_groups({kind: [one.phi for one in judged if one.kind == kind] for kind in kinds}, rng),
        robustness=robustness(counted, sample),
        canaries=canaries(counted, kept, rule, skipped),
        cost=cost(counted, sample[0], rng),
        nulls=nulls,
        checks=checks(found, by_class, by_kind, checked, nulls, other_words=other_words)
        + (() if seen is None else (honest(seen, names),)),
    )


def judge_all(
    model: RewardModel,
    episodes: Sequence[LabelledEpisode],
    rule: DoneRule,
    on_episode: Callable[[int, int], None] = lambda number, episodes: None,
) -> tuple[list[Judged], list[LabelledEpisode], dict[str, str], set[str]]:
    """Judge each episode.

    Returns:
        What was judged, the episodes of that, why each other one was refused, and which were refused for their words.
    """
    judged, kept = [], []
    refused: dict[str, str] = {}
    deaf: set[str] = set()
    for number, episode in enumerate(episodes, start=1):
        try:
            judged.append(judge(model, episode, rule))
            kept.append(episode)
        except RewardError as error:
            refused[episode.name] = str(error)
            if isinstance(error, OtherWords):
                deaf.add(episode.name)
        on_episode(number, len(episodes))
    return judged, kept, refused, deaf


def _sample(episodes: Sequence[LabelledEpisode], rng: np.random.Generator) -> list[LabelledEpisode]:
    """Sample up to `SAMPLE` episodes, some of each kind in turn, in a drawn order."""
    kinds: dict[str, list[LabelledEpisode]] = {}
    for i in rng.permutation(len(episodes)):
        kinds.setdefault(episodes[i].kind, []).append(episodes[i])
    turns: Mapping[int, list[LabelledEpisode]] = {
        turn: [members[turn] for _, members in sorted(kinds.items()) if turn < len(members)] for turn in range(SAMPLE)
    }
    return [episode for turn in turns.values() for episode in turn][:SAMPLE]
