"""The status of an episode, which the actor sends to the cell as one line of `key=value` words."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from robot_stack.types.errors import SpecError
from robot_stack.types.transition import EpisodeKind


class Phase(StrEnum):
    """The phase of an episode that the actor is in."""

    RESETTING = "resetting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeStatus:
    """The actor's phase and, once there is one, the episode it belongs to."""

    phase: Phase
    kind: EpisodeKind | None = None
    episode_id: str = ""
    task_id: str | None = None
    """Which of the tasks that take turns; None: the first."""

    def to_text(self) -> str:
        """Write the status as it is sent on episode/status."""
        words = [f"phase={self.phase}"]
        if self.kind is not None:
            words += [f"kind={self.kind}", f"episode={self.episode_id}"]
        if self.task_id is not None:
            words.append(f"task={self.task_id}")
        return " ".join(words)

    @classmethod
    def from_text(cls, text: str) -> EpisodeStatus:
        """Parse a status, the inverse of `to_text`.

        Raises:
            SpecError: If the text is no status.
        """
        pairs = dict(word.partition("=")[::2] for word in text.split())
        try:
            kind = EpisodeKind(pairs["kind"]) if "kind" in pairs else None
            episode_id, task_id = pairs.get("episode", ""), pairs.get("task")
            return cls(phase=Phase(pairs["phase"]), kind=kind, episode_id=episode_id, task_id=task_id)
        except (KeyError, ValueError) as error:
            legal = [phase.value for phase in Phase]
            raise SpecError(f"episode status is {text!r}, must name a phase of {legal}; update the sender") from error
