"""Pooling and heads: where a thing is, and what is learned on top."""

from __future__ import annotations

import pytest
import torch

from policies.encoders.heads import EMBEDDINGS, SpatialEmbeddings, make_head
from policies.encoders.pooling import Pooling, SpatialSoftmax
from policies.encoders.trunk import FeaturePart
from robot_stack.types.errors import SpecError

MAPS = (3, 4, 5)
SPATIAL = FeaturePart(slice=slice(0, 60), maps=MAPS)
DENSE = FeaturePart(slice=slice(0, 60), maps=None)


def dot(row: float, column: float, rows: int = 16, columns: int = 20) -> torch.Tensor:
    """One map (1, 1, rows, columns) with a bright dot, centred at fractions of a cell."""
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    return 12 * torch.exp(-((y - row) ** 2 + (x - column) ** 2) / 8)[None, None]


@pytest.mark.parametrize(("row", "column"), [(5.0, 7.0), (5.3, 7.0), (9.75, 12.4), (4.5, 15.5)])
def test_spatial_softmax_finds_a_bright_dot_to_a_tenth_of_a_cell(row: float, column: float) -> None:
    x, y = SpatialSoftmax(16, 20)(dot(row, column))[0].tolist()
    assert (y + 1) / 2 * 15 == pytest.approx(row, abs=0.1)
    assert (x + 1) / 2 * 19 == pytest.approx(column, abs=0.1)


def test_keypoints_come_as_all_x_then_all_y() -> None:
    maps = torch.cat([dot(3, 4), dot(8, 15)], dim=1)
    keypoints = SpatialSoftmax(16, 20)(maps)[0]
    assert keypoints.shape == (4,)
    expected = torch.tensor([4 / 19, 15 / 19, 3 / 15, 8 / 15]) * 2 - 1
    torch.testing.assert_close(keypoints, expected, atol=0.01, rtol=0)


@pytest.mark.parametrize(("pool", "size"), [("pooled", 7), ("spatial_softmax", 6), ("spatial_embeddings", 60)])
def test_pooling_keeps_what_it_says(pool: str, size: int) -> None:
    maps, summary = torch.randn(2, *MAPS), torch.randn(2, 7)
    pooling = Pooling(pool, summary_size=7, maps=MAPS)  # type: ignore[arg-type]
    columns = pooling(maps, summary)
    assert columns.shape == (2, size) == (2, pooling.size)
    assert not list(pooling.parameters())
    if pool == "pooled":
        assert torch.equal(columns, summary)
    if pool == "spatial_embeddings":
        assert torch.equal(columns.view(maps.shape), maps)


def test_part_whose_maps_do_not_fill_it_is_refused() -> None:
    with pytest.raises(SpecError, match=r"maps of a part are \(3, 4, 5\), must have 59 values"):
        FeaturePart(slice=slice(1, 60), maps=MAPS)


def test_spatial_embeddings_are_sums_over_the_cells() -> None:
    torch.manual_seed(0)
    head, features = SpatialEmbeddings(MAPS), torch.randn(2, 60)
    found = head(features).detach().numpy().reshape(2, 3, EMBEDDINGS)
    maps, kernel = features.numpy().reshape(2, *MAPS), head.kernel.detach().numpy()
    for image in range(2):
        for channel in range(3):
            for k in range(EMBEDDINGS):
                expected = (maps[image, channel] * kernel[channel, :, :, k]).sum()
                assert found[image, channel, k] == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("part", [DENSE, SPATIAL])
def test_head_gives_its_width_within_one(part: FeaturePart) -> None:
    state = make_head(part, 16)(torch.randn(4, 60))
    assert state.shape == (4, 16)
    assert state.abs().max() <= 1
