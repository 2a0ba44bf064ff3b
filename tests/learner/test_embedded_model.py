"""The embedded model answers like any other, from images, and each frame goes through the trunk once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
import torch

from policies.encoders.embedded import EmbeddedTrunk
from reward_models.classifier.model import SuccessClassifier
from reward_models.classifier_gated import ClassifierGatedModel
from reward_models.interface import ClipQuery, Frame, Instruction, OtherWords, PairQuery
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.config import ProgressConfig
from reward_models.progress.fit import fit
from robot_stack.learner.data.training_data import reward_inputs
from robot_stack.learner.reward.embedded import EmbeddedModel
from robot_stack.types.errors import RewardError

TINY = ProgressConfig(members=2, window=4, width=16, layers=1, steps=20, batch=8, held_out=1)
TASK = Instruction(text="insert the orange peg")


class CountingTrunk(EmbeddedTrunk):
    seen = 0

    def encode(self, images: Mapping[str, np.ndarray], *, chunk: int = 128) -> np.ndarray:
        self.seen += len(next(iter(images.values())))
        return super().encode(images, chunk=chunk)


def frames_of(seed: int, count: int = 12) -> tuple[Frame, ...]:
    rng = np.random.default_rng(seed)
    return tuple(
        Frame(
            images={"front": rng.integers(0, 256, (8, 8, 3), np.uint8)},
            proprio=np.full(3, k / count, np.float32),
        )
        for k in range(count)
    )


def stacked(trunk: EmbeddedTrunk, frames: tuple[Frame, ...]) -> np.ndarray:
    images = {"front": np.stack([frame.images["front"] for frame in frames])}
    return reward_inputs(
        trunk.encode(images), np.stack([frame.proprio for frame in frames if frame.proprio is not None])
    )


@pytest.fixture(scope="module")
def model() -> EmbeddedModel:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    trunk = CountingTrunk({"front": (8, 8, 3)}, 3).requires_grad_(False).eval()
    episodes = [ScoredEpisode(frames=stacked(trunk, frames_of(i)), success=True) for i in range(3)]
    return EmbeddedModel(trunk, fit(episodes, TINY, text=TASK.text, seed=0)[0])


@pytest.mark.long
def test_an_episode_asked_frame_by_frame_is_scored_as_a_whole(model: EmbeddedModel) -> None:
    frames = frames_of(9)
    asked = [ClipQuery(instruction=TASK, frames=frames[: t + 1]) for t in range(len(frames))]
    whole = model.network.score(stacked(model.trunk, frames))  # type: ignore[arg-type]
    assert [s.value for s in model.score_progress(asked)] == pytest.approx(whole.progress.tolist(), abs=1e-5)
    assert [s.value for s in model.score_done(asked)] == pytest.approx(whole.success.tolist(), abs=1e-5)


def test_each_frame_goes_through_the_trunk_once(model: EmbeddedModel) -> None:
    trunk, frames = model.trunk, frames_of(10)
    assert isinstance(trunk, CountingTrunk)
    before = trunk.seen
    for t in range(len(frames)):
        model.score_progress([ClipQuery(instruction=TASK, frames=frames[: t + 1])])
    assert trunk.seen - before == len(frames)


@pytest.mark.parametrize("text", ["open the drawer", "x", "put the orange peg into the blue socket"])
def test_questions_under_other_words_are_refused_by_name(model: EmbeddedModel, text: str) -> None:
    frames, other = frames_of(11), Instruction(text=text)
    asked = [ClipQuery(instruction=i, frames=frames) for i in (TASK, other)]
    pairs = [PairQuery(instruction=other, start=frames[0], before=frames[0], after=frames[1])]
    for ask in (lambda: model.score_progress(asked), lambda: model.score_done(asked), lambda: model.score_pairs(pairs)):
        with pytest.raises(OtherWords, match=f"task is '{text}', must be 'insert the orange peg', on which"):
            ask()
    assert model.score_progress(asked[:1])[0].valid


def test_pairs_are_scored_in_their_range(model: EmbeddedModel) -> None:
    frames = frames_of(12)
    asked = [PairQuery(instruction=TASK, start=frames[0], before=frames[0], after=frame) for frame in frames]
    scores = model.score_pairs(asked)
    assert all(s.valid and -1 <= s.value <= 1 for s in scores)
    assert model.score_pairs([]) == []


def test_success_that_the_classifier_does_not_see_is_none(model: EmbeddedModel) -> None:
    class Sees(SuccessClassifier):
        threshold = 0.5

        def __init__(self, sure: list[float]) -> None:
            self.sure, self.version = np.array(sure), "abc"

        def score(self, frames: np.ndarray) -> np.ndarray:
            assert len(frames) == len(self.sure)
            return self.sure

    frames = frames_of(13)
    asked = [ClipQuery(instruction=TASK, frames=frames[: t + 1]) for t in range(3)]
    alone = [score.value for score in model.score_done(asked)]
    confirmed = ClassifierGatedModel(model.network, Sees([0.9, 0.1, 0.5]))
    both = EmbeddedModel(model.trunk, confirmed)
    assert both.version != model.version
    assert [score.value for score in both.score_done(asked)] == [pytest.approx(alone[0]), 0.0, pytest.approx(alone[2])]
    progress = [[score.value for score in one.score_progress(asked)] for one in (model, both)]
    assert progress[0] == progress[1]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            Frame(images={"wrist": np.zeros((8, 8, 3), np.uint8)}, proprio=np.zeros(3, np.float32)),
            "view front is missing",
        ),
        (Frame(images={"front": np.zeros((9, 8, 3), np.uint8)}, proprio=np.zeros(3, np.float32)), "resize it"),
        (Frame(images={"front": np.zeros((8, 8, 3), np.uint8)}), "proprio of a frame is missing"),
        (Frame(images={"front": np.zeros((8, 8, 3), np.uint8)}, proprio=np.zeros(5, np.float32)), "of another task"),
    ],
)
def test_a_frame_that_it_cannot_read_is_refused_in_words(model: EmbeddedModel, frame: Frame, message: str) -> None:
    with pytest.raises(RewardError, match=message):
        model.score_progress([ClipQuery(instruction=TASK, frames=(frame,))])
