"""Datasets become one, and one becomes several, without losing or mixing anything."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robot_stack.datasets.edit import Changes, by_field, by_share, edit, merge, split
from robot_stack.datasets.store_view import StoreView, broken, open_store
from robot_stack.datasets.summary import summarize
from robot_stack.replay.annotations import ScoreFiles
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.event import LabelSource, Verdict
from robot_stack.types.reward import EpisodeScores
from tests.datasets.data_rig import assert_same_episode, contents, label, made_episode, made_spec, write_folder


def test_a_full_disk_is_said_by_the_file_that_has_no_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = write_folder(tmp_path / "1", [made_episode("e")])

    def fill(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source), None, str(target))  # as copyfile does

    monkeypatch.setattr(shutil, "copyfile", fill)
    with pytest.raises(StoreError, match="No space left on device") as refused:
        edit(view, tmp_path / "copy", Changes(notes={"e": "kept"}), now_unix_s=0.0)
    assert str(view.root) not in str(refused.value)


def test_merged_folder_holds_the_episodes_and_labels_of_all(tmp_path: Path) -> None:
    one = write_folder(tmp_path / "1", [made_episode("e")], [label("e", Verdict.FAILURE)])
    two = write_folder(tmp_path / "2", [made_episode("f")])
    three = write_folder(tmp_path / "3", [made_episode("g")], [label("g", Verdict.DISCARD)])
    before = [contents(view.root) for view in (one, two, three)]
    store = merge([one, two, three], tmp_path / "all")
    assert not store.renamed
    assert not store.left_out
    merged = open_store(tmp_path / "all")
    assert merged.episodes == ("e", "f", "g")
    assert [line.outcome for line in summarize(merged)[0]] == ["failure", "success", "discard"]
    assert_same_episode(merged.read("f"), two.read("f"))
    assert [contents(view.root) for view in (one, two, three)] == before


def test_specs_that_differ_are_refused_naming_every_field(tmp_path: Path) -> None:
    one = write_folder(tmp_path / "1", [made_episode("e")])
    two = write_folder(tmp_path / "2", [made_episode("f", made_spec(side_px=32, rate_hz=20.0))])
    with pytest.raises(StoreError) as refused:
        merge([one, two], tmp_path / "all")
    for field in ("spec.cameras[0].height_px is 32, must be 16", "spec.rate_hz is 20.0, must be 10.0"):
        assert field in str(refused.value)
    assert not (tmp_path / "all").exists()


def test_tasks_that_differ_are_refused(tmp_path: Path) -> None:
    one = write_folder(tmp_path / "1", [made_episode("e")])
    two = write_folder(tmp_path / "2", [made_episode("f")])
    raw = json.loads((two.root / "store.json").read_text())
    (two.root / "store.json").write_text(json.dumps({**raw, "task": "stack"}))
    with pytest.raises(StoreError, match=r"is 'stack', must be 'peg_insert'"):
        merge([one, open_store(two.root)], tmp_path / "all")


def test_one_dataset_is_no_merge(view: StoreView, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"is 1, must be at least 2"):
        merge([view], tmp_path / "all")


def test_same_episode_keeps_what_is_noted_in_either_copy(tmp_path: Path) -> None:
    one = write_folder(tmp_path / "1", [made_episode("e")])
    for name, note in (("2", "the lamp was off"), ("3", "the peg was loose")):
        edit(one, tmp_path / name, Changes(notes={"e": note}), now_unix_s=float(name))
    merge([open_store(tmp_path / "2"), open_store(tmp_path / "3")], tmp_path / "all")
    assert [note.text for note in open_store(tmp_path / "all").notes] == ["the lamp was off", "the peg was loose"]


@pytest.mark.parametrize("order", [("scored", "copy"), ("copy", "scored")])
def test_same_episode_keeps_the_scores_of_either_copy(tmp_path: Path, order: tuple[str, str]) -> None:
    """Each of its own reward model; of one that scored both, those of the first copy."""
    write_folder(tmp_path / "copy", [made_episode("e", steps=6)])
    shutil.copytree(tmp_path / "copy", tmp_path / "scored")
    for name, version, most in (("scored", "v1", 1.0), ("scored", "v2", 0.8), ("copy", "v2", 0.6)):
        progress = np.linspace(0, most, 7, dtype=np.float32)
        scores = EpisodeScores(episode_id="e", version=version, progress=progress, success=progress)
        ScoreFiles(tmp_path / name / "scores").append(scores)
    merge([open_store(tmp_path / name) for name in order], tmp_path / "all")
    found, wanted = (contents(tmp_path / name / "scores") for name in ("all", "scored"))
    assert found.keys() == {"v1/e.npz", "v2/e.npz"}
    assert found["v1/e.npz"] == wanted["v1/e.npz"]
    assert found["v2/e.npz"] == contents(tmp_path / order[0] / "scores")["v2/e.npz"]


def test_words_of_the_tasks_of_all_are_kept_and_a_contradiction_is_told(tmp_path: Path) -> None:
    one = write_folder(tmp_path / "1", [made_episode("e")], others={"green": "insert it into the green socket"})
    two = write_folder(tmp_path / "2", [made_episode("f")], others={"green": "green one", "back": "put it back"})
    store = merge([one, two], tmp_path / "all")
    assert open_store(tmp_path / "all").others == {"green": "insert it into the green socket", "back": "put it back"}
    (warning,) = store.warnings
    assert warning == f"task green is 'green one' in {two.root}, and is now 'insert it into the green socket'"


def test_same_episode_is_taken_once_with_the_labels_of_both(tmp_path: Path) -> None:
    one = write_folder(tmp_path / "1", [made_episode("e")], [label("e", Verdict.SUCCESS, LabelSource.MODEL)])
    edit(one, tmp_path / "2", Changes(verdicts={"e": Verdict.FAILURE}), now_unix_s=9.0)
    store = merge([one, open_store(tmp_path / "2")], tmp_path / "all")
    assert (store.taken, store.renamed) == (["e"], {})
    merged = open_store(tmp_path / "all")
    assert [label.verdict for label in merged.labels] == [Verdict.SUCCESS, Verdict.FAILURE]


def test_other_episode_of_the_same_id_gets_a_number_and_keeps_its_labels(tmp_path: Path) -> None:
    views = [
        write_folder(tmp_path / f"{i}", [made_episode("e", seed=i)], [label("e", Verdict.DISCARD, at=i)])
        for i in range(3)
    ]
    store = merge([*views, views[1]], tmp_path / "all")
    assert store.renamed == {f"{tmp_path / '1'}/e": "e-2", f"{tmp_path / '2'}/e": "e-3"}
    merged = open_store(tmp_path / "all")
    assert merged.episodes == ("e", "e-2", "e-3")
    assert [(each.episode_id, each.stamp_unix_s) for each in merged.labels] == [("e", 0), ("e-2", 1), ("e-3", 2)]
    for number, episode_id in enumerate(merged.episodes):
        assert broken(merged.path(episode_id)) is None
        found, wanted = merged.read(episode_id), views[number].read("e")
        assert found.header.episode_id == episode_id
        assert found.arrays["proprio"].tobytes() == wanted.arrays["proprio"].tobytes()


def test_split_by_outcome_and_by_kind_puts_each_episode_in_one_folder(view: StoreView, tmp_path: Path) -> None:
    lines = summarize(view)[0]
    for field, wanted in (("outcome", {"success": 3, "failure": 1, "open": 1}), ("kind", {"demo": 2, "online": 3})):
        parts = by_field(lines, field)  # type: ignore[arg-type]
        split(view, tmp_path / field, parts, {})
        found = {part: open_store(tmp_path / field / part) for part in parts}
        assert {part: len(each.episodes) for part, each in found.items()} == wanted
        assert sorted(i for each in found.values() for i in each.episodes) == list(view.episodes)
        assert sum(len(each.labels) for each in found.values()) == len(view.labels)


@given(st.integers(3, 60), st.lists(st.integers(1, 9), min_size=2, max_size=4), st.integers(0, 5))
def test_shares_are_a_partition_that_only_the_seed_changes(count: int, weights: list[int], seed: int) -> None:
    names = [f"{i:03d}" for i in range(count)]
    shares = {f"p{i}": weight / sum(weights) for i, weight in enumerate(weights)}
    if min(shares.values()) * count < 1:  # such a part may get one by rounding, or none
        return
    parts = by_share(names, shares, seed)
    assert sorted(name for part in parts.values() for name in part) == names
    assert all(abs(len(parts[part]) - share * count) < 1 for part, share in shares.items())
    assert parts == by_share(names[::-1], shares, seed)


def test_another_seed_draws_another_split() -> None:
    names = [f"{i:03d}" for i in range(40)]
    shares = {"train": 0.8, "val": 0.2}
    assert len(by_share(names, shares, 0)["val"]) == 8
    assert by_share(names, shares, 0) != by_share(names, shares, 1)


@pytest.mark.parametrize("shares", [{"a": 1.0}, {"a": 0.5, "b": 0.6}, {"a": 1.2, "b": -0.2}, {}])
def test_shares_that_are_no_partition_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(StoreError, match=r"add up to 1"):
        by_share(["a", "b", "c"], shares, 0)


def test_name_of_a_part_must_be_a_file_name(view: StoreView, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"name of a part is '../x'"):
        split(view, tmp_path / "s", {"../x": view.episodes}, {})
    assert not list(tmp_path.iterdir())
