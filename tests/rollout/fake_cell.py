"""A cell that plays a script, with its own clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from robot_stack.control.executed import ExecutedMotion
from robot_stack.types.command import Mode, Source
from robot_stack.types.errors import RobotError
from robot_stack.types.event import Label, Verdict
from robot_stack.types.help import HelpRequest
from robot_stack.types.observation import Observation
from robot_stack.types.reason import Refusal
from robot_stack.types.reward import LiveScore
from robot_stack.types.spec import GripperKind, ProprioField
from robot_stack.types.stages import StageMark
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step
from tests.learner.bench import SPEC, observation_of

PERIOD_NS = 100_000_000
FULL_SCALE = np.array([0.1, 0.1, 0, 0, 0, 0.6])


def motion(
    x: float, source: Source = Source.POLICY, *, human: float = 0.0, clipped: bool = False, gripper: float | None = None
) -> ExecutedMotion:
    """The arm moved by `x` of full scale along x."""
    return ExecutedMotion(
        twist=FULL_SCALE * [x, 0, 0, 0, 0, 0], gripper=gripper, human_twist=FULL_SCALE * [human, 0, 0, 0, 0, 0],
        human_gripper=0, source=source, clipped=clipped,
    )  # fmt: skip


class FakeCell:
    """Implements `Cell` and `Clock`; a tick is one call of `observe`.

    Args:
        executed: What each window brings, the last for ever.
        events: Tick -> what the operator says there.
        blind: Ticks without an observation.
        late_ns: Tick -> how much later than asked the clock wakes up before it.
        truth: Whether the task is done, as the simulator knows.
        answer: What the operator says to a claim.
        broken: Tick at which the robot reports a fault.
        refusal: Why the cell holds, or sees nothing.
        stopped: Tick from which the cell is in STOP.
    """

    def __init__(
        self,
        *,
        executed: Sequence[ExecutedMotion] = (motion(0.5),),
        events: Mapping[int, str] | None = None,
        blind: Callable[[int], bool] = lambda tick: False,
        late_ns: Mapping[int, int] | None = None,
        truth: Callable[[int], bool | None] = lambda tick: None,
        answer: str = "",
        broken: int = -1,
        stopped: int = 10_000,
        refusal: Refusal | None = None,
    ) -> None:
        self._executed = list(executed)
        self._says = dict(events or {})
        self._blind, self._late = blind, dict(late_ns or {})
        self._truth, self._answer = truth, answer
        self._broken, self._stopped = broken, stopped
        self._refusal = refusal
        self._now_ns = 1_000
        self.tick = -1
        self.ticks_ns: list[int] = []
        self.sent: list[np.ndarray] = []
        self.calls: list[str] = []
        self.asked: list[HelpRequest | None] = []
        self.truth_reads = 0

    def now_ns(self) -> int:
        return self._now_ns

    def sleep_until_ns(self, when_ns: int) -> None:
        self._now_ns = max(self._now_ns, when_ns) + self._late.pop(self.tick + 1, 0)

    def observe(self) -> Observation | None:
        self.tick += 1
        self.ticks_ns.append(self._now_ns)
        if self.tick == self._broken:
            raise RobotError("driver is silent")
        return None if self._blind(self.tick) else observation_of(self.tick)

    def send(self, action: np.ndarray) -> None:
        SPEC.check_action(action)
        self.sent.append(action)

    def executed(self) -> dict[str, ExecutedMotion]:
        return {SPEC.arms[0].name: self._executed.pop(0) if len(self._executed) > 1 else self._executed[0]}

    def mode(self) -> Mode:
        return Mode.STOP if self.tick >= self._stopped else Mode.POLICY

    def reason(self) -> Refusal | None:
        return self._refusal

    def events(self) -> tuple[str, ...]:
        said = self._says.pop(self.tick, "")
        return (said,) if said else ()

    def reset(self, seed: int, *, task_id: str | None = None, scene: bool = True) -> None:
        self.calls.append(f"reset {seed}")

    def start(self, episode_id: str, kind: EpisodeKind) -> None:
        self.calls.append(f"start {kind}")

    def claim(self, verdict: Verdict) -> None:
        self.calls.append(f"claim {verdict}")
        self._says[self.tick] = self._answer

    def ask(self, request: HelpRequest | None) -> None:
        self.asked.append(request)

    def finish(self) -> None:
        self.calls.append("finish")

    def truth(self) -> bool | None:
        self.truth_reads += 1
        return self._truth(self.tick)


GRIPPING = replace(
    SPEC,
    arms=(replace(SPEC.arms[0], gripper=GripperKind.CONTINUOUS),),
    proprio=(*SPEC.proprio, ProprioField(name="gripper", size=1)),
)


class GrippingCell(FakeCell):
    """A cell of `GRIPPING`, whose fingers stand at 0.4 whatever they are told: a part is between them."""

    def observe(self) -> Observation | None:
        seen = super().observe()
        return None if seen is None else replace(seen, proprio=np.append(seen.proprio, np.float32(0.4)))

    def send(self, action: np.ndarray) -> None:
        GRIPPING.check_action(action)
        self.sent.append(action)


class FakePolicy:
    """Always the same action."""

    def __init__(self, x: float = 0.9, *, version: int = 7, age_s: float = 0.25) -> None:
        self.version, self.age_s = version, age_s
        self.deterministic: list[bool] = []
        self._action = np.array([x, 0, 0], np.float32)

    def begin_episode(self) -> None:
        pass

    def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
        self.deterministic.append(deterministic)
        return self._action.copy()


class ListSink:
    """Keeps what it gets."""

    def __init__(self) -> None:
        self.headers: list[EpisodeHeader] = []
        self.steps: list[Step] = []
        self.labels: list[Label] = []
        self.marks: list[StageMark] = []

    def begin(self, header: EpisodeHeader) -> None:
        self.headers.append(header)

    def push(self, step: Step) -> None:
        self.steps.append(step)

    def label(self, label: Label) -> None:
        self.labels.append(label)

    def mark(self, mark: StageMark) -> None:
        self.marks.append(mark)


class FakeScores:
    """The model declares success once it has been asked `after` times."""

    def __init__(self, after: int) -> None:
        self._left = after

    def newest(self, episode_id: str) -> LiveScore | None:
        self._left -= 1
        return LiveScore(
            episode_id=episode_id, index=0, progress=1.0, success=1.0, declared=self._left < 0, version="m"
        )
