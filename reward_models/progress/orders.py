"""Orders of frames that Φ is fitted on beside its labels: which of two got further, by an answer or a take-over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from robot_stack.types.command import IN_HAND, Source
from robot_stack.types.errors import RewardError

PAIRS = 12
"""Pairs of a training step."""


class Order(NamedTuple):
    """An order of a frame of an episode and a frame of another, or of the same one.

    Attributes:
        frame: In the episode that has it.
        other: Name of the other episode.
        other_frame: In that one.
        further: 1 if the other frame got further, 0 if this one did, 0.5 if they are as far.
    """

    frame: int
    other: str
    other_frame: int
    further: float


class OrderedPair(NamedTuple):
    """Two frames with the episodes up to them, inputs (t+1, D) each, and how likely the second got further."""

    first: np.ndarray
    second: np.ndarray
    further: float


def pairs_of(frames: Mapping[str, np.ndarray], orders: Mapping[str, Sequence[Order]]) -> list[OrderedPair]:
    """Return the pairs whose two episodes are both there.

    Args:
        frames: Name -> inputs of each episode, (T+1, D).
        orders: Name -> orders of each of these episodes.

    Raises:
        RewardError: If an order is of a frame that its episode does not have, of a frame with itself, or says no share.
    """
    pairs = []
    for name, own in orders.items():
        for order in own:
            if order.other not in frames:
                continue
            for which, frame in ((name, order.frame), (order.other, order.other_frame)):
                if not 0 <= frame < len(frames[which]):
                    raise RewardError(
                        f"order of frames is of frame {frame} of {which}, must be within 0 and {len(frames[which]) - 1}"
                    )
            if (name, order.frame) == (order.other, order.other_frame) or not 0 <= order.further <= 1:
                raise RewardError(
                    f"order of frame {order.frame} of {name} is {order}, must be of two frames, with a share in [0, 1]"
                )
            first, second = frames[name][: order.frame + 1], frames[order.other][: order.other_frame + 1]
            pairs.append(OrderedPair(first, second, order.further))
    return pairs


def order_accuracy(first: np.ndarray, second: np.ndarray, further: np.ndarray) -> float:
    """Return the share of pairs of which Φ says what was said, of those with a further one; NaN without any.

    >>> order_accuracy(np.array([0.2, 0.5]), np.array([0.4, 0.9]), np.array([1.0, 0.5]))
    1.0
    """
    sure = further != 0.5
    if not sure.any():
        return float("nan")
    return float(((second[sure] > first[sure]) == (further[sure] > 0.5)).mean())


def take_overs(source: np.ndarray, lead: int) -> list[tuple[int, int]]:
    """Return the take-overs of an episode: a frame before each, and the one at the end of its correction.

    An operator takes over because it goes wrong, and gives back when it goes well again: the second got further. What
    begins in an operator's hand, or goes on in it after a hold, is no take-over from the policy.

    Args:
        source: Who acted, values of `Source`, shape (T,).
        lead: Frames before the take-over; at most back to the correction before.

    >>> take_overs(np.array([0, 0, 0, 1, 1, 3, 0]), 2)
    [(1, 6)]
    """
    held = np.isin(source, IN_HAND)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], held, [False]]).astype(np.int8)))
    found, since = [], 0
    for begin, end in edges.reshape(-1, 2).tolist():
        if (source[since:begin] == Source.POLICY).any():
            found.append((max(since, begin - lead), end))
        since = end
    return found
