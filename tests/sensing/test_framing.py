"""One image for the policy, whatever way it came."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from robot_stack.config.camera import FileCameraConfig, SimCameraConfig
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.replay import Replay
from robot_stack.sensing.crop import Roi, crop_and_resize
from robot_stack.sensing.file_source import FileSource
from robot_stack.sensing.framing import Framing
from robot_stack.sensing.pixels import LAYOUTS, decode, view_of
from robot_stack.transport.codec import decode_step, encode_step
from robot_stack.types.command import Source
from robot_stack.types.errors import SpecError
from robot_stack.types.observation import Observation
from robot_stack.types.spec import ArmSpec, CameraSpec, ProprioField, Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step

ROI = Roi(top=3, left=10, height=40, width=47)
RGB = np.random.default_rng(1).integers(0, 256, (60, 80, 3), dtype=np.uint8)
FRAMING = Framing(height_px=60, width_px=80, roi=ROI, policy_height_px=16, policy_width_px=24)
REFERENCE = crop_and_resize(RGB, ROI, 16, 24)
SPEC = Spec(
    arms=(ArmSpec(name="arm", axes=("x",), translation_m=0.01, rotation_rad=0.1),),
    cameras=(CameraSpec(name="wrist", height_px=16, width_px=24),),
    proprio=(ProprioField(name="gripper", size=1),),
    rate_hz=10.0,
)


def as_layout(encoding: str) -> np.ndarray:
    codes = {"bgr8": cv2.COLOR_RGB2BGR, "rgba8": cv2.COLOR_RGB2RGBA, "bgra8": cv2.COLOR_RGB2BGRA}
    return RGB if encoding == "rgb8" else cv2.cvtColor(RGB, codes[encoding])


def raw_message(encoding: str) -> np.ndarray:
    image = as_layout(encoding)
    rows = np.zeros((60, image[0].size + 13), np.uint8)
    rows[:, : image[0].size] = image.reshape(60, -1)
    view = view_of(rows.reshape(-1), encoding=encoding, height=60, width=80, step=rows.shape[1])
    return FRAMING.apply(view, encoding)


def png_message() -> np.ndarray:
    return FRAMING.apply(*decode(cv2.imencode(".png", RGB[..., ::-1])[1].reshape(-1), "png"))


def image_folder(folder: Path) -> np.ndarray:
    cv2.imwrite(str(folder / "0.png"), RGB[..., ::-1])
    source = FileSource(str(folder), 100.0)
    source.open()
    frame = source.read()
    return FRAMING.apply(frame.image, frame.encoding)


def steps(image: np.ndarray) -> Iterator[Step]:
    """An episode of one action, both frames of which show the image."""
    action = ActionRow(
        executed=np.zeros(1, np.float32), proposed=np.zeros(1, np.float32), human=np.zeros(1, np.float32),
        source=Source.POLICY,
    )  # fmt: skip
    for index in (0, 1):
        observation = Observation(images={"wrist": image}, proprio=np.zeros(1, np.float32), stamp_ns=index + 1)
        end = EndReason.TIMEOUT if index else None
        yield Step(episode_id="e", index=index, observation=observation, action=None if index else action, end=end)


HEADER = EpisodeHeader(episode_id="e", kind=EpisodeKind.ONLINE, task="t", actor="a", started_unix_s=1.0)


def over_the_link(image: np.ndarray) -> np.ndarray:
    return decode_step(encode_step(next(steps(image)), SPEC), SPEC).observation.images["wrist"]


def through_the_store(image: np.ndarray, folder: Path) -> np.ndarray:
    with EpisodeStore(folder, SPEC, "t") as store:
        store.begin(HEADER)
        for step in steps(image):
            store.append(step)
        return next(store.read("e").steps()).observation.images["wrist"]


def drawn_from_the_replay(image: np.ndarray) -> np.ndarray:
    replay = Replay(SPEC)
    replay.begin(HEADER)
    for step in steps(image):
        replay.add_step(step)
    images = replay.sample(np.random.default_rng(0), 1, gamma=0.9, expert_fraction=0.0).images
    assert images is not None
    return images["wrist"][0]


@pytest.mark.parametrize("encoding", sorted(set(LAYOUTS) - {"mono8"}))
def test_every_raw_encoding_gives_the_bytes_of_the_reference_crop(encoding: str) -> None:
    np.testing.assert_array_equal(raw_message(encoding), REFERENCE)


def test_lossless_files_give_the_bytes_of_the_reference_crop(tmp_path: Path) -> None:
    np.testing.assert_array_equal(png_message(), REFERENCE)
    np.testing.assert_array_equal(image_folder(tmp_path), REFERENCE)


@pytest.mark.parametrize("path", ["acting", "link", "replay", "store"])
def test_recording_training_and_acting_have_the_bytes_of_the_reference_crop(path: str, tmp_path: Path) -> None:
    seen = FRAMING.apply(RGB)
    ways: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "acting": lambda image: image,
        "link": over_the_link,
        "replay": drawn_from_the_replay,
        "store": lambda image: through_the_store(image, tmp_path),
    }
    np.testing.assert_array_equal(ways[path](seen), REFERENCE)


@pytest.mark.parametrize(
    ("flip", "turned"),
    [
        ("none", RGB),
        ("rotate_180", RGB[::-1, ::-1]),
        ("vertical", RGB[::-1]),
        ("horizontal", RGB[:, ::-1]),
    ],
)
def test_an_image_is_turned_before_it_is_cropped(flip: str, turned: np.ndarray) -> None:
    framing = Framing(height_px=60, width_px=80, flip=flip, roi=ROI, policy_height_px=16, policy_width_px=24)
    wanted = crop_and_resize(np.ascontiguousarray(turned), ROI, 16, 24)
    np.testing.assert_array_equal(framing.apply(RGB), wanted)
    np.testing.assert_array_equal(framing.apply(as_layout("bgr8"), "bgr8"), wanted)


def test_the_result_is_never_a_view_of_the_capture() -> None:
    whole = Framing(height_px=60, width_px=80, policy_height_px=60, policy_width_px=80)
    for encoding in ("rgb8", "bgr8"):
        captured = as_layout(encoding).copy()
        result = whole.apply(captured, encoding)
        assert not np.shares_memory(result, captured)
        assert result.flags.c_contiguous


@pytest.mark.parametrize("shape", [(60, 79, 3), (480, 640, 3), (80, 60, 3)])
def test_another_size_than_in_the_file_is_refused_in_words(shape: tuple[int, int, int]) -> None:
    with pytest.raises(SpecError, match=f"image is {shape[1]}x{shape[0]}, must be 80x60 as in the camera's file"):
        FRAMING.apply(np.zeros(shape, np.uint8))
    with pytest.raises(SpecError, match=f"image is {shape[1]}x{shape[0]}, must be 80x60"):
        FRAMING.require(*shape[:2])


def test_a_camera_file_says_all_of_it() -> None:
    sizes = {"width_px": 80, "height_px": 60, "policy_width_px": 24, "policy_height_px": 16}
    roi = {"top": 3, "left": 10, "height": 40, "width": 47}
    more = {"roi_px": roi, "rate_hz": 30.0, "max_age_s": 0.2}
    live = FileCameraConfig(backend="file", path="x", flip="vertical", freeze_s=None, **sizes, **more)
    assert Framing.of(live) == Framing(
        height_px=60, width_px=80, flip="vertical", roi=ROI, policy_height_px=16, policy_width_px=24
    )
    assert Framing.of(SimCameraConfig(backend="sim", freeze_frames=9, **sizes, **more)) == FRAMING
