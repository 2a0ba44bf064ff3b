"""The one loop that records, trains, evaluates and deploys: observation in, action out, every tick recorded.

It meets the cell, the recorder and the scores only through Protocols, so it is the same over DDS in real time and in
one process as fast as MuJoCo goes. Nothing in a tick waits without a bound, writes to disk or uses the network.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from robot_stack.control.action_space import ActionSpace
from robot_stack.control.executed import dominant
from robot_stack.control.openings import Openings
from robot_stack.rollout.asking.account import HelpAccount
from robot_stack.rollout.asking.asker import Asker
from robot_stack.rollout.asking.line import HelpLine
from robot_stack.types.command import IN_HAND, Mode, Source
from robot_stack.types.errors import RobotError, SpecError
from robot_stack.types.event import Label, LabelSource, Verdict
from robot_stack.types.interfaces import (
    TIME_IS_UP,
    Cell,
    Clock,
    ExecutedWindow,
    Policy,
    ScoreSource,
    SteeredCell,
    SteersBase,
    StepSink,
)
from robot_stack.types.observation import Observation
from robot_stack.types.reason import RefusalKind
from robot_stack.types.spec import BASE, Spec
from robot_stack.types.stages import StageMark, next_mark
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, ResetType, Step

BY_OPERATOR = (RefusalKind.KEY, RefusalKind.SERVICE, RefusalKind.EMERGENCY_STOP)
"""Kinds of HOLD that somebody asked for."""
_BY_VERDICT = {
    Verdict.SUCCESS: EndReason.SUCCESS,
    Verdict.FAILURE: EndReason.FAILURE,
    Verdict.DISCARD: EndReason.OPERATOR,
}
BLIND_LIMIT_S = 2.0
"""An episode without a usable observation for so long ends as a fault."""


@dataclass(slots=True, kw_only=True)
class TickRecord:
    """A record of the ticks of one episode, for the control figures: seconds, one entry per tick."""

    jitter_s: list[float] = field(default_factory=list)
    age_s: list[float] = field(default_factory=list)
    skew_s: list[float] = field(default_factory=list)
    act_s: list[float] = field(default_factory=list)
    params_age_s: list[float] = field(default_factory=list)
    blind_ticks: int = 0
    holds: int = 0
    holds_by_operator: int = 0
    hold_reasons: list[str] = field(default_factory=list)

    def note(self, reason: str) -> None:
        """Note a reason for standing still, once each."""
        if reason not in self.hold_reasons:
            self.hold_reasons.append(reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeOutcome:
    """The outcome of an episode: why it ended, who acted, and who said what of it.

    Attributes:
        header: Which episode.
        end: Why it ended; a FAULT too if the cell did not take in that it is over.
        steps: Recorded actions.
        human_steps: Steps in an operator's hand, moving or not.
        base_steps: Steps that the base policy led in the policy's place.
        declared: True if the reward model declared success.
        refused: True if the operator refused that.
        operator: What the operator said, or None.
        truth: Simulator's truth at the end, or None.
        duration_s: Robot time.
        ticks: Times.
        help: Account of the help that the policy asked for; None where it does not ask.
        refused_marks: Why marks of stages were refused.
    """

    header: EpisodeHeader
    end: EndReason
    steps: int
    human_steps: int
    base_steps: int
    declared: bool
    refused: bool
    operator: Verdict | None
    truth: bool | None
    duration_s: float
    ticks: TickRecord
    help: HelpAccount | None = None
    refused_marks: tuple[str, ...] = ()

    @property
    def judged_end(self) -> EndReason:
        """Return why it ended by the operator's verdict where there is one; a fault stays one."""
        if self.operator is None or self.end is EndReason.FAULT:
            return self.end
        return _BY_VERDICT[self.operator]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopLimits:
    """Limits on how long an episode, its parameters and a verdict may take.

    Attributes:
        episode_steps: Longest episode.
        max_params_age_s: The policy stops acting on older parameters; None never.
        verdict_s: How long the operator may refuse a declared success before the reset.
        stages: Names of the task's stages, of which no more are marked; () where it names none.
    """

    episode_steps: int
    max_params_age_s: float | None = None
    verdict_s: float = 0.8
    stages: tuple[str, ...] = ()


class NoLongerWanted(Exception):
    """An episode was not begun, since nobody wanted it any more once the cell was reset."""


class ControlLoop:
    """A control loop that runs episodes on a cell, one after the other.

    Args:
        cell: What is sensed and moved.
        spec: Of the cell.
        clock: Of the ticks.
        limits: On episodes, parameters and verdicts.
        asker: Asks for help in episodes of online training; None: nobody is asked.
    """

    def __init__(self, cell: Cell, spec: Spec, clock: Clock, limits: LoopLimits, asker: Asker | None = None) -> None:
        self._cell = cell
        self._spec = spec
        self._clock = clock
        self._limits = limits
        self._asker = asker
        self._steer = cell.steer if isinstance(cell, SteeredCell) else None
        self._space = ActionSpace(spec)
        self._openings = Openings(spec)
        self._period_ns = round(spec.period_s * 1e9)
        self.ticks = TickRecord()
        """Of the running episode, or else of the last one."""

    def run_episode(
        self,
        header: EpisodeHeader,
        policy: Policy | None,
        sink: StepSink,
        *,
        scores: ScoreSource | None = None,
        deterministic: bool = False,
        stopping: Callable[[], bool] = lambda: False,
        wanted: Callable[[], bool] = lambda: True,
    ) -> EpisodeOutcome:
        """Reset the cell, then tick until the episode ends.

        Args:
            header: Id, kind and seed of the episode.
            policy: Acts, or None in a demonstration.
            sink: Gets every step as executed.
            scores: Live scores of the reward model, which may declare success.
            deterministic: Whether the policy acts without noise.
            stopping: Asked at every tick; True ends the episode at once, cut short by the operator.
            wanted: Asked once the cell is reset, which may have taken minutes.

        Raises:
            RobotError: If the reset or the start fails; no frame has been recorded then, and the cell holds.
            NoLongerWanted: If the episode is not wanted after the reset; nothing has been recorded then.
        """
        self._cell.reset(header.seed, task_id=header.task_id, scene=header.reset is not ResetType.CARRIED)
        if not wanted():
            raise NoLongerWanted
        if policy is not None:
            policy.begin_episode()
        self._openings.begin_episode()
        sink.begin(header)
        episode = _Episode(header, policy, sink, scores, deterministic, self._spec.action_size)
        episode.help = self._help_line(header, policy, scores)
        self.ticks = episode.ticks
        try:
            self._cell.start(header.episode_id, header.kind)  # may fail after it has handed over
            end = self._tick_until_end(episode, stopping)
        finally:
            finished = self._finish(episode)
        if episode.observation is not None and episode.index > 0:
            episode.push(None, end)
        if finished:  # else nobody knows what the cell does, and it is asked for nothing more
            self._hear(episode)
        self._say(episode)
        return self._outcome(episode, end if finished else EndReason.FAULT)

    def _finish(self, episode: _Episode) -> bool:
        """Tell the cell that the episode is over; False if it cannot be told, which is the fault that it ends with."""
        try:
            if episode.help is not None:
                episode.help.leave()
            self._cell.finish()
        except RobotError as error:
            episode.ticks.hold_reasons.append(str(error))
            return False
        return True

    def _help_line(self, header: EpisodeHeader, policy: Policy | None, scores: ScoreSource | None) -> HelpLine | None:
        if self._asker is None or policy is None or header.kind is not EpisodeKind.ONLINE:
            return None
        now_ns = self._clock.now_ns()
        return HelpLine(self._asker, self._cell, policy, scores, episode_id=header.episode_id, now_ns=now_ns)

    def _tick_until_end(self, episode: _Episode, stopping: Callable[[], bool]) -> EndReason:
        start_ns = self._clock.now_ns()
        for tick in range(100 * self._limits.episode_steps):
            due_ns = start_ns + tick * self._period_ns
            self._clock.sleep_until_ns(due_ns)
            now_ns = self._clock.now_ns()
            if now_ns - due_ns > self._period_ns:  # overrun: skip ticks, never burst
                start_ns += (now_ns - due_ns) // self._period_ns * self._period_ns
            episode.ticks.jitter_s.append(abs(now_ns - due_ns) / 1e9)
            try:
                end = self._tick(episode, now_ns)
                if end is None and stopping():
                    end = EndReason.OPERATOR
            except (RobotError, SpecError) as error:  # of the cell, or of the policy: one that cannot act holds
                episode.ticks.hold_reasons.append(str(error))
                return EndReason.FAULT
            if end is not None:
                return end
        return EndReason.TIMEOUT

    def _tick(self, episode: _Episode, now_ns: int) -> EndReason | None:
        observation = self._cell.observe()
        if observation is None:
            episode.ticks.blind_ticks += 1
            episode.blind_in_a_row += 1
            reason = self._cell.reason()
            if reason is not None:
                episode.ticks.note(str(reason))
            blind_s = episode.blind_in_a_row * self._spec.period_s
            # a verdict waits for the next frame: the last one shows an earlier moment than the one that is judged
            stopped = self._cell.mode() is Mode.STOP
            return EndReason.FAULT if stopped or blind_s > BLIND_LIMIT_S else None
        episode.blind_in_a_row = 0
        self._record(episode, observation)
        events = self._cell.events()
        end = self._ending(episode, events)
        if end is not None:
            return end
        if episode.help is not None:
            episode.help.hear(episode.source, events, now_ns)
        if "stage" in events:
            episode.mark(self._limits.stages)
        self._act(episode, observation)
        if episode.help is not None:  # after the action is on its way: the arm waits for none of this
            episode.help.look(episode.index, now_ns)
        return None

    def _record(self, episode: _Episode, observation: Observation) -> None:
        """Finish the previous step with what was executed since, and keep this observation."""
        ticks = episode.ticks
        ticks.age_s.append(observation.age_s)
        ticks.skew_s.append(observation.skew_s)
        windows = self._cell.executed()
        if episode.observation is not None:
            self._openings.take(windows)
            openings = self._openings.at(episode.observation)
            source = dominant(window.source for window in windows.values())
            row = ActionRow(
                executed=self._space.executed_action(windows, openings),
                proposed=episode.proposed,
                human=self._space.human_action(windows, openings),
                source=source,
                sources=self._sources(windows),
                gripper_pressed=any(window.human_gripper != 0 for window in windows.values()),
                clipped=any(window.clipped for window in windows.values()),
                params_version=0 if episode.policy is None or episode.led_by_base else episode.policy.version,
                params_age_s=episode.params_age_s,
            )
            episode.push(row)
            episode.source = source
            episode.interrupted = source is not Source.POLICY or episode.kept_still or episode.led_by_base
            if self._cell.mode() is Mode.HOLD:
                self._count_hold(ticks)
        episode.observation = observation

    def _sources(self, windows: Mapping[str, ExecutedWindow]) -> tuple[Source, ...]:
        """Return who moved each of several arms; empty for one arm, of which the step itself says it."""
        names = [arm.name for arm in self._spec.arms]
        return tuple(windows[name].source for name in names) if len(names) > 1 else ()

    def _count_hold(self, ticks: TickRecord) -> None:
        reason = self._cell.reason()
        ticks.holds += 1
        ticks.holds_by_operator += reason is not None and reason.kind in BY_OPERATOR
        ticks.note(str(reason or "held without a reason"))

    def _ending(self, episode: _Episode, events: tuple[str, ...]) -> EndReason | None:
        """Return why the episode ends at this frame, or None; an operator's verdict goes before the model's."""
        if "stop" in events or self._cell.mode() is Mode.STOP:
            return EndReason.FAULT
        for verdict, end in _BY_VERDICT.items():
            if verdict in events:
                episode.operator = verdict
                return end
        if episode.header.kind is EpisodeKind.EVAL and episode.scores is None and self._cell.truth():
            return EndReason.SUCCESS  # evaluation without a judge is the one place where the truth ends one
        if episode.scores is not None:
            live = episode.scores.newest(episode.header.episode_id)
            if live is not None and live.declared:
                episode.declared = True
                return EndReason.SUCCESS
        late = TIME_IS_UP in events or episode.index >= self._limits.episode_steps
        return EndReason.TIMEOUT if late else None

    def _act(self, episode: _Episode, observation: Observation) -> None:
        policy = episode.policy
        if policy is None:
            return
        started = time.perf_counter()
        action = policy.act(observation, deterministic=episode.deterministic, interrupted=episode.interrupted)
        episode.ticks.act_s.append(time.perf_counter() - started)
        episode.params_age_s = policy.age_s
        episode.ticks.params_age_s.append(episode.params_age_s)
        if self._steer is not None and isinstance(policy, SteersBase) and (noise := policy.steering()) is not None:
            self._steer(noise)
        limit_s = self._limits.max_params_age_s
        too_old = limit_s is not None and episode.params_age_s > limit_s
        if too_old:
            reason = f"params are more than {limit_s:g} s old, the policy does not act on them; check the learner"
            episode.ticks.note(reason)
        episode.kept_still = episode.led_by_base = False
        if too_old or not np.isfinite(action).all():
            episode.proposed = np.zeros(self._spec.action_size, np.float32)
            return  # nothing is sent, the base's proposal neither: the safety filter holds
        if episode.help is not None:
            episode.kept_still, episode.led_by_base = episode.help.keeps_still, episode.help.led_by_base
        episode.proposed = observation.proprio[self._spec.part(BASE)] if episode.led_by_base else action
        self._cell.send(self._still(observation) if episode.kept_still else episode.proposed)

    def _still(self, observation: Observation) -> np.ndarray:
        """Return the action that asks for no motion and leaves the grippers as they are, float32 (A,)."""
        arms = [arm.name for arm in self._spec.arms]
        return self._space.to_action({arm: np.zeros(6) for arm in arms}, {}, self._openings.at(observation))

    def _hear(self, episode: _Episode) -> None:
        """Hear the simulator's truth, and the operator's verdict: on a declared success, or pressed as the end came."""
        episode.truth = self._cell.truth()  # of the moment that is judged: what moves goes on while it waits
        if episode.operator is None:
            episode.operator = _newest_verdict(self._cell.events())
        if episode.declared:
            self._cell.claim(Verdict.SUCCESS)
            deadline_ns = self._clock.now_ns() + round(self._limits.verdict_s * 1e9)
            while self._clock.now_ns() < deadline_ns and episode.operator is None:
                self._clock.sleep_until_ns(self._clock.now_ns() + self._period_ns // 2)
                episode.operator = _newest_verdict(self._cell.events())

    def _say(self, episode: _Episode) -> None:
        """Hand over what the model, the operator and the simulator say of the episode."""
        if episode.declared:
            episode.say(Verdict.SUCCESS, LabelSource.MODEL)
        if episode.operator is not None:
            episode.say(episode.operator, LabelSource.OPERATOR)
        if episode.truth is not None:
            episode.say(Verdict.SUCCESS if episode.truth else Verdict.FAILURE, LabelSource.TRUTH)

    def _outcome(self, episode: _Episode, end: EndReason) -> EpisodeOutcome:
        outcome = EpisodeOutcome(
            header=episode.header,
            end=end,
            steps=episode.index,
            human_steps=episode.human_steps,
            base_steps=episode.base_steps,
            declared=episode.declared,
            refused=episode.declared and episode.operator is Verdict.FAILURE,
            operator=episode.operator,
            truth=episode.truth,
            duration_s=episode.index * self._spec.period_s,
            ticks=episode.ticks,
            help=None if episode.help is None else episode.help.account,
            refused_marks=tuple(episode.refused_marks),
        )
        if episode.help is not None:
            episode.help.end(outcome.judged_end, self._clock.now_ns())
        return outcome


class _Episode:
    """The state that the loop keeps of the running episode."""

    def __init__(
        self,
        header: EpisodeHeader,
        policy: Policy | None,
        sink: StepSink,
        scores: ScoreSource | None,
        deterministic: bool,
        actions: int,
    ) -> None:
        self.header = header
        self.policy = policy
        self.scores = scores
        self.deterministic = deterministic
        self.ticks = TickRecord()
        self.observation: Observation | None = None
        self.proposed = np.zeros(actions, np.float32)
        self.params_age_s = 0.0
        self.blind_in_a_row = 0
        self.interrupted = False
        self.kept_still = self.led_by_base = False
        self.source: Source | None = None
        """Who moved the arm since the last frame; None before there is one."""
        self.help: HelpLine | None = None
        self.index = 0
        self.human_steps = self.base_steps = 0
        self.declared = False
        self.operator: Verdict | None = None
        self.truth: bool | None = None
        self.marks: list[StageMark] = []
        self.refused_marks: list[str] = []
        self._sink = sink

    def push(self, row: ActionRow | None, end: EndReason | None = None) -> None:
        """Hand over frame `index` and what followed it."""
        assert self.observation is not None
        self._sink.push(
            Step(
                episode_id=self.header.episode_id,
                index=self.index,
                observation=self.observation,
                action=row,
                end=end,
            )
        )
        if row is not None:
            self.index += 1
            self.human_steps += row.source in IN_HAND
            self.base_steps += self.led_by_base and row.source is Source.POLICY

    def mark(self, names: tuple[str, ...]) -> None:
        """Hand over an operator's mark that the next stage begins at frame `index`, or keep why it cannot."""
        try:
            mark = next_mark(
                self.header.episode_id, self.marks, frame=self.index, names=names, stamp_unix_s=time.time()
            )
        except SpecError as error:
            self.refused_marks.append(str(error))
            return
        self.marks.append(mark)
        self._sink.mark(mark)

    def say(self, verdict: Verdict, source: LabelSource) -> None:
        """Hand over a verdict on the episode."""
        self._sink.label(
            Label(episode_id=self.header.episode_id, verdict=verdict, source=source, stamp_unix_s=time.time())
        )


def _newest_verdict(events: tuple[str, ...]) -> Verdict | None:
    """Return the verdict among an operator's events, the last of several, or None."""
    verdicts = [Verdict(event) for event in events if event in tuple(Verdict)]
    return verdicts[-1] if verdicts else None
