"""Stage marks in datasets: they go with their episode through edits, merges, exports and imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from robot_stack.datasets.edit import Changes, edit, merge, split
from robot_stack.datasets.store_view import StoreView, open_store
from robot_stack.datasets.told import marks_of
from robot_stack.types.errors import SpecError, StoreError
from robot_stack.types.event import Verdict
from tests.datasets.data_rig import made_episode, made_spec, mark, write_folder

FIRST, SECOND = "000000-demo-a", "000001-demo-a"
REMOVED = [mark(FIRST, 1, 2), mark(FIRST, 1, 2, removed=True)]
COUNT = (mark(FIRST, 1, 3, "fill"), mark(FIRST, 2, 9, "close"))


@pytest.fixture
def marked(tmp_path: Path) -> StoreView:
    spec = made_spec(side_px=64)
    episodes = [made_episode(name, spec, steps=12) for name in (FIRST, SECOND)]
    return write_folder(tmp_path / "a", episodes, marks=[*REMOVED, *COUNT])


def test_marks_of_an_episode_are_read_and_those_that_count_are_told(marked: StoreView) -> None:
    assert marked.marks == (*REMOVED, *COUNT)
    assert marked.marks_of(FIRST) == COUNT
    assert marked.marks_of(SECOND) == ()


def test_an_edit_keeps_marks_and_a_trim_moves_them(marked: StoreView, tmp_path: Path) -> None:
    changes = Changes(verdicts={SECOND: Verdict.DISCARD}, trims={FIRST: (2, 8)})
    edit(marked, tmp_path / "b", changes, now_unix_s=2.0)
    assert open_store(tmp_path / "b").marks_of(FIRST) == (mark(FIRST, 1, 1, "fill"),)
    edit(marked, tmp_path / "c", Changes(notes={SECOND: "so so"}), now_unix_s=2.0)
    assert open_store(tmp_path / "c").marks_of(FIRST) == COUNT


def test_merged_and_split_folders_have_the_marks_of_their_episodes(marked: StoreView, tmp_path: Path) -> None:
    edit(marked, tmp_path / "b", Changes(notes={SECOND: "so so"}), now_unix_s=2.0)
    merge([marked, open_store(tmp_path / "b")], tmp_path / "c")
    assert open_store(tmp_path / "c").marks_of(FIRST) == COUNT
    split(marked, tmp_path / "d", {"one": [FIRST], "two": [SECOND]}, {})
    assert open_store(tmp_path / "d" / "one").marks_of(FIRST) == COUNT
    assert open_store(tmp_path / "d" / "two").marks == ()


def test_marks_that_count_come_back_from_a_bag(marked: StoreView, tmp_path: Path) -> None:
    pytest.importorskip("mcap_ros2", reason="mcap-ros2-support is not installed: pip install 'robot-stack[export]'")
    from robot_stack.datasets.bag.read import import_mcap
    from robot_stack.datasets.bag.write import export_mcap

    export_mcap(marked, marked.episodes, tmp_path / "bags", on_episode=lambda *_: None)
    import_mcap(tmp_path / "bags", tmp_path / "b", on_episode=lambda *_: None)
    assert open_store(tmp_path / "b").marks == COUNT


@pytest.mark.long
def test_marks_that_count_come_back_from_a_lerobot_dataset(marked: StoreView, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'robot-stack[export]'")
    from robot_stack.datasets.lerobot.codec import CODECS
    from robot_stack.datasets.lerobot.export import export_lerobot
    from robot_stack.datasets.lerobot.ingest import import_lerobot

    codec = next(iter(CODECS))
    export_lerobot(marked, marked.episodes, tmp_path / "out", codec=codec, on_episode=lambda *_: None)
    import_lerobot(tmp_path / "out", tmp_path / "b", like=None, on_episode=lambda *_: None)
    assert open_store(tmp_path / "b").marks == COUNT


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"episode_id": "../x"}, SpecError, "episode id of a stage mark"),
        ({"name": "x" * 500}, StoreError, "length of name of a stage"),
        ({"stage": 99}, StoreError, "stage of a mark"),
        ({"frame": -1}, StoreError, "frame of a stage mark"),
        ({"frame": True}, ValueError, "must have whole numbers"),
        ({"source": "nobody"}, ValueError, "nobody"),
        ({"stamp_unix_s": float("nan")}, StoreError, "stamp_unix_s"),
    ],
)
def test_a_mark_from_elsewhere_that_is_none_is_refused(
    wrong: dict[str, object], error: type[Exception], words: str
) -> None:
    good = {"episode_id": "e", "stage": 1, "frame": 3, "source": "operator", "stamp_unix_s": 1.0}
    assert marks_of([good])[0].frame == 3
    with pytest.raises(error, match=words):
        marks_of([{**good, **wrong}])
    with pytest.raises(StoreError, match="number of stage marks is 10001"):
        marks_of([good] * 10_001)
