"""How action vectors of several arms, grippers and ticks are divided and put together again."""

from __future__ import annotations

import pytest
import torch

from policies.action_layout import ActionLayout
from robot_stack.types.errors import ConfigError

TWO_ARMS = ActionLayout(actions=7, grippers=(3, 6))
"""Three axes and a discrete gripper, then two axes and one."""


def test_parts_of_two_arms_join_to_the_whole() -> None:
    action = torch.tensor([[0.1, 0.2, 0.3, -1.0, 0.4, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, -1.0]])
    assert TWO_ARMS.arm_size == 5
    torch.testing.assert_close(TWO_ARMS.arm(action), action[:, [0, 1, 2, 4, 5]])
    assert TWO_ARMS.choices(action).tolist() == [[0, 1], [2, 0]]
    torch.testing.assert_close(TWO_ARMS.join(TWO_ARMS.arm(action), TWO_ARMS.choices(action)), action)


def test_small_gripper_entries_mean_stay() -> None:
    action = torch.zeros(1, 7)
    action[0, 3], action[0, 6] = 0.4, -0.5
    assert TWO_ARMS.choices(action).tolist() == [[1, 1]]


def test_without_grippers_a_chunk_is_the_gaussians_whole() -> None:
    layout, action = ActionLayout(actions=3, chunk=4), torch.rand(2, 12)
    assert layout.arm_size == 12
    assert layout.join(layout.arm(action), None) is action


def test_chunks_with_a_discrete_gripper_are_refused() -> None:
    with pytest.raises(ConfigError, match="chunk is 2, must be 1 with a discrete gripper"):
        ActionLayout(actions=4, grippers=(3,), chunk=2)
