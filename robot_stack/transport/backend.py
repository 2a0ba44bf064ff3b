"""The interface of a learner to its gRPC server; every method is called from several threads at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from robot_stack.transport.roster import ActorStatus, Roster
from robot_stack.types.event import Label
from robot_stack.types.params import Params
from robot_stack.types.reward import LiveScore
from robot_stack.types.spec import Spec
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EpisodeHeader, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerStatus:
    """The state of a learner as it reports it to operators and actors.

    Attributes:
        phase: One word, e.g. collecting_demos, fitting, training, done.
        message: One plain sentence for an operator, may be empty.
        counters: Name -> number, e.g. env_steps, updates.
    """

    phase: str
    message: str = ""
    counters: Mapping[str, float] = field(default_factory=dict)
    actors: tuple[ActorStatus, ...] = ()


class LearnerBackend(Protocol):
    """The learner behind the server.

    A method may raise SpecError (the item itself is wrong; it is refused and the actor goes on) or StoreError (the
    disk refused; the actor tries again). It never waits longer than a disk write or its `timeout_s`.
    """

    @property
    def spec(self) -> Spec:
        """Return the spec of the run, against which every step is checked before it arrives here."""
        ...

    @property
    def task(self) -> str:
        """Return the name of the run's task."""
        ...

    @property
    def run_id(self) -> str:
        """Return the identity of the run, the same after a resume."""
        ...

    @property
    def roster(self) -> Roster:
        """Return the roster in which the server counts what each actor sends."""
        ...

    def hello(self) -> int:
        """Welcome an actor whose protocol, spec, task and run fit; return the number of steps of the run on disk."""
        ...

    def next_number(self, actor_id: str) -> int:
        """Return one above the number of every episode of that actor which the run knows, also by a verdict alone."""
        ...

    def wait_room(self, timeout_s: float) -> bool:
        """Wait until the learner has room for more steps; False after `timeout_s`. Until then none are read."""
        ...

    def begin(self, header: EpisodeHeader) -> bool:
        """Start an episode, on disk when this returns; False if it is there: the same header again changes nothing.

        More than `bounds.MAX_OPEN_EPISODES` of one actor at once are a SpecError.
        """
        ...

    def owner(self, episode_id: str) -> str | None:
        """Return the actor of an episode that has begun and not ended, who alone may add to it or have it cut."""
        ...

    def append(self, step: Step) -> bool:
        """Append the next step to an episode that was begun, maybe in an earlier life of this process.

        Returns False for a step it already holds, on disk or in memory, which changes nothing. Steps arrive in
        order; a gap, or a step behind the end of its episode, is a SpecError. Arrays are read-only views.
        """
        ...

    def cut(self, episode_id: str) -> None:
        """Close an episode, of which a step was refused, as a fault at its newest frame; harmless if it is closed."""
        ...

    def durable(self, episode_id: str) -> int:
        """Return the highest index on disk with everything before it, -1 for none. Cheap: asked 20 times a second.

        The backend flushes by itself at least each second, and, if it likes its actors to know at once, calls
        `LearnerServer.durable_advanced` after it.
        """
        ...

    def label(self, label: Label, *, by_actor: bool) -> None:
        """Append a verdict; on disk when this returns. The same (episode, source, stamp) counts once.

        Raises:
            RefusedError: If an actor judges an episode that was closed before it had ended it.
        """
        ...

    def mark(self, mark: StageMark) -> None:
        """Append a stage mark; on disk when this returns. The same mark counts once.

        Raises:
            SpecError: If it cannot be there, see `types.stages.check_mark`.
        """
        ...

    def params_after(self, version: int, timeout_s: float) -> Params | None:
        """Return the newest parameters with a version above `version`, or None once `timeout_s` has passed.

        `version` may be what an actor holds from before a resume: number the next ones above it.
        """
        ...

    def scores_after(self, cursor: int, timeout_s: float) -> tuple[int, Sequence[LiveScore]]:
        """Return live scores published since `cursor`, after the next cursor; () once `timeout_s` has passed.

        Cursor 0 is a new reader. Old scores may be dropped: only the newest of an episode matters.
        """
        ...

    def status(self) -> LearnerStatus:
        """Return the present state of the learner."""
        ...
