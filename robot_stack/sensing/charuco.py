"""A ChArUco board in an image: where it is, and what the lens is like. Only OpenCV and numpy; no file, no device.

Source: OpenCV's aruco module (Garrido-Jurado et al., 2014, Pattern Recognition 47). The board's frame has its origin in
the outer corner of the first square, x along its columns, y along its rows, z into the board.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.sensing.lens import Lens
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose

PRINTED_PX = 200
"""Of a square, as written to be printed."""
SQUARE_M = (0.001, 1.0)
"""Least and largest side of a square."""
MARKER = (0.2, 0.95)
"""Least and largest side of a marker, as a share of a square: with others a board cannot be drawn, or not be found."""
LEAST_CORNERS = 8
LEAST_VIEWS = 8
DICTIONARY = cv2.aruco.DICT_5X5_100


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A printed ChArUco board; measure a square with calipers.

    Attributes:
        columns: Squares along x.
        rows: Squares along y.
        square_m: Side of a square.
        marker_m: Side of a marker inside one.
    """

    columns: int = 7
    rows: int = 5
    square_m: float = 0.030
    marker_m: float = 0.022

    def __post_init__(self) -> None:
        (least_m, most_m), (smallest, largest) = SQUARE_M, MARKER
        drawn = least_m <= self.square_m <= most_m and smallest <= self.marker_m / self.square_m <= largest
        if min(self.columns, self.rows) < 3 or not drawn:
            raise SpecError(
                f"board is {self}, must have 3 squares each way, of {least_m:g} to {most_m:g} m, and markers of "
                f"{smallest:g} to {largest:g} of a square; choose other sizes"
            )

    def pattern(self) -> cv2.aruco.CharucoBoard:
        """Return the board as OpenCV's type."""
        dictionary = cv2.aruco.getPredefinedDictionary(DICTIONARY)
        return cv2.aruco.CharucoBoard((self.columns, self.rows), self.square_m, self.marker_m, dictionary)

    def image(self, square_px: int) -> np.ndarray:
        """Draw the board to be printed, grey uint8, shape (rows * square_px, columns * square_px), without a border."""
        size = (self.columns * square_px, self.rows * square_px)
        return np.asarray(self.pattern().generateImage(size, marginSize=0, borderBits=1))

    def write(self, path: Path) -> None:
        """Write the image of the board as a PNG, with a white border.

        Raises:
            SpecError: If it cannot be written.
        """
        framed = np.pad(self.image(PRINTED_PX), PRINTED_PX // 2, constant_values=255)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".png" or not cv2.imwrite(str(path), framed):
            raise SpecError(f"image is {path}, must be a writable file that ends in .png; choose another")


@dataclass(frozen=True, slots=True, kw_only=True)
class Corners:
    """The inner corners of a board that were found in one image.

    Attributes:
        on_board_m: float32, shape (N, 3), in the board's frame.
        in_image_px: float32, shape (N, 2), column and row.
    """

    on_board_m: np.ndarray
    in_image_px: np.ndarray


def find_corners(image: np.ndarray, board: Board) -> Corners | None:
    """Find the corners of a board in an image; return None if fewer are seen than a pose needs.

    Args:
        image: RGB uint8, shape (H, W, 3).
        board: The printed one.
    """
    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY)
    pattern = board.pattern()
    corners, ids, _, _ = cv2.aruco.CharucoDetector(pattern).detectBoard(grey)
    if ids is None or len(ids) < LEAST_CORNERS:
        return None
    on_board, in_image = pattern.matchImagePoints(corners, ids)  # type: ignore[call-overload]  # of the stubs
    return Corners(
        on_board_m=on_board.reshape(-1, 3).astype(np.float32), in_image_px=in_image.reshape(-1, 2).astype(np.float32)
    )


def find_lens(views: Sequence[Corners], size_px: tuple[int, int]) -> Lens:
    """Calibrate the lens from views of a board, tilted and spread over the image.

    Args:
        views: At least `LEAST_VIEWS`.
        size_px: Rows and columns of the images.

    Raises:
        SpecError: If there are too few views.
    """
    if len(views) < LEAST_VIEWS:
        raise SpecError(f"{len(views)} views of the board, must be {LEAST_VIEWS} at least; show it from more sides")
    error_px, matrix, distortion, _, _ = cv2.calibrateCamera(
        [view.on_board_m for view in views],
        [view.in_image_px for view in views],
        (size_px[1], size_px[0]),
        np.eye(3),
        np.zeros(5),
    )
    (fx, _, cx), (_, fy, cy), _ = np.asarray(matrix, np.float64).tolist()
    return Lens(
        width_px=size_px[1],
        height_px=size_px[0],
        focal_px=(fx, fy),
        centre_px=(cx, cy),
        distortion=tuple(np.asarray(distortion, np.float64).ravel()[:5].tolist()),
        error_px=float(error_px),
    )


def pose_of_board(corners: Corners, lens: Lens) -> tuple[Pose, float]:
    """Return T_camera_board in the optical frame (z forward, x right, y down), and the RMS error in pixels.

    Raises:
        SpecError: If the corners have no pose.
    """
    seen = lens.directions(corners.in_image_px)
    found, turn, shift = cv2.solvePnP(corners.on_board_m.astype(np.float64), seen, np.eye(3), np.zeros(5))
    if not found:
        raise SpecError(
            f"{len(corners.on_board_m)} corners of the board have no pose, must have one; take another view"
        )
    pose = Pose.from_rotation(np.asarray(shift).ravel(), Rotation.from_rotvec(np.asarray(turn).ravel()))
    back = lens.project(pose.rotation.apply(corners.on_board_m) + pose.position_m)
    return pose, float(np.sqrt(np.mean(np.sum((back - corners.in_image_px) ** 2, axis=1))))
