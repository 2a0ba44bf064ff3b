"""Evaluates reward models: on synthetic episodes, on what a run has recorded, or on a dataset."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel, ValidationError

from reward_models.alarms import AlarmConfig
from reward_models.classifier.config import ClassifierConfig
from reward_models.evaluate.done_metrics import DoneRule
from reward_models.evaluate.harness import Report, evaluate
from reward_models.evaluate.judge import thinned
from reward_models.evaluate.seen import Seen
from reward_models.expression.config import ExpressionConfig
from reward_models.expression.judged import FormulaModel
from reward_models.interface import Frame, LabelledEpisode, RewardModel
from reward_models.live import find_live
from reward_models.progress.config import LiveRewardConfig
from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.reward.embedded import EmbeddedClassifier, EmbeddedModel, fit_classifier, fit_embedded
from robot_stack.learner.reward.judged_model import (
    CLASSIFIER,
    Wanted,
    check_unset,
    check_views,
    frames_between,
    large_model,
)
from robot_stack.learner.reward.labelled import labelled_episodes, shown_by_first_success
from robot_stack.learner.reward.success import ProprioGate
from robot_stack.learner.reward.success_model import newest_model
from robot_stack.learner.reward.synthetic import generate, labelled, shared_out
from robot_stack.learner.settings import learning_settings
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.reward_version import newest_reward
from robot_stack.types.errors import ConfigError, RewardError
from robot_stack.types.spec import Spec
from sim.episodes import GeneratedEpisode

DEMOS = 12
"""Demonstrations that the embedded model is fitted on."""
PLAIN_RULE = DoneRule(threshold=0.8, n=2, m=3)
"""When the verdict is "done" on a dataset, which says nothing of a cell's own rule."""

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


def evaluate_generated(
    resolved: ResolvedRun, *, wanted: Wanted | None, episodes: int, seed: int, say: Say
) -> Evaluated:
    """Evaluate a model on synthetic episodes; one that is fitted, on other synthetic demonstrations.

    Args:
        resolved: Names cell and task.
        wanted: Which model; None is the live one of the run.
        episodes: To evaluate on, shared out over all kinds.
        seed: Of demonstrations, fit and evaluation.
        say: Told how far it is.

    Raises:
        ConfigError: If no synthetic episodes can be made of the task, they are too few, or the model's settings are
            missing.
        RewardError: If the model cannot be had.
    """
    counts = shared_out(episodes)
    about = generated_model(resolved, wanted=wanted, seed=seed, say=say)
    made = generate(resolved, counts, seed=(seed, 1), on_episode=_told(say, "synthetic episode"))
    return _evaluated(
        about.model,
        labelled(made, shown=about.demos[0]),
        done_rule(resolved),
        resolved.spec(),
        about.every,
        seed,
        say,
        fit_s=about.fit_s,
        left_out={},
        fitted_on=None if about.large else {demo.kind for demo in about.demos},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GeneratedModel:
    """A model that is evaluated on synthetic episodes.

    Attributes:
        model: Fitted, or a large one.
        demos: Synthetic demonstrations that it was fitted on, or the one that it is shown.
        large: Whether it was not fitted here.
        every: Frames between two that it is asked about.
        fit_s: How long the fit took, None without one.
        alarms: By which a run would watch it; None of one that is watched otherwise, or not at all.
    """

    model: RewardModel
    demos: list[GeneratedEpisode]
    large: bool
    every: int
    fit_s: float | None
    alarms: AlarmConfig | None = None


def generated_model(resolved: ResolvedRun, *, wanted: Wanted | None, seed: int, say: Say) -> GeneratedModel:
    """Return a model to be evaluated on synthetic episodes, fitted on synthetic demonstrations if it is one of those.

    Raises:
        ConfigError: If no synthetic episodes can be made of the task, or the model's settings are missing.
        RewardError: If the model cannot be had.
    """
    wanted, fit_s, alarms = _named(wanted, resolved), None, None
    if wanted.large:
        model: RewardModel = large_model(wanted, resolved)
        check_views(model, resolved, "give RUN in place of --generated")
        demos = generate(resolved, {"success": 1}, seed=(seed, 0), on_episode=_told(say, "demonstration"))
    else:
        config = _fit_config(wanted, resolved)
        alarms = config.alarms if isinstance(config, LiveRewardConfig) else None
        demos = generate(resolved, {"success": DEMOS}, seed=(seed, 0), on_episode=_told(say, "demonstration"))
        if isinstance(config, ExpressionConfig) and not config.reads_scores:
            model = FormulaModel(config, resolved.spec())
        else:
            begun = time.perf_counter()
            model = _fitted(demos, resolved.spec(), config, seed, say)
            fit_s = time.perf_counter() - begun
    every = frames_between(wanted, resolved)
    return GeneratedModel(model=model, demos=demos, large=wanted.large, every=every, fit_s=fit_s, alarms=alarms)


def _named(wanted: Wanted | None, resolved: ResolvedRun) -> Wanted:
    """Return the wanted model; where no name was given, the run's own live one."""
    own = resolved.run.reward.name
    return Wanted(name=own) if wanted is None else replace(wanted, name=wanted.name or own)


def _fit_config(wanted: Wanted, resolved: ResolvedRun) -> BaseModel:
    """Return the settings of a model that is fitted: those that were given, else the run's."""
    name = wanted.name
    if _is_formulas(wanted):
        return _formulas(wanted, resolved.spec())
    kind: type[BaseModel] = ClassifierConfig if name == CLASSIFIER else find_live(name).config
    if wanted.settings is None and name == resolved.run.reward.name:
        return resolved.section("run.reward.settings", kind)
    try:
        return kind.model_validate_json(json.dumps(dict(wanted.settings or {})))
    except (ValidationError, TypeError) as error:
        raise RewardError(f"settings of reward model {name} are wrong: {error}") from error


def _is_formulas(wanted: Wanted) -> bool:
    """Return whether formulas are meant that were given, which need no run to have them."""
    return wanted.name == ExpressionConfig.part and wanted.settings is not None


def _formulas(wanted: Wanted, spec: Spec) -> ExpressionConfig:
    """Return the formulas that were given, checked against the proprio of a cell."""
    try:
        config = ExpressionConfig.model_validate_json(json.dumps(dict(wanted.settings or {})))
    except (ValidationError, TypeError) as error:
        raise RewardError(f"settings of reward model {wanted.name} are wrong: {error}") from error
    said = [f"{name}: {text}" for name, text in config.mistakes({f.name: f.size for f in spec.sensed.proprio})]
    if said:
        raise RewardError("; ".join(said))
    return config


def _fitted(demos: list[GeneratedEpisode], spec: Spec, config: BaseModel, seed: int, say: Say) -> RewardModel:
    def on_step(step: int, steps: int, loss: float) -> None:
        say("step of the fit", step, steps)

    if isinstance(config, ClassifierConfig):
        return fit_classifier(demos, spec, seed=seed, config=config, on_step=on_step)
    return fit_embedded(demos, spec, seed=seed, config=config, on_step=on_step)  # type: ignore[arg-type]


def evaluate_run(folder: Path, *, wanted: Wanted | None, episodes: int | None, seed: int, say: Say) -> Evaluated:
    """Evaluate a model on what a run has recorded, with the labels of simulator or operators.

    Args:
        folder: Of the run.
        wanted: Which model; None is the run's newest own one.
        episodes: Only so many, the newest; all if None.
        seed: Of the evaluation.
        say: Told how far it is.

    Raises:
        StoreError: If the run has no reward model yet.
        ConfigError: If the run has no such model, or the model's settings are missing.
        RewardError: If it has no labelled episode, or the model cannot be had.
    """
    resolved = load_resolved(RunPaths(folder).resolved)
    wanted = _named(wanted, resolved)
    if wanted.large:
        model: RewardModel = large_model(wanted, resolved)
    elif _is_formulas(wanted):
        model = FormulaModel(_formulas(wanted, resolved.spec()), resolved.spec())
    else:
        model = own_model(folder, resolved, wanted)
    seen = None if wanted.large or _is_formulas(wanted) else _seen(folder)
    recorded, left_out = _unseen(folder, resolved.task.text, episodes, seen)
    if wanted.large:
        recorded, left_out = shown_by_first_success(recorded, left_out)
    every = frames_between(wanted, resolved)
    return _evaluated(
        model, recorded, done_rule(resolved), resolved.spec(), every, seed, say, left_out=left_out, seen=seen
    )


def _seen(folder: Path) -> Seen:
    """Return which episodes a run's newest own model was fitted on."""
    newest = newest_reward(folder)
    assert newest is not None
    return Seen(trained_on=newest.trained_on, held_out=newest.held_out)


def _unseen(
    folder: Path, text: str, newest: int | None, seen: Seen | None
) -> tuple[list[LabelledEpisode], dict[str, str]]:
    """Read the labelled episodes that a model was not trained on; all of them where there are no others."""
    trained_on = seen.trained_on if seen is not None else None
    if trained_on:
        found, left_out = labelled_episodes(folder, text, newest=newest, trained_on=trained_on)
        if found:
            return found, left_out
    return labelled_episodes(folder, text, newest=newest)


def evaluate_dataset(
    folder: Path, spec: Spec, text: str, *, wanted: Wanted | Path, episodes: int | None, seed: int, say: Say
) -> Evaluated:
    """Evaluate a model on the labelled episodes of a dataset.

    Args:
        folder: Of the dataset.
        spec: Of its cell.
        text: What the robot was told.
        wanted: A large model, or the folder of a run whose own model is meant.
        episodes: Only so many, the newest; all if None.
        seed: Of the evaluation.
        say: Told how far it is.

    Raises:
        ConfigError: If the dataset is of another cell than the run, or the model is fitted and nobody says on what.
        RewardError: If it has no labelled episode, or the model cannot be had.
    """
    if isinstance(wanted, Path):
        resolved = load_resolved(RunPaths(wanted).resolved)
        check_same_cell(folder, spec, wanted, resolved.spec())
        model: RewardModel = run_model(wanted, resolved)
        seen, rule = _seen(wanted), done_rule(resolved)
        recorded, left_out = _unseen(folder, text, episodes, seen)
        return _evaluated(model, recorded, rule, spec, 1, seed, say, left_out=left_out, seen=seen)
    recorded, left_out = labelled_episodes(folder, text, newest=episodes)
    if _is_formulas(wanted):
        formulas = FormulaModel(_formulas(wanted, spec), spec)
        return _evaluated(
            formulas, recorded, PLAIN_RULE, spec, frames_between(wanted, None), seed, say, left_out=left_out
        )
    if not wanted.large:
        raise ConfigError(
            f"reward model is {wanted.name!r}, must be a large one, formulas with settings, or a run, whose own model "
            "is fitted; name the run with --model"
        )
    model = large_model(wanted, None)
    shown, left_out = shown_by_first_success(recorded, left_out)
    return _evaluated(model, shown, PLAIN_RULE, spec, frames_between(wanted, None), seed, say, left_out=left_out)


def check_same_cell(data: Path, spec: Spec, run: Path, trained_on: Spec) -> None:
    """Check that episodes are of the cell that a run's model was fitted on.

    Raises:
        ConfigError: If they are not; the message says what both have.
    """
    if spec.digest == trained_on.digest:
        return

    def told(one: Spec) -> str:
        cameras = ", ".join(f"{camera.name} {camera.width_px}x{camera.height_px}" for camera in one.cameras)
        fields = ", ".join(f"{field.name} {field.size}" for field in one.proprio)
        return f"{cameras}; {fields}; {one.rate_hz:g} Hz; {one.digest[:8]}"

    raise ConfigError(
        f"cell of {data} is ({told(spec)}), must be that of run {run} ({told(trained_on)}); take episodes of that cell"
    )


def own_model(folder: Path, resolved: ResolvedRun, wanted: Wanted) -> RewardModel:
    """Load a run's newest own model, or the classifier beside it.

    Raises:
        StoreError: If there is none yet.
        ConfigError: If the run has another model than the wanted one.
        RewardError: If settings were given for it.
    """
    check_unset(wanted, f"the model of run {folder.name}")
    if wanted.name not in (CLASSIFIER, resolved.run.reward.name):
        raise ConfigError(
            f"reward model is {wanted.name!r}, must be {resolved.run.reward.name!r}, as run {folder.name} has it, or a "
            "large one"
        )
    model = run_model(folder, resolved)
    if wanted.name != CLASSIFIER:
        return model
    if model.classifier is None:
        raise ConfigError(
            f"classifier of run {folder.name} is missing, must be fitted beside its model; set confirm among "
            "run.reward.settings before the run"
        )
    return EmbeddedClassifier(model.trunk, model.classifier)


def run_model(folder: Path, resolved: ResolvedRun) -> EmbeddedModel:
    """Load the newest reward model of a run, behind the run's trunk.

    Raises:
        StoreError: If there is none yet.
    """
    trunk, model = newest_model(folder, resolved)
    settings = learning_settings(resolved).reward
    return EmbeddedModel(trunk, model, settings.part, gate=settings.gate)


def _evaluated(
    model: RewardModel,
    episodes: list[LabelledEpisode],
    rule: DoneRule,
    spec: Spec,
    every: int,
    seed: int,
    say: Say,
    *,
    left_out: dict[str, str],
    fit_s: float | None = None,
    fitted_on: Collection[str] | None = None,
    seen: Seen | None = None,
) -> Evaluated:
    told = _told(say, "scored episode")
    report = evaluate(
        model,
        episodes,
        seed,
        rule=rule,
        dt_s=spec.period_s,
        every=every,
        fitted_on=fitted_on,
        seen=seen,
        on_episode=told,
    )
    scored = {one.name for one in report.judged}
    shown = tuple(thinned(episode, every) for episode in episodes if episode.name in scored)
    return Evaluated(report=report, episodes=shown, fit_s=fit_s, left_out=left_out)


def _told(say: Say, what: str) -> Callable[[int, int], None]:
    return lambda number, count: say(what, number, count)
