"""The success model of a saved run as the judge of its episodes where no learner is: deployed, or evaluated."""

from __future__ import annotations

from pathlib import Path

import torch

from policies.encoders.trunk import Trunk, encode_frames
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner import fitting
from robot_stack.learner.data.training_data import reward_inputs, sensed_only
from robot_stack.learner.fitting import RewardNetwork
from robot_stack.learner.reward.scoring import Scorer
from robot_stack.learner.reward.success import success_rule
from robot_stack.learner.settings import learning_settings
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.reward_version import newest_reward
from robot_stack.types.errors import RewardError, StoreError
from robot_stack.types.reward import LiveScore
from robot_stack.types.transition import Step


class SuccessModel:
    """The newest reward model of a run, with the task's success rule; implements `types.interfaces.Judge`.

    Args:
        resolved: The run.
        trunk: Of the run.
        model: Fitted on the trunk's features.
    """

    def __init__(self, resolved: ResolvedRun, trunk: Trunk, model: RewardNetwork) -> None:
        self._resolved, self._trunk, self._model = resolved, trunk, model
        self._spec = resolved.spec()
        self._scorer = self._fresh()
        self._cursor = 0
        self._newest: LiveScore | None = None

    def begin(self, episode_id: str) -> None:
        """Forget the episode before."""
        self._scorer, self._cursor, self._newest = self._fresh(), 0, None

    def see(self, step: Step) -> None:
        """Score the frame of a step, one of those that the learner would score."""
        images = {name: image[None] for name, image in step.observation.images.items()}
        proprio = step.observation.proprio[None]
        with torch.no_grad():
            features = encode_frames(self._trunk, images, len(proprio))
            self._scorer.add(step.episode_id, reward_inputs(features, sensed_only(proprio, self._spec)), proprio)
            self._scorer.score_live(step.episode_id)
        self._cursor, scores = self._scorer.after(self._cursor, 0.0)
        if scores:
            self._newest = scores[-1]

    def newest(self, episode_id: str) -> LiveScore | None:
        """Return the newest score of that episode, or None."""
        newest = self._newest
        return newest if newest is not None and newest.episode_id == episode_id else None

    def _fresh(self) -> Scorer:
        scorer = Scorer(lambda: success_rule(self._resolved.task, self._spec))
        scorer.adopt(self._model, [])
        return scorer


def run_success_model(folder: Path, resolved: ResolvedRun) -> SuccessModel:
    """Load the success model that a run ended with.

    Raises:
        StoreError: If the run has none.
        RewardError: If an alarm ended trust in it and no newer one has been fitted since.
    """
    newest = newest_reward(folder)
    if newest is not None and newest.alarm:
        raise RewardError(
            f"success model {newest.version} of run {folder.name} is no longer trusted ({newest.alarm}), must be "
            "to judge; train on, and it is fitted again"
        )
    return SuccessModel(resolved, *newest_model(folder, resolved))


def newest_model(folder: Path, resolved: ResolvedRun) -> tuple[Trunk, RewardNetwork]:
    """Load the newest reward model of a run, and the encoder on whose features it was fitted.

    Raises:
        StoreError: If there is none yet.
        RewardError: If it was fitted on a task in other words.
    """
    paths, newest = RunPaths(folder), newest_reward(folder)
    if newest is None:
        raise StoreError(f"reward models of run {folder} are 0, must be at least 1; finish its demonstrations first")
    of_its_own = paths.reward_trunk.exists()  # where the policy's encoder is trained, or gives maps
    trunk = fitting.load_trunk(paths.reward_trunk if of_its_own else paths.trunk, resolved.spec(), "cpu")
    settings = learning_settings(resolved).reward
    model = fitting.load_reward(paths.reward(newest.version), newest.version, settings)
    if model.text != resolved.task.text:
        raise RewardError(
            f"task of run {folder.name} is {resolved.task.text!r}, must be {model.text!r}, on which its reward model "
            "was fitted; it reads no language, so restore these words or fit it anew"
        )
    return trunk, model
