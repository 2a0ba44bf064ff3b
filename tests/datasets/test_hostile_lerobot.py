"""LeRobotDatasets from elsewhere: every path stays inside the folder, and no file unpacks to more than it may."""

from __future__ import annotations

import json
import os
import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed: pip install 'robot-stack[export]'")
av = pytest.importorskip("av", reason="PyAV is not installed: pip install 'robot-stack[export]'")

import pyarrow as pa  # noqa: E402

from robot_stack.datasets import bounds  # noqa: E402
from robot_stack.datasets.lerobot import layout  # noqa: E402
from robot_stack.datasets.lerobot.codec import VideoReader  # noqa: E402
from robot_stack.datasets.lerobot.export import export_lerobot  # noqa: E402
from robot_stack.datasets.lerobot.ingest import import_lerobot  # noqa: E402
from robot_stack.datasets.lerobot.tables import read_bounded  # noqa: E402
from robot_stack.types.errors import StoreError  # noqa: E402
from tests.datasets.data_rig import made_episode, made_spec, write_folder  # noqa: E402

SPEC = made_spec(side_px=64)
DATA = "data/chunk-000/file-000.parquet"
EPISODES = "meta/episodes/chunk-000/file-000.parquet"
LABEL = {"episode_id": "e", "verdict": "success", "source": "truth", "stamp_unix_s": 1.0}
VIDEO = "videos/observation.images.front/chunk-000/file-000.mp4"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    view = write_folder(folder / "a", [made_episode(f"00000{n}-demo-a", SPEC, steps=6) for n in range(2)])
    export_lerobot(view, view.episodes, folder / "out", codec="h264", on_episode=lambda *_: None)
    return folder / "out"


@pytest.fixture
def copy(written: Path, tmp_path: Path) -> Path:
    shutil.copytree(written, tmp_path / "copy")
    return tmp_path / "copy"


def refused(folder: Path, words: str) -> None:
    """In words, without a trace, and without much memory."""
    tracemalloc.start()
    try:
        with pytest.raises(StoreError, match=words):
            import_lerobot(folder, folder.parent / "out", like=None, on_episode=lambda *_: None)
        assert tracemalloc.get_traced_memory()[1] < 200 << 20
    finally:
        tracemalloc.stop()
    assert not (folder.parent / "out").exists()


def rewrite(folder: Path, name: str = layout.INFO, **changes: object) -> None:
    raw = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**raw, **changes}))


def retable(folder: Path, name: str, **columns: Any) -> None:
    """Other values in columns of a table."""
    table = pq.read_table(folder / name)
    for column, values in columns.items():
        table = table.set_column(table.column_names.index(column), column, pa.array(values))
    pq.write_table(table, folder / name)


def test_the_dataset_is_a_good_one(copy: Path, tmp_path: Path) -> None:
    """Else the refusals below would prove nothing."""
    import_lerobot(copy, tmp_path / "out", like=None, on_episode=lambda *_: None)


@pytest.mark.parametrize("key", ["data_path", "video_path"])
@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("{outside}/file.bin", "path is '/.*file.bin', must be inside"),
        ("../secret/file.bin", "path is '../secret/file.bin', must be inside .*, without '..'"),
        ("data/../../secret/file.bin", "must be inside"),
        ("{chunk_index:01000000000d}", "pattern of paths is '{chunk_index:01000000000d}', must name only"),
        ("{chunk_index.__class__}", "pattern of paths is .* must name only"),
        ("{chunk_index!r}", "pattern of paths is .* must name only"),
        ("{secret}", "pattern of paths is .* must name only"),
        ("{", "pattern of paths is '{', must name only"),
        ("", "path is '', must be inside"),
        ("data", "is no plain file, must be one"),
        ("data\0", "path is .* must be inside"),
        (7, "pattern of paths is '7'|is unreadable"),
    ],
)
def test_pattern_of_paths_stays_inside(copy: Path, tmp_path: Path, key: str, pattern: object, words: str) -> None:
    (tmp_path / "secret").mkdir()
    shutil.copyfile(copy / (DATA if key == "data_path" else VIDEO), tmp_path / "secret" / "file.bin")
    outside = str(tmp_path / "secret")
    rewrite(copy, **{key: pattern.replace("{outside}", outside) if isinstance(pattern, str) else pattern})
    refused(copy, words)


@pytest.mark.parametrize("name", [DATA, EPISODES, VIDEO, layout.INFO, layout.OURS])
def test_link_out_of_the_folder_is_refused(copy: Path, tmp_path: Path, name: str) -> None:
    shutil.move(copy / name, tmp_path / "secret")
    (copy / name).symlink_to(tmp_path / "secret")
    refused(copy, r"link .* leads out of .*, must stay inside; take the dataset .* `cp -rL`")


def test_linked_folder_is_refused(copy: Path, tmp_path: Path) -> None:
    shutil.move(copy / "data", tmp_path / "secret")
    (copy / "data").symlink_to(tmp_path / "secret", target_is_directory=True)
    refused(copy, "link .*data leads out of")


def test_link_that_stays_inside_is_followed(copy: Path, tmp_path: Path) -> None:
    (copy / "blobs").mkdir()
    shutil.move(copy / DATA, copy / "blobs" / "one")
    (copy / DATA).symlink_to("../../blobs/one")
    import_lerobot(copy, tmp_path / "out", like=None, on_episode=lambda *_: None)


@pytest.mark.parametrize("name", [DATA, VIDEO, layout.INFO])
def test_pipe_holds_nobody_up(copy: Path, name: str) -> None:
    (copy / name).unlink()
    os.mkfifo(copy / name)
    refused(copy, "is no plain file, must be one|info.json is missing")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"total_episodes": 10**18}, "episode table of .* has 2 episodes, must have the 1000000000000000000"),
        ({"fps": float("nan")}, "fps is nan, must be 10"),
        ({"fps": 10**400}, "is unreadable .*OverflowError"),
        ({"features": 7}, "is unreadable"),
        ({"codebase_version": None}, "codebase_version"),
    ],
)
def test_info_that_lies_is_refused(copy: Path, changes: dict[str, object], words: str) -> None:
    rewrite(copy, **changes)
    refused(copy, words)


def test_info_that_is_long_or_deep_is_refused(copy: Path) -> None:
    (copy / layout.INFO).write_text("[" * 200_000)
    refused(copy, "is unreadable .*Recursion")
    (copy / layout.INFO).write_text(" " * (17 << 20))
    refused(copy, "size of .*info.json is 17825792 bytes, must be at most 16777216")


def test_camera_whose_name_is_a_path_is_refused(copy: Path) -> None:
    spec = json.loads((copy / layout.OURS).read_text())["spec"]
    spec["cameras"][0]["name"] = "../../escaped"
    rewrite(copy, layout.OURS, spec=spec)
    refused(copy, "name in cameras is '../../escaped', must be 1 to 128")


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("length", 10**15, "has 6 rows, must have 1000000000000000"),
        ("data/file_index", 10**15, "file-1000000000000000.parquet is missing"),
        ("data/chunk_index", -1, "chunk--01/file-000.parquet is missing"),
        ("videos/observation.images.front/from_timestamp", float("inf"), "is unreadable"),
        ("videos/observation.images.front/from_timestamp", float("nan"), "is unreadable"),
        ("videos/observation.images.front/from_timestamp", 1e12, "has 0 of the frames"),
    ],
)
def test_episode_table_that_lies_is_refused(copy: Path, column: str, value: float, words: str) -> None:
    before = pq.read_table(copy / EPISODES)[column].to_pylist()
    retable(copy, EPISODES, **{column: [value, *before[1:]]})
    refused(copy, words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"header": {"episode_id": "../../escaped"}}, "episode id is '../../escaped'"),
        ({"header": {"actor": "x" * 5000}}, "length of actor is 5000"),
        ({"header": {"started_unix_s": 1e300}}, "started_unix_s is"),
        ({"labels": [{**LABEL, "note": "x" * 3000}]},
         "length of note on e is 3000"),
        ({"labels": [LABEL]}, "is e, must be 00"),
        ({"last": {"proprio": [[[0.0]]]}}, "is unreadable"),
    ],
)  # fmt: skip
def test_what_is_said_of_an_episode_is_bounded(copy: Path, changes: dict[str, Any], words: str) -> None:
    before = pq.read_table(copy / EPISODES)[layout.EPISODE_COLUMN].to_pylist()
    raw = json.loads(before[0])
    for key, value in changes.items():
        raw[key] = {**raw[key], **value} if isinstance(value, dict) else value
    retable(copy, EPISODES, **{layout.EPISODE_COLUMN: [json.dumps(raw), *before[1:]]})
    refused(copy, words)


def test_task_in_too_many_words_is_refused(copy: Path) -> None:
    retable(copy, EPISODES, tasks=[["x" * 5000], ["y"]])
    refused(copy, "length of task of an episode is 5000 characters, must be at most 2000")


def test_table_that_unpacks_to_much_is_refused(copy: Path) -> None:
    """Ten million rows of one number are a few kilobytes."""
    rows = 10_000_000
    table = pa.table({name: pa.array(np.zeros(rows, np.int64)) for name in ("episode_index", "frame_index", "index")})
    pq.write_table(table, copy / DATA, compression="zstd")
    assert (copy / DATA).stat().st_size < 200_000
    refused(copy, r"size of .* is 10000000 rows and 240000000 bytes unpacked, must be at most")


def test_text_that_one_page_repeats_is_refused_on_the_way(tmp_path: Path) -> None:
    """A dictionary of one long text, named a thousand times: 1.2 GB of 1.2 MB, and the file says 8 KB."""
    text = np.random.default_rng(0).integers(32, 127, 1 << 20, np.uint8).tobytes().decode()
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1200, np.int32)), pa.array([text]))
    pq.write_table(pa.table({"robot_stack": column}), tmp_path / "t.parquet", store_schema=False)
    before = pa.total_allocated_bytes()
    with pytest.raises(StoreError, match=r"unpacked size of .* bytes or more, must be at most"):
        read_bounded(tmp_path / "t.parquet", {"robot_stack"})
    assert pa.default_memory_pool().max_memory() - before < 700 << 20


def make_video(path: Path, sides: tuple[int, int], stamps: list[int]) -> Path:
    with av.open(str(path), "w", format="mp4") as file:
        stream = file.add_stream("libx264", rate=10)
        stream.height, stream.width = sides
        stream.pix_fmt = "yuv420p"
        for stamp in stamps:
            frame = av.VideoFrame.from_ndarray(np.zeros((*sides, 3), np.uint8), format="rgb24")
            frame.pts = stamp
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return path


def test_video_of_another_size_is_refused_before_a_frame_is_unpacked(copy: Path) -> None:
    make_video(copy / VIDEO, (4096, 4096), [0, 1])
    refused(copy, "size of video .* is 4096x4096, must be 64x64")


def test_frames_that_do_not_advance_do_not_pile_up(tmp_path: Path) -> None:
    """All of them at the very time that is asked for, and none behind."""
    path = make_video(tmp_path / "v.mp4", (64, 64), list(range(400)))
    reader = VideoReader(path, 1e-9, (64, 64, 3))
    with pytest.raises(StoreError, match="has 6 of the frames 0 to 4, must have all 5"):
        reader.take(0, 5)
    reader.close()


@pytest.mark.parametrize("theirs", [False, True])
def test_episode_that_could_not_be_held_is_refused_before_a_frame_is_unpacked(
    copy: Path, monkeypatch: pytest.MonkeyPatch, theirs: bool
) -> None:
    """By the bound of whoever reads it back: 7 frames of two images, or 6 where the last one is not there."""
    frame = 2 * 64 * 64 * 3 + 7 * 4 + 8 + 4 + 4
    size = 7 * frame + 6 * (3 * 7 * 4 + 1 + 1 + 8 + 4 + 1)
    if theirs:
        size -= frame + 3 * 7 * 4 + 1 + 1 + 8 + 4 + 1
        table = pq.read_table(copy / EPISODES)
        pq.write_table(table.drop([layout.EPISODE_COLUMN]), copy / EPISODES)
    monkeypatch.setattr(bounds, "MAX_EPISODE_BYTES", size)
    import_lerobot(copy, copy.parent / "good", like=None, on_episode=lambda *_: None)
    monkeypatch.setattr(bounds, "MAX_EPISODE_BYTES", size - 1)
    monkeypatch.setattr(VideoReader, "take", lambda *_: pytest.fail("a frame was unpacked"))
    refused(copy, f"size of episode 0 of .* is {size} bytes, must be at most {size - 1}")


def test_frames_are_held_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = VideoReader(make_video(tmp_path / "v.mp4", (64, 64), list(range(400))), 10, (64, 64, 3))
    decoded = reader._decoded
    monkeypatch.setattr(reader, "_decoded", lambda: ((n, image.copy()) for n, image in decoded()))  # so it is counted
    tracemalloc.start()
    try:
        images = reader.take(0, 400)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * images.nbytes
    finally:
        tracemalloc.stop()
        reader.close()


@pytest.mark.parametrize(
    "content",
    [
        "#EXTM3U\n#EXTINF:1,\n/etc/hostname\n",
        "ffconcat version 1.0\nfile {outside}\n",
        "#EXTM3U\nhttp://127.0.0.1:9/\n",
    ],
)
def test_list_of_other_files_is_no_video(copy: Path, tmp_path: Path, content: str) -> None:
    shutil.move(copy / VIDEO, tmp_path / "secret.mp4")
    (copy / VIDEO).write_text(content.replace("{outside}", str(tmp_path / "secret.mp4")))
    refused(copy, "is unusable")
