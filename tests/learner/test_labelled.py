"""Recorded episodes get the label of the simulator or of an operator, and never the model's own verdict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from robot_stack.learner.reward.labelled import labelled_episodes, labels_of
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.types.command import Source
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.transition import EndReason
from tests.replay.recorded import TASK, header_of, small_spec, steps_of

pytestmark = pytest.mark.long

SPEC = small_spec()
GOOD, BAD, GONE = Verdict.SUCCESS, Verdict.FAILURE, Verdict.DISCARD
TRUTH, OPERATOR, MODEL = LabelSource.TRUTH, LabelSource.OPERATOR, LabelSource.MODEL


def write(
    folder: Path, said: dict[str, list[tuple[LabelSource, Verdict]]], end: EndReason | None = EndReason.TIMEOUT
) -> None:
    with EpisodeStore(folder / "store", SPEC, TASK) as store:
        for tag, (name, words) in enumerate(said.items()):
            store.begin(header_of(name))
            for step in steps_of(SPEC, name, [Source.POLICY] * 4, end, tag=tag):
                store.append(step)
            for stamp, (source, verdict) in enumerate(words):
                store.append_label(Label(episode_id=name, verdict=verdict, source=source, stamp_unix_s=float(stamp)))


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ([(MODEL, GOOD), (TRUTH, BAD)], BAD),
        ([(OPERATOR, GOOD), (TRUTH, BAD)], BAD),
        ([(MODEL, GOOD), (OPERATOR, BAD)], BAD),
        ([(OPERATOR, BAD), (OPERATOR, GOOD)], GOOD),
        ([(MODEL, GOOD)], None),
        ([(OPERATOR, GONE)], None),
        ([(OPERATOR, GONE), (TRUTH, BAD)], None),
        ([(OPERATOR, GONE), (TRUTH, BAD), (OPERATOR, GOOD)], BAD),
        ([], None),
    ],
)
def test_label_is_the_simulators_word_else_the_persons_newest(
    tmp_path: Path, words: list[tuple[LabelSource, Verdict]], label: Verdict | None
) -> None:
    write(tmp_path, {"000-a": words})
    assert labels_of(tmp_path).get("000-a") is label


def test_what_a_model_was_trained_on_is_left_out_and_named(tmp_path: Path) -> None:
    write(tmp_path, {f"{number:03d}-a": [(OPERATOR, GOOD)] for number in range(3)})
    found, left_out = labelled_episodes(tmp_path, "x", newest=1, trained_on={"002-a"})
    assert [one.name for one in found] == ["001-a"]
    assert left_out == {"002-a": "the model was trained on it"}


def test_frames_are_those_on_disk_and_progress_is_not_known(tmp_path: Path) -> None:
    write(tmp_path, {"000-a": [(OPERATOR, GOOD)], "001-a": [(TRUTH, BAD)]})
    (won, lost), left_out = labelled_episodes(tmp_path, "insert the peg")
    assert (won.kind, won.success, won.done_at) == ("success", True, 4)
    assert (lost.kind, lost.success, lost.done_at) == ("fail", False, None)
    assert not left_out
    assert np.isnan(won.progress).all()
    assert sorted(won.frames[0].images) == ["front", "wrist"]
    np.testing.assert_array_equal(lost.frames[2].proprio, [1, 2, 2])
    assert won.instruction.text == "insert the peg"


def test_what_cannot_be_evaluated_on_is_left_out_with_a_reason(tmp_path: Path) -> None:
    write(tmp_path, {"000-a": [(OPERATOR, GOOD)], "001-a": [(MODEL, GOOD)], "002-a": [(OPERATOR, BAD)]})
    (tmp_path / "store/episodes/002-a.zarr/zarr.json").write_text("torn")
    found, left_out = labelled_episodes(tmp_path, "insert the peg")
    assert [episode.name for episode in found] == ["000-a"]
    assert left_out["001-a"] == "nobody has said whether it succeeded"
    assert "unreadable" in left_out["002-a"]


def test_running_episode_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, {"000-a": [(OPERATOR, GOOD)]}, end=None)
    assert labelled_episodes(tmp_path, "x") == ([], {"000-a": "it has not ended"})


def test_newest_are_taken_where_not_all_are_wanted(tmp_path: Path) -> None:
    write(tmp_path, {f"{i:03d}-a": [(TRUTH, BAD)] for i in range(4)})
    found, _ = labelled_episodes(tmp_path, "x", newest=2)
    assert [episode.name for episode in found] == ["002-a", "003-a"]


def test_torn_or_foreign_lines_of_the_log_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, {"000-a": [(OPERATOR, GOOD)]})
    log = tmp_path / "store/labels.jsonl"
    log.write_text(log.read_text() + '{"episode_id": "000-a"}\n{"episode_id": "000')
    before = log.read_bytes()
    assert labels_of(tmp_path) == {"000-a": GOOD}
    assert log.read_bytes() == before  # the run may still be going on
