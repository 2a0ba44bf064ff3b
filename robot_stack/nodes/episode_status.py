"""What the actor tells the cell of an episode, each as one line of words: its status, and its request for a reset."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from robot_stack.types.errors import SpecError
from robot_stack.types.transition import EpisodeKind

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
