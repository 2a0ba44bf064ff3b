"""Batches for the update loop, gathered from the replay on the host or from its rows on the learner's device.

Rows are drawn on the host in both cases, by the same code and in the same order.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

import numpy as np
import torch

from policies.device import upload
from policies.learner import TensorBatch
from robot_stack.learner.data.device_rows import DeviceImages, DeviceRows
from robot_stack.replay.frames import NO_ROW
from robot_stack.replay.replay import Replay
from robot_stack.replay.sampling import Draw, gather
from robot_stack.types.command import Source

COLUMNS = ("features", "proprio", "executed", "proposed", "source", "label", "gripper_change")


class Batches(Protocol):
    """A source of batches for the update loop."""

    def sample(self, rng: np.random.Generator, batch_size: int, **options: Any) -> TensorBatch:
        """Draw a batch as `Replay.sample` does, in the memory that the learner computes on."""
        ...

    def gather(self, draw: Draw) -> TensorBatch:
        """Gather the batch that a draw points at, in the same memory."""
        ...


class HostBatches:
    """The batches of a learner on the CPU, from the replay on the host."""

    def __init__(self, replay: Replay) -> None:
        self._replay = replay

    def sample(self, rng: np.random.Generator, batch_size: int, **options: Any) -> TensorBatch:
        """Draw a batch from the replay on the host, see `Batches`."""
        return TensorBatch.from_numpy(self._replay.sample(rng, batch_size, **options))

    def gather(self, draw: Draw) -> TensorBatch:
        """Gather the batch that a draw points at, see `Batches`."""
        return TensorBatch.from_numpy(gather(self._replay.frames, draw))


class DeviceBatches:
    """The batches of a learner on a GPU: a row goes there once, when it is first drawn; by then it is complete.

    The update loop never waits for the GPU but here, and only while that is busy with the update before the last: so
    the host prepares one batch ahead, and no more.
    """

    def __init__(self, replay: Replay, device: str) -> None:
        frames = replay.frames
        self._replay = replay
        self._device = device
        self._rows = DeviceRows(lambda rows: {name: frames.column(name)[rows] for name in COLUMNS}, device)
        self._images = DeviceImages(frames.images, device) if frames.images else None
        self._begun: deque[torch.cuda.Event] = deque()

    def sample(self, rng: np.random.Generator, batch_size: int, **options: Any) -> TensorBatch:
        """Draw a batch on the host and gather its rows on the device, see `Batches`."""
        self._stay_close()
        return self.gather(self._replay.draw(rng, batch_size, **options))

    def gather(self, draw: Draw) -> TensorBatch:
        """Gather the batch that a draw points at; equal to `robot_stack.replay.sampling.gather` to the bit."""
        rows = np.column_stack([draw.rows, draw.next_rows, draw.action_rows])
        self._rows.hold(rows[rows != NO_ROW])
        where = self._upload(rows)
        now, acted = where[:, 0], where[:, 2:]
        both = where[:, :2].T.flatten()
        there, acted = acted != NO_ROW, acted.clamp_min(0)
        reward, discount, mc_return, imitation = self._upload(
            np.stack([draw.reward, draw.discount, draw.mc_return, draw.imitation])
        )
        features, next_features = self._rows["features"][both].float().chunk(2)
        proprio, next_proprio = self._rows["proprio"][both].chunk(2)
        if draw.relabelled is not None:
            told, goals = self._upload(draw.relabelled.rows), self._upload(draw.relabelled.goals)
            proprio[told, draw.relabelled.desired] = goals
            next_proprio[told, draw.relabelled.desired] = goals
        human = (self._rows["source"][acted] == Source.HUMAN) & there
        label = self._rows["label"][acted] & there[..., None]
        action = self._rows["executed"][torch.where(there, acted, now.roll(1)[:, None])]  # as `Draw.played_rows`
        proposed = self._rows["proposed"][acted]
        corrected = (human & proposed.any(dim=2))[..., None] & label
        images, next_images = self._see(draw)
        return TensorBatch(
            features=features,
            proprio=proprio,
            action=action.flatten(1),
            proposed=torch.where(corrected, proposed, action).flatten(1),
            reward=reward,
            discount=discount,
            next_features=next_features,
            next_proprio=next_proprio,
            expert=self._upload(draw.expert),
            imitation=imitation,
            human=human,
            label=label.flatten(1),
            gripper_change=self._rows["gripper_change"][now],
            mc_return=mc_return,
            images=images,
            next_images=next_images,
        )

    def _see(self, draw: Draw) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
        """Gather the images of o and o', if the replay keeps them."""
        if self._images is None:
            return {}, {}
        now, after = (
            None if draw.shifts is None else {name: shifts[side] for name, shifts in draw.shifts.items()}
            for side in (0, 1)
        )
        return self._images.gather(draw.rows, now), self._images.gather(draw.next_rows, after)

    def _upload(self, array: np.ndarray) -> torch.Tensor:
        return upload(torch.from_numpy(array), self._device)

    def _stay_close(self) -> None:
        if self._device == "cuda":
            event = torch.cuda.Event(blocking=True)
            event.record()  # behind the last update
            self._begun.append(event)
            if len(self._begun) > 1:
                self._begun.popleft().synchronize()  # behind the one before


def make_batches(replay: Replay, device: str) -> Batches:
    """Build the source of batches for a learner on the given device."""
    return HostBatches(replay) if device == "cpu" else DeviceBatches(replay, device)
