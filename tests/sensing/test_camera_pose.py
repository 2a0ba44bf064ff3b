"""Where a camera is, from pictures of a board that are drawn from known places."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from robot_stack.sensing.charuco import LEAST_VIEWS, Board, find_corners, find_lens, pose_of_board
from robot_stack.sensing.hand_eye import find_mounting
from robot_stack.sensing.lens import Lens
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose

BOARD = Board()
SIZE = (480, 640)
LENS = Lens(width_px=640, height_px=480, focal_px=(600.0, 600.0), centre_px=(320.0, 240.0))


def draw(T_camera_board: Pose, board: Board = BOARD) -> np.ndarray:
    """The board on grey, as a pinhole sees it: what is flat maps by K [r1 r2 t]."""
    square_px = 80
    flat = board.image(square_px)
    to_m = np.diag([board.square_m / square_px, board.square_m / square_px, 1.0])
    rotation = T_camera_board.rotation.as_matrix()
    plane = LENS.matrix @ np.column_stack([rotation[:, 0], rotation[:, 1], T_camera_board.position_m]) @ to_m
    size = (SIZE[1], SIZE[0])
    seen = cv2.warpPerspective(flat, plane, size, flags=cv2.INTER_AREA, borderValue=128)
    return np.repeat(seen[:, :, None], 3, axis=2)


def board_pose(x: float, y: float, z: float, *degrees: float) -> Pose:
    """T_camera_board, the board's middle at x, y, z in the optical frame."""
    rotation = Rotation.from_euler("xyz", degrees, degrees=True)
    middle = np.array([BOARD.columns, BOARD.rows, 0.0]) * BOARD.square_m / 2
    return Pose.from_rotation(np.array([x, y, z]) - rotation.apply(middle), rotation)


TILTS = [(0, 0, 0), (25, 0, 10), (-25, 5, -10), (0, 30, 20), (5, -30, 0), (20, 20, 40), (-20, 20, -30), (15, -25, 15)]
PLACES = [board_pose(0.03 * (i % 3 - 1), 0.02 * (i % 2), 0.35 + 0.02 * i, *tilt) for i, tilt in enumerate(TILTS)]


@pytest.mark.parametrize("place", PLACES)
def test_a_drawn_board_is_found_where_it_was_drawn(place: Pose) -> None:
    corners = find_corners(draw(place), BOARD)
    assert corners is not None
    found, error_px = pose_of_board(corners, LENS)
    assert error_px < 0.5
    assert np.linalg.norm(found.position_m - place.position_m) < 0.002
    assert (found.rotation * place.rotation.inv()).magnitude() < 0.01


def test_an_empty_picture_has_no_board() -> None:
    assert find_corners(np.full((*SIZE, 3), 128, np.uint8), BOARD) is None


def test_the_lens_is_found_from_views_from_all_sides() -> None:
    views = [find_corners(draw(place), BOARD) for place in PLACES]
    lens = find_lens([view for view in views if view is not None], SIZE)
    assert lens.error_px < 0.5
    assert lens.matrix[0, 0] == pytest.approx(600, rel=0.03)
    assert lens.matrix[:2, 2] == pytest.approx([320, 240], abs=15)
    with pytest.raises(SpecError, match=f"must be {LEAST_VIEWS} at least"):
        find_lens([view for view in views if view is not None][:3], SIZE)


@pytest.mark.parametrize(
    "fields",
    [
        {"columns": 2},
        {"marker_m": 0.03},
        {"marker_m": 0.0},
        {"marker_m": 0.0001},
        {"marker_m": 0.0299999},
        {"square_m": math.inf, "marker_m": 1.0},
        {"square_m": 1e39, "marker_m": 0.7e39},
        {"square_m": math.nan},
        {"square_m": 1e-30, "marker_m": 0.7e-30},
    ],
)
def test_a_board_that_cannot_be_is_refused(fields) -> None:
    with pytest.raises(SpecError, match="must have 3 squares each way"):
        Board(**fields)


@pytest.mark.parametrize("square_m", [0.001, 0.03, 1.0])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.95])
def test_a_board_that_can_be_is_drawn_and_found(square_m: float, share: float) -> None:
    board = Board(square_m=square_m, marker_m=share * square_m)
    drawn = np.pad(board.image(200), 100, constant_values=255)
    corners = find_corners(np.repeat(drawn[:, :, None], 3, axis=2), board)
    assert corners is not None
    assert len(corners.on_board_m) == (board.columns - 1) * (board.rows - 1)


def test_the_printed_board_is_an_image_file(tmp_path) -> None:
    BOARD.write(tmp_path / "new" / "board.png")
    image = cv2.imread(str(tmp_path / "new" / "board.png"))
    assert find_corners(image, BOARD) is not None
    with pytest.raises(SpecError, match=r"ends in \.png"):
        BOARD.write(tmp_path / "board.txt")


def rig(mounted: str, count: int = 8, *, one_axis: bool = False) -> tuple[list[Pose], list[Pose], Pose]:
    """Poses of the arm, views of the board that fit them exactly, and the mounting behind both."""
    rng = np.random.default_rng(3)
    mounting = Pose.from_rotation(
        np.array([0.05, -0.02, 0.07]), Rotation.from_euler("xyz", [10, -20, 95], degrees=True)
    )
    other = Pose.from_rotation(np.array([0.5, 0.1, 0.0]), Rotation.from_euler("xyz", [180, 0, 30], degrees=True))
    arm, boards = [], []
    for _ in range(count):
        angles = rng.uniform(-0.6, 0.6, 3) * ([0, 0, 1] if one_axis else [1, 1, 1])
        pose = Pose.from_rotation(
            np.array([0.4, 0, 0.3]) + rng.uniform(-0.2, 0.2, 3), Rotation.from_euler("xyz", angles)
        )
        arm.append(pose)
        chain = pose.inverse() @ other if mounted == "hand" else pose @ other
        boards.append(mounting.inverse() @ chain)
    return arm, boards, mounting


@pytest.mark.parametrize("mounted", ["hand", "base"])
def test_the_mounting_is_found_exactly_from_exact_views(mounted) -> None:
    arm, boards, mounting = rig(mounted)
    found = find_mounting(arm, boards, mounted)
    assert found.T_parent_camera.position_m == pytest.approx(mounting.position_m, abs=1e-9)
    assert (found.T_parent_camera.rotation * mounting.rotation.inv()).magnitude() < 1e-9
    assert found.error_m < 1e-9
    assert found.error_rad < 1e-6


def test_views_with_noise_give_an_error_of_its_size() -> None:
    arm, boards, mounting = rig("hand", 20)
    rng = np.random.default_rng(0)
    noisy = [Pose.from_rotation(board.position_m + rng.normal(0, 0.001, 3), board.rotation) for board in boards]
    found = find_mounting(arm, noisy, "hand")
    assert 0.0005 < found.error_m < 0.004
    assert np.linalg.norm(found.T_parent_camera.position_m - mounting.position_m) < 0.003


def test_views_turned_about_one_axis_only_are_refused() -> None:
    arm, boards, _ = rig("hand", one_axis=True)
    with pytest.raises(SpecError, match="tilt the hand both ways"):
        find_mounting(arm, boards, "hand")


@pytest.mark.parametrize("count", [0, 3])
def test_too_few_views_are_refused(count) -> None:
    arm, boards, _ = rig("hand", count)
    with pytest.raises(SpecError, match="must be 4 at least"):
        find_mounting(arm, boards, "hand")


def test_from_pictures_to_the_mounting_within_two_millimetres() -> None:
    """A camera on the hand, eight drawn pictures: corners, poses, mounting."""
    mounting = Pose.from_rotation(np.array([0.03, 0.0, 0.05]), Rotation.from_euler("z", 90, degrees=True))
    T_base_board = Pose.from_rotation(np.array([0.5, 0.0, 0.0]), Rotation.from_euler("x", 180, degrees=True))
    arm = [T_base_board @ place.inverse() @ mounting.inverse() for place in PLACES]
    boards = []
    for place in PLACES:
        corners = find_corners(draw(place), BOARD)
        assert corners is not None
        boards.append(pose_of_board(corners, LENS)[0])
    found = find_mounting(arm, boards, "hand")
    assert np.linalg.norm(found.T_parent_camera.position_m - mounting.position_m) < 0.002
    assert (found.T_parent_camera.rotation * mounting.rotation.inv()).magnitude() < 0.01
