"""Action divergence and transition diversity on demonstrations of which both are known."""

from __future__ import annotations

import numpy as np
import pytest

from robot_stack.datasets.quality import Demonstration, demonstration_quality


def walks(
    rng: np.random.Generator, count: int, *, action_noise: float = 0.0, state_noise: float = 0.0
) -> dict[str, Demonstration]:
    """Demonstrations that go to the origin, s' = s + 0.2 a with a = -s, with noise on either."""
    found = {}
    for number in range(count):
        states = [rng.uniform(-1, 1, 2)]
        actions = []
        for _ in range(40):
            actions.append(np.clip(-states[-1] + action_noise * rng.normal(size=2), -1, 1))
            states.append(states[-1] + 0.2 * actions[-1] + state_noise * rng.normal(size=2))
        found[f"{number}"] = Demonstration(states=np.array(states), actions=np.array(actions))
    return found


def mean(demos: dict[str, Demonstration], name: str) -> float:
    return float(np.mean([getattr(each, name) for each in demonstration_quality(demos).values()]))


def test_demonstrations_that_act_alike_do_not_diverge() -> None:
    assert mean(walks(np.random.default_rng(0), 20), "action_divergence") < 0.1


def test_random_actions_diverge_as_much_as_they_vary() -> None:
    """Against the mean of k random others: (1 + 1/k) times the variance, k = 5."""
    rng = np.random.default_rng(0)
    demos = {
        f"{i}": Demonstration(states=rng.normal(size=(41, 2)), actions=rng.uniform(-1, 1, (40, 2))) for i in range(20)
    }
    assert mean(demos, "action_divergence") == pytest.approx(1.2, abs=0.1)
    assert mean(demos, "transition_diversity") > 0.3


def test_the_one_that_acts_otherwise_is_found() -> None:
    demos = walks(np.random.default_rng(1), 12)
    odd = demos["7"]
    demos["7"] = Demonstration(states=odd.states, actions=-odd.actions)
    quality = demonstration_quality(demos)
    assert max(quality, key=lambda name: quality[name].action_divergence) == "7"


def test_noise_of_the_world_is_diversity_and_noise_of_the_hand_is_divergence() -> None:
    def pair(**noise: float) -> tuple[float, float]:
        demos = walks(np.random.default_rng(2), 20, **noise)
        return mean(demos, "action_divergence"), mean(demos, "transition_diversity")

    clean, shaky, slippery = pair(), pair(action_noise=0.5), pair(state_noise=0.1)
    assert shaky[0] > 3 * clean[0]
    assert slippery[1] > 3 * clean[1]


def test_one_demonstration_has_nobody_to_be_compared_with() -> None:
    assert demonstration_quality(walks(np.random.default_rng(0), 1)) == {}
    assert demonstration_quality({}) == {}


def test_state_that_never_changes_is_no_trouble() -> None:
    demos = {
        name: Demonstration(states=np.hstack([each.states, np.full((41, 1), 3.0)]), actions=each.actions)
        for name, each in walks(np.random.default_rng(0), 6).items()
    }
    assert all(np.isfinite(each.action_divergence) for each in demonstration_quality(demos).values())
