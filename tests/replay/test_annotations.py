from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from robot_stack.replay.annotations import ScoreFiles
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from tests.replay.recorded import TASK, header_of, small_spec, steps_of

SPEC = small_spec()


def label(episode_id: str = "a", verdict: Verdict = Verdict.SUCCESS, stamp: float = 1.0) -> Label:
    return Label(episode_id=episode_id, verdict=verdict, source=LabelSource.OPERATOR, stamp_unix_s=stamp, note='"é\n')


def scores(values: list[float], episode_id: str = "a", version: str = "v1") -> EpisodeScores:
    progress = np.array(values, np.float32)
    return EpisodeScores(episode_id=episode_id, version=version, progress=progress, success=progress.copy())


def test_labels_survive_a_restart_in_order_and_repeats_are_dropped(tmp_path: Path) -> None:
    said = [label(), label("b", Verdict.DISCARD), label(verdict=Verdict.FAILURE, stamp=2.0)]
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        assert [store.append_label(one) for one in [*said, said[0]]] == [True, True, True, False]
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        assert store.labels == tuple(said)
        assert not store.append_label(said[1])


@pytest.mark.parametrize("keep", [1, 20, -1])
def test_a_torn_last_line_is_cut_off_and_the_log_goes_on(tmp_path: Path, keep: int) -> None:
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        store.append_label(label())
        whole = (tmp_path / "labels.jsonl").stat().st_size
        store.append_label(label("b"))
    log = tmp_path / "labels.jsonl"
    raw = log.read_bytes()
    log.write_bytes(raw[: whole + keep] if keep > 0 else raw[:keep])
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        assert store.labels == (label(),)
        assert store.append_label(label("c"))
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        assert store.labels == (label(), label("c"))
        assert store.quarantined == {}


def test_a_damaged_line_in_the_middle_is_named_and_skipped(tmp_path: Path) -> None:
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        store.append_label(label())
    log = tmp_path / "labels.jsonl"
    log.write_bytes(b"rubbish\n" + log.read_bytes())
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        assert store.labels == (label(),)
        assert list(store.quarantined) == ["labels.jsonl line 1"]


def test_scores_read_back_per_version_and_the_first_stay(tmp_path: Path) -> None:
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        assert store.append_scores(scores([0.0, np.nan, 1.0]))
        assert not store.append_scores(scores([0.5, 0.5, 0.5]))
        assert store.append_scores(scores([0.25], "b", "v2"))
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        assert ScoreFiles(tmp_path / "scores").versions == ("v1", "v2")
        (found,) = store.scores("v1")
        np.testing.assert_array_equal(found.progress, np.array([0.0, np.nan, 1.0], np.float32))
        assert store.scores("v3") == ()


@pytest.mark.parametrize("values", [[0.0, 1.5], [-0.1], [np.inf]])
def test_scores_outside_zero_to_one_are_refused(tmp_path: Path, values: list[float]) -> None:
    with EpisodeStore(tmp_path, SPEC, TASK) as store, pytest.raises(StoreError, match=r"must be in \[0, 1\]"):
        store.append_scores(scores(values))


def test_scores_of_another_length_than_the_episode_are_refused(tmp_path: Path) -> None:
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        store.begin(header_of("a"))
        for step in steps_of(SPEC, "a", [Source.POLICY] * 3):
            store.append(step)
        for take in (store.append_scores, store.keep_scores):
            with pytest.raises(StoreError, match="of 3 frames, must be of 4"):
                take(scores([0.1, 0.2, 0.3]))


def test_a_damaged_score_file_is_named_and_may_be_scored_again(tmp_path: Path) -> None:
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        store.append_scores(scores([0.5]))
        file = tmp_path / "scores" / "v1" / "a.npz"
        file.write_bytes(file.read_bytes()[:40])
        assert store.scores("v1") == ()
        assert list(store.quarantined) == [str(file)]
        assert store.append_scores(scores([0.75]))
        assert store.scores("v1")[0].progress[0] == np.float32(0.75)
        assert store.quarantined == {}


def test_a_version_that_climbs_out_of_the_store_is_refused(tmp_path: Path) -> None:
    with EpisodeStore(tmp_path, SPEC, TASK) as store, pytest.raises(SpecError, match="score version"):
        store.append_scores(scores([0.5], version="../x"))


@pytest.mark.parametrize(
    "wrong",
    [
        f'"stamp_unix_s": {"9" * 500}',
        '"stamp_unix_s": null',
        '"stamp_unix_s": NaN',
        '"stamp_unix_s": "1"',
        '"note": 3',
        '"episode_id": ["x"]',
    ],
)
def test_a_line_that_is_no_label_is_named_and_skipped(tmp_path: Path, wrong: str) -> None:
    log = tmp_path / "labels.jsonl"
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        store.append_label(label())
    right = log.read_text()
    row = {**json.loads(right), **json.loads("{" + wrong + "}")}
    log.write_text(right + json.dumps(row) + "\n" + "[" * 100_000 + "\n")
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        assert store.labels == (label(),)
        assert list(store.quarantined) == ["labels.jsonl line 2", "labels.jsonl line 3"]
