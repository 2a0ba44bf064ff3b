"""Reach, close, lift in one dimension: whoever learns from demonstrations or corrections must learn to stay closed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from policies.bc.config import BCConfig
from policies.bc.learner import BCLearner
from policies.learner import Learner, LearnerSpec, TensorBatch
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from robot_stack.replay.replay import Replay
from robot_stack.types.command import Source
from robot_stack.types.observation import Observation
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step

pytestmark = pytest.mark.long

CELL = Spec(
    arms=(ArmSpec(name="arm", axes=("z",), translation_m=0.01, rotation_rad=0.1, gripper=GripperKind.DISCRETE),),
    cameras=(CameraSpec(name="front", height_px=8, width_px=8),),
    proprio=(ProprioField(name="height", size=1), ProprioField(name="gripper", size=1)),
    rate_hz=10.0,
)
SIZES = LearnerSpec(
    parts=(), proprio_mean=torch.tensor([0.5, 0.5]), proprio_std=torch.tensor([0.3, 0.5]), actions=2, grippers=(1,)
)
IMAGES = {"front": np.zeros((8, 8, 3), np.uint8)}
STEPS = 40


class Lift:
    """A gripper above a part: it succeeds once the part is lifted, and fails where it drops it on the way."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.height, self.open, self.held, self.end = rng.uniform(0.6, 1.0), True, False, None

    @property
    def proprio(self) -> np.ndarray:
        return np.array([self.height, float(self.open)], np.float32)

    def move(self, action: np.ndarray) -> None:
        self.height = float(np.clip(self.height + 0.1 * action[0], 0.0, 1.0))
        if action[1] < -0.5 and self.open:
            self.open, self.held = False, self.height < 0.1
        elif action[1] > 0.5 and not self.open:
            self.end = EndReason.FAILURE if self.held and self.height > 0.1 else None
            self.open, self.held = True, False
        if self.held and self.height > 0.8:
            self.end = EndReason.SUCCESS


def operator(lift: Lift, rng: np.random.Generator) -> np.ndarray:
    if lift.open and lift.height > 0.05:
        return np.array([-rng.uniform(0.4, 1.0), 0.0], np.float32)
    if lift.open:
        return np.array([0.0, -1.0], np.float32)
    return np.array([rng.uniform(0.4, 1.0), 0.0], np.float32)


def play(
    act: Callable[[Lift], np.ndarray], rng: np.random.Generator, source: Source, replay: Replay | None, name: str = ""
) -> bool:
    lift = Lift(rng)
    kind = EpisodeKind.DEMO if source is Source.HUMAN else EpisodeKind.ONLINE
    if replay is not None:
        replay.begin(EpisodeHeader(episode_id=name, kind=kind, task="lift", actor="a", started_unix_s=1.0))
    for t in range(STEPS + 1):
        end = lift.end if lift.end is not None else EndReason.TIMEOUT if t == STEPS else None
        seen = Observation(images=IMAGES, proprio=lift.proprio, stamp_ns=t * 100_000_000)
        row = None
        if end is None:
            action = act(lift)
            lift.move(action)
            pressed = source is Source.HUMAN and abs(float(action[1])) > 0.5
            row = ActionRow(executed=action, proposed=action, human=action, source=source, gripper_pressed=pressed)
        if replay is not None:
            replay.add_step(Step(episode_id=name, index=t, observation=seen, action=row, end=end))
        if end is not None:
            return end is EndReason.SUCCESS
    raise AssertionError("an episode has an end")


def demonstrated(rng: np.random.Generator) -> Replay:
    replay = Replay(CELL, keep_images=False)
    for number in range(20):
        assert play(lambda lift: operator(lift, rng), rng, Source.HUMAN, replay, f"{number:06d}-demo")
    return replay


def acting(learner: Learner, *, deterministic: bool) -> Callable[[Lift], np.ndarray]:
    policy = learner.policy  # type: ignore[attr-defined]
    noise = torch.Generator().manual_seed(1)

    @torch.no_grad()
    def act(lift: Lift) -> np.ndarray:
        seen = torch.from_numpy(lift.proprio)[None]
        chosen = policy.act(torch.zeros(1, 0), seen, tick=0, rng=noise, deterministic=deterministic)[0].numpy()
        return np.asarray(np.clip(chosen, -1.0, 1.0), np.float32)

    return act


def succeeded(learner: Learner, episodes: int = 50) -> int:
    rng = np.random.default_rng(99)
    return sum(play(acting(learner, deterministic=True), rng, Source.POLICY, None) for _ in range(episodes))


@torch.no_grad()
def pressed_where_staying_was_shown(learner: BCLearner, replay: Replay) -> float:
    rows = replay.pools.demo[replay.frames.column("executed")[replay.pools.demo, 1] == 0]
    proprio = torch.from_numpy(replay.frames.column("proprio")[rows])
    nothing = torch.zeros(len(rows), 0)
    action = learner.policy.act(nothing, proprio, tick=0, rng=torch.Generator(), deterministic=True)
    return float((action[:, 1].abs() > 0.5).float().mean())


def test_behaviour_cloning_lifts_what_it_was_shown_to_lift() -> None:
    rng = np.random.default_rng(0)
    replay = demonstrated(rng)
    learner = BCLearner(SIZES, BCConfig(hidden=(32,), head=8, learning_rate=3e-3), seed=0)
    for _ in range(600):
        learner.update(TensorBatch.from_numpy(replay.sample(rng, 128, gamma=0.97, expert_fraction=1.0)))
    assert pressed_where_staying_was_shown(learner, replay) < 0.02
    assert succeeded(learner) >= 45


def test_reinforcement_learning_lifts_within_thirty_episodes() -> None:
    rng = np.random.default_rng(0)
    replay = demonstrated(rng)
    config = RLPDConfig(hidden=(32,), head=8, learning_rate=3e-3, target_tau=0.02, actor_tau=0.05)
    learner = RLPDLearner(SIZES, config, seed=0)
    for number in range(30):
        held = len(replay.frames)
        play(acting(learner, deterministic=False), rng, Source.POLICY, replay, f"{number + 20:06d}-online")
        for _ in range(len(replay.frames) - held):
            learner.update(TensorBatch.from_numpy(replay.sample(rng, 64, gamma=0.97, expert_fraction=0.5)))
    assert succeeded(learner) >= 45
