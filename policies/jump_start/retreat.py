"""The schedule by which the guide gives up its ticks."""

from __future__ import annotations

from typing import Any


class Retreat:
    """The number of ticks that the guide acts for, lowered a stage at a time while success holds.

    Source: Uchendu et al., 2022, arXiv:2204.02372, algorithm 1: a stage is passed when the mean return of its episodes
    is within a tolerance of the best so far. Deviations: an episode counts as a success only without an operator's
    help, and no stage but the first is passed without any success.
    """

    def __init__(self, *, steps: int, stages: int, window: int, tolerance: float) -> None:
        self._steps, self._stages, self._window, self._tolerance = steps, stages, window, tolerance
        self._passed = 0
        self._best = 0.0
        self._results: list[float] = []

    @property
    def guide_steps(self) -> int:
        """Return the ticks that the guide acts for now."""
        return round(self._steps * (1 - self._passed / self._stages))

    def episode_ended(self, alone: bool) -> None:
        """Count an episode of the present stage, and pass the stage if success has held."""
        if self._passed == self._stages:
            return
        self._results.append(float(alone))
        if len(self._results) < self._window:
            return
        recent = sum(self._results[-self._window :]) / self._window
        # the first stage has nothing to be held against; after it a tolerance must not let failures alone pass
        if self._passed == 0 or (recent > 0 and recent >= self._best - self._tolerance):
            self._best = max(self._best, recent)
            self._passed += 1
            self._results = []

    def state_dict(self) -> dict[str, Any]:
        """Return all state of the schedule."""
        return {"passed": self._passed, "best": self._best, "results": self._results}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state that `state_dict` returned."""
        self._passed, self._best, self._results = state["passed"], state["best"], list(state["results"])
