from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robot_stack.replay.frames import FrameTable
from robot_stack.types.command import Source
from robot_stack.types.errors import StoreError
from tests.examples import examples
from tests.replay.recorded import small_spec, steps_of

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
