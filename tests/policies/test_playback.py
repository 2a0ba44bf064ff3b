"""Chunks are played tick by tick: to the end, replanned early, as a mean of several, or continued."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from policies.playback import ENSEMBLE_DECAY, ChunkPlayer, Join, Playback

CHUNK, ACTIONS = 4, 2


class Plain:
    """Decision n is a chunk of 100 n + tick of the chunk, for the first entry; the second is its negative."""

    chunk = CHUNK

    def __init__(self) -> None:
        self.ticks: list[int] = []

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        self.ticks.append(tick)
        return self.decide()

    def decide(self) -> Tensor:
        first = 100.0 * len(self.ticks) + torch.arange(CHUNK)
        return torch.stack([first, -first], dim=1).reshape(1, -1)


class Played(Plain):
    """The same, which says how it is to be played."""

    def __init__(self, replan: int, join: Join) -> None:
        super().__init__()
        self.playback = Playback(chunk=CHUNK, replan=replan, join=join)


class Continued(Played):
    """The same, which can continue a chunk, and remembers what it was told."""

    def __init__(self, replan: int) -> None:
        super().__init__(replan, "inpaint")
        self.told: list[tuple[np.ndarray, np.ndarray]] = []

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
        self.told.append((going_out.numpy().reshape(CHUNK, ACTIONS), hold.numpy().reshape(CHUNK, ACTIONS)))
        self.ticks.append(-1)
        return self.decide()


def player(network: Plain) -> ChunkPlayer:
    return ChunkPlayer(network, ACTIONS, torch.Generator())


def play(of: ChunkPlayer, ticks: int) -> list[float]:
    """First entries of the actions of so many ticks."""
    actions = [of.next_action(lambda: (torch.zeros(1, 1), torch.zeros(1, 1)), deterministic=True) for _ in range(ticks)]
    assert all(action.shape == (ACTIONS,) and action.dtype == np.float32 for action in actions)
    assert all(action[1] == -action[0] for action in actions)
    return [float(action[0]) for action in actions]


def test_plain_chunks_are_played_to_their_end() -> None:
    assert play(player(Plain()), 6) == [100, 101, 102, 103, 200, 201]


def test_cut_chunks_give_way_after_replan_ticks() -> None:
    network = Played(3, "cut")
    assert play(player(network), 7) == [100, 101, 102, 200, 201, 202, 300]
    assert network.ticks == [0, 3, 6]


def test_observation_is_looked_at_only_where_a_chunk_is_decided() -> None:
    looks = []

    def see() -> tuple[Tensor, Tensor]:
        looks.append(None)
        return torch.zeros(1, 1), torch.zeros(1, 1)

    of = player(Played(2, "cut"))
    for _ in range(4):
        of.next_action(see, deterministic=True)
    assert len(looks) == 2


def test_ensemble_is_the_mean_of_all_chunks_that_cover_a_tick() -> None:
    played = play(player(Played(4, "ensemble")), 6)
    for tick, action in enumerate(played):
        covering = [decision for decision in range(tick + 1) if tick - decision < CHUNK]
        weights = [math.exp(-ENSEMBLE_DECAY * age) for age in range(len(covering))]  # the oldest weighs most
        predicted = [100.0 * (decision + 1) + tick - decision for decision in covering]
        assert action == pytest.approx(np.dot(weights, predicted) / sum(weights), rel=1e-6)


class Pressing:
    """Says one press of the gripper, at the tick of the episode that it guesses in each chunk, and rests else."""

    chunk = CHUNK

    def __init__(self, guesses: Sequence[int], press: float = -1.0) -> None:
        self.playback = Playback(chunk=CHUNK, replan=CHUNK, join="ensemble")
        self.guesses, self.press = guesses, press

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        ticks = tick + torch.arange(CHUNK)
        press = self.press * (ticks == self.guesses[tick])
        return torch.stack([0.25 * torch.ones(CHUNK), press], dim=1).reshape(1, -1)


def grips(of: Pressing, ticks: int) -> list[float]:
    """Entries of the discrete gripper of so many ticks, by a policy that explores."""
    played = ChunkPlayer(of, ACTIONS, torch.Generator(), grippers=(1,))
    see = (torch.zeros(1, 1), torch.zeros(1, 1))
    actions = [played.next_action(lambda: see, deterministic=False) for _ in range(ticks)]
    assert all(action[0] == 0.25 for action in actions)
    return [float(action[1]) for action in actions]


def test_press_of_a_gripper_of_which_chunks_are_unsure_by_a_tick_is_played() -> None:
    assert grips(Pressing([5, 5, 6, 5, 6, 5, 6, 6]), 8) == [0, 0, 0, 0, 0, -1, -1, 0]


def test_newest_press_of_a_gripper_wins() -> None:
    changed = Pressing([3] * 3 + [9] * 5, press=1.0)
    assert grips(changed, 5) == [0, 0, 0, 1, 0]
    opened = [1.0, 1.0, -1.0]

    class Changes(Pressing):
        def act(self, *args: Any, tick: int, **more: Any) -> Tensor:
            return torch.tensor([[0.25, opened[tick]]]).repeat(1, CHUNK)

    assert grips(Changes([]), 3) == [1, 1, -1]


class Loud(Pressing):
    """Rests, and explores by noise on the arm's entry."""

    loudness = torch.tensor([0.1, 0.0]).repeat(CHUNK)

    def act(self, features: Tensor, proprio: Tensor, *, tick: int, rng: torch.Generator, deterministic: bool) -> Tensor:
        noise = 0 if deterministic else self.loudness * torch.randn(CHUNK * ACTIONS, generator=rng)
        return (torch.zeros(1, CHUNK * ACTIONS) + noise).clamp(-1, 1)


@pytest.mark.long
def test_noise_behind_a_mean_is_as_loud_as_it_is_set() -> None:
    of = ChunkPlayer(Loud([]), ACTIONS, torch.Generator().manual_seed(0), grippers=(1,))
    see = (torch.zeros(1, 1), torch.zeros(1, 1))
    loud = np.array([of.next_action(lambda: see, deterministic=False) for _ in range(2000)])
    assert loud[:, 0].std() == pytest.approx(0.1, rel=0.1)
    assert not loud[:, 1].any()
    assert not any(of.next_action(lambda: see, deterministic=True).any() for _ in range(CHUNK))


def test_next_chunk_is_told_what_is_going_out_and_how_firmly_to_hold_to_it() -> None:
    network = Continued(replan=1)
    assert play(player(network), 2) == [100, 200]
    going_out, hold = network.told[0]
    assert going_out[:, 0].tolist() == [101, 102, 103, 0]
    # arXiv:2506.07339, equation 5, H = 4, s = 1, d = 0
    for i in range(CHUNK):
        c = (CHUNK - 1 - i) / (CHUNK - 1 + 1)
        wanted = c * (math.exp(c) - 1) / (math.e - 1) if i < CHUNK - 1 else 0.0
        assert hold[i] == pytest.approx([wanted, wanted], abs=1e-6)


def test_chunk_that_was_played_out_is_not_continued() -> None:
    network = Continued(replan=CHUNK)
    assert play(player(network), 5) == [100, 101, 102, 103, 200]
    assert len(network.told) == 1
    going_out, hold = network.told[0]
    assert not going_out.any()
    assert not hold.any()


@pytest.mark.parametrize("network", [Plain(), Played(3, "cut"), Played(4, "ensemble"), Continued(2)])
def test_what_was_planned_is_void_when_someone_else_moved_the_robot(network: Plain) -> None:
    of = player(network)
    play(of, 2)
    of.void()
    decided = len(network.ticks)
    assert play(of, 1) == [100.0 * (decided + 1)]
    assert network.ticks[-1] == 2  # decided anew, not continued; ticks go on


def test_episode_begins_at_tick_0_without_a_plan() -> None:
    network = Played(3, "cut")
    of = player(network)
    play(of, 2)
    of.begin_episode()
    assert play(of, 1) == [200]
    assert network.ticks == [0, 0]
