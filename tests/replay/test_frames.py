from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.replay.frames import MOST_TICKS, FrameTable
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from tests.examples import examples
from tests.replay.recorded import TASK, header_of, small_spec, steps_of

SPEC = small_spec()


def table_of(*lengths: int, feature_size: int = 0, keep_images: bool = True) -> FrameTable:
    table = FrameTable(SPEC, feature_size=feature_size, keep_images=keep_images)
    for tag, length in enumerate(lengths):
        for step in steps_of(SPEC, f"{tag}", [Source.POLICY] * length, tag=tag):
            table.add(step)
    return table


def test_images_are_found_in_any_order() -> None:
    table = table_of(5, 6)
    rows = np.array([12, 0, 7, 7, 3])
    np.testing.assert_array_equal(table.images.gather(rows)["wrist"][:, 0, 0, 0], [6 + 17, 0, 1 + 17, 1 + 17, 3])


def test_growing_past_the_first_allocation_keeps_every_row() -> None:
    table = table_of(1500, keep_images=False)
    np.testing.assert_array_equal(table.column("frame"), np.arange(1501))
    np.testing.assert_array_equal(table.column("proprio")[:, 1], np.arange(1501))
    np.testing.assert_array_equal(table.column("next_row"), [*range(1, 1501), -1])


def test_without_images_only_the_small_columns_take_memory() -> None:
    assert not table_of(100, keep_images=False).images
    assert table_of(100, keep_images=False).nbytes < table_of(100).nbytes


@pytest.mark.long
@settings(max_examples=examples(30), deadline=None)
@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 12))
def test_a_walk_stops_at_the_end_of_its_episode(length: int, n_step: int, start: int) -> None:
    start = min(start, length)
    path, made = table_of(3, length, 3).walk(np.array([4 + start]), n_step)
    assert path.tolist() == [[4 + min(start + k, length) for k in range(n_step + 1)]]
    assert made.tolist() == [min(n_step, length - start)]


def test_features_come_in_order_and_are_never_overwritten() -> None:
    table = table_of(4, feature_size=3)
    ones = np.ones((2, 3), np.float16)
    table.set_features("0", ones)
    table.set_features("0", 2 * np.ones((3, 3), np.float16))
    assert table.column("features")[:, 0].tolist() == [1, 1, 2, 0, 0]
    assert table.column("next_row").tolist() == [1, 2, -1, -1, -1]
    with pytest.raises(StoreError, match="must start by 3"):
        table.set_features("0", ones, start=4)
    with pytest.raises(StoreError, match="end by 5"):
        table.set_features("0", np.ones((3, 3), np.float16), start=3)
    with pytest.raises(StoreError, match=r"must be float16 \(n, 3\)"):
        table.set_features("0", ones.astype(np.float32))


@pytest.mark.parametrize("jump_ns", [1_700_000_000 * 10**9, 2**62, -(10**18)])
def test_a_stamp_that_jumps_costs_no_more_than_its_own_step(tmp_path: Path, jump_ns: int) -> None:
    """Of a recording with two clocks, or of a foreign actor: live it ended the learner, from disk every draw."""
    live, whole = table_of(), table_of()
    with EpisodeStore(tmp_path, SPEC, TASK) as store:
        store.begin(header_of("0"))
        for step in steps_of(SPEC, "0", [Source.POLICY] * 4):
            jumped_ns = 10**9 + 10**8 * step.index + (step.index >= 2) * jump_ns
            moved = replace(step, observation=replace(step.observation, stamp_ns=jumped_ns))
            live.add(moved)
            store.append(moved)
        whole.add_episode("0", store.read("0").arrays)
    ticks = live.column("tick")
    np.testing.assert_array_equal(ticks, whole.column("tick"))
    assert np.diff(ticks).tolist() == [1, MOST_TICKS if jump_ns > 0 else 1, 1, 1]
