"""The intervention curriculum: which episode comes next, and how much an operator helps, by VLAC's graded protocol.

Level 0 trains online from the usual starts. Level 1 asks for demonstrations at the starts that failed, not at random
ones. Level 2 returns to starts where the policy succeeds sometimes. Level 3 also asks for a demonstration at a start
where it never does. Corrections of single motions are possible at any level.

Source: VLAC (Zhai et al., 2025, arXiv:2509.15937), the three levels. Deviations: numbers for when the level rises, of
which the paper has none; demonstrations join the expert half of RLPD's batches instead of a likelihood term beside PPO.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from robot_stack.config.run import ProtocolConfig
from robot_stack.rollout.episode_runner import Plan
from robot_stack.types.transition import EpisodeKind


class InterventionCurriculum:
    """The curriculum of online training, which plans each episode and is told how it went.

    Args:
        config: When the level rises.
        rng: Draws starts.

    Attributes:
        level: 0 to 3.
    """

    def __init__(self, config: ProtocolConfig, rng: np.random.Generator) -> None:
        self._config = config
        self._rng = rng
        self.level = 0
        self._nominal: list[bool] = []
        self._starts: dict[int, list[bool]] = {}
        self._asked: list[int] = []

    def next(self) -> Plan:
        """Plan the next episode: a demonstration that is asked for, else one of online training."""
        if self._asked:
            return Plan(kind=EpisodeKind.DEMO, seed=self._asked[0], level=self.level)
        if self.level >= 2 and self._rng.random() < self._config.return_share:
            starts = self._between()
            if starts:
                return Plan(
                    kind=EpisodeKind.ONLINE, seed=starts[int(self._rng.integers(len(starts)))], level=self.level
                )
        return Plan(kind=EpisodeKind.ONLINE, seed=None, level=self.level)

    def ended(self, plan: Plan, seed: int, *, alone: bool) -> None:
        """Take in how a planned episode ended.

        Args:
            plan: It was run by.
            seed: Of its reset.
            alone: It succeeded and nobody helped; of a demonstration, it succeeded.
        """
        if plan.kind is EpisodeKind.DEMO:
            self._asked = self._asked[1:] if alone else [*self._asked[1:], *self._asked[:1]]
            return
        tries = self._starts.setdefault(seed, [])
        tries.append(alone)
        if plan.seed is None:
            self._nominal.append(alone)
            self._escalate()
        elif self.level >= 3 and len(tries) >= self._config.tries and not any(tries):
            self._asked.append(seed)
            tries.clear()

    def _between(self) -> list[int]:
        """Return the starts neither too hard nor too easy; at level 3 also those that never succeeded, to get help.

        A start that failed once is worth another try: nothing is known of it yet.
        """
        found = []
        for seed, tries in self._starts.items():
            share = float(np.mean(tries)) if tries else 0.0
            low = 0.0 if self.level >= 3 or len(tries) < self._config.tries else self._config.lowest
            if low <= share <= self._config.highest:
                found.append(seed)
        return found

    def _escalate(self) -> None:
        newest = self._nominal[-self._config.window :]
        if len(newest) < self._config.window or float(np.mean(newest)) >= self._config.below:
            return
        if self.level >= self._config.max_level:
            return
        self.level += 1
        self._nominal.clear()
        if self.level == 1:
            failed = [seed for seed, tries in self._starts.items() if tries and not tries[-1]]
            self._asked = failed[-self._config.demos :]

    def state_dict(self) -> dict[str, Any]:
        """Return all that the curriculum knows, as JSON values."""
        return {
            "level": self.level,
            "nominal": self._nominal,
            "starts": {str(seed): tries for seed, tries in self._starts.items()},
            "asked": self._asked,
            "rng": self._rng.bit_generator.state,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state that `state_dict` returned."""
        self.level = state["level"]
        self._nominal = list(state["nominal"])
        self._starts = {int(seed): list(tries) for seed, tries in state["starts"].items()}
        self._asked = list(state["asked"])
        self._rng.bit_generator.state = state["rng"]
