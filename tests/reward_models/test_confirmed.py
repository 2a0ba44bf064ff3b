"""Success needs both: the progress model, which knows the way, and the classifier, which knows what done looks like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from reward_models.classifier.config import ClassifierConfig
from reward_models.classifier.model import LabelledFrames, SuccessClassifier
from reward_models.classifier_gated import ClassifierGatedModel, labelled
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.fit import fit
from tests.reward_models.synthetic import INPUTS, QUICK, TEXT, episode, episodes

PLAIN = np.arange(INPUTS)
SMALL = ClassifierConfig(width=16, steps=60, batch=32, precision=0.6)


def test_what_a_person_said_becomes_labels_of_frames() -> None:
    frames = np.zeros((10, 4), np.float32)
    numbered = frames + np.arange(10, dtype=np.float32)[:, None]
    success, failure, refused = labelled(
        [
            ScoredEpisode(frames=numbered, success=True, done_frames=3),
            ScoredEpisode(frames=frames, success=False),
            ScoredEpisode(frames=frames, success=False, refused=True, done_frames=2),
        ],
        np.array([0, 2]),
    )
    assert success.frames[:, 0].tolist() == [0, 1, 2, 3, 7, 8, 9], "nobody knows of those between"
    assert success.frames.shape == (7, 2)
    assert np.flatnonzero(success.success).tolist() == [4, 5, 6]
    assert failure.frames.shape == (10, 2)
    assert not failure.success.any()
    assert not failure.hard.any()
    assert np.flatnonzero(refused.hard).tolist() == [8, 9]
    assert not refused.success.any()


def waited(seed: int, finished: int) -> ScoredEpisode:
    """A success whose last `finished` frames look alike, before its operator says so."""
    rng = np.random.default_rng(seed)
    way = np.r_[np.linspace(0, 0.6, 30), np.ones(finished)]
    frames = way[:, None] * np.linspace(-1, 1, INPUTS) + 0.05 * rng.normal(size=(len(way), INPUTS))
    return ScoredEpisode(frames=frames.astype(np.float32), success=True, done_frames=6)


@pytest.mark.parametrize("finished", [6, 8, 12])
def test_an_operator_may_wait_twice_as_long_as_the_settings_say(finished: int) -> None:
    known = [waited(seed, finished) for seed in range(12)]
    classifier, judged = SuccessClassifier.fit(labelled(known, PLAIN), ClassifierConfig(width=16, steps=150), seed=0)
    assert judged.point.reached
    fresh = np.concatenate([waited(seed, finished).frames[-6:] for seed in range(50, 60)])
    assert (classifier.score(fresh) >= classifier.threshold).mean() > 0.9


def test_a_classifier_without_the_wanted_precision_refuses_nothing() -> None:
    rng = np.random.default_rng(0)
    noise = [
        LabelledFrames(
            frames=rng.normal(size=(30, INPUTS)).astype(np.float32),
            success=np.arange(30) >= 27,
            hard=np.zeros(30, bool),
        )
        for _ in range(8)
    ]
    classifier, judged = SuccessClassifier.fit(noise, ClassifierConfig(width=16, steps=60, precision=0.99), seed=0)
    assert not judged.point.reached
    assert (classifier.score(noise[0].frames) >= classifier.threshold).all()
    assert judged.point.threshold > 0


def test_frames_that_are_ruled_out_say_nothing() -> None:
    failed = ScoredEpisode(frames=np.arange(10, dtype=np.float32)[:, None], success=False, done_frames=3, refused=True)
    late = np.arange(10) >= 8
    (left,) = labelled([replace(failed, ruled_out=late)], np.array([0]))
    assert left.frames[:, 0].tolist() == list(range(8))
    assert np.flatnonzero(left.hard).tolist() == [7]
    assert labelled([replace(failed, ruled_out=np.ones(10, bool))], np.array([0])) == []


def test_only_frames_that_both_take_for_success_keep_their_probability() -> None:
    known = [replace(e, done_frames=6) for e in episodes(8, 3)]
    model, _ = fit(known, QUICK.model_copy(update={"steps": 60}), text=TEXT, seed=0)
    classifier, _ = SuccessClassifier.fit(labelled(known, PLAIN), SMALL, seed=0)
    both = ClassifierGatedModel(model, classifier)
    frames = episode(40).frames
    alone, agreed = model.score(frames), both.score(frames)
    seen = classifier.score(frames) >= classifier.threshold
    assert 0 < seen.sum() < len(frames)
    assert (agreed.success[seen] == alone.success[seen]).all()
    assert (agreed.success[~seen] == 0).all()
    assert np.array_equal(agreed.progress, alone.progress)
    assert np.array_equal(both.score(frames, 5).success, agreed.success[5:])


def test_its_version_changes_with_either() -> None:
    known = episodes(6, 2)
    short = QUICK.model_copy(update={"steps": 3})
    model, other_model = (fit(known, short, text=TEXT, seed=seed)[0] for seed in (0, 1))
    classifier, other = (SuccessClassifier.fit(labelled(known, PLAIN), SMALL, seed=seed)[0] for seed in (0, 1))
    versions = {
        ClassifierGatedModel(m, c).version for m, c in ((model, classifier), (model, other), (other_model, classifier))
    }
    assert len(versions) == 3
    assert all(len(version) == 16 for version in versions)
