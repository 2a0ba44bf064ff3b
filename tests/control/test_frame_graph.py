"""Frames as TF tells them: where each is seen from another, and what is no frame of the cell."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from robot_stack.control.kinematics.frame_graph import MOST_FRAMES, STALE_S, FrameGraph
from tests.examples import examples


def pose_of(seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    pose = np.eye(4)
    pose[:3, :3] = Rotation.random(random_state=seed).as_matrix()
    pose[:3, 3] = random.normal(size=3)
    return pose


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=12), st.integers(0, 12))
def test_frames_are_where_the_chain_of_their_parents_brings_them(parents: list[int], root: int) -> None:
    """A tree of any shape, in which the world has each frame at a place that is drawn; told pair by pair."""
    parents = [parent % (number + 1) for number, parent in enumerate(parents)]  # of frame number + 1
    in_world = [np.eye(4), *(pose_of(number) for number in range(len(parents)))]
    root %= len(in_world)
    graph = FrameGraph()
    for number, parent in reversed(list(enumerate(parents, 1))):
        graph.hang(f"f{number}", f"f{parent}", np.linalg.inv(in_world[parent]) @ in_world[number], 0.0)
    seen = graph.seen_from(f"f{root}", 0.5)
    assert set(seen) == {f"f{number}" for number in range(len(in_world)) if number != root}
    for name, pose in seen.items():
        np.testing.assert_allclose(pose, np.linalg.inv(in_world[root]) @ in_world[int(name[1:])], atol=1e-9)


def test_what_hangs_elsewhere_is_not_seen() -> None:
    graph = FrameGraph()
    graph.hang("tool", "base", pose_of(1), math.inf)
    graph.hang("tag", "map", pose_of(2), math.inf)
    assert set(graph.seen_from("base", 0.0)) == {"tool"}
    assert set(graph.seen_from("nobody", 0.0)) == set()


def test_a_frame_that_is_told_again_is_there_and_no_longer_where_it_was() -> None:
    graph = FrameGraph()
    graph.hang("cup", "table", pose_of(1), 0.0)
    graph.hang("cup", "hand", pose_of(2), 0.0)
    assert set(graph.seen_from("table", 0.0)) == set()
    np.testing.assert_allclose(graph.seen_from("hand", 0.0)["cup"], pose_of(2))


def test_a_moving_frame_of_which_nobody_speaks_any_more_is_gone_and_a_fixed_one_stays() -> None:
    graph = FrameGraph()
    graph.hang("wrist", "base", pose_of(1), 10.0)
    graph.hang("camera", "wrist", pose_of(2), math.inf)
    graph.hang("table", "base", pose_of(3), math.inf)
    assert set(graph.seen_from("base", 10.0 + 0.9 * STALE_S)) == {"wrist", "camera", "table"}
    assert set(graph.seen_from("base", 10.0 + 1.1 * STALE_S)) == {"table"}


def test_what_cannot_be_is_left_out() -> None:
    graph = FrameGraph()
    far, broken = pose_of(1), pose_of(1)
    far[0, 3], broken[0, 3] = 1e300, math.nan
    flat, mirrored, sheared = pose_of(1), pose_of(1), pose_of(1)
    flat[:3, :3], mirrored[:3, 0], sheared[3, 0] = 0.0, -mirrored[:3, 0], 1.0
    for frame, parent, pose in (
        ("a", "a", pose_of(1)), ("", "base", pose_of(1)), ("b", "", pose_of(1)), ("c", "base", far),
        ("d", "base", broken), ("e", "base", flat), ("base", "f", flat),
        ("g", "base", mirrored), ("h", "base", sheared),
    ):  # fmt: skip
        graph.hang(frame, parent, pose, math.inf)
    assert graph.seen_from("base", 0.0) == {}


def test_frames_in_a_ring_end() -> None:
    graph = FrameGraph()
    for frame, parent in (("a", "b"), ("b", "c"), ("c", "a"), ("d", "a")):
        graph.hang(frame, parent, np.eye(4), math.inf)
    assert set(graph.seen_from("d", 0.0)) <= {"a", "b", "c"}


def test_names_that_count_up_fill_no_memory() -> None:
    graph = FrameGraph()
    for number in range(MOST_FRAMES + 10):
        graph.hang(f"f{number}", "base", np.eye(4), math.inf)
    assert len(graph.seen_from("base", 0.0)) == MOST_FRAMES
    graph.hang("f0", "base", pose_of(1), math.inf)
    np.testing.assert_allclose(graph.seen_from("base", 0.0)["f0"], pose_of(1))


def test_names_that_count_up_leave_room_for_those_that_come_later() -> None:
    graph = FrameGraph()
    graph.hang("table", "base", pose_of(1), math.inf)
    for number in range(3 * MOST_FRAMES):
        graph.hang(f"track{number}", "base", np.eye(4), 0.01 * number)
    now_s = 0.01 * 3 * MOST_FRAMES
    graph.hang("wrist", "base", pose_of(2), now_s)
    assert {"table", "wrist"} < set(graph.seen_from("base", now_s))
