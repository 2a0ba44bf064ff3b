"""A cell with its own clock that does what it is told, and parameters that change on the way."""

from __future__ import annotations

import numpy as np

from robot_stack.control.executed import ExecutedMotion
from robot_stack.types.command import Mode, Source
from robot_stack.types.event import Label, Verdict
from robot_stack.types.help import HelpRequest
from robot_stack.types.observation import Observation
from robot_stack.types.params import Params
from robot_stack.types.reason import Refusal
from robot_stack.types.spec import Spec
from robot_stack.types.transition import EpisodeHeader, EpisodeKind, Step


class ScriptedCell:
    """Implements `Cell`, `Clock` and `StepSink`; a tick is one call of `observe`."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._now_ns = 10**9
        self.tick = -1
        self.steps: list[Step] = []
        self.in_episode = False

    def now_ns(self) -> int:
        return self._now_ns

    def sleep_until_ns(self, when_ns: int) -> None:
        self._now_ns = max(self._now_ns, when_ns)

    def observe(self) -> Observation:
        self.tick += 1
        images = {c.name: np.zeros(c.shape, np.uint8) for c in self._spec.cameras}
        proprio = np.zeros(self._spec.proprio_size, np.float32)
        return Observation(images=images, proprio=proprio, stamp_ns=self._now_ns)

    def send(self, action: np.ndarray) -> None:
        self._spec.check_action(action)

    def executed(self) -> dict[str, ExecutedMotion]:
        motion = ExecutedMotion(
            twist=np.zeros(6), gripper=None, human_twist=np.zeros(6), human_gripper=0, source=Source.POLICY,
            clipped=False,
        )  # fmt: skip
        return {arm.name: motion for arm in self._spec.arms}

    def mode(self) -> Mode:
        return Mode.POLICY

    def reason(self) -> Refusal | None:
        return None

    def events(self) -> tuple[str, ...]:
        return ()

    def reset(self, seed: int, *, task_id: str | None = None, scene: bool = True) -> None:
        pass

    def start(self, episode_id: str, kind: EpisodeKind) -> None:
        self.in_episode = True

    def claim(self, verdict: Verdict) -> None:
        pass

    def ask(self, request: HelpRequest | None) -> None:
        pass

    def finish(self) -> None:
        self.in_episode = False

    def truth(self) -> bool | None:
        return None

    def begin(self, header: EpisodeHeader) -> None:
        pass

    def push(self, step: Step) -> None:
        self.steps.append(step)

    def label(self, label: Label) -> None:
        pass


class SwitchingSource:
    """Version 1 at once, version 2 from a tick on; the faulty kind hands nothing out during an episode."""

    def __init__(self, cell: ScriptedCell, *, at_tick: int, only_between_episodes: bool) -> None:
        self._cell = cell
        self._at_tick = at_tick
        self._only_between = only_between_episodes
        self._given = 0

    def latest(self) -> Params | None:
        version = 2 if self._cell.tick >= self._at_tick else 1
        if version == self._given or (self._only_between and self._cell.in_episode):
            return None
        self._given = version
        return Params(version=version, tensors={}, sha256="", metadata={"trunk": "t"})


def fake_policy_network(spec: Spec) -> type:
    """A policy without a network: only the version of what it was given."""

    class Network:
        trunk_id = "t"

        def __init__(self, spec: Spec, params: Params, *, seed: int) -> None:
            self.version = params.version

        def begin_episode(self) -> None:
            pass

        def load(self, params: Params) -> None:
            self.version = params.version

        def act(self, observation: Observation, *, deterministic: bool, interrupted: bool = False) -> np.ndarray:
            return np.zeros(spec.action_size, np.float32)

    return Network
