"""A lens follows its image through turn, crop and resize, judged by OpenCV and by a maker's calibration."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from robot_stack.config.cell import CameraLens
from robot_stack.sensing.crop import Roi
from robot_stack.sensing.framing import Framing
from robot_stack.sensing.lens import Lens, read_calibration
from robot_stack.types.errors import SpecError

FILE = Path(__file__).parents[1] / "makers/cameras/calibrations/usb_cam.yaml"
USB_CAM = FILE.read_text()
K = np.array([[438.783367, 0, 305.593336], [0, 437.302876, 243.738352], [0, 0, 1]])
D = np.array([-0.361976, 0.110510, 0.001014, 0.000505, 0.0])
POINTS_M = np.array([[0.0, 0.0, 0.5], [0.12, -0.05, 0.5], [-0.1, 0.08, 0.4], [0.05, 0.1, 0.3], [-0.15, -0.12, 0.6]])
WIDE = Roi(top=0, left=16, height=480, width=600)
TURNED_M = POINTS_M * [-1.0, -1.0, 1.0]
"""The same in the optical frame of a camera that is turned by 180 degrees."""
FISHEYE = Lens(
    width_px=640, height_px=480, focal_px=(300.0, 302.0), centre_px=(322.0, 238.0), model="equidistant",
    distortion=(-0.02, 0.004, -0.001, 0.0002),
)  # fmt: skip


D_TEXT = "  cols: 5\n  data: [-0.361976, 0.110510, 0.001014, 0.000505, 0.000000]"


def seen(points_m: np.ndarray = POINTS_M) -> np.ndarray:
    """Where OpenCV says that the maker's camera sees points."""
    pixels, _ = cv2.projectPoints(points_m, np.zeros(3), np.zeros(3), K, D)
    return np.asarray(pixels).reshape(-1, 2)


def drawn(pixel: np.ndarray) -> np.ndarray:
    """The captured image of a bright spot at a pixel, of some pixels' width."""
    rows, columns = np.mgrid[:480, :640]
    spot = 255 * np.exp(-((columns - pixel[0]) ** 2 + (rows - pixel[1]) ** 2) / (2 * 4.0**2))
    return np.repeat(np.rint(spot).astype(np.uint8)[..., None], 3, axis=2)


def middle(image: np.ndarray) -> np.ndarray:
    """The middle of a bright spot, column and row."""
    weights = image[..., 0].astype(float)
    rows, columns = np.mgrid[: image.shape[0], : image.shape[1]]
    return np.array([(columns * weights).sum(), (rows * weights).sum()]) / weights.sum()


def test_a_makers_calibration_is_read_as_opencv_means_it() -> None:
    lens = read_calibration(USB_CAM, "none")
    np.testing.assert_allclose(lens.matrix, K)
    np.testing.assert_allclose(lens.project(POINTS_M), seen(), atol=1e-9)
    np.testing.assert_allclose(lens.directions(seen()), POINTS_M[:, :2] / POINTS_M[:, 2:], atol=1e-9)
    edges = np.array([[0.0, 0.0], [0.0, 240.0], [60.0, 60.0], [639.0, 479.0], [320.0, 0.0]])
    rays = np.column_stack([lens.directions(edges), np.ones(len(edges))])
    np.testing.assert_allclose(lens.project(rays), edges, atol=1e-3)
    assert (lens.width_px, lens.height_px, lens.model) == (640, 480, "plumb_bob")
    assert math.degrees(lens.vertical_view_rad) == pytest.approx(64.2, abs=0.5), "57.5 degrees without distortion"
    assert FISHEYE.vertical_view_rad == pytest.approx(480 / 302, rel=0.03)


OF_ALL_LENGTHS = [
    ("plumb_bob", [0.1, -0.2, 0.01, 0.02], "plumb_bob"),  # NRobotics-Open/visca_ros, config/camera_info.yaml
    ("plumb_bob", [0.1, -0.2, 0.01, 0.02, 0.03, 0, 0, 0], "plumb_bob"),  # so a guide writes what an Orbbec says
    ("plumb_bob", [0.1, -0.2, 0.01, 0.02, 0.03, 0.2, 0.1, 0.05], "rational_polynomial"),
    ("rational_polynomial", [0.0937, -0.1641, 0.0, 0.0, 0.1224], "rational_polynomial"),  # what Tango said of a phone
    (
        "rational_polynomial",
        [0.1, -0.2, 0.01, 0.02, 0.03, 0.2, 0.1, 0.05] + [0.0] * 6,
        "rational_polynomial",
    ),  # OpenCV's longest
]


@pytest.mark.parametrize(("said", "numbers", "model"), OF_ALL_LENGTHS)
def test_as_many_coefficients_as_anybody_writes_mean_what_opencv_takes_them_for(
    said: str, numbers: list[float], model: str
) -> None:
    assert D_TEXT in USB_CAM
    text = USB_CAM.replace(D_TEXT, f"  cols: {len(numbers)}\n  data: {numbers}").replace("plumb_bob", said)
    lens = read_calibration(text, "none")
    assert lens.model == model
    wanted, _ = cv2.projectPoints(POINTS_M, np.zeros(3), np.zeros(3), K, np.array(numbers, np.float64))
    np.testing.assert_allclose(lens.project(POINTS_M), wanted.reshape(-1, 2), atol=1e-9)


def test_the_model_may_stand_where_older_calibrators_wrote_it() -> None:
    """As in Forestry-Robotics-UC/flir_ax8_simple_driver, config/camera_info.yaml."""
    text = USB_CAM.replace("distortion_model: plumb_bob", "camera_model: equidistant")
    lens = read_calibration(text.replace(D_TEXT, "  cols: 4\n  data: [-0.02, 0.004, -0.001, 0.0002]"), "none")
    assert (lens.model, lens.distortion) == ("equidistant", FISHEYE.distortion)


def test_a_message_that_was_echoed_is_a_calibration_too() -> None:
    """As in fishros/yolov5_ros2, config/camera_info.yaml, and with the line that ends each message."""
    numbers = [476.7030836014194, 0.0, 400.5, 0.0, 476.7030836014194, 400.5, 0.0, 0.0, 1.0]
    text = f"header:\n  frame_id: base_link\nheight: 800\nwidth: 640\ndistortion_model: plumb_bob\nd: {[0.0] * 5}\nk:\n"
    lens = read_calibration(text + "".join(f"- {number}\n" for number in numbers) + "---\n", "none")
    assert (lens.width_px, lens.height_px, lens.focal_px) == (640, 800, (476.7030836014194, 476.7030836014194))
    assert lens.centre_px == (400.5, 400.5)


def echoed(roi: str, binning: int = 1) -> str:
    """A message of a sensor of 1280x1024, of which a driver may send a part, binned or not."""
    k = [1000.0, 0.0, 640.0, 0.0, 1000.0, 512.0, 0.0, 0.0, 1.0]
    return (
        f"height: 1024\nwidth: 1280\ndistortion_model: plumb_bob\nd: {[0.0] * 5}\nk: {k}\n"
        f"binning_x: {binning}\nbinning_y: {binning}\nroi: {{{roi}}}\n"
    )


PART = "x_offset: 320, y_offset: 128, height: 512, width: 640, do_rectify: true"


@pytest.mark.parametrize(
    ("flip", "binning", "focal_px", "centre_px"),
    [
        ("none", 1, 1000.0, (320.0, 384.0)),
        ("rotate_180", 1, 1000.0, (319.0, 127.0)),
        ("none", 2, 500.0, (159.75, 191.75)),
    ],
)
def test_of_a_camera_that_crops_in_the_sensor_the_lens_is_that_of_what_it_sends(
    flip: str, binning: int, focal_px: float, centre_px: tuple[float, float]
) -> None:
    lens, size = read_calibration(echoed(PART, binning), flip), (512 // binning, 640 // binning)
    sent = lens.framed(
        Framing(height_px=size[0], width_px=size[1], flip=flip, policy_height_px=size[0], policy_width_px=size[1])
    )
    assert (sent.focal_px, sent.centre_px) == ((focal_px, focal_px), centre_px)


@pytest.mark.parametrize(
    "roi",
    [
        "x_offset: 0, y_offset: 0, height: 0, width: 0, do_rectify: false",
        "x_offset: 0, y_offset: 0, height: 1024, width: 1280, do_rectify: false",
    ],
)
def test_a_message_without_a_part_is_of_the_whole_sensor(roi: str) -> None:
    lens = read_calibration(echoed(roi), "none")
    assert (lens.width_px, lens.height_px, lens.centre_px) == (1280, 1024, (640.0, 512.0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("x_offset: 320", "x_offset: 641"), "roi is 640x512 at 641, 128, must lie within 1280x1024"),
        (("x_offset: 320", "x_offset: -1"), "roi is 640x512 at -1, 128, must lie within"),
        (("height: 512", "height: 0"), "roi is 640x0 at 320, 128, must lie within"),
        (("width: 640", "width: wide"), "roi.width is 'wide', must be a number of pixels"),
    ],
)
def test_a_part_that_cannot_be_is_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        read_calibration(echoed(PART.replace(*change)), "none")


@pytest.mark.parametrize("flip", ["none", "rotate_180"])
@pytest.mark.parametrize(
    "roi", [None, Roi(top=40, left=120, height=400, width=400), Roi(top=0, left=16, height=480, width=600)]
)
@pytest.mark.parametrize("size", [(128, 128), (96, 160)])
def test_the_policys_image_shows_a_point_where_its_lens_says(flip: str, roi: Roi | None, size: tuple[int, int]) -> None:
    framing = Framing(
        height_px=480, width_px=640, flip=flip, roi=roi, policy_height_px=size[0], policy_width_px=size[1]
    )
    lens = read_calibration(USB_CAM, flip).framed(framing)
    assert (lens.height_px, lens.width_px) == size
    said = lens.project(POINTS_M if flip == "none" else TURNED_M)
    for pixel, there in zip(seen(), said, strict=True):
        image = framing.apply(drawn(pixel))
        if (there > 10).all() and (there < np.array([size[1], size[0]]) - 10).all():
            np.testing.assert_allclose(middle(image), there, atol=0.06)


def test_a_point_in_the_middle_is_among_those_that_were_looked_at() -> None:
    framing = Framing(height_px=480, width_px=640, policy_height_px=128, policy_width_px=128)
    said = read_calibration(USB_CAM, "none").framed(framing).project(POINTS_M)
    assert ((said > 10) & (said < 118)).all(axis=1).sum() >= 4


def test_a_fisheye_is_turned_without_a_tangential_part() -> None:
    pixels, _ = cv2.fisheye.projectPoints(
        POINTS_M.reshape(-1, 1, 3), np.zeros(3), np.zeros(3), FISHEYE.matrix, np.array(FISHEYE.distortion)
    )
    np.testing.assert_allclose(FISHEYE.project(POINTS_M), np.asarray(pixels).reshape(-1, 2))
    np.testing.assert_allclose(FISHEYE.turned().project(TURNED_M), [639, 479] - FISHEYE.project(POINTS_M), atol=1e-9)
    np.testing.assert_allclose(
        FISHEYE.directions(FISHEYE.project(POINTS_M)), POINTS_M[:, :2] / POINTS_M[:, 2:], atol=1e-6
    )


@pytest.mark.parametrize("lens", [read_calibration(USB_CAM, "none"), FISHEYE])
def test_a_lens_comes_back_from_the_cells_file(lens: Lens) -> None:
    written = {key: tuple(value) if isinstance(value, list) else value for key, value in lens.section().items()}
    back = Lens.of(CameraLens.model_validate(written))
    np.testing.assert_allclose(back.project(POINTS_M), lens.project(POINTS_M), atol=2e-3)
    assert replace(back, focal_px=lens.focal_px, centre_px=lens.centre_px, distortion=lens.distortion) == lens


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("image_width: 640", "image_width: wide"), "image_width is 'wide', must be a number of pixels"),
        (("image_height: 480", "height: 480"), "image_height is None, must be a number of pixels"),
        (("plumb_bob", "brown"), "distortion_model is 'brown', must be one of"),
        (("plumb_bob", "equidistant"), "distortion_coefficients are 5, must be 4 of equidistant"),
        (("0.000505, 0.000000]", "0.000505]"), "distortion_coefficients are 4 numbers, must be 1 x 5 as it says"),
        ((D_TEXT, "  cols: 6\n  data: [0, 0, 0, 0, 0, 0]"), r"are 6, must be one of \(4, 5, 8, 12, 14\) of plumb_bob"),
        ((D_TEXT, "  data: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.1]"), "beyond the eighth are .* calibrate with eight"),
        ((D_TEXT, "  data: []"), "are 0, must be one of"),
        (("[438.783367, ", "["), "camera_matrix are 8 numbers, must be 3 x 3 as it says"),
        (("camera_name: test_camera", "---\nmore: than one"), "calibration has no keys"),
        (("[438.783367", "[.nan"), "camera_matrix is .* must have numbers under data"),
        (("[438.783367", "[wide"), "camera_matrix is .* must have numbers under data"),
        (("[438.783367", "[0.0"), "focal lengths are 0 and 437.303 pixels, must be above 0"),
        (("plumb_bob", "[plumb_bob]"), "distortion_model is .* must be one of"),
        (("camera_name: test_camera", "calibrated: 2024-13-40"), "calibration is no YAML"),
        (("[438.783367", "[" + "9" * 400), "camera_matrix is .* must have numbers under data"),
        (("image_width: 640", "image_width: [640"), "calibration is no YAML .* calibrate anew"),
    ],
)
def test_what_is_no_calibration_is_refused_by_its_key(change: tuple[str, str], message: str) -> None:
    assert change[0] in USB_CAM
    with pytest.raises(SpecError, match=message):
        read_calibration(USB_CAM.replace(*change), "none")


@pytest.mark.long
@pytest.mark.parametrize("text", ["", "- 1\n", "a calibration", "\x00", "[" * 5000])
def test_a_file_of_another_kind_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"calibration (has no keys|is no YAML)"):
        read_calibration(text, "none")


@pytest.mark.parametrize("flip", ["horizontal", "vertical"])
def test_a_mirrored_image_has_no_lens(flip: str) -> None:
    with pytest.raises(SpecError, match="must be 'none' or 'rotate_180': no lens makes a mirrored image"):
        read_calibration(USB_CAM, flip)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distortion": (0.0,) * 4}, "distortion has 4 coefficients, must have 5 of plumb_bob"),
        ({"model": "equidistant"}, "distortion has 5 coefficients, must have 4 of equidistant"),
        ({"focal_px": (0.0, 1.0)}, "greater than 0"),
    ],
)
def test_a_lens_that_cannot_be_is_refused_in_the_cells_file(change: dict[str, Any], message: str) -> None:
    good = {"width_px": 640, "height_px": 480, "focal_px": (600.0, 600.0), "centre_px": (320.0, 240.0)}
    CameraLens.model_validate(good)
    with pytest.raises(ValueError, match=message):
        CameraLens.model_validate(good | change)
