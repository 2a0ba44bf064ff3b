"""A policy's file is taken whole and finite, or not at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from robot_stack.rollout.params_file import load_params
from robot_stack.types.errors import StoreError


def test_a_policy_is_read_with_its_version(tmp_path: Path) -> None:
    save_file({"weight": np.ones(3, np.float32)}, tmp_path / "p.safetensors", {"version": "7"})
    params = load_params(tmp_path / "p.safetensors")
    assert params.version == 7
    np.testing.assert_array_equal(params.tensors["weight"], np.ones(3, np.float32))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_refused(value: float, tmp_path: Path) -> None:
    save_file({"weight": np.array([1.0, value], np.float32)}, tmp_path / "p.safetensors", {"version": "7"})
    with pytest.raises(StoreError, match=r"tensor weight of policy .* is not finite"):
        load_params(tmp_path / "p.safetensors")


def test_a_file_that_is_no_policy_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.safetensors").write_text("no")
    with pytest.raises(StoreError, match="is unreadable"):
        load_params(tmp_path / "p.safetensors")
