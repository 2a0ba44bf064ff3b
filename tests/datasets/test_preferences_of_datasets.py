"""Preferences in datasets: they go with both their episodes through edits, merges, exports and imports."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from robot_stack.datasets.edit import Changes, edit, merge, split
from robot_stack.datasets.store_view import StoreView, open_store
from robot_stack.datasets.told import preferences_of
from robot_stack.types.errors import StoreError
from robot_stack.types.preferences import Preference
from tests.datasets.data_rig import made_episode, made_spec, write_folder
from tests.replay.test_preferences import preference

FIRST, SECOND, THIRD = "000000-demo-a", "000001-demo-a", "000002-demo-a"
BETWEEN = preference((FIRST, 3), (SECOND, 7))
ENDS = preference((SECOND, -1), (FIRST, -1))
WITHIN = preference((THIRD, 2), (THIRD, 9))
SAID = (BETWEEN, ENDS, WITHIN)


@pytest.fixture
def compared(tmp_path: Path) -> StoreView:
    spec = made_spec(side_px=64)
    view = write_folder(tmp_path / "a", [made_episode(name, spec, steps=12) for name in (FIRST, SECOND, THIRD)])
    view.paths.preferences.write_text("".join(json.dumps(asdict(each)) + "\n" for each in SAID))
    return open_store(tmp_path / "a")


def said(root: Path) -> tuple[Preference, ...]:
    return open_store(root).preferences


def test_preferences_of_a_folder_are_read_and_a_bad_line_is_named(compared: StoreView) -> None:
    assert compared.preferences == SAID
    with compared.paths.preferences.open("a") as file:
        file.write("{}\n")
    assert "preferences.jsonl line 4" in open_store(compared.root).quarantined


def test_an_edit_keeps_preferences_and_a_trim_moves_or_drops_them(compared: StoreView, tmp_path: Path) -> None:
    edit(compared, tmp_path / "b", Changes(notes={FIRST: "so so"}), now_unix_s=2.0)
    assert said(tmp_path / "b") == SAID
    edit(compared, tmp_path / "c", Changes(trims={FIRST: (2, 12), THIRD: (0, 8)}), now_unix_s=2.0)
    assert said(tmp_path / "c") == (preference((FIRST, 1), (SECOND, 7)), ENDS)
    edit(compared, tmp_path / "d", Changes(trims={FIRST: (2, 11)}), now_unix_s=2.0)
    assert said(tmp_path / "d") == (preference((FIRST, 1), (SECOND, 7)), WITHIN)


def test_a_split_keeps_those_whose_episodes_are_in_one_part_and_a_merge_those_of_all(
    compared: StoreView, tmp_path: Path
) -> None:
    split(compared, tmp_path / "d", {"one": [FIRST], "two": [SECOND, THIRD]}, {})
    assert (said(tmp_path / "d" / "one"), said(tmp_path / "d" / "two")) == ((), (WITHIN,))
    edit(compared, tmp_path / "b", Changes(trims={FIRST: (1, 12)}), now_unix_s=2.0)
    merge([compared, open_store(tmp_path / "b")], tmp_path / "c")
    other = f"{FIRST}-2"
    assert said(tmp_path / "c") == (*SAID, preference((other, 2), (SECOND, 7)), preference((SECOND, -1), (other, -1)))


def test_what_was_said_of_a_broken_episode_stays_behind(compared: StoreView, tmp_path: Path) -> None:
    chunk = next((compared.paths.episode(FIRST) / "executed").glob("c*"))
    files = [chunk] if chunk.is_file() else [path for path in chunk.rglob("*") if path.is_file()]
    files[0].write_bytes(b"?")
    edit(compared, tmp_path / "b", Changes(notes={SECOND: "so so"}), now_unix_s=2.0)
    assert said(tmp_path / "b") == (WITHIN,)


def test_preferences_come_back_from_a_bag_and_those_of_missing_files_do_not(
    compared: StoreView, tmp_path: Path
) -> None:
    pytest.importorskip("mcap_ros2", reason="mcap-ros2-support is not installed: pip install 'robot-stack[export]'")
    from robot_stack.datasets.bag.read import import_mcap
    from robot_stack.datasets.bag.write import export_mcap

    export_mcap(compared, compared.episodes, tmp_path / "bags", on_episode=lambda *_: None)
    import_mcap(tmp_path / "bags", tmp_path / "b", on_episode=lambda *_: None)
    assert said(tmp_path / "b") == SAID
    (tmp_path / "bags" / f"{SECOND}.mcap").unlink()
    import_mcap(tmp_path / "bags", tmp_path / "c", on_episode=lambda *_: None)
    assert said(tmp_path / "c") == (WITHIN,)


@pytest.mark.long
def test_preferences_come_back_from_a_lerobot_dataset(compared: StoreView, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'robot-stack[export]'")
    from robot_stack.datasets.lerobot.codec import CODECS
    from robot_stack.datasets.lerobot.export import export_lerobot
    from robot_stack.datasets.lerobot.ingest import import_lerobot

    codec = next(iter(CODECS))
    export_lerobot(compared, compared.episodes, tmp_path / "out", codec=codec, on_episode=lambda *_: None)
    import_lerobot(tmp_path / "out", tmp_path / "b", like=None, on_episode=lambda *_: None)
    assert set(said(tmp_path / "b")) == set(SAID)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"first": {"episode_id": "../x", "frame": 1}}, ValueError, "episode id of a preference"),
        ({"first": {"episode_id": "a", "frame": 10**9}}, StoreError, "frame of a preference of a"),
        ({"stamp_unix_s": 1e300}, StoreError, "stamp_unix_s of a preference"),
        ({"by": "x" * 500}, ValueError, "has 500 characters"),
        ({"source": "nobody"}, ValueError, "nobody"),
    ],
)
def test_a_preference_from_elsewhere_that_is_none_is_refused(
    wrong: dict[str, object], error: type[Exception], words: str
) -> None:
    good = asdict(preference())
    assert preferences_of([good]) == [preference()]
    with pytest.raises(error, match=words):
        preferences_of([{**good, **wrong}])
    with pytest.raises(StoreError, match="number of preferences is 10001"):
        preferences_of([good] * 10_001)
