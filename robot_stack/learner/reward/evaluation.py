"""Evaluates reward models: a fresh embedded one on synthetic episodes, or a run's own on what it has recorded."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from reward_models.evaluate.done_metrics import DoneRule
from reward_models.evaluate.harness import Report, evaluate
from reward_models.evaluate.judge import thinned
from reward_models.interface import Frame, LabelledEpisode
from reward_models.live import find_live
from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.reward.embedded import EmbeddedModel, fit_embedded
from robot_stack.learner.reward.labelled import labelled_episodes
from robot_stack.learner.reward.success import ProprioGate
from robot_stack.learner.reward.success_model import newest_model
from robot_stack.learner.reward.synthetic import generate, labelled, shared_out
from robot_stack.learner.settings import learning_settings
from robot_stack.runs.paths import RunPaths

DEMOS = 12
"""Demonstrations that the embedded model is fitted on."""

Say = Callable[[str, int, int], None]
"""Told (what, number, of so many)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """An evaluation's report and the episodes that it is about.

    Attributes:
        report: Of the model.
        episodes: Those that were scored, in the order of the report.
        fit_s: How long the fit took, None if the model was there.
        left_out: Recorded episode -> why it is not among them.
    """

    report: Report
    episodes: tuple[LabelledEpisode, ...]
    fit_s: float | None
    left_out: dict[str, str]


def done_rule(resolved: ResolvedRun) -> DoneRule:
    """Return the rule by which a model declares success on the cell of a run."""
    success = resolved.task.success
    gate = ProprioGate(success, resolved.spec())

    def is_open(frame: Frame) -> bool:
        return frame.proprio is not None and gate.open_at(frame.proprio)

    return DoneRule(threshold=success.threshold, n=success.n_of_m.n, m=success.n_of_m.m, gate=is_open)


def evaluate_generated(resolved: ResolvedRun, *, episodes: int, seed: int, every: int, say: Say) -> Evaluated:
    """Fit the embedded model on synthetic demonstrations and evaluate it on other synthetic episodes.

    Args:
        resolved: Names cell and task.
        episodes: To evaluate on, shared out over all kinds.
        seed: Of demonstrations, fit and evaluation.
        every: Score each n-th frame only.
        say: Told how far it is.

    Raises:
        ConfigError: If the task cannot be made up, or the episodes are too few.
    """
    counts = shared_out(episodes)
    demos = generate(resolved, {"success": DEMOS}, seed=(seed, 0), on_episode=_told(say, "demonstration"))
    begun = time.perf_counter()
    model = fit_embedded(
        demos,
        resolved.spec(),
        seed=seed,
        config=resolved.section("run.reward.settings", find_live(resolved.run.reward.name).config),
        on_step=lambda step, steps, loss: say("step of the fit", step, steps),
    )
    fit_s = time.perf_counter() - begun
    made = generate(resolved, counts, seed=(seed, 1), on_episode=_told(say, "synthetic episode"))
    scored = labelled(made, shown=demos[0])
    report = evaluate(
        model,
        scored,
        seed,
        rule=done_rule(resolved),
        dt_s=resolved.spec().period_s,
        every=every,
        on_episode=_told(say, "scored episode"),
    )
    return Evaluated(report=report, episodes=_of(report, scored, every), fit_s=fit_s, left_out={})


def evaluate_run(folder: Path, *, episodes: int | None, seed: int, every: int, say: Say) -> Evaluated:
    """Evaluate a run's newest reward model on what the run has recorded, with the labels of simulator or people.

    Args:
        folder: Of the run.
        episodes: Only so many, the newest; all if None.
        seed: Of the evaluation.
        every: Score each n-th frame only.
        say: Told how far it is.

    Raises:
        StoreError: If the run has no reward model yet.
        RewardError: If it has no labelled episode.
    """
    resolved = load_resolved(RunPaths(folder).resolved)
    model = run_model(folder, resolved)
    recorded, left_out = labelled_episodes(folder, resolved.task.text, newest=episodes)
    report = evaluate(
        model,
        recorded,
        seed,
        rule=done_rule(resolved),
        dt_s=resolved.spec().period_s,
        every=every,
        on_episode=_told(say, "scored episode"),
    )
    return Evaluated(report=report, episodes=_of(report, recorded, every), fit_s=None, left_out=left_out)


def run_model(folder: Path, resolved: ResolvedRun) -> EmbeddedModel:
    """Load the newest reward model of a run, behind the run's trunk.

    Raises:
        StoreError: If there is none yet.
    """
    trunk, model = newest_model(folder, resolved)
    settings = learning_settings(resolved).reward
    return EmbeddedModel(trunk, model, settings.part, gate=settings.gate)


def _of(report: Report, episodes: list[LabelledEpisode], every: int) -> tuple[LabelledEpisode, ...]:
    scored = {one.name for one in report.judged}
    return tuple(thinned(episode, every) for episode in episodes if episode.name in scored)


def _told(say: Say, what: str) -> Callable[[int, int], None]:
    return lambda number, count: say(what, number, count)
