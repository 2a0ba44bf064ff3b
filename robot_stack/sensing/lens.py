"""The lens of a camera: which pixel shows what lies in a direction, and what turning, cropping and resizing make of it.

Pixels as OpenCV and ROS count them: the middle of the first one is at column 0 and row 0. So resizing by s moves a
column x to (x + 1/2) s - 1/2, which is what `cv2.resize` does.

Sources: the models of sensor_msgs/msg/CameraInfo and the file of camera_calibration_parsers (ROS's image_common).
Deviation: what rectifies an image (R, P) is left out, since nothing here rectifies one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from robot_stack.config.cell import COEFFICIENTS, CameraLens
from robot_stack.sensing.crop import Roi
from robot_stack.sensing.framing import Framing
from robot_stack.types.errors import SpecError

TANGENTIAL = slice(2, 4)
"""p1 and p2 among the coefficients, of all models but that of a fisheye."""


WRITTEN = (4, 5, 8, 12, 14)
"""How many coefficients OpenCV and those who write its calibrations give of a lens that is no fisheye; what is left out
is 0. Beyond the eighth stand a thin prism and a tilted sensor."""
EXACT = (cv2.TERM_CRITERIA_COUNT + cv2.TERM_CRITERIA_EPS, 100, 1e-12)
"""OpenCV's own few steps leave a third of a pixel at the edges of a usual webcam."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lens:
    """A lens in front of an image of a certain size.

    Attributes:
        width_px, height_px: Of the image.
        focal_px: Focal lengths along columns and rows.
        centre_px: Column and row of the optical axis.
        model: "plumb_bob", "rational_polynomial" or "equidistant", as sensor_msgs calls them.
        distortion: k1, k2, p1, p2, k3 and, of a rational polynomial, k4, k5, k6; k1 to k4 of a fisheye.
        error_px: Root mean square of what a calibration left over.
        flip: How the camera's images were turned into those that are seen, "none" or "rotate_180".
    """

    width_px: int
    height_px: int
    focal_px: tuple[float, float]
    centre_px: tuple[float, float]
    model: str = "plumb_bob"
    distortion: tuple[float, ...] = (0.0,) * 5
    error_px: float = 0.0
    flip: str = "none"

    @classmethod
    def of(cls, config: CameraLens) -> Lens:
        """Return the lens that a cell's file describes, in front of the whole image as it is seen."""
        return cls(**config.model_dump())

    @property
    def matrix(self) -> np.ndarray:
        """Return the intrinsics K, float64, shape (3, 3), pixels."""
        (fx, fy), (cx, cy) = self.focal_px, self.centre_px
        return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])

    @property
    def vertical_view_rad(self) -> float:
        """Return the angle between the middles of the upper and the lower edge, distortion and all."""
        column = self.centre_px[0]
        ends = self.directions(np.array([[column, -0.5], [column, self.height_px - 0.5]]))
        return float(np.arctan(ends[1, 1]) - np.arctan(ends[0, 1]))

    def section(self) -> dict[str, Any]:
        """Return the lens as a cell's file has it, to a thousandth of a pixel."""
        return {
            "width_px": self.width_px,
            "height_px": self.height_px,
            "focal_px": [round(value, 3) for value in self.focal_px],
            "centre_px": [round(value, 3) for value in self.centre_px],
            "model": self.model,
            "distortion": [round(value, 7) for value in self.distortion],
            "error_px": round(self.error_px, 3),
            "flip": self.flip,
        }

    def resized(self, width_px: int, height_px: int) -> Lens:
        """Return the lens of the same image at another size."""
        across, down = width_px / self.width_px, height_px / self.height_px
        return replace(
            self,
            width_px=width_px,
            height_px=height_px,
            focal_px=(self.focal_px[0] * across, self.focal_px[1] * down),
            centre_px=((self.centre_px[0] + 0.5) * across - 0.5, (self.centre_px[1] + 0.5) * down - 0.5),
        )

    def cropped(self, roi: Roi) -> Lens:
        """Return the lens of a part of the image."""
        centre_px = (self.centre_px[0] - roi.left, self.centre_px[1] - roi.top)
        return replace(self, width_px=roi.width, height_px=roi.height, centre_px=centre_px)

    def turned(self) -> Lens:
        """Return the lens of the image turned by 180 degrees; the optical frame is turned with it."""
        distortion = list(self.distortion)
        if self.model != "equidistant":
            distortion[TANGENTIAL] = [-value for value in distortion[TANGENTIAL]]
        return replace(
            self,
            centre_px=(self.width_px - 1 - self.centre_px[0], self.height_px - 1 - self.centre_px[1]),
            distortion=tuple(distortion),
            flip="none" if self.flip == "rotate_180" else "rotate_180",
        )

    def framed(self, framing: Framing) -> Lens:
        """Return the lens of the policy's image, for the lens of the whole image as it is seen."""
        seen = self.resized(framing.width_px, framing.height_px)
        kept = seen if framing.roi is None else seen.cropped(framing.roi)
        return kept.resized(framing.policy_width_px, framing.policy_height_px)

    def project(self, points_m: np.ndarray) -> np.ndarray:
        """Return where points are seen.

        Args:
            points_m: In the optical frame (z forward, x right, y down), shape (N, 3).

        Returns:
            Columns and rows, float64, shape (N, 2).
        """
        points, still = np.asarray(points_m, np.float64).reshape(-1, 1, 3), np.zeros(3)
        coefficients = np.array(self.distortion)
        if self.model == "equidistant":
            seen, _ = cv2.fisheye.projectPoints(points, still, still, self.matrix, coefficients)
        else:
            seen, _ = cv2.projectPoints(points, still, still, self.matrix, coefficients)
        return np.asarray(seen, np.float64).reshape(-1, 2)

    def directions(self, pixels: np.ndarray) -> np.ndarray:
        """Return where a pinhole of focal length 1 would see what is seen at pixels, float64, shape (N, 2)."""
        points, coefficients = np.asarray(pixels, np.float64).reshape(-1, 1, 2), np.array(self.distortion)
        if self.model == "equidistant":
            seen = cv2.fisheye.undistortPoints(points, self.matrix, coefficients, criteria=EXACT)
        else:
            seen = cv2.undistortPoints(points, self.matrix, coefficients, None, None, None, EXACT)
        return np.asarray(seen, np.float64).reshape(-1, 2)


def read_calibration(text: str, flip: str) -> Lens:
    """Read the lens out of a calibration that ROS wrote, as camera_calibration, camera_info_manager and drivers do.

    Args:
        text: YAML with image_width, image_height, camera_matrix, distortion_model and distortion_coefficients; or what
            `ros2 topic echo --once` prints of a CameraInfo.
        flip: How the driver's image is turned before it is seen, as in the camera's file.

    Raises:
        SpecError: If it is no such calibration, or the image is mirrored.
    """
    if flip in ("horizontal", "vertical"):
        raise SpecError(f"flip is {flip!r}, must be 'none' or 'rotate_180': no lens makes a mirrored image")
    try:
        documents = [each for each in YAML(typ="safe", pure=True).load_all(text) if each is not None]
    except (YAMLError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise SpecError(f"calibration is no YAML ({why}), must be as ROS writes it; calibrate anew") from error
    if len(documents) != 1 or not isinstance(said := documents[0], dict):
        raise SpecError("calibration has no keys, must have image_width, camera_matrix and others as ROS writes them")
    names = MESSAGE if "camera_matrix" not in said and "k" in said else FILE
    width, height = (_whole(said, key) for key in names[:2])
    matrix = _numbers(said, names[2])
    model = said.get("distortion_model", said.get("camera_model", "plumb_bob"))
    if not isinstance(model, str) or model not in COEFFICIENTS:
        raise SpecError(f"distortion_model is {model!r}, must be one of {sorted(COEFFICIENTS)}; calibrate with one")
    if len(matrix) != 9:
        raise SpecError(f"{names[2]} has {len(matrix)} numbers, must have 9; copy it whole")
    model, distortion = _coefficients(model, _numbers(said, names[3]), names[3])
    if matrix[0] <= 0.0 or matrix[4] <= 0.0:
        raise SpecError(f"focal lengths are {matrix[0]:g} and {matrix[4]:g} pixels, must be above 0; calibrate anew")
    lens = Lens(
        width_px=width,
        height_px=height,
        focal_px=(matrix[0], matrix[4]),
        centre_px=(matrix[2], matrix[5]),
        model=model,
        distortion=distortion,
    )
    sent = _sent(lens, said.get("roi"))
    return sent.turned() if flip == "rotate_180" else sent


def _sent(lens: Lens, part: object) -> Lens:
    """Return the lens of the part of a sensor that a driver sends, by `roi` of its message; binning only resizes it.

    Its `do_rectify` asks others to rectify that part; the image is none the less as the sensor saw it.
    """
    if not isinstance(part, dict):
        return lens
    left, top, width, height = (part.get(key, 0) for key in ROI)
    for key, value in zip(ROI, (left, top, width, height), strict=True):
        if not isinstance(value, int):
            raise SpecError(f"roi.{key} is {value!r}, must be a number of pixels; copy the message whole")
    if width == height == 0:
        return lens
    if min(left, top) < 0 or min(width, height) < 1 or left + width > lens.width_px or top + height > lens.height_px:
        raise SpecError(
            f"roi is {width}x{height} at {left}, {top}, must lie within {lens.width_px}x{lens.height_px}; correct the "
            "driver"
        )
    return lens.cropped(Roi(top=top, left=left, height=height, width=width))


FILE = ("image_width", "image_height", "camera_matrix", "distortion_coefficients")
MESSAGE = ("width", "height", "k", "d")
"""Keys of a calibration's file, and of a message."""
ROI = ("x_offset", "y_offset", "width", "height")
"""Keys of the part of a sensor that a message is of, in pixels of the whole; no width and height is all of it."""


def _coefficients(model: str, numbers: tuple[float, ...], key: str) -> tuple[str, tuple[float, ...]]:
    """Return the model that coefficients are of and as many as it has, whichever of OpenCV's lengths was written."""
    if model == "equidistant":
        if len(numbers) != COEFFICIENTS[model]:
            raise SpecError(f"{key} are {len(numbers)}, must be {COEFFICIENTS[model]} of {model}; copy them whole")
        return model, numbers
    if len(numbers) not in WRITTEN:
        raise SpecError(f"{key} are {len(numbers)}, must be one of {WRITTEN} of {model}; copy them whole")
    if any(numbers[8:]):
        raise SpecError(
            f"{key} beyond the eighth are {numbers[8:]}, must be 0: a thin prism or a tilted sensor is not reckoned "
            "with; calibrate with eight"
        )
    whole = (*numbers[:8], 0.0, 0.0, 0.0, 0.0)[:8]
    if any(whole[5:]):
        model = "rational_polynomial"  # OpenCV and image_geometry go by the coefficients, whatever the name
    return model, whole[: COEFFICIENTS[model]]


def _whole(said: dict[str, Any], key: str) -> int:
    value = said.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise SpecError(f"{key} is {value!r}, must be a number of pixels; is this a calibration that ROS wrote?")
    return value


def _numbers(said: dict[str, Any], key: str) -> tuple[float, ...]:
    held = said.get(key)
    data = held.get("data") if isinstance(held, dict) else held
    if isinstance(held, dict) and isinstance(data, list):
        rows, columns = held.get("rows", 1), held.get("cols", len(data))
        if isinstance(rows, int) and isinstance(columns, int) and rows * columns != len(data):
            raise SpecError(f"{key} are {len(data)} numbers, must be {rows} x {columns} as it says; copy them whole")
    try:
        numbers = tuple(map(float, data if isinstance(data, list) else [math.nan]))
    except (TypeError, ValueError, OverflowError):
        numbers = (math.nan,)
    if not all(map(math.isfinite, numbers)):
        raise SpecError(f"{key} is {held!r}, must have numbers under data; is this a calibration that ROS wrote?")
    return numbers
