"""Reward and discount of n-step transitions, computed when sampled and never stored.

Source: Ng, Harada and Russell, 1999, potential-based shaping: r + γⁿ Φ(s') - Φ(s) with Φ(terminal) = 0 leaves the
best policy what it was. The other forms are what is often done instead, for comparison: a policy may be paid for
staying where Φ is high, and be right to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robot_stack.replay.outcome import Outcome
from robot_stack.types.errors import ConfigError
from robot_stack.types.reward import RewardForm


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardRule:
    """The rule that turns outcomes and potentials into reward.

    Attributes:
        success: Reward on the transition into a success.
        failure: Reward on the transition into a failure.
        step_penalty: Taken off each step.
        shaping: Weight of the shaping term; 0 leaves the sparse reward alone.
        form: How Φ becomes reward. Other forms than potential-based are of single steps: not of n-step returns, and
            without a Monte Carlo return.
        shaping_discount: γ of the shaping where it is another than that of the returns, while that is on its way there:
            with the low one, shaping would take back what it gives. Until then it is of single steps, without a Monte
            Carlo return, like the other forms. None: the same.
    """

    success: float = 1.0
    failure: float = 0.0
    step_penalty: float = 0.0
    shaping: float = 1.0
    form: RewardForm = "potential"
    shaping_discount: float | None = None

    def __post_init__(self) -> None:
        for name, low in (("success", None), ("failure", None), ("step_penalty", 0.0), ("shaping", 0.0)):
            value = getattr(self, name)
            if not np.isfinite(value) or (low is not None and value < low):
                raise ConfigError(f"reward {name} is {value}, must be finite" + ("" if low is None else " and >= 0"))


def payout(
    form: RewardForm, discount: np.ndarray, *, phi: np.ndarray, next_phi: np.ndarray, terminal: np.ndarray
) -> np.ndarray:
    """Compute what Φ adds to the reward of single steps in any form.

    Arguments and returns are those of `shaping`, but for this one:

    Args:
        next_phi: Looked at where the task ended too, unless the form is potential-based.
    """
    if form == "potential":
        return shaping(discount, phi=phi, next_phi=next_phi, terminal=terminal)
    term = {"sparse": np.zeros(len(phi)), "absolute": next_phi, "difference": next_phi - phi}[form]
    return np.where(np.isnan(term), 0.0, term)


def shaping(discount: np.ndarray, *, phi: np.ndarray, next_phi: np.ndarray, terminal: np.ndarray) -> np.ndarray:
    r"""Compute potential-based shaping :math:`\gamma^m \Phi(s') - \Phi(s)` with Φ = 0 where the task ended.

    Summed along an episode, each term with the discount of its step, it telescopes: to -Φ of the first frame where the
    task ended, to :math:`\gamma^T \Phi_T - \Phi_0` where time ran out, whatever the model says in between. So no
    way through the episode is worth more than another, and nothing is paid for staying where Φ is high.

    Args:
        discount: γ to the power of the steps from s to s', float64, shape (B,).
        phi: Φ(s), float64, shape (B,), NaN where not valid.
        next_phi: Φ(s'), same, of the same model version; not looked at where the task ended.
        terminal: Whether the task ended at s', bool, shape (B,); False where it was cut short.

    Returns:
        float64, shape (B,); 0 where a Φ that counts is not valid.
    """
    term = np.where(terminal, 0.0, discount * next_phi) - phi
    return np.where(np.isnan(term), 0.0, term)


def returns(
    rule: RewardRule, gamma: float, *, steps: np.ndarray, outcome: np.ndarray, phi: np.ndarray, next_phi: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    r"""Compute reward :math:`\sum_{k<m} \gamma^k r_k + w (\gamma^m \Phi(s') - \Phi(s))` and discount :math:`\gamma^m`.

    Args:
        gamma: Discount per control tick.
        steps: m, transitions behind each row, int64, shape (B,).
        outcome: `Outcome` at s', int, shape (B,); OPEN unless the task ended there.
        phi: Φ(s), float64, shape (B,), NaN where not valid; a NaN on either side masks the shaping of its row.
        next_phi: Φ(s'), same; not looked at where the task ended, unless the form is not potential-based.

    Returns:
        Reward and discount, float32, shape (B,); discount is 0 where the task ended.
    """
    worth = np.array([0.0, rule.success, rule.failure, 0.0])
    terminal = ended(outcome)
    powers = gamma ** np.arange(int(steps.max(initial=0)) + 1, dtype=np.float64)
    penalties = rule.step_penalty * np.concatenate([[0.0], np.cumsum(powers[:-1])])
    discount = powers[steps]
    sparse = powers[steps - 1] * worth[outcome] - penalties[steps]
    within = discount if rule.shaping_discount is None else rule.shaping_discount**steps
    reward = sparse + rule.shaping * payout(rule.form, within, phi=phi, next_phi=next_phi, terminal=terminal)
    return reward.astype(np.float32), np.where(terminal, 0.0, discount).astype(np.float32)


def monte_carlo(
    rule: RewardRule, gamma: float, *, steps: np.ndarray, outcome: np.ndarray, phi: np.ndarray
) -> np.ndarray:
    r"""Compute the discounted reward of all that was executed from s to the end: `returns` of all steps left.

    Shaping telescopes to :math:`-w \Phi(s)`, so only an invalid Φ(s) masks it, whatever the Φ in between.

    Args:
        gamma: Discount per control tick.
        steps: Control ticks from s to the newest frame of its episode, missed ones too, int, shape (B,).
        outcome: `Outcome` at that frame, int, shape (B,).
        phi: Φ(s), float64, shape (B,), NaN where not valid.

    Returns:
        float32, shape (B,); NaN where the task has not ended, or where the form does not telescope.
    """
    if rule.form in ("absolute", "difference") or rule.shaping_discount not in (None, gamma):
        return np.full(len(phi), np.nan, np.float32)
    reward, _ = returns(rule, gamma, steps=steps, outcome=outcome, phi=phi, next_phi=np.zeros(len(phi)))
    return np.where(ended(outcome), reward, np.float32(np.nan))


def ended(outcome: np.ndarray) -> np.ndarray:
    """Return True where the task itself ended, so that no value lies behind it; `Outcome`, int, shape (B,)."""
    return np.asarray((outcome == Outcome.SUCCESS) | (outcome == Outcome.FAILURE))
