"""The view in three dimensions: what is drawn reaches a real browser, and what cannot be drawn is said."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

pytest.importorskip("viser", reason="no viser on this machine: pip install 'robot-stack[scene]'")
import trimesh
import viser
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from robot_stack.console.heard import Heard
from robot_stack.console.record_of import RunRecord
from robot_stack.console.scene_view import SceneView
from robot_stack.runs.paths import RunPaths
from robot_stack.types.shape import Shape, ShapeKind
from tests.chromium import CHROMIUM, QUIET
from tests.console.browser_rig import needs_chromium, picture, says, until

DRAWN_MS = 60_000
"""A browser without a GPU draws slowly on a busy machine."""
SOFTWARE_GL = ("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader")


@pytest.fixture
def view() -> Iterator[SceneView]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = SceneView(port, "a cell")
    yield made
    made.close()


def shape(name: str, kind: ShapeKind, *size: float, path: str = "", frame: str = "table") -> Shape:
    return Shape(name=name, frame=frame, kind=kind, size=size, pose=np.eye(4), rgba=(0.0, 1.0, 0.0, 1.0), path=path)


def test_every_kind_of_shape_is_drawn_and_a_broken_file_is_said(view: SceneView, tmp_path: Path) -> None:
    good, bad = tmp_path / "part.stl", tmp_path / "broken.stl"
    trimesh.creation.box(extents=(1000.0, 1000.0, 1000.0)).export(good)
    bad.write_text("solid")
    view.draw(
        [
            shape("a", ShapeKind.BOX, 0.1, 0.2, 0.3), shape("b", ShapeKind.SPHERE, 0.1),
            shape("c", ShapeKind.CYLINDER, 0.1, 0.2), shape("d", ShapeKind.CAPSULE, 0.1, 0.2),
            shape("e", ShapeKind.FILE, 0.001, 0.001, 0.001, path=str(good)),
            shape("f", ShapeKind.FILE, 1.0, 1.0, 1.0, path=str(bad)),
            shape("g", ShapeKind.FILE, 1.0, 1.0, 1.0, path="package://nowhere/part.dae"),
        ]
    )  # fmt: skip
    assert [("broken.stl" in said, "part.dae" in said) for said in view.left_out] == [(True, False), (False, True)]
    assert not view.watched


def test_only_this_machine_may_look(view: SceneView) -> None:
    assert view.address.startswith("http://127.0.0.1:")
    port = int(view.address.rstrip("/").rpartition(":")[2])
    hosts = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for host in hosts:
        with socket.socket() as other:
            other.settimeout(2.0)
            assert other.connect_ex((host, port)) != 0


@pytest.mark.parametrize(("origin", "taken"), [("https://evil.example", False), (None, False), ("own", True)])
def test_no_other_page_of_a_browser_here_may_listen(view: SceneView, origin: str | None, taken: bool) -> None:
    own = view.address.rstrip("/") if origin == "own" else origin
    protocols = [Subprotocol(f"viser-v{viser.__version__}")]
    address = view.address.replace("http", "ws")
    if not taken:
        with pytest.raises(InvalidStatus), connect(address, origin=own, subprotocols=protocols):  # type: ignore[arg-type]
            pass
        assert not view.watched
        return
    with connect(address, origin=own, subprotocols=protocols, max_size=None) as page:  # type: ignore[arg-type]
        assert page.recv(20)


def test_nobody_makes_the_view_public(view: SceneView, monkeypatch: pytest.MonkeyPatch) -> None:
    def tunnel(*_: object, **__: object) -> None:
        raise AssertionError("a tunnel to the internet")

    monkeypatch.setattr("viser._viser.ViserTunnel", tunnel)
    assert view._server.request_share_url() is None


def test_what_is_not_finite_or_empty_is_not_drawn(view: SceneView) -> None:
    view.draw([shape("block", ShapeKind.BOX, 0.3, 0.3, 0.3)])
    wild = np.eye(4)
    wild[0, 3] = np.nan
    view.move({"table": wild})
    np.testing.assert_allclose(view._frames["table"][1], np.eye(4))
    view.see("front", np.zeros((0, 6, 3), np.uint8), np.eye(4), 1.0)
    view.see("front", np.zeros((4, 6, 3), np.uint8), wild, 1.0)
    assert not view._cameras


@needs_chromium
@pytest.mark.long
def test_a_scene_reaches_the_browser_and_moves_there(view: SceneView, browser) -> None:
    view.draw([shape("block", ShapeKind.BOX, 0.3, 0.3, 0.3)])
    view.box("arm", (-0.5, -0.5, 0.0), (0.5, 0.5, 0.5), np.eye(4))
    view.aim(np.zeros(3), np.array([1.5, 0.0, 0.3]))
    view.say("**POLICY**")
    drawing = browser.browser_type.launch(executable_path=CHROMIUM, args=[*QUIET, *SOFTWARE_GL])
    try:
        page = drawing.new_page(viewport={"width": 640, "height": 480})
        page.goto(view.address)
        says(page, "body", "POLICY")
        until(lambda: view.watched, "the page", page)
        until(lambda: greens(page) > 5000, "a green block", page, DRAWN_MS)
        picture(page, "scene_view")
        away = np.eye(4)
        away[1, 3] = 50.0
        view.move({"table": away})
        until(lambda: greens(page) < 500, "the block out of sight", page, DRAWN_MS)
        bare = greens(page)
        tag = np.eye(4)
        tag[:3, 3] = [1.2, 0.0, 0.25]
        view.axes({"tag_3": tag})
        until(lambda: greens(page) > bare + 50, "the green axis of a frame", page, DRAWN_MS)
        picture(page, "scene_axes")
        view.axes({})
        until(lambda: greens(page) <= bare, "the axis gone", page, DRAWN_MS)
        view.trail("arm", np.array([[0.0, 0.0, 0.0], [0.0, 0.1, 0.1]]), ["POLICY", "HUMAN"])
        view.see("front", np.zeros((8, 8, 3), np.uint8), np.eye(4), 1.0)
        view.see("front", np.full((8, 8, 3), 9, np.uint8), away, 1.0)
        view.say("**HOLD**")
        says(page, "body", "HOLD")
    finally:
        drawing.close()
    until(lambda: not view.watched, "the page's end")


def greens(page) -> int:
    """Pixels of a screenshot that are more green than anything else."""
    image = cv2.imdecode(np.frombuffer(page.screenshot(timeout=DRAWN_MS), np.uint8), cv2.IMREAD_COLOR).astype(int)
    return int((image[..., 1] - np.maximum(image[..., 0], image[..., 2]) > 60).sum())


@pytest.mark.parametrize(
    ("said", "scene"),
    [
        ("http://127.0.0.1:8643/\n", "http://127.0.0.1:8643/"), ("", ""), ("http://evil.example/", ""),
        ("javascript:alert(1)", ""), ("http://127.0.0.1:8643/@evil.example/", ""), ("\x00" * 9000, ""),
    ],
)  # fmt: skip
def test_only_an_address_on_this_machine_becomes_a_link(run, tmp_path: Path, said: str, scene: str) -> None:
    heard, record = Heard(run), RunRecord(tmp_path)
    RunPaths(tmp_path).scene.write_text(said)
    record.read().tell(heard)
    assert heard.scene == scene
    RunPaths(tmp_path).scene.unlink()
    record.read().tell(heard)
    assert heard.scene == ""


@needs_chromium
@pytest.mark.long
def test_the_operators_page_offers_the_view_while_it_is_served(cell, url, tab) -> None:
    page = tab(url)
    says(page, "#seat", "you are the operator")
    assert not page.locator("#scene").is_visible()
    says(page, "#scene-how", f"view in 3-D: robot-stack scene {cell.desk.heard.folder}")
    for address in ("http://127.0.0.1:8643/", ""):
        with cell.desk.locked():
            cell.desk.heard.scene = address
        cell.tell()
        until(lambda address=address: page.locator("#scene").is_visible() == bool(address), "the link", page)
        assert page.locator("#scene-how").is_visible() != bool(address)
        picture(page, "scene_link" if address else "scene_command")
        if address:
            assert page.get_attribute("#scene", "href") == address
