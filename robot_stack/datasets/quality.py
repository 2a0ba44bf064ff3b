r"""Quality of demonstrations: how alike they act (action divergence) and the world answers (transition diversity).

The two properties are those of Belkhale, Cui and Sadigh, "Data Quality in Imitation Learning", NeurIPS 2023,
arXiv:2306.02437. The paper defines them through the policy that is learned; what is computed here are nearest-neighbour
estimates that need no policy, with their normalisation:

.. math:: D_e = \frac{\langle \| a_t - \bar a(N_k(s_t)) \|^2 \rangle_{t \in e}}{\langle \| a - \bar a \|^2 \rangle},
          \quad
          V_e = \frac{\langle \mathrm{var}\{ s'_j - s_j : j \in N_k(s_t, a_t) \} \rangle_{t \in e}}
                     {\mathrm{var}\{ s' - s \}}

N_k are the k nearest steps *of other demonstrations*; states are proprio vectors, each entry scaled to unit variance,
actions are in [-1, 1]. D = 0: in this state the others do the same; D around 1: the state says nothing about the
action. V = 0: a state and an action always lead to the same next state; V around 1: they say nothing about it. Images
are not looked at, so two states that differ only in what the cameras see count as one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

NEIGHBOURS = 5
REFERENCE_STEPS = 4096
"""At most so many steps are searched for neighbours, evenly spaced over all demonstrations."""
STEPS_PER_EPISODE = 64
"""At most so many steps of each demonstration are asked for, evenly spaced."""
BLOCK = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """The states and actions of one demonstration.

    Attributes:
        states: Proprio, float, shape (T+1, P).
        actions: Executed, float, shape (T, A), in [-1, 1].
    """

    states: np.ndarray
    actions: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """The quality of one demonstration, compared with the others.

    Attributes:
        action_divergence: D of the module's formula, at least 0.
        transition_diversity: V of the module's formula, at least 0.
    """

    action_divergence: float
    transition_diversity: float


def demonstration_quality(demos: Mapping[str, Demonstration], k: int = NEIGHBOURS) -> dict[str, Quality]:
    """Return the quality of each demonstration; empty for fewer than two, or too few steps to have neighbours."""
    demos = {name: demo for name, demo in demos.items() if len(demo.actions)}
    if len(demos) < 2:
        return {}
    states = np.concatenate([demo.states[:-1] for demo in demos.values()]).astype(np.float64)
    changes = np.concatenate([np.diff(demo.states.astype(np.float64), axis=0) for demo in demos.values()])
    actions = np.concatenate([demo.actions for demo in demos.values()]).astype(np.float64)
    owner = np.repeat(np.arange(len(demos)), [len(demo.actions) for demo in demos.values()])
    states, changes, both = _scaled(states), _scaled(changes), np.hstack([_scaled(states), _scaled(actions)])
    known = _spread(np.arange(len(owner)), REFERENCE_STEPS)
    if min((owner[known] != each).sum() for each in range(len(demos))) < k:
        return {}
    asked = np.concatenate([_spread(np.flatnonzero(owner == each), STEPS_PER_EPISODE) for each in range(len(demos))])

    near = known[_nearest(states[asked], owner[asked], states[known], owner[known], k)]
    apart = np.square(actions[asked] - actions[near].mean(axis=1)).sum(axis=1)
    divergence = apart / max(float(np.square(actions - actions.mean(axis=0)).sum(axis=1).mean()), 1e-12)
    near = known[_nearest(both[asked], owner[asked], both[known], owner[known], k)]
    diversity = changes[near].var(axis=1).sum(axis=1) / max(float(changes.var(axis=0).sum()), 1e-12)
    return {
        name: Quality(
            action_divergence=float(divergence[owner[asked] == each].mean()),
            transition_diversity=float(diversity[owner[asked] == each].mean()),
        )
        for each, name in enumerate(demos)
    }


def _scaled(values: np.ndarray) -> np.ndarray:
    """Scale every entry to mean 0 and variance 1; one that never changes is 0. Shape (N, D)."""
    spread = values.std(axis=0)
    scaled: np.ndarray = (values - values.mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf)
    return scaled


def _spread(rows: np.ndarray, most: int) -> np.ndarray:
    """Pick at most `most` of these rows, evenly spaced, the first and the last among them."""
    if len(rows) <= most:
        return rows
    found: np.ndarray = rows[np.linspace(0, len(rows) - 1, most).round().astype(int)]
    return found


def _nearest(asked: np.ndarray, asker: np.ndarray, known: np.ndarray, owner: np.ndarray, k: int) -> np.ndarray:
    """Return indices into `known` of the k nearest rows of other demonstrations, int, shape (len(asked), k)."""
    squares = np.square(known).sum(axis=1)
    found = []
    for start in range(0, len(asked), BLOCK):
        block = asked[start : start + BLOCK]
        distance = squares - 2 * block @ known.T  # without the part that is the same for all of a row
        distance[asker[start : start + BLOCK, None] == owner] = np.inf
        found.append(np.argpartition(distance, k - 1, axis=1)[:, :k])
    return np.concatenate(found)
