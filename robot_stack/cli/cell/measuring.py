"""Measurements of `robot-stack calibrate`: one function for each part of a cell.

Each returns the values for the cell's file, and what to say about them.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from robot_stack.cli.cell.own_cell import Enter, own_cell, say
from robot_stack.config.camera import SimCameraConfig
from robot_stack.config.files.edit import Edits
from robot_stack.config.resolved import ResolvedRun
from robot_stack.control.taught_box import box_of
from robot_stack.processes.table import namespace_of
from robot_stack.sensing.charuco import Board, Corners, find_corners, find_lens, pose_of_board
from robot_stack.sensing.crop import Roi, propose_roi, scaled
from robot_stack.sensing.framing import Framing
from robot_stack.sensing.hand_eye import find_mounting
from robot_stack.sensing.lens import Lens, read_calibration
from robot_stack.types.errors import ConfigError, RobotError, SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.robot import RobotState

if TYPE_CHECKING:
    from robot_stack.nodes.tools.listening import Listening
    from robot_stack.nodes.tools.onlooker import Onlooker

RUNS = Path("runs")
START_S = 40.0
VIEWS = 12
FRESH_S = 2.0
STILL = 1e-2
"""Measured speed, m/s and rad/s, below which a view is sharp."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Result of a measurement, for the cell's file.

    Attributes:
        edits: Keys and values.
        text: One sentence about them.
    """

    edits: Edits
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrateOptions:
    """Options of `robot-stack calibrate`; see `robot_stack.cli.cell.calibrate.run`."""

    name: str
    arm: str
    camera: str
    aspect: float
    """Width over height of the policy's image from that camera."""
    roi: tuple[int, int, int, int] | None
    seconds: float
    margin_m: float
    pose: str
    mounted: str
    square_m: float
    marker_m: float
    file: Path | None
    """Of a calibration that ROS wrote."""


def _watch(
    options: CalibrateOptions, resolved: ResolvedRun, look: Callable[[Listening[Onlooker], Callable[[], str]], None]
) -> None:
    """Start the cell, wait for state and images, then `look`."""
    from robot_stack.nodes.tools.listening import listening
    from robot_stack.nodes.tools.onlooker import Onlooker, take_back

    with (
        own_cell(resolved, RUNS / "calibrate" / resolved.name, running=False) as cell,
        listening(lambda: Onlooker(resolved, namespace_of(resolved), options.arm)) as here,
    ):
        node = here.node
        came = here.listen(
            START_S, lambda: bool(cell.ending()) or (node.state is not None and all(node.images.values()))
        )
        if cell.ending() or not came:
            silent = [name for name, images in node.images.items() if not images]
            raise RobotError(cell.ending() or f"cell is silent ({', '.join(silent) or 'robot'}), must send; run doctor")
        node.forget()
        look(here, cell.ending)
        if cell.ending():
            raise RobotError(cell.ending())
        take_back(here)


def _state_now(here: Listening[Onlooker]) -> RobotState | None:
    """Return the arm's next state: where it was when it was last heard may be long ago; None if it is silent."""
    here.node.state = None
    here.listen(FRESH_S, lambda: here.node.state is not None)
    return here.node.state


def _move_the_arm(options: CalibrateOptions, text: str) -> Callable[[Listening[Onlooker], Callable[[], str]], None]:
    """Return what lets an operator move the arm, by hand or by the device, until Enter or for so long."""

    def look(here: Listening[Onlooker], ending: Callable[[], str]) -> None:
        from robot_stack.nodes.tools.onlooker import hand_over

        enter = Enter.on_terminal()
        (say if enter is None else enter.ask)(f"{text}; Enter ends it ({options.seconds:g} s)")
        deadline_s = time.monotonic() + options.seconds
        while time.monotonic() < deadline_s and not ending() and not (enter is not None and enter.pressed()):
            hand_over(here)
            here.listen(0.2)

    return look


def _crop(options: CalibrateOptions, resolved: ResolvedRun) -> Measured:
    config = resolved.cameras[options.camera]
    captured = (config.height_px, config.width_px)
    if options.roi is not None:
        top, left, height, width = options.roi
        roi = Roi(top=top, left=left, height=height, width=width)
        if top + height > captured[0] or left + width > captured[1]:
            raise SpecError(
                f"roi is {options.roi}, must be within {captured[0]} rows and {captured[1]} columns; correct it"
            )
    else:
        frames: list[np.ndarray] = []

        def look(here: Listening[Onlooker], ending: Callable[[], str]) -> None:
            _move_the_arm(options, f"move the arm through the task in view of {options.camera}")(here, ending)
            frames.extend(here.node.images[options.camera])

        _watch(options, resolved, look)
        roi = scaled(propose_roi(frames, aspect=options.aspect), frames[0].shape[:2], captured)
    box = {"top": roi.top, "left": roi.left, "height": roi.height, "width": roi.width}
    text = f"{options.camera}: rows {roi.top} to {roi.top + roi.height}, columns {roi.left} to {roi.left + roi.width}"
    return Measured(edits={("cameras", options.camera, "roi_px"): box}, text=text)


def _workspace(options: CalibrateOptions, resolved: ResolvedRun) -> Measured:
    positions: list[np.ndarray] = []

    def look(here: Listening[Onlooker], ending: Callable[[], str]) -> None:
        _move_the_arm(options, "move the TCP to every end of the workspace, by hand guiding or the device")(
            here, ending
        )
        positions.extend(here.node.positions_m)

    _watch(options, resolved, look)
    low, high = box_of(positions, options.margin_m)
    box = (*_part(options, resolved), "workspace")
    edits: Edits = {(*box, "min_m"): list(low), (*box, "max_m"): list(high)}
    size = " x ".join(f"{(b - a) * 100:.0f}" for a, b in zip(low, high, strict=True))
    return Measured(edits=edits, text=f"workspace of {size} cm, from {len(positions)} positions of the TCP")


def _pose(options: CalibrateOptions, resolved: ResolvedRun) -> Measured:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", options.pose):
        raise ConfigError(f"pose is {options.pose!r}, must be a name in lower case; name it with --pose")
    seen: list[RobotState] = []

    def look(here: Listening[Onlooker], ending: Callable[[], str]) -> None:
        _move_the_arm(options, f"move the arm to the pose {options.pose!r} and let it stand")(here, ending)
        state = _state_now(here)
        if state is None:
            raise RobotError("arm is silent, must say where it is while its pose is taken; run doctor")
        if float(np.abs(state.twist).max()) > STILL:
            raise RobotError("arm moves, must stand still while its pose is taken; let it come to rest")
        seen.append(state)

    _watch(options, resolved, look)
    place = seen[0].T_base_tcp
    taught = {
        "joints_rad": [round(float(angle), 4) for angle in seen[0].joints_rad],
        "position_m": [round(float(value), 4) for value in place.position_m],
        "quaternion_xyzw": [round(float(value), 5) for value in place.quaternion_xyzw],
    }
    keys = (*_part(options, resolved), "poses", options.pose)
    return Measured(edits={keys: taught}, text=f"{options.pose}: TCP at {taught['position_m']} m")


def _part(options: CalibrateOptions, resolved: ResolvedRun) -> tuple[str, ...]:
    """Return the keys under which the cell's file speaks of the arm; none if it lists no arms."""
    return ("arms", options.arm) if resolved.cell.arms else ()


def _extrinsics(options: CalibrateOptions, resolved: ResolvedRun) -> Measured:
    enter = Enter.on_terminal()
    if enter is None:
        raise ConfigError("extrinsics need an operator who moves the arm, must run on a terminal; start it there")
    board = Board(square_m=options.square_m, marker_m=options.marker_m)
    arm: list[Pose] = []
    views: list[tuple[Corners, tuple[int, int]]] = []

    def look(here: Listening[Onlooker], ending: Callable[[], str]) -> None:
        from robot_stack.nodes.tools.onlooker import hand_over

        while len(views) < VIEWS and not ending():
            enter.ask(f"view {len(views) + 1} of {VIEWS}: tilt the board anew, let the arm stand, press Enter")
            while not enter.pressed() and not ending():
                hand_over(here)
                here.listen(0.2)
            view = _take_view(here, options.camera, board)
            if view is not None:
                arm.append(view[0])
                views.append(view[1:])

    _watch(options, resolved, look)
    return place_and_lens(options, resolved, arm, views)


def place_and_lens(
    options: CalibrateOptions,
    resolved: ResolvedRun,
    arm: Sequence[Pose],
    views: Sequence[tuple[Corners, tuple[int, int]]],
) -> Measured:
    """Return where a camera is, and its lens unless the cell's file has one, which then counts.

    Args:
        options: Which camera, and whether it is on the hand.
        resolved: The cell.
        arm: T_base_tcp at each view.
        views: Corners of the board, and rows and columns of the whole image, at each view.

    Raises:
        SpecError: If the views tell too little.
    """
    height_px, width_px = views[0][1]
    known, config = resolved.cell.cameras[options.camera].lens, resolved.cameras[options.camera]
    if known is not None:
        lens = Lens.of(known).resized(width_px, height_px)
    else:
        lens = find_lens([corners for corners, _ in views], (height_px, width_px))
    found = [pose_of_board(corners, lens) for corners, _ in views]
    boards, off_px = [board for board, _ in found], math.sqrt(sum(error**2 for _, error in found) / len(found))
    mounting = find_mounting(arm, boards, "hand" if options.mounted == "hand" else "base")
    pose = mounting.T_parent_camera
    mount = {
        "parent": "tcp" if options.mounted == "hand" else "base",
        "position_m": [round(float(value), 4) for value in pose.position_m],
        "quaternion_xyzw": [round(float(value), 5) for value in pose.quaternion_xyzw],
        "error_m": round(mounting.error_m, 4),
        **({"arm": options.arm} if resolved.cell.arms else {}),
    }
    text = (
        f"{options.camera}: {len(views)} views agree within {mounting.error_m * 1e3:.1f} mm and "
        f"{math.degrees(mounting.error_rad):.2f} degrees; the board lies within {off_px:.2f} px of where "
        + ("the lens of the cell's file sees it; delete `lens` there to find it anew" if known else "its lens sees it")
    )
    part = ("cameras", options.camera)
    whole = replace(lens.resized(config.width_px, config.height_px), flip=Framing.of(config).flip)
    return Measured(edits={(*part, "mount"): mount} | ({} if known else {(*part, "lens"): whole.section()}), text=text)


def _lens(options: CalibrateOptions, resolved: ResolvedRun) -> Measured:
    assert options.file is not None
    try:
        text = options.file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SpecError(f"{options.file} cannot be read ({error}), must be a calibration that ROS wrote") from error
    config = resolved.cameras[options.camera]
    if isinstance(config, SimCameraConfig):
        raise SpecError(f"camera {options.camera} is simulated, must be a real one: the simulator tells how it draws")
    lens = read_calibration(text, Framing.of(config).flip)
    said = (
        f"{options.camera}: {lens.model}, focal lengths {lens.focal_px[0]:.1f} and {lens.focal_px[1]:.1f} px of "
        f"{lens.width_px}x{lens.height_px}"
    )
    return Measured(edits={("cameras", options.camera, "lens"): lens.section()}, text=said)


def _take_view(here: Listening[Onlooker], camera: str, board: Board) -> tuple[Pose, Corners, tuple[int, int]] | None:
    """Return pose of the arm, corners of the board, rows and columns of the image.

    If the view will not do, say why and return None.
    """
    images = here.node.images[camera]
    images.clear()
    here.listen(FRESH_S, lambda: bool(images))
    state = _state_now(here)
    corners = find_corners(images[-1], board) if images else None
    if state is None:
        say("not taken: the arm is silent")
    elif float(np.abs(state.twist).max()) > STILL:
        say("not taken: the arm moves")
    elif corners is None:
        say("not taken: the board is not seen well enough")
    else:
        return state.T_base_tcp, corners, images[-1].shape[:2]
    return None


MEASURE: dict[str, Callable[[CalibrateOptions, ResolvedRun], Measured]] = {
    "crop": _crop,
    "workspace": _workspace,
    "pose": _pose,
    "extrinsics": _extrinsics,
    "lens": _lens,
}
