"""A video or a folder of images in a camera's place."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest

from robot_stack.sensing.file_source import FileSource
from robot_stack.types.errors import RobotError

LEVELS = (40, 120, 200)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for k, level in enumerate(LEVELS):
        cv2.imwrite(str(tmp_path / f"{k}.png"), np.full((6, 8, 3), level, np.uint8))
    return tmp_path


@pytest.fixture
def video(tmp_path: Path) -> Path:
    path = tmp_path / "v.mp4"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 5, (64, 48))
    for level in LEVELS:
        writer.write(np.full((48, 64, 3), level, np.uint8))
    writer.release()
    return path


def levels(path: Path, count: int) -> list[int]:
    source = FileSource(str(path), 500.0)
    source.open()
    found = [round(float(source.read().image.mean())) for _ in range(count)]
    source.close()
    return found


def test_a_folder_is_shown_in_the_order_of_its_names_again_and_again(folder: Path) -> None:
    (folder / "notes.txt").write_text("no image")
    assert levels(folder, 7) == [40, 120, 200, 40, 120, 200, 40]


def test_a_video_is_played_again_and_again(video: Path) -> None:
    assert levels(video, 7) == pytest.approx([40, 120, 200, 40, 120, 200, 40], abs=3)


def test_frames_come_at_the_rate_that_was_asked_for_not_the_videos(video: Path) -> None:
    source = FileSource(str(video), 50.0)
    source.open()
    stamps = [source.read().stamp_ns for _ in range(9)]
    gaps_ms = [(later - earlier) / 1e6 for earlier, later in pairwise(stamps)]
    assert min(gaps_ms) > 0
    assert (
        stamps[-1] - stamps[0]
    ) / 1e6 >= 8 * 20.0 - 20.0  # a late frame has the next one wait less, never less than 0
    assert float(np.median(gaps_ms)) < 100.0  # 200 in the video


def test_a_slow_reader_gets_no_burst(folder: Path) -> None:
    source = FileSource(str(folder), 50.0)
    source.open()
    source.read()
    source._due_ns -= 500_000_000  # a reader that was away for 25 periods
    late, after = source.read().stamp_ns, source.read().stamp_ns
    assert after - late > 15_000_000


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "none.mp4", "does not exist"), (tmp_path, "holds no images")):
        with pytest.raises(RobotError, match=words):
            levels(path, 1)


def test_a_damaged_file_is_named(tmp_path: Path, folder: Path) -> None:
    (folder / "1.png").write_bytes(b"no png")
    with pytest.raises(RobotError, match=r"1\.png cannot be read, must be a whole PNG or JPEG"):
        levels(folder, 3)
    broken = tmp_path / "broken.mp4"
    broken.write_bytes(b"no video")
    with pytest.raises(RobotError, match="has no frame that can be read"):
        levels(broken, 1)


def test_sixteen_bits_are_refused_in_words(folder: Path) -> None:
    cv2.imwrite(str(folder / "0.png"), np.zeros((6, 8), np.uint16))
    with pytest.raises(RobotError, match="must have 8 bits per channel"):
        levels(folder, 1)


def test_a_source_that_was_closed_begins_anew(folder: Path) -> None:
    source = FileSource(str(folder), 500.0)
    source.open()
    source.read()
    source.close()
    with pytest.raises(RobotError, match="is not open"):
        source.read()
    source.open()
    assert source.read().image.mean() == 40
