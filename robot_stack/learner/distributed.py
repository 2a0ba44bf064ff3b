"""Several processes that train one learner: the first leads a run, the others update along on their share of the rows.

    torchrun --nproc-per-node 2 -m -- robot_stack.learner.process --run runs/NAME/run.yaml

The leader has the replay, the link and the checkpoints. The others build the same learner from the run's folder, which
they must see, and get rows until they are told to end. What travels is safetensors; gradients and counts are averaged
by the learner itself (`policies.distributed`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor, distributed

from policies.distributed import ALONE, Ranks
from policies.learner import LearnerSpec, TensorBatch
from policies.registry import find_builders
from robot_stack.config.resolved import ResolvedRun
from robot_stack.learner import fitting
from robot_stack.learner.checkpoint import CheckpointFolder
from robot_stack.learner.settings import learning_settings
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError, ResumeError

log = logging.getLogger(__name__)

IMAGES = ("images", "next_images")
WAIT = timedelta(days=365)
"""For the next message: an operator may record demonstrations, or let the robot rest, for any time. A process that has
died is noticed at once, by its closed connection or by torchrun; one that hangs is waited for."""


class Message(IntEnum):
    """A kind of message from the leader to the other processes."""

    BEGIN = 0
    """Build a new learner; with the scale of proprio."""
    RESUME = 1
    """Build it and load the newest checkpoint; with the same."""
    ROWS = 2
    """Update; with the share of a batch."""
    END = 3
    """The run is over."""


def join() -> Ranks:
    """Join the processes that torchrun started, or stay alone; returns this process's rank."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ALONE
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        distributed.init_process_group("cpu:gloo,cuda:nccl", timeout=WAIT)
    else:
        distributed.init_process_group("gloo", timeout=WAIT)
    return Ranks(index=distributed.get_rank(), count=distributed.get_world_size())


class DistributedLearner:
    """The leader's side of a learner in several processes: deals each batch out to them.

    Args:
        ranks: Who is in it; alone, nothing is sent.
        batch_size: Rows of a joint batch.

    Raises:
        ConfigError: If the rows cannot be dealt out evenly.
    """

    def __init__(self, ranks: Ranks, batch_size: int) -> None:
        if batch_size % ranks.count:
            raise ConfigError(
                f"batch_size is {batch_size}, must be a multiple of the {ranks.count} processes that torchrun started; "
                "change run.algorithm.settings.batch_size"
            )
        self.ranks = ranks
        self._ended = ranks.count == 1

    def begin(self, sizes: LearnerSpec, *, resumed: bool) -> None:
        """Tell the others to build what the leader has built; `resumed` after it has loaded its newest checkpoint."""
        scale = {"proprio_mean": sizes.proprio_mean, "proprio_std": sizes.proprio_std}
        self._tell(Message.RESUME if resumed else Message.BEGIN, [scale] * self.ranks.count)

    def deal(self, batch: TensorBatch) -> TensorBatch:
        """Send the others their rows of a joint batch; returns the leader's."""
        if self.ranks.count == 1:
            return batch
        shares = [share_of(batch, Ranks(index=index, count=self.ranks.count)) for index in range(self.ranks.count)]
        self._tell(Message.ROWS, shares)
        return batch_of(shares[0])

    def end(self) -> None:
        """Tell the others that the run is over; harmless to repeat."""
        if self._ended:
            return
        self._ended = True
        try:
            self._tell(Message.END, [{}] * self.ranks.count)
        except RuntimeError as error:  # whatever ended one of them has been raised where it mattered
            log.warning("a process of the learner is gone already: %s", error)

    def _tell(self, message: Message, contents: list[dict[str, Tensor]]) -> None:
        for rank in range(1, self.ranks.count):
            payload = torch.frombuffer(bytearray(save(contents[rank])), dtype=torch.uint8)
            distributed.send(torch.tensor([int(message), len(payload)]), rank)
            distributed.send(payload, rank)


def follow(resolved: ResolvedRun, folder: Path, ranks: Ranks) -> None:
    """Update along with the leader until it says that the run is over.

    Raises:
        ResumeError: If the checkpoint that the leader has loaded cannot be seen here.
        RuntimeError: If the leader is gone.
    """
    torch.set_num_threads(1)
    message, contents = _receive()
    if message is Message.END:
        return
    settings, spec = learning_settings(resolved), resolved.spec()
    trunk = fitting.load_trunk(RunPaths(folder).trunk, spec, settings.device)
    sizes = fitting.sizes_of(trunk, spec, **contents, trained=settings.trained_encoder)
    build = find_builders(settings.algorithm).learner
    learner = build(sizes, settings.config, seed=resolved.run.seed, device=settings.device)
    learner.ranks = ranks
    if message is Message.RESUME:
        state = CheckpointFolder(RunPaths(folder).checkpoints).load_latest()
        if state is None:
            raise ResumeError(f"no checkpoint in {folder} on this machine, must be the leader's; share the folder")
        learner.load_state_dict(state["learner"])
    while True:
        message, contents = _receive()
        if message is Message.END:
            return
        learner.update(batch_of({name: tensor.to(settings.device) for name, tensor in contents.items()}))


def _receive() -> tuple[Message, dict[str, Tensor]]:
    header = torch.empty(2, dtype=torch.int64)
    distributed.recv(header, 0)
    payload = torch.empty(int(header[1]), dtype=torch.uint8)
    distributed.recv(payload, 0)
    return Message(int(header[0])), load(payload.numpy().tobytes())


def share_of(batch: TensorBatch, ranks: Ranks) -> dict[str, Tensor]:
    """Return a rank's rows of a batch by name, images by camera, in host memory for all but the leader."""
    columns: dict[str, Tensor] = {}
    for field in fields(batch):
        value = getattr(batch, field.name)
        if field.name in IMAGES:
            columns |= {f"{field.name}.{camera}": pixels for camera, pixels in value.items()}
        else:
            columns[field.name] = value
    rows = {name: ranks.mine(column).contiguous() for name, column in columns.items()}
    return rows if ranks.index == 0 else {name: column.cpu() for name, column in rows.items()}


def batch_of(columns: Mapping[str, Tensor]) -> TensorBatch:
    """Build a batch from named columns, the inverse of `share_of`."""
    found: dict[str, Any] = {name: {} for name in IMAGES}
    for name, column in columns.items():
        field, dot, camera = name.partition(".")
        if dot:
            found[field][camera] = column
        else:
            found[field] = column
    return TensorBatch(**found)
