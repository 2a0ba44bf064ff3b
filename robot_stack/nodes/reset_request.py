"""The request to a simulator before an episode: a seed, the task and whether the scene stays, as text."""

from __future__ import annotations

from dataclasses import dataclass

from robot_stack.types.errors import SpecError

_TASK, _AS_IT_IS = "task=", "as_it_is"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRequest:
    """A request to the simulator for the start of an episode.

    Attributes:
        seed: Of what is drawn.
        task_id: Which of the tasks that take turns begins; None: the first.
        scene: The objects are put back; else they stay, and so do the arms.
    """

    seed: int
    task_id: str | None = None
    scene: bool = True

    def to_text(self) -> str:
        """Write the request as it is sent on reset/request: `12`, or `12 task=peg_insert as_it_is`."""
        words = [str(self.seed)]
        words += [] if self.task_id is None else [_TASK + self.task_id]
        words += [] if self.scene else [_AS_IT_IS]
        return " ".join(words)

    @classmethod
    def from_text(cls, text: str) -> ResetRequest:
        """Parse a request, the inverse of `to_text`.

        Raises:
            SpecError: If the text is none.
        """
        seed, *words = text.split() or [""]
        tasks = [word.removeprefix(_TASK) for word in words if word.startswith(_TASK)]
        if not seed.isdecimal() or len(tasks) > 1 or not {*words} <= {*map(_TASK.__add__, tasks), _AS_IT_IS}:
            raise SpecError(
                f"reset request is {text!r}, must be a seed, then {_TASK}ID or {_AS_IT_IS}; update the sender"
            )
        return cls(seed=int(seed), task_id=tasks[0] if tasks else None, scene=_AS_IT_IS not in words)
