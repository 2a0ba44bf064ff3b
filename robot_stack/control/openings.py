"""What stands for "nobody moved the gripper": the opening that it was told last, not the one that is measured.

Fingers that are told to close and stopped by a part squeeze it; told the opening at which they stand, they let go.
"""

from __future__ import annotations

from collections.abc import Mapping

from robot_stack.types.interfaces import ExecutedWindow
from robot_stack.types.observation import Observation
from robot_stack.types.spec import Spec


class Openings:
    """The openings that the grippers of a cell were told last in an episode, in [0, 1].

    Raises:
        SpecError: If a measured opening has another size than 1.
    """

    def __init__(self, spec: Spec) -> None:
        self._places = spec.openings
        self._told: dict[str, float] = {}

    def begin_episode(self) -> None:
        """Forget what the grippers were told."""
        self._told = {}

    def take(self, windows: Mapping[str, ExecutedWindow]) -> None:
        """Take in what each arm executed since the last control tick."""
        self._told |= {arm: window.gripper for arm, window in windows.items() if window.gripper is not None}

    def at(self, observation: Observation) -> dict[str, float]:
        """Return arm -> opening, as measured where its gripper was told nothing yet; no arm that says neither."""
        measured = {arm: float(observation.proprio[index]) for arm, index in self._places.items()}
        return measured | self._told
