"""The one runner of episodes: an actor, a recorder, a deployment and an evaluation differ in what they plan with it.

It numbers an episode, lets the task schedule decide how it starts, runs it in the control loop, and says why an episode
could not be run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from robot_stack.config.resolved import ResolvedRun
from robot_stack.rollout.asking.asker import Asker
from robot_stack.rollout.control_loop import ControlLoop, EpisodeOutcome, LoopLimits, NoLongerWanted, TickRecord
from robot_stack.rollout.task_schedule import TaskSchedule, fresh_schedule, run_in_turn
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError, StackError
from robot_stack.types.interfaces import Cell, Clock, Policy, ScoreSource, StepSink
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, ResetType

log = logging.getLogger(__name__)

IDLE_S = 0.3
"""Between two looks at whether the cell and the plan allow an episode."""
RETRY_S = 1.0
VERDICT_S, VERDICT_IN_TURN_S = 0.8, 3.0
"""How long a success that the model declares may be refused before the next episode: in turn, all the time that the
page gives for it, since what follows begins with what was declared."""
_SEED_OFFSETS = {EpisodeKind.DEMO: 0, EpisodeKind.ONLINE: 1 << 20, EpisodeKind.EVAL: 1 << 30}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan of one episode: who acts, and from which start.

    Attributes:
        kind: DEMO: an operator demonstrates. ONLINE: the policy trains online. EVAL: it is measured, without noise.
        seed: Of the reset to return to, None for a fresh one.
        level: Of the intervention curriculum at which it was planned.
    """

    kind: EpisodeKind
    seed: int | None = None
    level: int = 0

    @property
    def reset(self) -> ResetType:
        """Return NOMINAL for a fresh start, RETURN for one that was met before."""
        return ResetType.NOMINAL if self.seed is None else ResetType.RETURN


class Ran(NamedTuple):
    """An episode that was run: its plan and its outcome."""

    plan: Plan
    outcome: EpisodeOutcome


class EpisodeRunner:
    """A runner of episodes on one cell, one after the other.

    Args:
        resolved: The run.
        cell: What is sensed and moved.
        clock: Of the control loop.
        sink: Gets every step as executed.
        actor: Id in headers and in episode ids.
        next_number: Returns the number of the next episode, each number once.
        policy: Acts in all episodes but demonstrations; None where there are only these.
        scores: Live scores of the reward model, which may declare success.
        schedule: Decides which task an episode is of, and whether the scene is put back; None: all but a way back,
            and always.
        transient: Errors after which an episode is tried again, see `attempt`.
        asker: Asks for help in online training; None: nobody is asked.
    """

    def __init__(
        self,
        resolved: ResolvedRun,
        cell: Cell,
        clock: Clock,
        sink: StepSink,
        *,
        actor: str,
        next_number: Callable[[], int],
        policy: Policy | None = None,
        scores: ScoreSource | None = None,
        schedule: TaskSchedule | None = None,
        transient: tuple[type[StackError], ...] = (RobotError,),
        asker: Asker | None = None,
    ) -> None:
        task = resolved.task
        self._task = task.name
        self._run_seed = resolved.run.seed
        self._cell = cell
        self._sink = sink
        self._actor = actor
        self._next_number = next_number
        self._policy = policy
        self._scores = scores
        self._schedule = schedule or fresh_schedule(task)
        self._transient = transient
        limits = LoopLimits(
            episode_steps=task.episode_steps,
            max_params_age_s=resolved.run.training.max_params_age_s,
            verdict_s=VERDICT_S if len(task.turns) == 1 else VERDICT_IN_TURN_S,
            stages=task.stages,
        )
        self._loop = ControlLoop(cell, resolved.spec(), clock, limits, asker)

    @property
    def ticks(self) -> TickRecord:
        """Return the ticks of the running episode, or else of the last one."""
        return self._loop.ticks

    def run(
        self,
        plan: Plan,
        stopping: Callable[[], bool] = lambda: False,
        wanted: Callable[[], bool] = lambda: True,
    ) -> EpisodeOutcome:
        """Run one episode as planned.

        Args:
            plan: Who acts, and from which start.
            stopping: Asked at every tick; True ends the episode at once, cut short by the operator.
            wanted: Asked once the cell is reset.

        Raises:
            RobotError: If the reset or the start fails; nothing has been recorded then, and the cell holds.
            NoLongerWanted: If the episode is not wanted after the reset; nothing has been recorded then.
            StackError: If the episode gets no number, or the sink takes no episode.
        """
        number = self._next_number()
        turn = self._schedule.next(number)
        header = EpisodeHeader(
            episode_id=episode_id(number, plan.kind, self._actor),
            kind=plan.kind,
            task=self._task,
            actor=self._actor,
            started_unix_s=time.time(),
            seed=reset_seed(self._run_seed, plan.kind, number) if plan.seed is None else plan.seed,
            level=plan.level,
            reset=plan.reset if turn.fresh else ResetType.CARRIED,
            task_id=turn.task_id,
        )
        episode = partial(
            self._loop.run_episode,
            header,
            None if plan.kind is EpisodeKind.DEMO else self._policy,
            self._sink,
            scores=self._scores,
            deterministic=plan.kind is EpisodeKind.EVAL,
            stopping=stopping,
            wanted=wanted,
        )
        outcome = run_in_turn(self._schedule, turn, episode)
        for why in outcome.refused_marks:
            log.warning("%s", why)
        return outcome

    def attempt(
        self,
        plan: Callable[[], Plan | None],
        stop: threading.Event,
        refused: Callable[[StackError], None],
        wanted: Callable[[], bool] = lambda: True,
    ) -> Ran | None:
        """Run one episode if the cell, the plan and the surroundings allow it now; otherwise wait a moment.

        Args:
            plan: Asked while the cell is not in STOP; None: there is nothing to do yet.
            stop: Ends the episode, and the waiting.
            refused: Told the transient error that stood in the way; what moved has come to rest then.
            wanted: Asked once the cell is reset; False gives the episode up before it begins.

        Returns:
            None if no episode was run.
        """
        if self._cell.mode() is Mode.STOP:
            stop.wait(IDLE_S)
            return None
        try:
            planned = plan()
            if planned is None:
                stop.wait(IDLE_S)
                return None
            return Ran(planned, self.run(planned, stop.is_set, wanted))
        except NoLongerWanted:
            stop.wait(IDLE_S)
            return None
        except self._transient as error:
            refused(error)
            stop.wait(RETRY_S)
            return None


def reset_seed(run_seed: int, kind: EpisodeKind, number: int) -> int:
    """Return the seed of reset `number`.

    Held-out resets never appear in training, and are the same for all policies compared: evaluation does not depend on
    the run's seed.
    """
    base = 0 if kind is EpisodeKind.EVAL else (run_seed % 256) << 21
    return _SEED_OFFSETS[kind] + base + number


def episode_id(number: int, kind: EpisodeKind, actor: str) -> str:
    """Return the id of an episode, sortable and unique in a run: number, kind, actor."""
    return f"{number:06d}-{kind.value}-{actor}"
