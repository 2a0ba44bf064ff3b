"""How far apart two boxes are, wherever they stand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.config.shapes.boxes import Box, gap_m
from robot_stack.types.pose import Pose

ANGLES = st.tuples(*[st.floats(-np.pi, np.pi)] * 3)
PLACES = st.tuples(*[st.floats(-2, 2)] * 3)
EDGES = st.tuples(*[st.floats(0.01, 1)] * 3)


def box(place: tuple[float, ...] = (0, 0, 0), edges: tuple[float, ...] = (1, 1, 1), turn: object = (0, 0, 0)) -> Box:
    """A corner at `place`, turned about it."""
    rotation = turn if isinstance(turn, Rotation) else Rotation.from_euler("xyz", turn)
    return Box(pose=Pose.from_rotation(np.array(place), rotation), low_m=np.zeros(3), high_m=np.array(edges))


def points(one: Box) -> np.ndarray:
    """A grid over a box, in the cell, shape (125, 3)."""
    shares = np.array(list(product(np.linspace(0, 1, 5), repeat=3)))
    inside = one.low_m + shares * (one.high_m - one.low_m)
    return np.asarray(one.pose.position_m + one.pose.rotation.apply(inside))


@pytest.mark.parametrize(
    ("place", "gap"), [((1.5, 0, 0), 0.5), ((0, -1.25, 0.5), 0.25), ((1.0, 0, 0), 0.0), ((0.5, 0.9, 0), -0.1)]
)
def test_side_by_side_the_gap_is_that_of_the_widest_axis(place: tuple[float, ...], gap: float) -> None:
    assert gap_m(box(), box(place)) == pytest.approx(gap)


def test_a_box_turned_by_45_degrees_comes_nearer_by_its_diagonal() -> None:
    turned = box((2.0, 0.5 - np.sqrt(0.5), 0.0), turn=(0, 0, np.pi / 4))  # a corner reaches back to the middle
    assert gap_m(box(), turned) == pytest.approx(1.0 - np.sqrt(0.5))


@pytest.mark.long
@given(PLACES, EDGES, ANGLES, EDGES, ANGLES)
def test_the_gap_is_never_more_than_the_distance_of_any_two_points(place, edges, turn, others, other_turn) -> None:
    one, other = box((0, 0, 0), others, other_turn), box(place, edges, turn)
    nearest = np.linalg.norm(points(one)[:, None] - points(other)[None], axis=2).min()
    assert gap_m(one, other) <= nearest + 1e-9
    assert gap_m(other, one) == pytest.approx(gap_m(one, other), abs=1e-9)


@pytest.mark.long
@given(PLACES, EDGES, ANGLES, ANGLES)
def test_the_gap_does_not_depend_on_how_the_cell_is_turned(place, edges, turn, cell_turn) -> None:
    cell = Rotation.from_euler("xyz", cell_turn)
    plain = gap_m(box(), box(place, edges, turn))
    moved = gap_m(box(turn=cell), box(tuple(cell.apply(place)), edges, cell * Rotation.from_euler("xyz", turn)))
    assert moved == pytest.approx(plain, abs=1e-6)


def test_edges_that_are_parallel_but_for_rounding_give_no_direction_of_their_own() -> None:
    """Corner faces corner, so that any direction between the axes would see a wider gap than the axes do."""
    almost = (3e-9, 2e-9, -4e-9)
    for turn in ((0.3, -1.1, 2.0), (1.0, 0.5, -0.7), (0.0, 0.0, 0.1)):
        cell = Rotation.from_euler("xyz", turn)
        other = box(tuple(cell.apply((1.5, 1.5, 1.5))), turn=cell * Rotation.from_euler("xyz", almost))
        assert gap_m(box(turn=cell), other) == pytest.approx(0.5, abs=1e-7)
