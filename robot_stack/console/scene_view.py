"""A view of a cell in three dimensions, in a browser, drawn by viser; it shows and takes nothing.

Viser's server asks nobody who they are, so it listens on this machine alone, and to its own page alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
import viser
import websockets.asyncio.server
from viser import transforms
from websockets.typing import Origin

from robot_stack.types.errors import RobotError
from robot_stack.types.shape import Shape, ShapeKind

HOST = "127.0.0.1"
STILL = 1e-5
"""A frame that has moved by less, in m or as an entry of its rotation, is not sent again."""
COLOURS = {"POLICY": (0, 89, 168), "HUMAN": (230, 159, 0)}
OTHERS = (112, 119, 125)
AXES_M = 0.06
LARGEST_MESH_BYTES = 50_000_000
EDGES = np.array(
    [(0, 1), (0, 2), (1, 3), (2, 3), (4, 5), (4, 6), (5, 7), (6, 7), (0, 4), (1, 5), (2, 6), (3, 7)]
)  # of a box whose corner k has the bits x, y, z


class _Unshared(viser.ViserServer):
    """A server of viser that no page can make public: viser offers a tunnel to the internet to whoever asks."""

    def request_share_url(self, verbose: bool = True) -> str | None:
        """Make no tunnel."""
        return None


@contextmanager
def _own_origin() -> Iterator[None]:
    """Let the servers of WebSockets that are made meanwhile take connections of their own pages alone.

    Viser has no setting for it, and any page of the web that is open in a browser here could listen otherwise.
    """
    serve = websockets.asyncio.server.serve

    def guarded(handler: Any, host: str, port: int, **options: Any) -> Any:
        own = [Origin(f"http://{name}:{port}") for name in ("127.0.0.1", "localhost")]
        return serve(handler, host, port, origins=own, **options)

    websockets.asyncio.server.serve = guarded  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        websockets.asyncio.server.serve = serve  # type: ignore[misc]


class SceneView:
    """A page with a scene, for as long as it is served.

    Args:
        port: To listen at; another one if it is taken.
        title: Of the page.
    """

    def __init__(self, port: int, title: str) -> None:
        with redirect_stdout(StringIO()), _own_origin():  # it prints a box whatever `verbose` says
            self._server = _Unshared(host=HOST, port=port, label=title, verbose=False)
        self._server.gui.configure_theme(show_logo=False, show_share_button=False)
        self._server.scene.set_up_direction("+z")
        self._said = self._server.gui.add_markdown("waiting for the cell")
        self._frames: dict[str, tuple[Any, np.ndarray]] = {}
        self._cameras: dict[str, Any] = {}
        self._axes: dict[str, Any] = {}
        self._drawn = 0
        self.left_out: list[str] = []
        """Meshes that could not be drawn, a sentence each."""

    @property
    def address(self) -> str:
        """Return the address of the page."""
        return f"http://{HOST}:{self._server.get_port()}/"

    @property
    def watched(self) -> bool:
        """Return whether somebody has the page open."""
        return bool(self._server.get_clients())

    def close(self) -> None:
        """End the server and all its pages."""
        with redirect_stdout(StringIO()):
            self._server.stop()

    def aim(self, target_m: np.ndarray, from_m: np.ndarray) -> None:
        """Say where whoever opens the page stands, and what is in the middle, m in the cell."""
        camera = self._server.initial_camera
        camera.look_at, camera.position = tuple(target_m.tolist()), tuple(from_m.tolist())

    def draw(self, shapes: Sequence[Shape], prefix: str = "") -> None:
        """Add shapes; what cannot be drawn is left out and said.

        Args:
            shapes: What to draw, each below its frame.
            prefix: Of the names of frames, to tell those of several arms apart.
        """
        for shape in shapes:
            frame = self._frame(prefix + shape.frame)
            try:
                corners, faces = _mesh_of(shape)
            except RobotError as error:
                self.left_out.append(str(error))
                continue
            self._server.scene.add_mesh_simple(
                f"{frame}/{shape.name}",
                corners,
                faces,
                color=_colour(shape.rgba),
                opacity=None if shape.rgba[3] >= 1.0 else shape.rgba[3],
                flat_shading=shape.kind is not ShapeKind.FILE,
                position=shape.pose[:3, 3],
                wxyz=transforms.SO3.from_matrix(shape.pose[:3, :3]).wxyz,
            )

    def move(self, frames: Mapping[str, np.ndarray], prefix: str = "") -> None:
        """Bring frames that something is drawn in to their poses in the cell, shape (4, 4)."""
        with self._server.atomic():
            for name, pose in frames.items():
                handle, before = self._frames.get(prefix + name, (None, pose))
                if handle is None or not np.isfinite(pose).all() or np.abs(before - pose).max() < STILL:
                    continue
                self._frames[prefix + name] = handle, pose
                handle.position = pose[:3, 3]
                handle.wxyz = transforms.SO3.from_matrix(pose[:3, :3]).wxyz

    def axes(self, frames: Mapping[str, np.ndarray]) -> None:
        """Show frames by their axes and names, at their poses in the cell, shape (4, 4); those of before are gone."""
        with self._server.atomic():
            for name in self._axes.keys() - frames.keys():
                self._axes.pop(name).remove()  # and with it its name
            for name, pose in frames.items():
                if name not in self._axes:
                    self._drawn += 1
                    path = f"/frames/{self._drawn}"
                    self._axes[name] = self._server.scene.add_frame(path, axes_length=AXES_M, axes_radius=AXES_M / 20)
                    self._server.scene.add_label(f"{path}/name", name)
                frame = self._axes[name]
                frame.position = pose[:3, 3]
                frame.wxyz = transforms.SO3.from_matrix(pose[:3, :3]).wxyz

    def box(self, name: str, low: Sequence[float], high: Sequence[float], pose: np.ndarray) -> None:
        """Outline a box, given by two corners in a frame at a pose in the cell."""
        corners = np.array([[(high if bit & 1 << axis else low)[axis] for axis in range(3)] for bit in range(8)])
        placed = corners @ pose[:3, :3].T + pose[:3, 3]
        self._server.scene.add_line_segments(
            f"/boxes/{name}", placed[EDGES], (0, 115, 92), thickness=1.5, thickness_units="screen"
        )

    def trail(self, arm: str, points: np.ndarray, modes: Sequence[str]) -> None:
        """Draw where a tool has been, m in the cell, shape (N, 3), in the colour of who was in control there."""
        if len(points) < 2:
            return
        colours = np.array([COLOURS.get(mode, OTHERS) for mode in modes], np.uint8)
        self._server.scene.add_line_segments(
            f"/trails/{arm}",
            np.stack([points[:-1], points[1:]], 1),
            np.stack([colours[:-1], colours[1:]], 1),
            thickness=3.0,
            thickness_units="screen",
        )

    def see(self, camera: str, image: np.ndarray, pose: np.ndarray, fov_rad: float) -> None:
        """Show a camera where it is, z forward and y down, with its newest image, RGB uint8 (H, W, 3)."""
        if not image.size or not np.isfinite(pose).all():
            return
        wxyz = transforms.SO3.from_matrix(pose[:3, :3]).wxyz
        handle = self._cameras.get(camera)
        if handle is None:
            self._cameras[camera] = self._server.scene.add_camera_frustum(
                f"/cameras/{camera}", fov_rad, image.shape[1] / image.shape[0], scale=0.08, image=image,
                position=pose[:3, 3], wxyz=wxyz, color=OTHERS, thickness=1.5, thickness_units="screen",
            )  # fmt: skip
            return
        handle.image, handle.position, handle.wxyz = image, pose[:3, 3], wxyz

    def say(self, text: str) -> None:
        """Say in the corner what is so; markdown."""
        if self._said.content != text:
            self._said.content = text

    def _frame(self, name: str) -> str:
        path = f"/cell/{name}"
        if name not in self._frames:
            self._frames[name] = self._server.scene.add_frame(path, show_axes=False), np.eye(4)
        return path


def _colour(rgba: tuple[float, float, float, float]) -> tuple[int, int, int]:
    red, green, blue = (round(255 * entry) for entry in rgba[:3])
    return red, green, blue


def _mesh_of(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Return corners, shape (V, 3), and faces, shape (F, 3), of a shape in its own pose.

    Raises:
        RobotError: If its file cannot be read.
    """
    if shape.corners is not None and shape.faces is not None:
        return shape.corners, shape.faces
    if shape.kind is ShapeKind.FILE:
        return _load(shape)
    made = {
        ShapeKind.BOX: lambda size: trimesh.creation.box(extents=[2 * entry for entry in size]),
        ShapeKind.SPHERE: lambda size: trimesh.creation.icosphere(subdivisions=2, radius=size[0]),
        ShapeKind.CYLINDER: lambda size: trimesh.creation.cylinder(radius=size[0], height=2 * size[1], sections=32),
        ShapeKind.CAPSULE: lambda size: trimesh.creation.capsule(radius=size[0], height=2 * size[1], count=(16, 16)),
    }[shape.kind](shape.size)
    return np.asarray(made.vertices, np.float32), np.asarray(made.faces)


def _load(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    path = Path(shape.path)
    try:
        if path.stat().st_size > LARGEST_MESH_BYTES:
            raise RobotError(f"{path} is larger than {LARGEST_MESH_BYTES >> 20} MB, must be smaller; it is not drawn")
        mesh: Any = trimesh.load(path, force="mesh")
        if not len(mesh.faces):
            raise RobotError(f"{path} has no faces, must have some; it is not drawn")
    except RobotError:
        raise
    except Exception as error:  # readers of a dozen formats, each with errors of its own
        raise RobotError(
            f"{path} cannot be drawn ({type(error).__name__}: {error}), must be an STL, OBJ or DAE file that is there"
        ) from error
    return np.asarray(mesh.vertices, np.float32) * np.array(shape.size, np.float32), np.asarray(mesh.faces)
