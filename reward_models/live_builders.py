"""The builders of the live reward models, which need torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from torch import Tensor

from reward_models.classifier.model import ClassifierReport, SuccessClassifier
from reward_models.classifier_gated import ClassifierGatedModel, labelled
from reward_models.expression import model as expression
from reward_models.expression.config import ExpressionConfig
from reward_models.expression.model import SEEN, ExpressionModel
from reward_models.model_per_task import TaskModel
from reward_models.otr import model as otr
from reward_models.otr.config import OtrConfig
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import LiveRewardConfig, ProgressConfig
from reward_models.progress.fit import FitReport, fit, without_ruled_out
from reward_models.progress.model import ARRAYS, FEW, ProgressModel
from robot_stack.types.errors import RewardError

ValueT = TypeVar("ValueT")
LiveT = TypeVar("LiveT", bound=LiveRewardConfig)
LiveT_contra = TypeVar("LiveT_contra", contravariant=True)
OnStep = Callable[[int, int, float], None]
Fitted = tuple[TaskModel, FitReport, ClassifierReport | None]
"""A model, its figures (NaN where not measured), and those of a classifier beside it, where there is one."""


class FitModel(Protocol[LiveT_contra]):
    """The fit of a live reward model."""

    def __call__(
        self, episodes: Sequence[ScoredEpisode], config: LiveT_contra, *, text: str, seed: int, on_step: OnStep
    ) -> Fitted:
        """Fit a model on demonstrations and verdicts.

        Args:
            episodes: At least one success.
            text: What the robot was told.
            on_step: To be told (step, steps, loss); may raise to end the fit.

        Raises:
            RewardError: If the episodes do not suffice.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class LiveBuilders(Generic[LiveT]):
    """The builders of one live reward model.

    Attributes:
        fit: Fits it on episodes.
        restore: Builds it again from what `TaskModel.stored` gave.
    """

    fit: FitModel[LiveT]
    restore: Callable[[Mapping[str, Tensor], Mapping[str, str], LiveT], TaskModel]


def _fit_progress(
    episodes: Sequence[ScoredEpisode], config: ProgressConfig, *, text: str, seed: int, on_step: OnStep
) -> Fitted:
    model, report = fit(episodes, config, text=text, seed=seed, on_step=on_step)
    if config.confirm is None:
        return model, report, None
    known = [without_ruled_out(model, episode) for episode in episodes]
    classifier, judged = SuccessClassifier.fit(labelled(known, model.plain), config.confirm, seed=seed, on_step=on_step)
    confirmed = ClassifierGatedModel(model, classifier)
    return confirmed, replace(report, version=confirmed.version), judged


def _restore_progress(tensors: Mapping[str, Tensor], texts: Mapping[str, str], config: ProgressConfig) -> TaskModel:
    lacking = [name for name in ARRAYS if name not in tensors]
    if lacking or "text" not in texts:
        raise RewardError(
            f"stored reward model lacks {lacking or ['text']}, must be written by this program; fit it again"
        )
    if any(name.endswith(".words.weight") for name in tensors):
        raise RewardError(
            "stored reward model reads words beside frames, must read frames alone; fit it again in a new run with "
            "start_from: {run: THIS RUN, take: [episodes, encoder]}"
        )
    state = {name: tensors[name] for name in (*ARRAYS, *FEW) if name in tensors}
    inputs = len(state["mean"])
    progress = ProgressModel(inputs, config, text=texts["text"], thumbnails=state["thumbnails"].tolist())
    progress.load_state_dict({**state, **texts, "members": _under("members.", tensors)})
    if config.confirm is None:
        return progress
    classifier = SuccessClassifier(len(progress.plain), config.confirm)
    classifier.load_state_dict(_under("confirm.", tensors))
    return ClassifierGatedModel(progress, classifier)


def _under(prefix: str, named: Mapping[str, ValueT]) -> dict[str, ValueT]:
    return {name.removeprefix(prefix): value for name, value in named.items() if name.startswith(prefix)}


def _fit_expression(
    episodes: Sequence[ScoredEpisode], config: ExpressionConfig, *, text: str, seed: int, on_step: OnStep
) -> tuple[ExpressionModel, FitReport, None]:
    seen, held_out = None, tuple(episode.name for episode in episodes if episode.name)  # formulas learn from none
    if config.reads_scores:
        seen, report = fit(episodes, config, text=text, seed=seed, on_step=on_step)
        held_out = report.held_out
    model = expression.written(episodes, config, text=text, seen=seen)
    return model, replace(expression.judge(model, episodes, on_step), held_out=held_out), None


def _restore_expression(
    tensors: Mapping[str, Tensor], texts: Mapping[str, str], config: ExpressionConfig
) -> ExpressionModel:
    seen = None
    if config.reads_scores:
        seen = _restore_progress(_under(SEEN, tensors), _under(SEEN, texts), config)
    return expression.restore(tensors, texts, config, seen=seen)


PROGRESS: LiveBuilders[ProgressConfig] = LiveBuilders(fit=_fit_progress, restore=_restore_progress)
OTR: LiveBuilders[OtrConfig] = LiveBuilders(fit=otr.fit, restore=otr.restore)
EXPRESSION: LiveBuilders[ExpressionConfig] = LiveBuilders(fit=_fit_expression, restore=_restore_expression)
