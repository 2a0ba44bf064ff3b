"""Scripts of synthetic episodes: ways to insert the peg, and ways not to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sim.hand import Hand, Motion
from sim.tasks.peg_insert import TwoSockets
from sim.world import World


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The stage on which a script plays: the hand and what is around it in one episode.

    Attributes:
        hand: What moves.
        decoy: TCP pose with the peg in the second socket, shape (4,).
        period_s: Of a control step.
        succeeds: Whether it shall succeed, where a kind leaves that open.
    """

    hand: Hand
    decoy: np.ndarray
    period_s: float
    succeeds: bool

    def pause(self, low_s: float, high_s: float, opening: float | None = None) -> Motion:
        """Hold the pose for a while."""
        return self.hand.stay(self.hand.rng.uniform(low_s, high_s), period_s=self.period_s, opening=opening)


def set_stage(
    world: World, task: TwoSockets, rng: np.random.Generator, *, rim_m: float, period_s: float, succeeds: bool
) -> Stage:
    """Set the stage of one episode, after the reset of the world."""
    hand = Hand(world, task, rng, rim_m=rim_m)
    return Stage(hand=hand, decoy=task.decoy_in_base(world.data), period_s=period_s, succeeds=succeeds)


def _over(stage: Stage, goal: np.ndarray) -> Motion:
    """Go over a hole, perhaps with a pause on the way, and pause there."""
    hand = stage.hand
    if hand.rng.random() < 0.4:
        yield from hand.until(hand.rng.uniform(0.1, 0.4), hand.to(hand.over(goal)))
        yield from stage.pause(0.2, 0.9)
    yield from hand.to(hand.over(goal))
    yield from stage.pause(0.0, 0.5)


def _in(stage: Stage, goal: np.ndarray) -> Motion:
    yield from _over(stage, goal)
    yield from stage.hand.down(goal)


def _success(stage: Stage) -> Motion:
    yield from stage.pause(0.0, 0.5)
    yield from _in(stage, stage.hand.goal)
    yield from stage.pause(0.5, 1.1)


def _drop(stage: Stage) -> Motion:
    hand = stage.hand
    yield from stage.pause(0.0, 0.5)
    yield from hand.until(hand.rng.uniform(0.12, 0.42), _in(stage, hand.goal))
    yield from stage.pause(0.3, 0.6, opening=1.0)
    if hand.rng.random() < 0.6:  # nobody has noticed yet
        yield from hand.to(hand.over(hand.goal))
    yield from hand.away(hand.start + np.array([0.0, 0.0, 0.02, 0.0]))
    yield from hand.wait_out()


def _near_miss(stage: Stage) -> Motion:
    hand = stage.hand
    angle, beside_m = hand.rng.uniform(-np.pi, np.pi), hand.rng.uniform(0.009, 0.017)
    goal = hand.goal + beside_m * np.array([np.cos(angle), np.sin(angle), 0.0, 0.0])
    yield from stage.pause(0.0, 0.5)
    yield from _over(stage, goal)
    yield from hand.to_the_end(hand.down(goal), at_least=8)


def _stall(stage: Stage) -> Motion:
    hand = stage.hand
    yield from stage.pause(0.0, 0.5)
    yield from hand.until(hand.rng.uniform(0.38, 0.62), _in(stage, hand.goal))
    yield from stage.pause(1.2, 1.2)
    yield from hand.wait_out()


def _partial(stage: Stage) -> Motion:
    hand = stage.hand
    yield from stage.pause(0.0, 0.5)
    yield from hand.until(0.42, _in(stage, hand.goal))
    yield from stage.pause(0.1, 0.5)


def _reverse(stage: Stage) -> Motion:
    hand = stage.hand
    yield from stage.pause(0.0, 0.4)
    yield from hand.until(hand.rng.uniform(0.45, 0.8), _in(stage, hand.goal))
    yield from stage.pause(0.0, 0.4)
    yield from hand.away(hand.start)
    yield from stage.pause(0.2, 0.8)


def _regress_recover(stage: Stage) -> Motion:
    hand = stage.hand
    yield from stage.pause(0.0, 0.3)
    yield from hand.until(hand.rng.uniform(0.4, 0.75), _in(stage, hand.goal))
    back = hand.start + hand.rng.uniform(0.0, 0.35) * (hand.over(hand.goal) - hand.start)
    yield from hand.away(back)
    yield from stage.pause(0.0, 0.4)
    yield from hand.to(hand.over(hand.goal))
    yield from hand.down(hand.goal)
    yield from stage.pause(0.5, 1.1)


def _wrong_object(stage: Stage) -> Motion:
    yield from stage.pause(0.0, 0.5)
    yield from _in(stage, stage.decoy)
    yield from stage.pause(0.5, 1.1)


def _hand_goes_on(stage: Stage) -> Motion:
    """Insert nothing: the whole way of a success, by a hand without the peg."""
    yield from _in(stage, stage.hand.goal)
    yield from stage.pause(0.5, 1.1)


def _empty_hand(stage: Stage) -> Motion:
    hand = stage.hand
    yield from stage.pause(0.0, 0.5)
    yield from hand.until(hand.rng.uniform(0.12, 0.42), _in(stage, hand.goal))
    yield from stage.pause(0.3, 0.6, opening=1.0)
    if hand.rng.random() < 0.5:  # it slipped out of a closed hand
        yield from stage.pause(0.3, 0.3, opening=0.0)
    yield from _hand_goes_on(stage)


def _left_beside(stage: Stage) -> Motion:
    hand = stage.hand
    angle, beside_m = hand.rng.uniform(-np.pi, np.pi), hand.rng.uniform(0.06, 0.08)
    place = hand.goal + beside_m * np.array([np.cos(angle), np.sin(angle), 0.0, 0.0])
    yield from stage.pause(0.0, 0.5)
    yield from _in(stage, place)
    yield from stage.pause(0.3, 0.6, opening=1.0)
    yield from hand.to(hand.over(place) + np.array([0.0, 0.0, 0.04, 0.0]))
    if hand.rng.random() < 0.5:
        yield from stage.pause(0.3, 0.3, opening=0.0)
    yield from hand.to(hand.over(hand.goal) + np.array([0.0, 0.0, 0.04, 0.0]))
    yield from _hand_goes_on(stage)


def _missing(stage: Stage) -> Motion:
    yield from stage.pause(0.0, 0.5)
    yield from _hand_goes_on(stage)


def _occlusion(stage: Stage) -> Motion:
    hand = stage.hand
    if stage.succeeds:
        yield from _success(stage)
        return
    yield from stage.pause(0.0, 0.5)
    yield from hand.until(hand.rng.uniform(0.5, 0.85), _in(stage, hand.goal))
    yield from hand.wait_out()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of synthetic episode: its script, and what must be true of it.

    Attributes:
        script: What the hand does.
        success: What the simulator must say at its end; None if either may be drawn.
        told_otherwise: The instruction is that of another task.
        covered: Cameras are covered for a while.
        decoy: The second socket is always there.
        lost: The peg has left the hand at its end.
        arrives: The hand ends where it ends in a success, whatever became of the peg.
        peg: Whether the peg is in the hand, was taken away before the start, or is there and no camera sees it.
    """

    script: Callable[[Stage], Motion]
    success: bool | None
    told_otherwise: bool = False
    covered: bool = False
    decoy: bool = False
    lost: bool = False
    arrives: bool = False
    peg: Literal["held", "taken", "unseen"] = "held"


KINDS: Mapping[str, Kind] = {
    "success": Kind(script=_success, success=True),
    "drop": Kind(script=_drop, success=False, lost=True),
    "near_miss": Kind(script=_near_miss, success=False),
    "stall": Kind(script=_stall, success=False),
    "reverse": Kind(script=_reverse, success=False),
    "regress_recover": Kind(script=_regress_recover, success=True),
    "wrong_object": Kind(script=_wrong_object, success=False, decoy=True),
    "occlusion": Kind(script=_occlusion, success=None, covered=True),
    "partial": Kind(script=_partial, success=False),
    "mismatch": Kind(script=_success, success=True, told_otherwise=True),
    "empty_hand": Kind(script=_empty_hand, success=False, lost=True, arrives=True),
    "left_beside": Kind(script=_left_beside, success=False, lost=True, arrives=True),
    "missing": Kind(script=_missing, success=False, lost=True, arrives=True, peg="taken"),
    "invisible": Kind(script=_success, success=True, peg="unseen"),
}
"""Of which there are synthetic episodes: the peg goes in, falls, is pressed onto the block beside the hole, stops half
way and stays, goes there and back to the start, falls back and then goes in, goes into the other socket, goes in or not
before covered cameras, stops early, or goes in although something else was asked for. In the last four the hand ends
where a success ends and the peg does not: it falls on the way, is put down beside the block, was never there, or goes
in where no image shows it."""
