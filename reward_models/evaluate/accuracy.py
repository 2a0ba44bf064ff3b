"""Sections A to D: order in time, distance from the truth, success told from failure, order of outcomes.

Each takes what has been judged, a model's answers or a null model's alike. Conventions: an unreadable Φ is left out of
every figure; an episode whose Φ is constant has no order in time, counts as VOC 0 and is counted in `degenerate`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from reward_models.evaluate.estimate import Estimate, Rate, mean_of, of_groups
from reward_models.evaluate.judge import Judged
from reward_models.evaluate.rank_metrics import auc, kendall_tau, order_rate, spearman
from reward_models.metrics import voc
from reward_models.progress.calibrate import calibration_error

NEAR = 0.2
"""Error of Φ that Acc@.2 lets pass."""
LADDER = ("fail", "partial", "success")
"""Classes from the worst outcome to the best."""
AGAINST = ("fail", "apart", "stall", "mismatch")
"""What a success must be told from: on these a clock is blind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordering:
    """Section A of a report: order in time on successes."""

    voc: Estimate
    degenerate: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Section B of a report: distance from the truth in one class of episodes.

    Attributes:
        mae: Mean absolute error of Φ, over frames and then over episodes.
        near: Acc@.2, share of frames not further off than `NEAR`.
        spearman: Rank correlation with the truth inside an episode, mean; episodes of constant truth have none.
        final_phi: Φ of the last frame, mean.
        final_truth: True progress of the last frame, mean.
    """

    mae: Estimate
    near: Estimate
    spearman: Estimate
    final_phi: Estimate
    final_truth: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrimination:
    """Section C of a report: success told from everything else.

    Attributes:
        auc: Of the final Φ.
        auc_done: Of the final probability of done.
        auc_against: Class -> AUC of the final Φ of successes against that class.
        false_done: Episodes without success in which the rule ever said done.
        false_done_ungated: The same with the gate always open: the model by itself.
        missed: Successes in which the rule never said done.
        early: Successes in which it said so before it was true; of a recorded one that is not known.
        detect_s: Mean time from true success to the verdict, where it did not come early.
        calibration: Expected calibration error of the probability of done, over the frames of which it is known whether
            the task was done, of episodes by which the model is not calibrated; NaN without any.
    """

    auc: Estimate
    auc_done: Estimate
    auc_against: dict[str, Estimate]
    false_done: Rate
    false_done_ungated: Rate
    missed: Rate
    early: Rate
    detect_s: Estimate
    calibration: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Section D of a report: order of outcomes by the final Φ.

    Attributes:
        in_order: Mean final Φ rises strictly over `LADDER`; None where a class is missing.
        order_rate: Share of triples, one episode of each class, that rise strictly.
        kendall_tau: Of the final Φ with the class.
    """

    in_order: bool | None
    order_rate: float
    kendall_tau: Estimate


def ordering(judged: Sequence[Judged], rng: np.random.Generator) -> Ordering:
    """Compute section A, of the kind "success" alone: another success need not rise all the way."""
    orders = [voc(one.phi[one.known]) for one in judged if one.kind == "success" and one.known.any()]
    return Ordering(
        voc=mean_of([0.0 if np.isnan(order) else order for order in orders], rng),
        degenerate=int(np.isnan(orders).sum()),
    )


def accuracy(judged: Sequence[Judged], rng: np.random.Generator) -> dict[str, Accuracy]:
    """Compute section B by class, and of all episodes under "all"."""
    groups: dict[str, list[Judged]] = {"all": list(judged)}
    for one in judged:
        groups.setdefault(one.group, []).append(one)
    return {name: _accuracy(members, rng) for name, members in groups.items()}


def _accuracy(judged: Sequence[Judged], rng: np.random.Generator) -> Accuracy:
    errors = [np.abs(one.phi - one.truth)[_both(one)] for one in judged]
    orders = [spearman(one.phi[_both(one)], one.truth[_both(one)]) for one in judged]
    truths = np.array([one.truth[-1] for one in judged])
    return Accuracy(
        mae=mean_of([float(error.mean()) if len(error) else np.nan for error in errors], rng),
        near=mean_of([float((error <= NEAR).mean()) if len(error) else np.nan for error in errors], rng),
        spearman=mean_of(orders, rng),
        final_phi=mean_of([one.final for one in judged], rng),
        final_truth=float(truths[np.isfinite(truths)].mean()) if np.isfinite(truths).any() else float("nan"),
    )


def _both(one: Judged) -> np.ndarray:
    return one.known & np.isfinite(one.truth)


def discrimination(
    judged: Sequence[Judged], rng: np.random.Generator, *, dt_s: float, calibrated_on: Collection[str] = ()
) -> Discrimination:
    """Compute section C.

    Args:
        dt_s: Time between two frames of the episodes.
        calibrated_on: Names of those that the model was trained or calibrated on, which say nothing of its calibration.
    """
    won, lost = [one for one in judged if one.success], [one for one in judged if not one.success]
    against = {name: finals([one for one in lost if one.group == name]) for name in AGAINST}
    spoken = [one for one in won if one.latched is not None]
    timed = [one for one in won if np.isfinite(one.truth).any()]
    early = sum(one.latched is not None and one.latched < one.done_at for one in timed)  # type: ignore[operator]
    waits = [dt_s * (one.latched - one.done_at) for one in timed if one.latched is not None]  # type: ignore[operator]
    said = np.concatenate([one.done for one in judged])
    readable = np.isfinite(said)
    if not readable.any():  # a model that cannot tell is neither right nor wrong about it
        won, lost, spoken, timed, early, waits = [], [], [], [], 0, []
    true = np.concatenate([_is_done(one) for one in judged])
    fresh = np.concatenate([_told_done(one) & (one.name not in calibrated_on) for one in judged]) & readable
    return Discrimination(
        auc=of_groups(auc, [finals(won), finals(lost)], rng),
        auc_done=of_groups(auc, [_final_done(won), _final_done(lost)], rng),
        auc_against={name: of_groups(auc, [finals(won), phi], rng) for name, phi in against.items() if len(phi)},
        false_done=Rate.of(sum(one.latched is not None for one in lost), len(lost)),
        false_done_ungated=Rate.of(sum(one.latched_ungated is not None for one in lost), len(lost)),
        missed=Rate.of(len(won) - len(spoken), len(won)),
        early=Rate.of(early, len(timed)),
        detect_s=mean_of([wait for wait in waits if wait >= 0], rng),
        calibration=calibration_error(said[fresh], true[fresh]),
    )


def finals(judged: Sequence[Judged]) -> np.ndarray:
    """Return the readable Φ of last frames, float64, shape (N,)."""
    values = np.array([one.final for one in judged], dtype=np.float64)
    return values[np.isfinite(values)]


def _final_done(judged: Sequence[Judged]) -> np.ndarray:
    values = np.array([one.done[-1] for one in judged], dtype=np.float64)
    return values[np.isfinite(values)]


def _is_done(one: Judged) -> np.ndarray:
    return np.arange(len(one.phi)) >= (len(one.phi) if one.done_at is None else one.done_at)


def _told_done(one: Judged) -> np.ndarray:
    """Return the frames of which it is known whether the task was done: of a recorded success only its last."""
    return np.isfinite(one.truth) | _is_done(one) | (not one.success)


def ranking(judged: Sequence[Judged], rng: np.random.Generator) -> Ranking:
    """Compute section D, without the texts, which need the model."""
    classes = [finals([one for one in judged if one.group == name]) for name in LADDER]
    complete = all(len(values) for values in classes)
    means = [values.mean() for values in classes if len(values)]

    def tau(*groups: np.ndarray) -> float:
        return kendall_tau(np.repeat(np.arange(len(groups)), [len(g) for g in groups]), np.concatenate(groups))

    return Ranking(
        in_order=bool((np.diff(means) > 0).all()) if complete else None,
        order_rate=order_rate(classes),
        kendall_tau=of_groups(tau, classes, rng, draws=100),
    )
