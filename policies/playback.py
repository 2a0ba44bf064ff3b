"""How chunks of actions are played out, one tick after the other, and how one takes over from the last.

Sources: temporal ensembling, Zhao et al., 2023, arXiv:2304.13705, algorithm 2; continuing a chunk that is going out,
Black et al., 2025, arXiv:2506.07339 (real-time chunking). Deviation from the latter: the policy answers within the
tick, so that nothing is in flight while it decides and only the next tick is held as firmly as the weights allow.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from robot_stack.types.spec import GRIPPER_DEADBAND

Join = Literal["cut", "ensemble", "inpaint"]
ENSEMBLE_DECAY = 0.01
"""By which a newer prediction weighs less than an older one, per tick (m of arXiv:2304.13705)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Playback:
    """The way in which a policy's chunks are played.

    Attributes:
        chunk: C, ticks that one decision covers.
        replan: Ticks of a chunk that are played before the next is decided, at most C.
        join: `cut`: the next chunk begins where the last is left. `ensemble`: every tick is a mean of all chunks that
            cover it, but for discrete grippers, whose newest press it is: between two presses lies another choice.
            `inpaint`: the next chunk is drawn so that it continues the last.
    """

    chunk: int
    replan: int
    join: Join

    def hold(self) -> np.ndarray:
        """Return how firmly each tick of the next chunk is held to the last one, float32 (C,).

        The soft mask of arXiv:2506.07339, equation 5, without a delay: it falls from the first tick to the last that
        both chunks cover, and is 0 behind it.
        """
        both = self.chunk - self.replan
        fall = (both - np.arange(self.chunk)) / (both + 1)
        weights = fall * np.expm1(fall) / math.expm1(1.0)
        return np.where(np.arange(self.chunk) < both, weights, 0.0).astype(np.float32)


class DecidesChunks(Protocol):
    """A policy network that decides on whole chunks."""

    chunk: int

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        """Return chunks (B, chunk * A) in [-1, 1]."""
        ...


@runtime_checkable
class PlaysChunks(Protocol):
    """A policy network that says how its chunks are to be played; others play theirs to the end."""

    playback: Playback


@runtime_checkable
class AddsNoise(Protocol):
    """A policy network that explores by noise on what it has decided.

    Attributes:
        loudness: Standard deviation of each entry of a chunk, (C * A,).
    """

    loudness: Tensor


@runtime_checkable
class ContinuesChunks(PlaysChunks, Protocol):
    """A policy network whose next chunk can continue what is left of the last one."""

    def continue_chunk(
        self,
        features: Tensor,
        proprio: Tensor,
        *,
        going_out: Tensor,
        hold: Tensor,
        rng: torch.Generator,
        deterministic: bool,
    ) -> Tensor:
        """Return chunks (B, C * A) in [-1, 1].

        Args:
            features: (B, F).
            proprio: (B, P), SI units.
            going_out: What is left of the last chunks, filled up to (B, C * A).
            hold: How firmly each entry is held to it, 0 to 1, (C * A,).
            rng: Draws the noise.
            deterministic: No noise.
        """
        ...


class ChunkPlayer:
    """Plays the chunks of a policy network tick by tick.

    Args:
        network: Decides on chunks; how they are played is its `playback`, if it is one of `PlaysChunks`.
        actions: A.
        rng: Draws the network's noise.
        grippers: Positions of discrete grippers in a tick's action.
    """

    def __init__(
        self, network: DecidesChunks, actions: int, rng: torch.Generator, grippers: Sequence[int] = ()
    ) -> None:
        whole = Playback(chunk=network.chunk, replan=network.chunk, join="cut")
        self._playback = network.playback if isinstance(network, PlaysChunks) else whole
        self._network = network
        self._actions, self._rng = actions, rng
        self._grippers = list(grippers)
        self._hold = torch.from_numpy(np.repeat(self._playback.hold(), actions))
        self._tick = 0
        self._chunks: deque[tuple[int, np.ndarray]] = deque()
        """Chunks that still matter, (C, A), with the tick that each began at; the newest last."""

    def begin_episode(self) -> None:
        """Count ticks from 0 and forget what was planned."""
        self._tick = 0
        self._chunks.clear()

    def void(self) -> None:
        """Forget what was planned: someone else has moved the robot."""
        self._chunks.clear()

    @property
    def newest(self) -> tuple[int, np.ndarray] | None:
        """Return the chunk that was decided last, (C, A), behind the tick that it was decided at.

        It is the same object until the next chunk; None before there is one.
        """
        return self._chunks[-1] if self._chunks else None

    @torch.no_grad()
    def next_action(self, see: Callable[[], tuple[Tensor, Tensor]], *, deterministic: bool) -> np.ndarray:
        """Return the action of this tick, float32 (A,), and go on to the next.

        Args:
            see: Returns features (1, F) and proprio (1, P); called where a chunk is decided.
            deterministic: No noise.
        """
        if self._playback.join == "ensemble":
            return self._mean(see, deterministic=deterministic)
        if not self._chunks or self._tick - self._chunks[-1][0] >= self._playback.replan:
            decided = self._decide(*see(), deterministic=deterministic)
            self._chunks.clear()
            self._add(decided)
        began, chunk = self._chunks[-1]
        self._tick += 1
        return np.asarray(chunk[self._tick - 1 - began])

    def _mean(self, see: Callable[[], tuple[Tensor, Tensor]], *, deterministic: bool) -> np.ndarray:
        """Return the mean of all chunks that cover this tick; noise comes behind it, which would make it less."""
        loudness = self._network.loudness[: self._actions] if isinstance(self._network, AddsNoise) else None
        self._add(self._decide(*see(), deterministic=deterministic or loudness is not None))
        while self._tick - self._chunks[0][0] >= self._playback.chunk:
            self._chunks.popleft()
        planned = np.stack([chunk[self._tick - began] for began, chunk in self._chunks])
        self._tick += 1
        action = np.average(planned, axis=0, weights=np.exp(-ENSEMBLE_DECAY * np.arange(len(planned))))
        if loudness is not None and not deterministic:
            noise = loudness * torch.randn(self._actions, generator=self._rng)
            action = np.clip(action + noise.numpy(), -1.0, 1.0)
        for gripper in self._grippers:
            presses = planned[np.abs(planned[:, gripper]) > GRIPPER_DEADBAND, gripper]
            action[gripper] = presses[-1] if len(presses) else 0.0
        return np.asarray(action, np.float32)

    def _add(self, decided: Tensor) -> None:
        self._chunks.append((self._tick, decided[0].unflatten(0, (-1, self._actions)).numpy()))

    def _decide(self, features: Tensor, proprio: Tensor, *, deterministic: bool) -> Tensor:
        network, playback = self._network, self._playback
        if playback.join == "inpaint" and self._chunks and isinstance(network, ContinuesChunks):
            began, chunk = self._chunks[-1]
            left = chunk[self._tick - began :]
            going_out = np.zeros_like(chunk)
            going_out[: len(left)] = left
            return network.continue_chunk(
                features,
                proprio,
                going_out=torch.from_numpy(going_out.reshape(1, -1)),
                hold=self._hold,
                rng=self._rng,
                deterministic=deterministic,
            )
        return network.act(features, proprio, tick=self._tick, rng=self._rng, deterministic=deterministic)
