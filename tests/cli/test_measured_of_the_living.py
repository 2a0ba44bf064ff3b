"""`robot-stack calibrate` measures a cell that lives: of one that has ended or gone silent it writes nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from robot_stack.cli.cell import measuring
from robot_stack.config.resolve import load_run
from robot_stack.sensing.charuco import Board
from robot_stack.types.errors import RobotError
from robot_stack.types.robot import RobotState
from robot_stack.workcell.build import build_world

RUN = load_run("peg_insert")
IMAGE = np.zeros((48, 64, 3), np.uint8)


@pytest.fixture(scope="module")
def standing() -> RobotState:
    """The state of an arm that stands."""
    world = build_world(RUN)
    world.reset(0)
    return world.state()


class Here:
    """A listener that has heard an arm and its cameras, and hears `coming` each time that it listens from now on."""

    def __init__(self, heard: RobotState) -> None:
        self.coming: RobotState | None = None
        self.node = SimpleNamespace(
            state=heard, images={name: [IMAGE] for name in RUN.cameras}, positions_m=[], forget=lambda: None
        )

    def listen(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        for images in self.node.images.values():
            images.append(IMAGE)
        if self.coming is not None:
            self.node.state = self.coming
        return until()


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch, standing: RobotState) -> SimpleNamespace:
    """A cell that never was: `here` listens to it, and `ending` says why it has ended."""
    made = SimpleNamespace(here=Here(standing), ending="")

    @contextmanager
    def own_cell(*_: Any, **__: Any) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(ending=lambda: made.ending)

    @contextmanager
    def listening(_: Any) -> Iterator[Here]:
        yield made.here

    tools = "robot_stack.nodes.tools"
    for name, content in {
        "listening": {"listening": listening},
        "onlooker": {"Onlooker": None, "take_back": lambda here: None, "hand_over": lambda here: None},
    }.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, f"{tools}.{name}", module)
    monkeypatch.setattr(measuring, "own_cell", own_cell)
    return made


def options(**fields: Any) -> SimpleNamespace:
    given = {"arm": "fr3", "camera": "wrist", "seconds": 60.0, "pose": "start", "square_m": 0.03, "marker_m": 0.022}
    return SimpleNamespace(**{**given, **fields})


def test_a_cell_that_ends_while_it_is_watched_is_not_measured(cell: SimpleNamespace) -> None:
    def look(here: Here, ending: Callable[[], str]) -> None:
        cell.ending = "robot ended with exit code 1"

    with pytest.raises(RobotError, match=r"^robot ended with exit code 1"):
        measuring._watch(options(), RUN, look)


def test_the_views_of_a_cell_that_has_ended_are_none(
    cell: SimpleNamespace, standing: RobotState, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Enter:
        def ask(self, text: str) -> None:
            cell.ending = "camera_wrist ended with exit code 1"

        def pressed(self) -> bool:
            return False

    monkeypatch.setattr(measuring.Enter, "on_terminal", Enter)
    with pytest.raises(RobotError, match=r"^camera_wrist ended with exit code 1"):
        measuring._extrinsics(options(), RUN)


def test_no_pose_is_taken_of_an_arm_that_has_gone_silent(
    cell: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring, "_move_the_arm", lambda options, text: lambda here, ending: None)
    with pytest.raises(RobotError, match="arm is silent, must say where it is"):
        measuring._pose(options(), RUN)


def test_a_pose_is_where_the_arm_is_now(
    cell: SimpleNamespace, standing: RobotState, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = replace(standing, joints_rad=standing.joints_rad + 0.1)
    monkeypatch.setattr(
        measuring, "_move_the_arm", lambda options, text: lambda here, ending: setattr(here, "coming", there)
    )
    taught = measuring._pose(options(), RUN).edits["poses", "start"]
    assert taught["joints_rad"] == pytest.approx(there.joints_rad, abs=1e-4)


def test_no_view_is_taken_with_an_arm_that_has_gone_silent(
    cell: SimpleNamespace, standing: RobotState, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = SimpleNamespace()
    monkeypatch.setattr(measuring, "find_corners", lambda image, board: seen)
    board = Board(square_m=0.03, marker_m=0.022)
    assert measuring._take_view(cell.here, "wrist", board) is None
    assert "not taken: the arm is silent" in capsys.readouterr().err
    cell.here.coming = standing
    view = measuring._take_view(cell.here, "wrist", board)
    assert view is not None
    assert view[1] is seen
