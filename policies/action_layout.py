"""The layout of an action vector: arm entries, moved by a Gaussian, and discrete grippers, chosen by a critic.

Shapes: B batch, C chunk, A action of one tick, G discrete grippers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from robot_stack.types.errors import ConfigError
from robot_stack.types.spec import GRIPPER_DEADBAND

CHOICES = (-1.0, 0.0, 1.0)
"""Entries of a discrete gripper: close, stay, open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionLayout:
    """The division of the action vectors of one or more arms into arm entries and discrete grippers.

    Attributes:
        actions: A.
        grippers: Positions of discrete grippers in a tick's action.
        chunk: C, ticks that one decision covers.

    Raises:
        ConfigError: If a chunk is asked for where a gripper is discrete: it is chosen anew at every tick.
    """

    actions: int
    grippers: tuple[int, ...] = ()
    chunk: int = 1

    def __post_init__(self) -> None:
        if self.chunk > 1 and self.grippers:
            raise ConfigError(
                f"chunk is {self.chunk}, must be 1 with a discrete gripper; make the gripper continuous or drop chunk"
            )

    @property
    def arm_indices(self) -> list[int]:
        """Return the positions in one tick's action that the Gaussian moves."""
        return [i for i in range(self.actions) if i not in self.grippers]

    @property
    def arm_size(self) -> int:
        """Return the number of entries that the Gaussian moves in one decision, over all ticks of a chunk."""
        return len(self.arm_indices) * self.chunk

    def arm(self, action: Tensor) -> Tensor:
        """Return the Gaussian's part, (B, arm_size), of whole actions (B, C * A)."""
        return _columns(action, self.arm_indices) if self.grippers else action

    def gripper(self, action: Tensor) -> Tensor:
        """Return the discrete grippers' part, (B, G), of whole actions."""
        return _columns(action, self.grippers)

    def choices(self, action: Tensor) -> Tensor:
        """Read the command to each discrete gripper from whole actions, int64 (B, G): 0 close, 1 stay, 2 open."""
        entries = self.gripper(action)
        return (entries > GRIPPER_DEADBAND).long() - (entries < -GRIPPER_DEADBAND).long() + 1

    def join(self, arm: Tensor, choices: Tensor | None) -> Tensor:
        """Join both parts to whole actions (B, C * A): the inverse of `arm` and `choices`."""
        if choices is None:
            return arm
        action = torch.empty(len(arm), self.actions, dtype=arm.dtype, device=arm.device)
        action[:, self.arm_indices] = arm
        action[:, list(self.grippers)] = torch.tensor(CHOICES, dtype=arm.dtype, device=arm.device)[choices]
        return action


def _columns(action: Tensor, positions: Sequence[int]) -> Tensor:
    """Stack some columns of an action side by side.

    An index of them would be sent to a GPU at every call, which waits for it.
    """
    return torch.stack([action[:, position] for position in positions], dim=1)
