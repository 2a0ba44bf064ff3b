"""The rule by which the reward model may declare success: n of m frames over the threshold, and the proprio gate."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from reward_models.model_per_task import nearest
from robot_stack.config.task import SuccessConfig, TaskConfig
from robot_stack.types.spec import Spec


class ProprioGate:
    """The condition on proprio that must hold before success may be declared."""

    def __init__(self, config: SuccessConfig, spec: Spec) -> None:
        self._low = np.full(spec.proprio_size, -np.inf)
        self._high = np.full(spec.proprio_size, np.inf)
        for name, condition in config.gate.items():
            part = spec.part(name)
            for bound, values in ((self._low, condition.min), (self._high, condition.max)):
                for i, value in enumerate(values or ()):
                    if value is not None:
                        bound[part.start + i] = value

    def open_at(self, proprio: np.ndarray) -> bool:
        """Return whether the condition holds at proprio (P,)."""
        return bool(np.all(proprio >= self._low) and np.all(proprio <= self._high))


class Rule(Protocol):
    """A success rule over one episode: stateful, fed with the frames in order."""

    def update(self, success: float, proprio: np.ndarray) -> bool:
        """Take the next frame: success probability (NaN never hits) and proprio (P,). Latches."""
        ...


class SuccessRule:
    """The success rule of one task: n of m frames over the threshold with the proprio gate open."""

    def __init__(self, config: SuccessConfig, spec: Spec) -> None:
        self._config = config
        self._gate = ProprioGate(config, spec)
        self._hits: deque[bool] = deque(maxlen=config.n_of_m.m)
        self.declared = False

    def update(self, success: float, proprio: np.ndarray) -> bool:
        """Take the next frame, see `Rule`."""
        self._hits.append(self._gate.open_at(proprio) and success >= self._config.threshold)
        self.declared = self.declared or sum(self._hits) >= self._config.n_of_m.n
        return self.declared


class RulePerTask:
    """The success rules of tasks that take turns, of which proprio says which one it is.

    Args:
        rules: By the values of the proprio field in the task, see `TaskTurn.told`.
        told_at: Where that field is.
    """

    def __init__(self, rules: Mapping[tuple[float, ...], SuccessRule], told_at: slice) -> None:
        self._rules = dict(rules)
        self._at = told_at

    def update(self, success: float, proprio: np.ndarray) -> bool:
        """Take the next frame, see `Rule`."""
        return self._rules[nearest(self._rules, proprio[self._at])].update(success, proprio)


def success_rule(task: TaskConfig, spec: Spec) -> Rule:
    """Build the success rule for one episode of a task, or of one that takes turns with it."""
    rules = {turn.told: SuccessRule(turn.success, spec) for turn in task.turns}
    if task.told_by is None:
        return rules[()]
    return RulePerTask(rules, spec.part(task.told_by))
