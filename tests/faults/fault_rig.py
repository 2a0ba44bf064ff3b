"""A small cell, its recordings, an arm behind the real safety filter, and a learner of a few numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from scipy.spatial.transform import Rotation

from policies.encoders.trunk import FeaturePart
from policies.learner import LearnerSpec, TensorBatch
from policies.rlpd.config import RLPDConfig
from policies.rlpd.learner import RLPDLearner
from robot_stack.control.action_space import ActionSpace
from robot_stack.control.executed import ExecutedAccumulator, ExecutedMotion
from robot_stack.control.safety.arm_filter import GuardedArm
from robot_stack.control.safety.cell_filter import SafetyFilter
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.replay.replay import Replay
from robot_stack.types.command import Source
from robot_stack.types.observation import Observation
from robot_stack.types.pose import Pose, rotate_twist
from robot_stack.types.reason import Fault
from robot_stack.types.robot import RobotState, TeleopSample
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec
from robot_stack.types.transition import ActionRow, EndReason, EpisodeHeader, EpisodeKind, Step

TASK = "insert"
P, H, IDLE = Source.POLICY, Source.HUMAN, Source.IDLE
FEATURES = 6


def cell_spec(side_px: int = 8) -> Spec:
    return Spec(
        arms=(ArmSpec(name="arm", translation_m=0.01, rotation_rad=0.06, gripper=GripperKind.DISCRETE),),
        cameras=tuple(CameraSpec(name=name, height_px=side_px, width_px=side_px) for name in ("front", "wrist")),
        proprio=(ProprioField(name="tag", size=2),),
        rate_hz=10.0,
    )


SPEC = cell_spec()


def header_of(episode_id: str, kind: EpisodeKind = EpisodeKind.ONLINE, actor: str = "a") -> EpisodeHeader:
    return EpisodeHeader(episode_id=episode_id, kind=kind, task=TASK, actor=actor, started_unix_s=1.0)


def action_row(executed: np.ndarray, source: Source = P, *, pressed: bool = False, **fields: object) -> ActionRow:
    zeros = np.zeros_like(executed)
    given = {"proposed": zeros, "human": executed if source is H else zeros, **fields}
    return ActionRow(executed=executed, source=source, gripper_pressed=pressed, **given)  # type: ignore[arg-type]


def steps_of(
    episode_id: str,
    rows: Sequence[ActionRow | Source],
    end: EndReason | None = EndReason.TIMEOUT,
    *,
    tag: int = 0,
    spec: Spec = SPEC,
) -> Iterator[Step]:
    """One step per row and the last frame; proprio is (tag, t)."""
    for t in range(len(rows) + (end is not None)):
        row = rows[t] if t < len(rows) else None
        if isinstance(row, Source):
            row = action_row(np.full(spec.action_size, 0.1, np.float32), row)
        images = {c.name: np.full(c.shape, t % 256, np.uint8) for c in spec.cameras}
        yield Step(
            episode_id=episode_id,
            index=t,
            observation=Observation(images=images, proprio=np.array([tag, t], np.float32), stamp_ns=t),
            action=row,
            end=end if row is None else None,
        )


def record(
    replay: Replay,
    episode_id: str,
    rows: Sequence[ActionRow | Source],
    end: EndReason | None = EndReason.TIMEOUT,
    kind: EpisodeKind = EpisodeKind.ONLINE,
    *,
    tag: int = 0,
    spec: Spec = SPEC,
) -> None:
    replay.begin(header_of(episode_id, kind))
    for step in steps_of(episode_id, rows, end, tag=tag, spec=spec):
        replay.add_step(step)


class FilteredArm:
    """A kinematic arm that follows the real safety filter exactly; ten filter ticks are one control step."""

    TICK_NS = 10_000_000

    def __init__(self) -> None:
        self.space = ActionSpace(SPEC)
        limits = SafetyLimits(box_min_m=(-0.2, -0.2, 0.0), box_max_m=(0.2, 0.2, 0.3))
        guarded = GuardedArm(limits=limits, teleop_scale=self.space.full_scale("arm"))
        self.filter = SafetyFilter({"arm": guarded})
        self.pose = Pose.from_rotation(np.array([0.0, 0.0, 0.15]), Rotation.from_quat([1.0, 0.0, 0.0, 0.0]))
        self.velocity = np.zeros(6)
        self.fault: Fault | None = None
        self.now_ns = 10**9
        self.filter.offer_state(self._state(), self.now_ns)
        assert self.filter.arm(self.now_ns) is None
        assert self.filter.start(self.now_ns) is None

    def step(self, action: np.ndarray, hand: np.ndarray | None = None, *, deadman: bool = False) -> ExecutedMotion:
        """A control step: the policy asks for `action`, the operator for `hand` at full deflection 1."""
        window = ExecutedAccumulator()
        for _ in range(10):
            self.now_ns += self.TICK_NS
            self.filter.offer_state(self._state(), self.now_ns)
            self.filter.offer([self.space.to_commands(action, self.now_ns)["arm"]], self.now_ns)
            twist = np.zeros(6) if hand is None else hand
            sample = TeleopSample(stamp_ns=self.now_ns, twist=twist, deadman=deadman)
            self.filter.offer_teleop("arm", sample, self.now_ns)
            decision = self.filter.decide(self.now_ns)["arm"]
            window.add(decision)
            self._move(decision.command.twist)
        return window.take()

    def _move(self, twist: np.ndarray) -> None:
        moved = rotate_twist(twist, self.pose.matrix) * (self.TICK_NS / 1e9)
        self.velocity = twist
        self.pose = Pose.from_rotation(
            self.pose.position_m + moved[:3], Rotation.from_rotvec(moved[3:]) * self.pose.rotation
        )

    def _state(self) -> RobotState:
        return RobotState(
            arm="arm",
            stamp_ns=self.now_ns,
            T_base_tcp=self.pose,
            twist=self.velocity,
            wrench=np.zeros(6),
            joints_rad=np.concatenate([self.pose.position_m, self.pose.rotation.as_rotvec(), [0.0]]),
            joint_speeds_rad_s=np.zeros(7),
            gripper=0.5,
            fault=self.fault,
        )


def learner_of(**settings: object) -> RLPDLearner:
    config = RLPDConfig(hidden=(16,), head=8, **settings)  # type: ignore[arg-type]
    sizes = LearnerSpec(
        parts=tuple(FeaturePart(slice=part, maps=None) for part in (slice(0, 4), slice(4, FEATURES))),
        proprio_mean=torch.zeros(SPEC.proprio_size),
        proprio_std=torch.ones(SPEC.proprio_size),
        actions=SPEC.action_size,
        grippers=SPEC.gripper_indices,
    )
    return RLPDLearner(sizes, config, seed=0)


def tensors(seed: int = 0) -> TensorBatch:
    """A batch of noise out of a real replay."""
    rng = np.random.default_rng(seed)
    replay = Replay(SPEC, feature_size=FEATURES, keep_images=False)
    for tag in range(16):
        rows = [action_row(rng.uniform(-1, 1, 7).astype(np.float32), source) for source in (P, H, P, H)]
        record(replay, f"{tag}", rows, EndReason.SUCCESS, tag=tag)
        replay.set_features(f"{tag}", rng.normal(size=(5, FEATURES)).astype(np.float16))
    return TensorBatch.from_numpy(replay.sample(rng, 64, gamma=0.97))


def weights(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """A copy of all parameters, by name."""
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


def unmoved(module: torch.nn.Module, before: dict[str, torch.Tensor]) -> list[str]:
    """Parameters that are bit for bit what they were."""
    return [name for name, parameter in module.named_parameters() if torch.equal(parameter, before[name])]
