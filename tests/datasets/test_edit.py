"""A changed copy: only what was asked for differs, and what was read stays byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.datasets.edit import Changes, edit, trim
from robot_stack.datasets.store_view import StoreView, broken, open_store
from robot_stack.datasets.summary import summarize
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.types.errors import StoreError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from robot_stack.types.transition import EndReason
from tests.datasets.data_rig import assert_same_episode, contents, label, made_episode, write_folder

NOW = 1.8e9


def test_note_that_is_too_long_is_refused(view: StoreView, tmp_path: Path) -> None:
    name = "000004-online-a"
    with pytest.raises(StoreError, match=f"length of note on {name} is 2001 characters, must be at most 2000"):
        edit(view, tmp_path / "b", Changes(notes={name: "x" * 2001}), now_unix_s=NOW)
    assert not (tmp_path / "b").exists()


def test_relabel_discard_and_note_change_what_counts_and_nothing_else(view: StoreView, tmp_path: Path) -> None:
    before = contents(view.root)
    changes = Changes(
        verdicts={"000002-online-a": Verdict.FAILURE, "000000-demo-a": Verdict.DISCARD},
        notes={"000004-online-a": "the light was off"},
    )
    edit(view, tmp_path / "v2", changes, now_unix_s=NOW)
    again = open_store(tmp_path / "v2")
    lines = summarize(again)[0]
    assert [(line.outcome, line.said_by) for line in lines] == [
        ("discard", "operator"), ("success", "recorded"), ("failure", "operator"), ("failure", "operator"),
        ("open", "recorded"),
    ]  # fmt: skip
    assert lines[4].note == "the light was off"
    assert len(again.labels) == len(view.labels) + 2
    for episode_id in view.episodes:
        assert contents(again.path(episode_id)) == contents(view.path(episode_id))
    assert contents(view.root) == before
    origin = json.loads((again.root / "origin.json").read_text())
    assert origin["sources"] == [str(view.root.resolve())]
    assert origin["changes"]["verdicts"]["000000-demo-a"] == "discard"


def test_run_opens_an_edited_folder_as_its_store(view: StoreView, tmp_path: Path) -> None:
    edit(view, tmp_path / "v2", Changes(trims={"000000-demo-a": (2, 9)}), now_unix_s=NOW)
    with EpisodeStore(tmp_path / "v2", view.spec, view.task) as store:
        assert store.episodes == view.episodes
        assert not store.quarantined


def test_trimmed_episode_is_the_frames_that_stay_and_the_actions_between_them() -> None:
    episode = made_episode("e", steps=20)
    cut = trim(episode, 3, 12)
    assert cut.length == 9
    assert cut.end is EndReason.OPERATOR
    np.testing.assert_array_equal(cut.arrays["stamp_ns"], episode.arrays["stamp_ns"][3:13])
    np.testing.assert_array_equal(cut.arrays["executed"], episode.arrays["executed"][3:12])
    assert trim(episode, 3, 20).end is EndReason.SUCCESS


@given(st.integers(0, 20), st.integers(0, 20))
def test_every_trim_has_one_frame_more_than_actions_or_is_refused(first: int, last: int) -> None:
    episode = made_episode("e", steps=20)
    if first >= last:
        with pytest.raises(StoreError, match=f"trim of e is {first}:{last}, must be two frames of 0:20"):
            trim(episode, first, last)
        return
    cut = trim(episode, first, last)
    assert len(cut.arrays["stamp_ns"]) == cut.length + 1 == last - first + 1
    for step, action in zip(range(first, last), cut.arrays["executed"], strict=True):
        np.testing.assert_array_equal(action, episode.arrays["executed"][step])


def test_cut_tail_makes_verdicts_void_and_a_cut_head_does_not(tmp_path: Path) -> None:
    view = write_folder(
        tmp_path / "a",
        [made_episode("e"), made_episode("f")],
        [label("e", Verdict.SUCCESS), label("f", Verdict.SUCCESS)],
    )
    edit(view, tmp_path / "b", Changes(trims={"e": (0, 10), "f": (10, 20)}), now_unix_s=NOW)
    again = open_store(tmp_path / "b")
    assert [(line.outcome, line.said_by, line.steps) for line in summarize(again)[0]] == [
        ("open", "recorded", 10), ("success", "operator", 10),
    ]  # fmt: skip
    assert_same_episode(again.read("e"), trim(view.read("e"), 0, 10))


def test_a_discarded_episode_stays_discarded_when_its_tail_is_cut(tmp_path: Path) -> None:
    said = [label("e", Verdict.SUCCESS, LabelSource.MODEL), label("e", Verdict.DISCARD, at=2.0)]
    view = write_folder(tmp_path / "a", [made_episode("e")], said)
    edit(view, tmp_path / "b", Changes(trims={"e": (0, 10)}), now_unix_s=9.0)
    assert [line.outcome for line in summarize(open_store(tmp_path / "b"))[0]] == ["discard"]


def test_trim_and_relabel_together_say_how_the_shorter_one_ended(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e")], [label("e", Verdict.FAILURE)])
    changes = Changes(trims={"e": (0, 10)}, verdicts={"e": Verdict.SUCCESS})
    edit(view, tmp_path / "b", changes, now_unix_s=NOW)
    (line,) = summarize(open_store(tmp_path / "b"))[0]
    assert (line.outcome, line.steps) == ("success", 10)


def test_scores_stay_with_whole_episodes_and_go_with_trimmed_frames(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e"), made_episode("f")])
    row = np.full(21, 0.5, np.float32)
    for name in "ef":
        ScoreFiles(view.root / "scores").append(EpisodeScores(episode_id=name, version="v", progress=row, success=row))
    edit(view, tmp_path / "b", Changes(trims={"e": (0, 10)}), now_unix_s=NOW)
    assert [scores.episode_id for scores in ScoreFiles(tmp_path / "b" / "scores").read("v")] == ["f"]


def test_broken_episode_is_left_out_by_name_and_refused_if_it_is_to_be_changed(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e"), made_episode("f")])
    chunk = next((view.path("e") / "proprio").glob("c.*"))
    chunk.write_bytes(chunk.read_bytes()[:-1])
    store = edit(view, tmp_path / "b", Changes(notes={"f": "x"}), now_unix_s=NOW)
    assert store.taken == ["f"]
    assert "checksum of e.zarr/proprio" in store.left_out["e"]
    assert open_store(tmp_path / "b").episodes == ("f",)
    for number, changes in enumerate((Changes(notes={"e": "x"}), Changes(trims={"e": (0, 5)}))):
        with pytest.raises(StoreError, match=r"episode e is broken"):
            edit(view, tmp_path / f"c{number}", changes, now_unix_s=NOW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_no_change_and_an_unknown_episode_are_refused(view: StoreView, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"number of changes is 0"):
        edit(view, tmp_path / "b", Changes(), now_unix_s=NOW)
    with pytest.raises(StoreError, match=r"did you mean '000000-demo-a'"):
        edit(view, tmp_path / "b", Changes(notes={"000000-demo": "x"}), now_unix_s=NOW)
    assert not list(tmp_path.iterdir())


def test_trimmed_episode_is_whole_on_disk(view: StoreView, tmp_path: Path) -> None:
    edit(view, tmp_path / "b", Changes(trims={"000001-demo-a": (1, 24)}), now_unix_s=NOW)
    assert broken(open_store(tmp_path / "b").path("000001-demo-a")) is None
