"""First and last look at each episode."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from robot_stack.nodes.tools.episode_pictures import GAP_PX, SIDE_PX, EpisodePictures


def plain(shade: int, height: int = 48, width: int = 64) -> np.ndarray:
    return np.full((height, width, 3), shade, np.uint8)


@pytest.fixture
def pictures(tmp_path) -> EpisodePictures:
    opened = EpisodePictures(tmp_path)
    opened.open()
    return opened


def test_an_episode_is_kept_with_its_first_and_last_look_of_every_camera(pictures, tmp_path):
    pictures.look("wrist", plain(10))
    pictures.begin("000001-online-a")
    for shade in (60, 120, 180):
        pictures.look("wrist", plain(shade))
        pictures.look("front", plain(shade + 20, 480, 640))
    pictures.end()
    assert pictures.has("000001-online-a")
    strip = cv2.imdecode(np.frombuffer(pictures.get("000001-online-a"), np.uint8), cv2.IMREAD_COLOR)
    side = SIDE_PX + GAP_PX
    assert strip.shape == (SIDE_PX, 4 * side, 3)
    looks = [int(strip[10, 10 + number * side, 0]) for number in range(4)]
    assert looks == pytest.approx([60, 80, 180, 200], abs=4)
    again = EpisodePictures(tmp_path)
    again.open()
    assert again.get("000001-online-a") == pictures.get("000001-online-a")


def test_an_episode_that_nobody_saw_has_none(pictures):
    pictures.begin("000001-online-a")
    pictures.end()
    assert not pictures.has("000001-online-a")
    assert pictures.get("000001-online-a") is None


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", ""])
def test_a_name_that_is_no_name_writes_and_reads_nothing(pictures, tmp_path, name):
    before = sorted(tmp_path.rglob("*"))
    pictures.begin(name)
    pictures.look("wrist", plain(60))
    pictures.end()
    assert pictures.get(name) is None
    assert sorted(tmp_path.rglob("*")) == before


def test_a_full_disk_loses_the_picture_and_nothing_else(pictures, tmp_path):
    (tmp_path / "console" / "pictures" / "000001-online-a.jpg" / "in the way").mkdir(parents=True)
    pictures.begin("000001-online-a")
    pictures.look("wrist", plain(60))
    pictures.end()
    assert not pictures.has("000001-online-a")
