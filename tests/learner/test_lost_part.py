"""A hand at the goal without its part is never called done by the rule of the cell, however sure the networks are.

Rendered episodes of the simulated cell; the model has seen successes alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from policies.encoders.embedded import EmbeddedTrunk
from policies.encoders.thumbnails import thumbnails_of
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.common_look import CommonLook
from reward_models.progress.config import ProgressConfig
from reward_models.progress.fit import fit
from reward_models.progress.model import ProgressModel
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner.data.training_data import distance_progress, reward_inputs
from robot_stack.learner.fitting import image_shapes
from robot_stack.learner.reward.success import success_rule
from robot_stack.learner.reward.synthetic import generate
from sim.episodes import GeneratedEpisode

pytestmark = pytest.mark.long

KINDS = {"success": 4, "empty_hand": 2, "left_beside": 1, "missing": 2, "invisible": 2}
TINY = ProgressConfig(members=1, window=4, width=16, layers=1, steps=10, batch=8, held_out=0)


@dataclass(frozen=True)
class Scene:
    resolved: ResolvedRun
    trunk: EmbeddedTrunk
    model: ProgressModel
    episodes: list[GeneratedEpisode]

    def inputs(self, episode: GeneratedEpisode) -> np.ndarray:
        return reward_inputs(self.trunk.encode(episode.images), episode.proprio)

    def declared(self, episode: GeneratedEpisode) -> bool:
        rule = success_rule(self.resolved.task, self.resolved.spec())
        success = self.model.score(self.inputs(episode)).success
        return [rule.update(float(p), row) for p, row in zip(success, episode.proprio, strict=True)][-1]


@pytest.fixture(scope="module")
def scene() -> Scene:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    resolved = load_run("peg_insert")
    spec = resolved.spec()
    trunk = EmbeddedTrunk(image_shapes(spec), 4, thumbnail=8).requires_grad_(False).eval()
    shown = [
        ScoredEpisode(
            frames=reward_inputs(trunk.encode(demo.images), demo.proprio),
            success=True,
            done_frames=4,
            progress=distance_progress(demo.proprio, spec),
            thumbnails=thumbnails_of(trunk),
        )
        for demo in generate(resolved, {"success": 8}, seed=(7, 0))
    ]
    model, _ = fit(shown, TINY, text=resolved.task.text, seed=0)
    model.calibration, model.done_reach = (0.0, 30.0), float("inf")  # sure of everything, and nothing is unfamiliar
    return Scene(resolved, trunk, model, generate(resolved, KINDS, seed=(7, 1)))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "success"])
def test_a_hand_without_its_part_is_never_declared_a_success(scene: Scene, kind: str) -> None:
    for episode in scene.episodes:
        if episode.kind == kind:
            assert not scene.declared(episode), episode.name
            assert scene.model.score(scene.inputs(episode)).progress[-1] == 0.0, episode.name


def test_other_successes_are_declared_and_make_progress(scene: Scene) -> None:
    successes = [episode for episode in scene.episodes if episode.kind == "success"]
    assert sum(scene.declared(episode) for episode in successes) >= len(successes) - 1
    fits = np.concatenate([scene.model.always.fits(scene.inputs(episode)) for episode in successes])
    assert fits.mean() > 0.9


def test_without_the_look_of_successes_all_of_them_would_be_declared(scene: Scene) -> None:
    always, finished = scene.model.always, scene.model.finished
    scene.model.always = scene.model.finished = CommonLook.of([], ())
    try:
        assert all(scene.declared(episode) for episode in scene.episodes)
    finally:
        scene.model.always, scene.model.finished = always, finished
