"""The success classifier: learns from few episodes, is as sure as it is told to be, and unlearns what it got wrong."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from reward_models.classifier.config import ClassifierConfig
from reward_models.classifier.model import (
    ClassifierReport,
    LabelledFrames,
    SuccessClassifier,
    operating_point,
    threshold_for,
)
from robot_stack.types.errors import RewardError

INPUTS = 12
QUICK = ClassifierConfig(width=32, steps=150, batch=64)


def episode(seed: int, *, success: bool = True, trick: bool = False, hard: bool = False) -> LabelledFrames:
    """Success is a direction in 12 noisy features, reached in the last 6 frames; a trick looks a little like it."""
    rng = np.random.default_rng(seed)
    done = np.zeros(30, bool)
    done[24:] = success
    level = np.linspace(0, 0.5, 30) + done * 1.0
    frames = rng.normal(0, 0.3, (30, INPUTS))
    frames[:, 0] += level
    frames[:, 1] += level
    if trick:  # as far along the first feature as a success, and nowhere along the second
        frames[20:, 0] += 2.0
        frames[20:, 2] += 1.0
    return LabelledFrames(frames=frames.astype(np.float32), success=done, hard=(np.arange(30) >= 20) & hard)


@pytest.fixture(scope="module")
def fitted() -> tuple[SuccessClassifier, ClassifierReport]:
    torch.set_num_threads(1)
    return SuccessClassifier.fit([episode(i) for i in range(12)], QUICK, seed=0)


def test_it_tells_success_on_episodes_that_it_has_not_seen(fitted: tuple[SuccessClassifier, ClassifierReport]) -> None:
    model, report = fitted
    assert report.point.reached
    assert report.point.precision >= QUICK.precision
    assert report.point.recall > 0.7
    fresh = [episode(i) for i in range(100, 110)]
    said = np.concatenate([model.score(e.frames) for e in fresh]) >= model.threshold
    truth = np.concatenate([e.success for e in fresh])
    assert (said == truth).mean() > 0.95


def test_validation_episodes_are_not_trained_on() -> None:
    episodes = [episode(i) for i in range(6)]
    first, report = SuccessClassifier.fit(episodes, QUICK, seed=0)
    assert report.positives == 6 * 2  # a quarter of six episodes, rounded
    again, _ = SuccessClassifier.fit(episodes, QUICK, seed=0)
    other, _ = SuccessClassifier.fit(episodes, QUICK, seed=1)
    assert first.version == again.version != other.version


def test_a_false_positive_becomes_a_negative_and_is_not_made_again() -> None:
    episodes = [episode(i) for i in range(12)]
    fooled, _ = SuccessClassifier.fit(episodes, QUICK, seed=0)
    tricks = [episode(i, success=False, trick=True, hard=True) for i in range(200, 204)]
    unseen = [episode(i, success=False, trick=True) for i in range(300, 310)]
    before = np.mean([fooled.score(e.frames).max() >= fooled.threshold for e in unseen])
    wiser, report = SuccessClassifier.fit([*episodes, *tricks], QUICK, seed=0)
    after = np.mean([wiser.score(e.frames).max() >= wiser.threshold for e in unseen])
    assert before > 0.5
    assert after < before / 2
    assert report.point.recall > 0.7


def test_saved_and_loaded_it_answers_the_same(fitted: tuple[SuccessClassifier, ClassifierReport]) -> None:
    model, _ = fitted
    other = SuccessClassifier(INPUTS, QUICK)
    other.load_state_dict(model.state_dict())
    assert (other.version, other.threshold) == (model.version, model.threshold)
    assert np.array_equal(other.score(episode(50).frames), model.score(episode(50).frames))
    with pytest.raises(RewardError, match="of other settings"):
        SuccessClassifier(INPUTS, QUICK.model_copy(update={"width": 64})).load_state_dict(model.state_dict())


@pytest.mark.parametrize(
    ("episodes", "message"),
    [
        ([episode(0)], "that show success are 1, must be at least 2"),
        ([episode(0, success=False)] * 3, "that show success are 0"),
        (
            [LabelledFrames(frames=np.zeros((4, 3), np.float32), success=np.ones(4, bool), hard=np.zeros(4, bool))] * 3,
            "record the way to it too",
        ),
    ],
)
def test_too_little_to_learn_from_is_said_in_words(episodes: list[LabelledFrames], message: str) -> None:
    with pytest.raises(RewardError, match=message):
        SuccessClassifier.fit(episodes, QUICK, seed=0)


@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=40), st.sampled_from([0.6, 0.9]))
def test_threshold_has_the_wanted_precision_at_it_and_above(frames: list[tuple[int, bool]], wanted: float) -> None:
    p, y = np.array([f[0] / 20 for f in frames]), np.array([int(f[1]) for f in frames])
    point = threshold_for(p, y, wanted)
    if not point.reached:
        best = max(operating_point(p, y, t, wanted).precision for t in [p.max()])
        assert best < wanted
        assert max([0.0, *p[p < p.max()]]) < point.threshold < p.max() or p.max() == 0.0, "it sits on a frame"
        return
    for higher in [t for t in np.unique(p) if t >= point.threshold]:
        assert operating_point(p, y, float(higher), wanted).precision >= wanted
    below = [t for t in np.unique(p) if t < point.threshold]
    if below:
        assert operating_point(p, y, float(below[-1]), wanted).precision < wanted


def test_no_threshold_for_what_cannot_be_told_apart() -> None:
    point = threshold_for(np.full(4, 0.5), np.array([1, 0, 1, 0]), 0.9)
    assert not point.reached
    assert point.precision == 0.5
