"""The verdict whether a policy learned from reward or from corrections, decided from its critic's figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from robot_stack.runs.critic import CriticFigures, Preference
from robot_stack.runs.rows import UpdateRow

REWARD_FROM = 0.5
"""Share of Q in the actor's gradient from which on reward is what the policy follows."""
IMITATION_BELOW = 0.1
"""Share of Q below which imitation is."""
KNOWS_FROM = 0.7
"""Share of rankings from which on a critic knows good actions from others; a guess is right in half of them."""
LEAST_STEPS = 30
"""Rankings below which nothing is said of a critic's knowledge."""


class LearnedFrom(StrEnum):
    """The source of what a policy learned online."""

    REWARD = "reward"
    BOTH = "both"
    IMITATION = "imitation"
    GUESSES = "guesses"
    """It followed a critic that does not know good actions from others."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verdict on a run, with the values behind it.

    Attributes:
        learned_from: The verdict.
        q_share: Mean share of Q in the actor's gradient over the second half of the updates, or None.
        corrections, own: What the critic knew, see `CriticFigures`.
    """

    learned_from: LearnedFrom
    q_share: float | None
    corrections: Preference
    own: Preference

    @property
    def sentence(self) -> str:
        """Return the verdict and its grounds as a sentence."""
        return f"{CLAIMS[self.learned_from]}: {self._grounds()}."

    def _grounds(self) -> str:
        if self.q_share is None:
            return "no update tells the gradients of Q and of imitation"
        grounds = f"Q made {100 * self.q_share:.0f} % of the actor's gradient in the second half of the updates"
        ranked = [
            f"{100 * each.share:.0f} % of {each.asked} {steps}"
            for each, steps in (
                (self.corrections, "corrections above the policy's proposal"),
                (self.own, "successful actions of the policy above random ones"),
            )
            if each.share is not None
        ]
        return (
            f"{grounds}, and ranked {' and '.join(ranked)}, asked before it was trained on them" if ranked else grounds
        )


CLAIMS = {
    LearnedFrom.REWARD: "The policy learned from reward",
    LearnedFrom.BOTH: "The policy learned from reward and from imitation",
    LearnedFrom.IMITATION: "The policy learned from imitation of demonstrations and corrections, not from reward",
    LearnedFrom.GUESSES: "The policy followed a critic that does not know good actions from others",
    LearnedFrom.UNKNOWN: "It cannot be said whether the policy learned from reward or from corrections",
}
"""What the verdict claims, as the beginning of a sentence."""


def judge(updates: Sequence[UpdateRow], critic: CriticFigures) -> Verdict:
    """Judge a run by its update rows and its critic's figures."""
    share = q_share(updates)
    return Verdict(
        learned_from=learned_from(share, critic.corrections, critic.own),
        q_share=share,
        corrections=critic.corrections,
        own=critic.own,
    )


def learned_from(share: float | None, corrections: Preference, own: Preference) -> LearnedFrom:
    """Decide from the share of Q in the actor's gradient, and from what the critic knew."""
    if share is None:
        return LearnedFrom.UNKNOWN
    if share < IMITATION_BELOW:
        return LearnedFrom.IMITATION
    told = [each.preferred / each.asked for each in (corrections, own) if each.asked >= LEAST_STEPS]
    if not told:
        return LearnedFrom.UNKNOWN
    if min(told) < KNOWS_FROM:
        return LearnedFrom.GUESSES
    return LearnedFrom.REWARD if share >= REWARD_FROM else LearnedFrom.BOTH


def q_share(updates: Sequence[UpdateRow]) -> float | None:
    """Return the mean share of Q in the actor's gradient over the second half of the updates.

    It is 0 for an algorithm without a critic, and None where no row tells it.
    """
    if not updates:
        return None
    if not any("q" in row.metrics for row in updates):
        return 0.0
    late = [row.q_share for row in updates if row.updates > updates[-1].updates / 2]
    known = [share for share in late if share is not None]
    return float(np.mean(known)) if known else None
