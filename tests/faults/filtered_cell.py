"""A cell around the real safety filter: a kinematic arm on a clock of its own, and parameters that grow old."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from robot_stack.control.executed import ExecutedAccumulator, ExecutedMotion
from robot_stack.rollout import live_policy
from robot_stack.types.command import Mode
from robot_stack.types.event import Label, Verdict
from robot_stack.types.help import HelpRequest
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.reason import Refusal
from robot_stack.types.robot import TeleopSample
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step
from tests.faults.fault_cell import fake_policy_network
from tests.faults.fault_rig import SPEC, FilteredArm


class Ages:
    """The clock by which parameters grow old."""

    def __init__(self, cell: FilteredCell) -> None:
        self._cell = cell
        self.later_s = 0.0

    def now_ns(self) -> int:
        return self._cell.now_ns() + round(self.later_s * 1e9)

    def sleep_until_ns(self, when_ns: int) -> None:
        self._cell.sleep_until_ns(when_ns)


class OncePublished:
    """One version, and then the learner is stalled."""

    def __init__(self) -> None:
        self._params: Params | None = Params(version=1, tensors={}, sha256="", metadata={"trunk": "t"})

    def latest(self) -> Params | None:
        params, self._params = self._params, None
        return params


class FilteredCell:
    """Implements `Cell`, `Clock` and `StepSink`. The policy pushes by `fake_policy_network`: it asks for nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(live_policy, "ActingPolicy", fake_policy_network(SPEC))
        self.spec = SPEC
        self.arm = FilteredArm()
        self.ages = Ages(self)
        self.deadman = False
        self.at_tick: Callable[[int], None] = lambda tick: None
        self.steps: list[Step] = []
        self.last_sent_ns = self.first_hold_ns = 0
        self._window = ExecutedAccumulator()
        self._tick = -1

    def now_ns(self) -> int:
        return self.arm.now_ns

    def sleep_until_ns(self, when_ns: int) -> None:
        arm = self.arm
        while arm.now_ns < when_ns:
            arm.now_ns += arm.TICK_NS
            arm.filter.offer_state(arm._state(), arm.now_ns)
            hand = np.array([0.0, 0.5, 0.0, 0.0, 0.0, 0.0])
            sample = TeleopSample(stamp_ns=arm.now_ns, twist=hand, deadman=self.deadman)
            arm.filter.offer_teleop("arm", sample, arm.now_ns)
            decision = arm.filter.decide(arm.now_ns)["arm"]
            if decision.mode is Mode.HOLD and not self.first_hold_ns:
                self.first_hold_ns = arm.now_ns
            self._window.add(decision)
            arm._move(decision.command.twist)

    def observe(self) -> Observation:
        self._tick += 1
        self.at_tick(self._tick)
        images = {camera.name: np.zeros(camera.shape, np.uint8) for camera in SPEC.cameras}
        return Observation(images=images, proprio=np.zeros(SPEC.proprio_size, np.float32), stamp_ns=self.now_ns())

    def send(self, action: np.ndarray) -> None:
        self.last_sent_ns = self.now_ns()
        self.arm.filter.offer(list(self.arm.space.to_commands(action, self.now_ns()).values()), self.now_ns())

    def executed(self) -> dict[str, ExecutedMotion]:
        return {"arm": self._window.take()}

    def mode(self) -> Mode:
        return self.arm.filter.mode

    def reason(self) -> Refusal | None:
        return self.arm.filter.reason

    def events(self) -> tuple[str, ...]:
        return ()

    def reset(self, seed: int, *, task_id: str | None = None, scene: bool = True) -> None:
        self._tick = -1
        self.deadman = False
        self.sleep_until_ns(self.now_ns() + 500_000_000)
        self.arm.filter.resume(self.now_ns())
        self.arm.filter.end_episode()

    def start(self, episode_id: str, kind: EpisodeKind) -> None:
        refusal = self.arm.filter.start(self.now_ns(), policy_expected=kind is not EpisodeKind.DEMO)
        assert refusal is None
        self._window.take()
        self.first_hold_ns = 0

    def claim(self, verdict: Verdict) -> None:
        """Nobody claims anything."""

    def ask(self, request: HelpRequest | None) -> None:
        """Nobody asks for anything."""

    def finish(self) -> None:
        self.arm.filter.end_episode()

    def truth(self) -> bool | None:
        return None

    def begin(self, header: EpisodeHeader) -> None:
        """Nothing to announce."""

    def push(self, step: Step) -> None:
        self.steps.append(step)

    def label(self, label: Label) -> None:
        """Nobody is asked."""
