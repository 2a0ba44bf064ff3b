"""The `RobotState` made of what a driver publishes: joint states, perhaps a pose, perhaps a wrench.

Joints are found by name: the order of a JointState means nothing. The stamp of the state is the arrival of its oldest
part, so that a part that has stopped makes the whole old. Nothing is filled in: until all parts are there, there is no
state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from robot_stack.control.kinematics.chain import Chain
from robot_stack.control.kinematics.joint_motion import JointLimits
from robot_stack.control.safety.output_watchdog import HardLimits
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose, rotate_twist, turn_between
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.types.robot import RobotState

DISAGREE_M = 0.02
DISAGREE_RAD = 0.1
"""Driver's pose and own kinematics may differ by this: they are not of the same instant."""
LEAST_S = 5e-4
"""Over a shorter time no speed is found by differences."""
HASTY = 0.5
"""A pose that comes within this share of the usual interval came behind a late one."""
ADAPTING = 1.1
"""With each pose the usual interval moves by this factor towards the newest, so that one pause hardly counts."""
SMOOTHING = 0.5
"""Share of a new difference in a speed that is found by differences."""
GRIPPER_STANDS_PER_S = 0.05
"""A gripper whose opening changes by less in a second stands, or squeezes what it holds."""
MARGIN = 3.0
"""Between two messages nothing goes further than this many times its highest speed allows, and a little more."""
JUMP_RAD = 0.05
JUMP_M = 0.02
JUMP_TURN_RAD = 0.1
"""The little more: of a joint, of the TCP's position and of its rotation."""
RESTART_S = 1.0
"""What comes after a silence this long may begin anywhere: the driver has been started again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Joints:
    """Some joints at one instant: angles and speeds in rad and rad/s (m and m/s for a gripper), shape (J,)."""

    angles: np.ndarray
    speeds: np.ndarray
    arrived_ns: int


class JointReader:
    """A reader that picks joints by name out of joint states.

    Args:
        names: Of the joints, in the order wanted.
        topic: Where they come from, for messages.
        limits: By which angles that jump are told from motion, and which joints have no end; None lets them jump, as a
            gripper's joint may.
    """

    def __init__(self, names: Sequence[str], topic: str, limits: JointLimits | None = None) -> None:
        self.newest: Joints | None = None
        self._limits = limits
        self._names = tuple(names)
        self._topic = topic
        self._stamp_ns = 0
        self._from: tuple[np.ndarray, int, int] | None = None
        self._order: list[str] = []
        self._places: list[int] = []

    def take(
        self, names: Sequence[str], positions: np.ndarray, velocities: np.ndarray, stamp_ns: int, now_ns: int
    ) -> Fault | None:
        """Take one message of joint states; return why it cannot be used.

        Args:
            names: As sent, in any order.
            positions: float64, one per name.
            velocities: float64, one per name. Where the driver sends none, or NaN as joint_state_broadcaster does for
                an interface that is not there, differences stand in.
            stamp_ns: Of its header, on the driver's clock; 0 if unset. Only compared with the one before.
            now_ns: Of its arrival, steady clock.
        """
        refusal = self._misfit(names, positions, velocities)
        if refusal is not None:
            return refusal
        if stamp_ns != 0 and stamp_ns == self._stamp_ns:
            return _unusable(f"stamp on {self._topic} does not advance, must; is an old message republished?")
        if names != self._order:
            self._order = list(names)
            self._places = [self._order.index(name) for name in self._names]
        angles = positions[self._places]
        if not np.isfinite(angles).all():
            return _unusable(f"joint states on {self._topic} are {angles}, must be finite; look after the driver")
        jumped = self._jump(angles, stamp_ns, now_ns)
        if jumped is not None:
            return jumped
        speeds = velocities[self._places] if len(velocities) else np.full_like(angles, np.nan)
        if not np.isfinite(speeds).all():
            speeds = self._differences(angles, stamp_ns, now_ns)
        self._stamp_ns = stamp_ns
        self.newest = Joints(angles=angles, speeds=speeds, arrived_ns=now_ns)
        return None

    def _misfit(self, names: Sequence[str], positions: np.ndarray, velocities: np.ndarray) -> Fault | None:
        missing = [name for name in self._names if name not in names]
        if missing:
            return _contradiction(
                f"joint states on {self._topic} name {sorted(names)}, must include {missing}; "
                "correct the joints in the robot file or the topic"
            )
        if len(positions) != len(names) or len(velocities) not in (0, len(names)):
            sizes = f"{len(positions)} positions and {len(velocities)} velocities for {len(names)} names"
            return _unusable(f"joint states on {self._topic} have {sizes}, must have one each; look after the driver")
        return None

    def _jump(self, angles: np.ndarray, stamp_ns: int, now_ns: int) -> Fault | None:
        """Return the fault of angles that the arm cannot have come to since the newest ones, or None."""
        last, limits = self.newest, self._limits
        if last is None or limits is None or now_ns - last.arrived_ns > RESTART_S * 1e9:
            return None
        way = np.abs(limits.way(last.angles, angles))
        elapsed_s = longest_between(self._stamp_ns, stamp_ns, last.arrived_ns, now_ns)
        far = way - MARGIN * limits.speed * elapsed_s
        worst = int(far.argmax())
        if far[worst] <= JUMP_RAD:
            return None
        return _jumped(f"{self._names[worst]} in joint states", self._topic, f"{way[worst]:.2f} rad", elapsed_s)

    def _differences(self, angles: np.ndarray, stamp_ns: int, now_ns: int) -> np.ndarray:
        last = self.newest
        if last is None:
            return np.zeros_like(angles)
        before, before_stamp_ns, before_ns = self._from or (last.angles, self._stamp_ns, last.arrived_ns)
        elapsed_s = elapsed(before_stamp_ns, stamp_ns, before_ns, now_ns)
        if elapsed_s < LEAST_S:  # without stamps, two that waited in a queue arrive as one: wait for the next
            self._from = before, before_stamp_ns, before_ns
            return last.speeds
        self._from = None
        way = angles - before if self._limits is None else self._limits.way(before, angles)
        return np.asarray(SMOOTHING * way / elapsed_s + (1.0 - SMOOTHING) * last.speeds)


def longest_between(last_stamp_ns: int, stamp_ns: int, last_arrived_ns: int, arrived_ns: int) -> float:
    """Return the most seconds that can lie between two messages: by the driver's stamps, or by arrival."""
    by_stamps_s = elapsed(last_stamp_ns, stamp_ns, last_arrived_ns, arrived_ns)
    return min(max(by_stamps_s, (arrived_ns - last_arrived_ns) / 1e9), RESTART_S)


def elapsed(last_stamp_ns: int, stamp_ns: int, last_arrived_ns: int, arrived_ns: int) -> float:
    """Return the seconds between two messages: by the driver's stamps where they rise, else by arrival."""
    if 0 < last_stamp_ns < stamp_ns:
        return (stamp_ns - last_stamp_ns) / 1e9
    return (arrived_ns - last_arrived_ns) / 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """Names of the frames that message headers may carry.

    Attributes:
        base: Of poses; wrenches may be given in it.
        tcp: Of the TCP.
        wrench: Of wrench messages.
        wrench_sign: 1 where they say what acts on the tool, -1 where they say what the tool exerts.
        tcp_in_wrench: Pose of the TCP in the wrench's frame, where that is neither base nor TCP.
    """

    base: str
    tcp: str
    wrench: str = ""
    wrench_sign: int = 1
    tcp_in_wrench: Pose | None = None


class ArmSense:
    """The newest joints, pose, wrench and gripper of one arm, and the state that they make."""

    def __init__(
        self,
        arm: str,
        frames: Frames,
        joints: JointReader,
        limits: HardLimits,
        *,
        pose_topic: str = "",
        gripper: JointReader | None = None,
    ) -> None:
        """Set up the sense of one arm; nothing is heard yet.

        Args:
            arm: Its name.
            frames: Of poses and wrenches.
            joints: Of the arm.
            limits: Of the TCP, by which poses that jump are told from motion.
            pose_topic: Where poses come from, for messages; "" if they are computed from the joints.
            gripper: Of the gripper's one joint.
        """
        self.chain: Chain | None = None
        """Set once known; needed for poses that are computed."""
        self.joints = joints
        self._arm = arm
        self._frames = frames
        self._pose_topic = pose_topic
        self._gripper = gripper
        self._limits = limits
        self._ends = (0.0, 1.0)
        self._pose: Pose | None = None
        self._pose_stamp_ns = 0
        self._pose_ns = 0
        self._from: tuple[Pose, int, int] | None = None
        self._usual_s = LEAST_S
        self._twist = np.zeros(6)
        self._wrench = np.zeros(6)
        self._wrench_stamp_ns = 0

    def set_gripper_ends(self, closed: float, opened: float) -> None:
        """Set the positions of the gripper's joint at opening 0 and 1."""
        self._ends = (closed, opened)

    def take_pose(self, pose: Pose, frame: str, stamp_ns: int, now_ns: int) -> Fault | None:
        """Take T_base_tcp from the driver; return why it cannot be used."""
        if frame != self._frames.base:
            return _contradiction(
                f"pose on {self._pose_topic} is in frame {frame!r}, must be in {self._frames.base!r}; "
                "correct base_frame or the topic"
            )
        if stamp_ns != 0 and stamp_ns == self._pose_stamp_ns:
            return _unusable(f"stamp on {self._pose_topic} does not advance, must; is an old message republished?")
        jumped = self._jump(pose, stamp_ns, now_ns)
        if jumped is not None:
            return jumped
        if self._pose is not None:
            self._twist = self._differences(self._pose, pose, stamp_ns, now_ns)
        self._pose, self._pose_stamp_ns, self._pose_ns = pose, stamp_ns, now_ns
        return None

    def _differences(self, last: Pose, pose: Pose, stamp_ns: int, now_ns: int) -> np.ndarray:
        """Return the twist with a new difference mixed in, shape (6,), tcp frame.

        Without stamps, the pose behind a late one seems to follow at once: then the difference is to an older one.
        """
        interval_s = elapsed(self._pose_stamp_ns, stamp_ns, self._pose_ns, now_ns)
        if interval_s >= max(LEAST_S, HASTY * self._usual_s):
            self._from = last, self._pose_stamp_ns, self._pose_ns
        self._usual_s *= ADAPTING if interval_s > self._usual_s else 1.0 / ADAPTING
        if self._from is None:
            return self._twist
        before, before_stamp_ns, before_ns = self._from
        elapsed_s = elapsed(before_stamp_ns, stamp_ns, before_ns, now_ns)
        if elapsed_s < LEAST_S:
            return self._twist
        return np.asarray(SMOOTHING * twist_between(before, pose, elapsed_s) + (1.0 - SMOOTHING) * self._twist)

    def _jump(self, pose: Pose, stamp_ns: int, now_ns: int) -> Fault | None:
        """Return the fault of a pose that the TCP cannot have come to since the newest one, or None."""
        if self._pose is None or now_ns - self._pose_ns > RESTART_S * 1e9:
            return None
        way = pose.relative_to(self._pose)
        far_m, far_rad = float(np.linalg.norm(way.position_m)), float(way.rotation.magnitude())
        elapsed_s = longest_between(self._pose_stamp_ns, stamp_ns, self._pose_ns, now_ns)
        if (
            far_m <= MARGIN * self._limits.speed_m_s * elapsed_s + JUMP_M
            and far_rad <= MARGIN * self._limits.rotation_speed_rad_s * elapsed_s + JUMP_TURN_RAD
        ):
            return None
        return _jumped("the TCP in poses", self._pose_topic, f"{far_m:.3f} m and {far_rad:.2f} rad", elapsed_s)

    def take_wrench(self, wrench: np.ndarray, frame: str, topic: str, stamp_ns: int) -> Fault | None:
        """Take force and torque of the tool's contact, (6,), N and Nm; return why they cannot be used."""
        if stamp_ns != 0 and stamp_ns == self._wrench_stamp_ns:
            return _unusable(f"stamp on {topic} does not advance, must; is an old message republished?")
        if not np.isfinite(wrench).all():
            return _unusable(f"wrench on {topic} is {wrench}, must be finite; look after the driver")
        frames = self._frames
        if frame != frames.wrench:
            return _contradiction(
                f"wrench on {topic} is in frame {frame!r}, must be in {frames.wrench!r}; correct wrench.frame"
            )
        wrench = frames.wrench_sign * wrench
        if frame == frames.tcp:
            self._wrench = wrench
        elif frames.tcp_in_wrench is not None:
            lever = np.cross(frames.tcp_in_wrench.position_m, wrench[:3])
            moved = np.concatenate([wrench[:3], wrench[3:] - lever])
            self._wrench = rotate_twist(moved, frames.tcp_in_wrench.matrix.T)
        else:
            pose = self._pose if self._pose_topic else self._computed()
            if pose is None:
                return _unusable(
                    f"wrench on {topic} is in frame {frame!r}, and no pose of the TCP has come to turn it by"
                )
            self._wrench = rotate_twist(wrench, pose.matrix.T)
        self._wrench_stamp_ns = stamp_ns
        return None

    def disagreement(self) -> Fault | None:
        """Return why the driver's pose and the kinematics of the robot file cannot both be right, or None."""
        computed = self._computed() if self._pose_topic else None
        if computed is None or self._pose is None:
            return None
        difference = self._pose.relative_to(computed)
        far_m, far_rad = float(np.linalg.norm(difference.position_m)), float(difference.rotation.magnitude())
        if far_m <= DISAGREE_M and far_rad <= DISAGREE_RAD:
            return None
        return _contradiction(
            f"pose on {self._pose_topic} and the kinematics of the robot file are apart, must agree within "
            f"{DISAGREE_M * 1e3:.0f} mm and {DISAGREE_RAD} rad; correct the TCP in the robot file or in the driver"
        )

    def state(self) -> RobotState | None:
        """Return the newest state, stamped with the arrival of its oldest part; None while a part is missing."""
        joints = self.joints.newest
        if joints is None:
            return None
        if self._pose_topic:
            if self._pose is None:
                return None
            pose, twist, stamp_ns = self._pose, self._twist, min(self._pose_ns, joints.arrived_ns)
        else:
            if self.chain is None:
                return None
            pose, jacobian = self.chain.jacobian(joints.angles)
            twist, stamp_ns = rotate_twist(jacobian @ joints.speeds, pose.matrix.T), joints.arrived_ns
        return RobotState(
            arm=self._arm,
            stamp_ns=stamp_ns,
            T_base_tcp=pose,
            twist=twist,
            wrench=self._wrench,
            joints_rad=joints.angles,
            joint_speeds_rad_s=joints.speeds,
            gripper=self._opening(),
        )

    def moving_opening(self) -> float | None:
        """Return the opening of a gripper that moves by itself or on its way, in [0, 1]; None where it stands."""
        if self._gripper is None or self._gripper.newest is None:
            return None
        closed, opened = self._ends
        per_s = abs(float(self._gripper.newest.speeds[0]) / (opened - closed))
        return self._opening() if per_s > GRIPPER_STANDS_PER_S else None

    def _computed(self) -> Pose | None:
        joints = self.joints.newest
        return None if joints is None or self.chain is None else self.chain.pose(joints.angles)

    def _opening(self) -> float:
        if self._gripper is None or self._gripper.newest is None:
            return 0.0
        closed, opened = self._ends
        return float(np.clip((self._gripper.newest.angles[0] - closed) / (opened - closed), 0.0, 1.0))


def twist_between(before: Pose, after: Pose, elapsed_s: float) -> np.ndarray:
    """Return the mean twist of a frame that went from one pose to another, shape (6,), in its own frame.

    Raises:
        SpecError: If no time has passed.
    """
    if elapsed_s <= 0.0:
        raise SpecError(f"time between two poses is {elapsed_s} s, must be above 0")
    way = after.relative_to(before)
    return np.concatenate([way.position_m, turn_between(Pose.identity(), way)]) / elapsed_s


def _jumped(what: str, topic: str, way: str, elapsed_s: float) -> Fault:
    text = (
        f"{what} on {topic} jumps by {way} within {elapsed_s * 1e3:.0f} ms, must move no faster than the robot file's "
        f"limits; is there a second publisher, or a bag? Ask ros2 topic info -v {topic}"
    )
    return Fault(kind=FaultKind.SECOND_SENDER, text=text)


def _unusable(text: str) -> Fault:
    return Fault(kind=FaultKind.INPUT_INVALID, text=text)


def _contradiction(text: str) -> Fault:
    return Fault(kind=FaultKind.CONTRADICTION, text=text)
