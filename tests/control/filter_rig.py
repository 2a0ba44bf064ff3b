"""A safety filter on a kinematic arm with a clock that only the test turns."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from robot_stack.control.audit.replay_checker import LoggedTick
from robot_stack.control.safety.arm_filter import GuardedArm
from robot_stack.control.safety.cell_filter import SafetyFilter
from robot_stack.control.safety.limits import SafetyLimits
from robot_stack.types.command import Command, Decision, Source
from robot_stack.types.pose import Pose, rotate_twist
from robot_stack.types.reason import Fault, Refusal
from robot_stack.types.robot import RobotState, TeleopSample

MS = 1_000_000
TICK_NS = 10 * MS
DOWN = Rotation.from_quat([1.0, 0.0, 0.0, 0.0])
LIMITS = SafetyLimits(box_min_m=(-0.2, -0.2, 0.0), box_max_m=(0.2, 0.2, 0.3))


def joints_at(pose: Pose) -> np.ndarray:
    """Seven joints that move whenever the TCP does."""
    return np.concatenate([pose.position_m, pose.rotation.as_rotvec(), [0.0]])


def twist(**axes: float) -> np.ndarray:
    """A twist from named axes, e.g. twist(x=0.1, rz=0.2)."""
    return np.array([axes.get(name, 0.0) for name in ("x", "y", "z", "rx", "ry", "rz")])


class Rig:
    """Feeds a filter at 100 Hz; the arm follows each decision exactly. State goes in unless `robot_alive` is False."""

    def __init__(self, limits: SafetyLimits = LIMITS, **options: Any) -> None:
        guarded = GuardedArm(limits=limits, teleop_scale=np.array([0.2, 0.2, 0.2, 0.8, 0.8, 0.8]))
        self.filter = SafetyFilter({"arm": guarded}, **options)
        self.limits = limits
        self.now_ns = 1_000 * MS
        self.pose = Pose.from_rotation(np.array([0.0, 0.0, 0.15]), DOWN)
        self.velocity = np.zeros(6)
        self.wrench = np.zeros(6)
        self.fault: Fault | None = None
        self.robot_alive = True
        self.policy: np.ndarray | None = None
        self.hand: np.ndarray | None = None
        self.deadman = False
        self.gripper = 0
        self.log: list[LoggedTick] = []
        self.heard: RobotState | None = None
        """The newest state that went in: a log holds what was said, and a robot that is mute says nothing."""

    def state(self) -> RobotState:
        return RobotState(
            arm="arm",
            stamp_ns=self.now_ns,
            T_base_tcp=self.pose,
            twist=self.velocity,
            wrench=self.wrench,
            joints_rad=joints_at(self.pose),
            joint_speeds_rad_s=np.zeros(7),
            gripper=0.5,
            fault=self.fault,
        )

    def command(self, motion: np.ndarray, **other: object) -> Command:
        fields = {"arm": "arm", "twist": motion, "stamp_ns": self.now_ns, "source": Source.POLICY, **other}
        return Command(**fields)

    def sample(self, **other: object) -> TeleopSample:
        hand = np.zeros(6) if self.hand is None else self.hand
        fields = {"stamp_ns": self.now_ns, "twist": hand, "deadman": self.deadman, "gripper": self.gripper, **other}
        return TeleopSample(**fields)

    def offer(self, command: Command) -> Refusal | None:
        return self.filter.offer([command], self.now_ns)

    def offer_teleop(self, sample: TeleopSample) -> Refusal | None:
        return self.filter.offer_teleop("arm", sample, self.now_ns)

    def decide(self) -> Decision:
        return self.filter.decide(self.now_ns)["arm"]

    def armed(self, *, policy_expected: bool = True) -> Rig:
        """Armed, and an episode started."""
        self.heard = self.state()
        self.filter.offer_state(self.heard, self.now_ns)
        assert self.filter.arm(self.now_ns) is None
        assert self.filter.start(self.now_ns, policy_expected=policy_expected) is None
        return self

    def tick(self) -> Decision:
        self.now_ns += TICK_NS
        if self.robot_alive:
            self.heard = self.state()
            self.filter.offer_state(self.heard, self.now_ns)
        if self.policy is not None:
            self.offer(self.command(self.policy))
        if self.hand is not None:
            self.offer_teleop(self.sample())
        decision = self.decide()
        self.log.append(LoggedTick(decision=decision, state=self.heard))
        self.move(decision.command.twist)
        return decision

    def move(self, motion: np.ndarray) -> None:
        self.velocity = motion
        base = rotate_twist(motion, self.pose.matrix) * (TICK_NS / 1e9)
        turned = Rotation.from_rotvec(base[3:]) * self.pose.rotation
        self.pose = Pose.from_rotation(self.pose.position_m + base[:3], turned)

    def run(self, seconds: float) -> list[Decision]:
        return [self.tick() for _ in range(round(seconds * 1e9 / TICK_NS))]


class TwoArmRig:
    """Two kinematic arms, `left` and `right`, behind one filter; each follows its decisions exactly."""

    arms = ("left", "right")

    def __init__(self, safety: SafetyFilter | None = None) -> None:
        guarded = GuardedArm(limits=LIMITS, teleop_scale=np.full(6, 0.2))
        self.filter = safety or SafetyFilter(dict.fromkeys(self.arms, guarded))
        self.now_ns = 1_000 * MS
        self.poses = dict.fromkeys(self.arms, Pose.from_rotation(np.array([0.0, 0.0, 0.15]), DOWN))
        self.move_by = {arm: np.zeros(6) for arm in self.arms}
        self.wrenches = {arm: np.zeros(6) for arm in self.arms}
        self.faults: dict[str, Fault | None] = dict.fromkeys(self.arms)
        self.silent: set[str] = set()
        """Arms whose robot says nothing."""
        self.told: dict[str, RobotState] = {}
        """Newest state of each arm that the filter has heard."""
        self.policy: dict[str, np.ndarray] | None = None
        self.hands: dict[str, np.ndarray] = {}
        self.deadman: set[str] = set()
        self.mute_hands: set[str] = set()
        """Arms whose device says nothing."""
        self.logs: dict[str, list[LoggedTick]] = {arm: [] for arm in self.arms}

    def state(self, arm: str) -> RobotState:
        return RobotState(
            arm=arm,
            stamp_ns=self.now_ns,
            T_base_tcp=self.poses[arm],
            twist=self.move_by[arm],
            wrench=self.wrenches[arm],
            joints_rad=joints_at(self.poses[arm]),
            joint_speeds_rad_s=np.zeros(7),
            gripper=0.5,
            fault=self.faults[arm],
        )

    def command(self, arm: str, motion: np.ndarray) -> Command:
        return Command(arm=arm, twist=motion, stamp_ns=self.now_ns, source=Source.POLICY)

    def sample(self, arm: str, **other: object) -> TeleopSample:
        hand = self.hands.get(arm, np.zeros(6))
        return TeleopSample(**{"stamp_ns": self.now_ns, "twist": hand, "deadman": arm in self.deadman, **other})

    def armed(self, *, policy_expected: bool = True) -> TwoArmRig:
        """Armed, and an episode started."""
        self.tell_states()
        assert self.filter.arm(self.now_ns) is None
        assert self.filter.start(self.now_ns, policy_expected=policy_expected) is None
        return self

    def tell_states(self) -> None:
        for arm in self.arms:
            if arm not in self.silent:
                self.told[arm] = self.state(arm)
                self.filter.offer_state(self.told[arm], self.now_ns)

    def tick(self) -> dict[str, Decision]:
        self.now_ns += TICK_NS
        self.tell_states()
        if self.policy is not None:
            self.filter.offer([self.command(arm, motion) for arm, motion in self.policy.items()], self.now_ns)
        for arm in self.hands:
            if arm not in self.mute_hands:
                self.filter.offer_teleop(arm, self.sample(arm), self.now_ns)
        decisions = self.filter.decide(self.now_ns)
        for arm, decision in decisions.items():
            self.logs[arm].append(LoggedTick(decision=decision, state=self.told.get(arm)))
            self._move(arm, decision.command.twist)
        return decisions

    def _move(self, arm: str, motion: np.ndarray) -> None:
        self.move_by[arm] = motion
        base = rotate_twist(motion, self.poses[arm].matrix) * (TICK_NS / 1e9)
        turned = Rotation.from_rotvec(base[3:]) * self.poses[arm].rotation
        self.poses[arm] = Pose.from_rotation(self.poses[arm].position_m + base[:3], turned)

    def run(self, seconds: float) -> list[dict[str, Decision]]:
        return [self.tick() for _ in range(round(seconds * 1e9 / TICK_NS))]
