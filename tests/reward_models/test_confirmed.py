"""Success needs both: the progress model, which knows the way, and the classifier, which knows what done looks like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from reward_models.classifier.config import ClassifierConfig
from reward_models.classifier.model import SuccessClassifier
from reward_models.classifier_gated import ClassifierGatedModel, labelled
from reward_models.progress.clips import ScoredEpisode
from reward_models.progress.fit import fit
from tests.reward_models.synthetic import INPUTS, QUICK, TEXT, episode, episodes

PLAIN = np.arange(INPUTS)
SMALL = ClassifierConfig(width=16, steps=60, batch=32, precision=0.6)


def test_what_a_person_said_becomes_labels_of_frames() -> None:
    frames = np.zeros((10, 4), np.float32)
    success, failure, refused = labelled(
        [
            ScoredEpisode(frames=frames, success=True, done_frames=3),
            ScoredEpisode(frames=frames, success=False),
            ScoredEpisode(frames=frames, success=False, refused=True, done_frames=2),
        ],
        np.array([0, 2]),
    )
    assert success.frames.shape == (10, 2)
    assert np.flatnonzero(success.success).tolist() == [7, 8, 9]
    assert not failure.success.any()
    assert not failure.hard.any()
    assert np.flatnonzero(refused.hard).tolist() == [8, 9]
    assert not refused.success.any()


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
