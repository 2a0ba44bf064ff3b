"""A folder of episodes as a list shows it; reading changes nothing."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robot_stack.datasets.store_view import StoreView, broken, open_store
from robot_stack.datasets.summary import select, summarize, totals
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.outcome import Outcome
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from robot_stack.types.transition import EndReason, EpisodeKind
from tests.datasets.data_rig import TEXT, assert_same_episode, changed, contents, made_episode, made_spec, write_folder


def test_line_says_how_an_episode_counts_and_who_says_so(view: StoreView) -> None:
    lines, bad = summarize(view)
    assert not bad
    assert [(line.outcome, line.said_by, line.truth) for line in lines] == [
        ("success", "recorded", None),
        ("success", "recorded", None),
        ("success", "model", None),
        ("failure", "operator", "failure"),
        ("open", "recorded", None),
    ]
    assert [line.steps for line in lines] == [20, 25, 20, 12, 20]
    assert [line.human_share for line in lines] == [1.0, 1.0, 0.0, 0.0, 0.0]
    assert lines[0].seconds == pytest.approx(2.0, abs=1e-3)
    assert totals(lines) == {"demo": {"success": 2}, "online": {"failure": 1, "open": 1, "success": 1}}


def test_share_of_a_person_is_of_the_steps_in_their_hand_moving_or_not(tmp_path: Path) -> None:
    sources = np.array([Source.HUMAN] * 5 + [Source.IDLE] * 3 + [Source.POLICY] * 10 + [Source.HOLD] * 2, np.uint8)
    view = write_folder(tmp_path / "a", [changed(made_episode("e"), source=sources)])
    assert summarize(view)[0][0].human_share == 0.4


def test_whole_episode_comes_back_as_it_was_written(tmp_path: Path) -> None:
    wanted = made_episode("e", steps=23, end=EndReason.FAULT)
    view = write_folder(tmp_path / "a", [wanted])
    assert_same_episode(view.read("e"), wanted)
    assert broken(view.path("e")) is None
    assert view.text == TEXT


def test_store_of_a_run_takes_what_was_written_at_once(tmp_path: Path) -> None:
    wanted = made_episode("e")
    view = write_folder(tmp_path / "a", [wanted])
    with EpisodeStore(view.root, view.spec, view.task) as store:
        assert store.episodes == ("e",)
        assert not store.quarantined
        assert_same_episode(store.read("e"), wanted)


def test_reading_needs_no_lock_and_changes_no_byte(tmp_path: Path) -> None:
    write_folder(tmp_path / "a", [made_episode("e")])
    with (tmp_path / "a" / "labels.jsonl").open("a") as log:
        log.write('{"torn')
    before = contents(tmp_path / "a")
    view = open_store(tmp_path / "a")
    summarize(view)
    assert not view.labels
    assert contents(tmp_path / "a") == before


def test_unfinished_and_quarantined_ones_are_named_and_not_listed(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e"), made_episode("f"), made_episode("g")])
    (view.path("f") / "manifest.json").unlink()
    aside = view.root / "quarantine" / "g"
    aside.parent.mkdir()
    view.path("g").rename(aside)
    (aside / "reason.txt").write_text("checksum is wrong\n")
    again = open_store(view.root)
    assert (again.episodes, again.unfinished) == (("e",), ("f",))
    assert again.quarantined == {"g": "checksum is wrong"}
    with pytest.raises(StoreError, match=r"unfinished, let the run close it first"):
        again.path("f")
    with pytest.raises(StoreError, match=r"was set aside: checksum is wrong"):
        again.path("g")


def test_episode_that_is_gone_is_named_with_what_may_be_meant(view: StoreView) -> None:
    with pytest.raises(StoreError, match=r"must be one of the 5 in .*; did you mean '000001-demo-a'\?"):
        view.read("000001-demo-b")


def test_unreadable_episode_is_named_and_the_others_are_listed(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e"), made_episode("f")])
    shutil.rmtree(view.path("e") / "source")
    lines, bad = summarize(view)
    assert [line.episode_id for line in lines] == ["f"]
    assert "unreadable" in bad["e"]


@pytest.mark.parametrize("wrong", ["{", "[]", '{"schema": 1}', '{"schema": 99, "task": "t", "spec": {}}'])
def test_foreign_folder_is_refused_in_words(wrong: str, tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text(wrong)
    with pytest.raises(StoreError, match=r"store\.json is .*must"):
        open_store(tmp_path)


@pytest.mark.parametrize(
    "changes",
    [{}, {"text": 7}, {"text": "x" * 2001}, {"text": "x", "episode_id": 7}, {"text": "x", "stamp_unix_s": "then"}],
)
def test_note_that_is_none_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e")])
    good = {"episode_id": "e", "text": "x" * 2000, "stamp_unix_s": 1.0}
    bad = {"episode_id": "e", "stamp_unix_s": 1.0} | changes
    (view.root / "notes.jsonl").write_text(json.dumps(good) + "\n")
    assert len(open_store(view.root).notes) == 1
    (view.root / "notes.jsonl").write_text(json.dumps(good) + "\n" + json.dumps(bad) + "\n")
    with pytest.raises(StoreError, match=r"notes\.jsonl line 2 of .* must be a note; remove the line"):
        open_store(view.root)


@pytest.mark.parametrize(
    ("text", "words"),
    [("[" * 200_000, "unreadable .*Recursion"), (" " * (17 << 20), "size of .* is 17825792 bytes, must be at most")],
)
def test_origin_that_is_long_or_deep_is_refused(tmp_path: Path, text: str, words: str) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e")])
    (view.root / "origin.json").write_text(text)
    with pytest.raises(StoreError, match=words):
        open_store(view.root)


def test_reason_of_a_quarantine_that_is_no_text_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e")])
    aside = view.root / "quarantine" / "g"
    aside.mkdir(parents=True)
    (aside / "reason.txt").write_bytes(b"\xff\xfe torn")
    assert open_store(view.root).quarantined == {"g": "\ufffd\ufffd torn"}


def test_selection_leaves_out_what_is_not_asked_for(view: StoreView) -> None:
    def chosen(**wanted: object) -> list[str]:
        return [line.episode_id[:6] for line in select(view, **wanted)]  # type: ignore[arg-type]

    assert chosen() == ["000000", "000001", "000002", "000003", "000004"]
    assert chosen(kind=EpisodeKind.DEMO) == ["000000", "000001"]
    assert chosen(outcomes=[Outcome.FAILURE]) == ["000003"]
    assert chosen(episodes=["000004-online-a"]) == ["000004"]
    with pytest.raises(StoreError, match=r"is 0 of 5, must be at least 1"):
        chosen(kind=EpisodeKind.EVAL)


def test_whole_episode_without_an_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"end of e is None"):
        write_folder(tmp_path / "a", [replace(made_episode("e"), end=None)])


@pytest.mark.parametrize(
    ("name", "values"),
    [("executed", np.full((20, 7), 1.5, np.float32)), ("proprio", np.full((21, 7), np.nan, np.float32)),
     ("proprio", np.zeros((21, 3), np.float32)), ("stamp_ns", np.zeros(20, np.int64))],
)  # fmt: skip
def test_episode_that_does_not_fit_the_spec_is_not_written(name: str, values: np.ndarray, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"{name} (of|in) episode e|{name} of episode e"):
        write_folder(tmp_path / "a", [changed(made_episode("e", made_spec()), **{name: values})])
