"""The rule by which the reward model may declare success: n of m frames over the threshold, and the proprio gate."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np

from robot_stack.config.task import GateCondition, SuccessConfig
from robot_stack.types.spec import Spec


class ProprioGate:
    """The condition on proprio that must hold before success may be declared."""

    def __init__(self, config: SuccessConfig, spec: Spec) -> None:
        self._low = np.full(spec.proprio_size, -np.inf)
        self._high = np.full(spec.proprio_size, np.inf)
        for part, condition in _parts(spec, config.gate):
            for bound, values in ((self._low, condition.min), (self._high, condition.max)):
                for i, value in enumerate(values or ()):
                    if value is not None:
                        bound[part.start + i] = value

    def open_at(self, proprio: np.ndarray) -> bool:
        """Whether it holds, of proprio (P,)."""
        return bool(np.all(proprio >= self._low) and np.all(proprio <= self._high))


class SuccessRule:
    """Stateful over one episode: feed frames in order."""

    def __init__(self, config: SuccessConfig, spec: Spec) -> None:
        self._config = config
        self._gate = ProprioGate(config, spec)
        self._hits: deque[bool] = deque(maxlen=config.n_of_m.m)
        self.declared = False

    def reset(self) -> None:
        """A new episode."""
        self._hits.clear()
        self.declared = False

    def update(self, success: float, proprio: np.ndarray) -> bool:
        """Take the next frame: success probability (NaN never hits) and proprio (P,). Latches."""
        self._hits.append(self._gate.open_at(proprio) and success >= self._config.threshold)
        self.declared = self.declared or sum(self._hits) >= self._config.n_of_m.n
        return self.declared


def _parts(spec: Spec, gate: Mapping[str, GateCondition]) -> list[tuple[slice, GateCondition]]:
    found, offset = [], 0
    for field in spec.proprio:
        if field.name in gate:
            found.append((slice(offset, offset + field.size), gate[field.name]))
        offset += field.size
    return found
