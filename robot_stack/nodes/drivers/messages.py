"""Conversions of the messages that drivers send and take.

Arrays are assigned as `array.array`, as in `nodes.conversion`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from builtin_interfaces.msg import Duration
from geometry_msgs.msg import PoseStamped, TwistStamped, WrenchStamped
from sensor_msgs.msg import JointState
from std_msgs.msg import Float64MultiArray, Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from robot_stack.control.drivers.joint_trajectory import TrajectoryPoint
from robot_stack.types.pose import Pose


def _doubles(values: np.ndarray) -> array[float]:
    return array("d", np.asarray(values, dtype=np.float64).tobytes())


def joint_values(msg: JointState) -> tuple[np.ndarray, np.ndarray]:
    """Copy positions and velocities out of joint states, float64, in the order of their names."""
    return np.array(msg.position, dtype=np.float64), np.array(msg.velocity, dtype=np.float64)


def pose_to_msg(pose: Pose, header: Header) -> PoseStamped:
    """Put a pose into a message with a header, the inverse of `conversion.pose_from_msg`."""
    msg = PoseStamped(header=header)
    point, turn = msg.pose.position, msg.pose.orientation
    point.x, point.y, point.z = (float(entry) for entry in pose.position_m)
    turn.x, turn.y, turn.z, turn.w = (float(entry) for entry in pose.quaternion_xyzw)
    return msg


def twist_to_msg(twist: np.ndarray, header: Header) -> TwistStamped:
    """Put a twist, shape (6,), into a message, in the frame of the header."""
    msg = TwistStamped(header=header)
    linear, angular = msg.twist.linear, msg.twist.angular
    linear.x, linear.y, linear.z, angular.x, angular.y, angular.z = (float(entry) for entry in twist)
    return msg


def wrench_from_msg(msg: WrenchStamped) -> np.ndarray:
    """Read force and torque out of a message, float64, shape (6,), in the frame of its header."""
    force, torque = msg.wrench.force, msg.wrench.torque
    return np.array([force.x, force.y, force.z, torque.x, torque.y, torque.z])


def numbers_to_msg(values: np.ndarray) -> Float64MultiArray:
    """Put one number per joint into a message for a forward controller."""
    return Float64MultiArray(data=_doubles(values))


def trajectory_to_msg(names: Sequence[str], points: Sequence[TrajectoryPoint]) -> JointTrajectory:
    """Put a trajectory that starts on arrival into a message: its stamp is zero, so that no clocks need to agree."""
    return JointTrajectory(
        joint_names=list(names),
        points=[
            JointTrajectoryPoint(
                positions=_doubles(point.angles),
                velocities=_doubles(point.speeds),
                time_from_start=duration_of(point.at_s),
            )
            for point in points
        ],
    )


def duration_of(seconds: float) -> Duration:
    """Convert seconds to a Duration message."""
    sec, nanosec = divmod(round(seconds * 1e9), 1_000_000_000)
    return Duration(sec=sec, nanosec=nanosec)
