"""A robot process without physics: follows commands through the real last watchdog, and feels what it is told.

    python kinematic_robot.py --run RUN_YAML

An order on rig/robot is JSON: {"wrench": [6], "fault": kind or "", "mute": bool, "gain": number, "stuck": bool}; what
is left out stays. With a gain the arm moves so many times as fast as told; stuck, it says for ever where it was. The
instant in which an order was carried out is sent back on rig/robot_did.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import TwistStamped
from scipy.spatial.transform import Rotation
from sensor_msgs.msg import JointState
from std_msgs.msg import Header, String

from robot_stack.control.safety.output_watchdog import OutputWatchdog
from robot_stack.nodes import topics
from robot_stack.nodes.base import NodeSettings, StackNode, run_node
from robot_stack.nodes.conversion import (
    fault_to_msg,
    header_of,
    mode_of_frame,
    stamp_ns_of,
    state_to_msg,
    twist_from_msg,
    twist_to_msg,
)
from robot_stack.nodes.qos import EVERY, LATCHED, NEWEST, STATE
from robot_stack.types.pose import Pose, rotate_twist
from robot_stack.types.reason import Fault, FaultKind
from robot_stack.types.robot import RobotState

PERIOD_S = 0.01
DOWN = Rotation.from_quat([1.0, 0.0, 0.0, 0.0])


class KinematicRobot(StackNode):
    """Starts in the middle of the box, pointing down, at home."""

    def __init__(self, settings: NodeSettings) -> None:
        super().__init__("robot", settings.namespace, key=settings.key)
        run = settings.run
        box = run.cell.workspace
        self._start = Pose.from_rotation((np.array(box.min_m) + np.array(box.max_m)) / 2, DOWN)
        self._pose = self._start
        self._name, self._home = run.robot.name, np.array(run.robot.home_rad)
        self._watchdog = OutputWatchdog(run.safety.output_timeout_s, topics.command(self._name))
        self._wrench, self._mute = np.zeros(6), False
        self._gain, self._stuck = 1.0, False
        self._said: RobotState | None = None
        self._applied = self.create_publisher(TwistStamped, topics.applied(self._name), STATE)
        self._state = self.create_publisher(JointState, topics.state(self._name), STATE)
        self._faults = self.create_publisher(DiagnosticArray, topics.fault(self._name), LATCHED)
        self._done = self.create_publisher(Header, topics.RESET_DONE, LATCHED)
        self._did = self.create_publisher(Header, "rig/robot_did", EVERY)
        self._say(None)
        self.create_subscription(TwistStamped, topics.command(self._name), self._on_command, NEWEST)
        self.create_subscription(Header, topics.RESET_REQUEST, self._on_reset, NEWEST)
        self.create_subscription(String, "rig/robot", self._on_order, EVERY)
        self.steady_timer(1.0 / PERIOD_S, self._on_tick)

    def _on_command(self, msg: TwistStamped) -> None:
        self._watchdog.offer(
            twist_from_msg(msg),
            stamp_ns_of(msg.header),
            time.monotonic_ns(),
            session=self.sealer.sender(topics.command(self._name), msg),
            mode=mode_of_frame(msg.header.frame_id),
        )

    def _say(self, fault: Fault | None) -> None:
        msg = fault_to_msg(fault, self._name, time.monotonic_ns())
        self._faults.publish(self.sealer.seal(topics.fault(self._name), msg))

    def _on_reset(self, msg: Header) -> None:
        self._pose = self._start
        self._done.publish(header_of(time.monotonic_ns(), msg.frame_id))

    def _on_order(self, msg: String) -> None:
        order = json.loads(msg.data)
        self._wrench = np.array(order.get("wrench", self._wrench))
        self._mute = order.get("mute", self._mute)
        self._gain, self._stuck = order.get("gain", self._gain), order.get("stuck", self._stuck)
        if "fault" in order:
            kind = order["fault"]
            self._say(Fault(kind=FaultKind(kind), text=f"{kind} of the rig") if kind else None)
        self._did.publish(header_of(time.monotonic_ns()))

    def _on_tick(self) -> None:
        now_ns = time.monotonic_ns()
        twist = self._watchdog.twist(now_ns)
        moved = rotate_twist(self._gain * twist, self._pose.matrix) * PERIOD_S
        turned = Rotation.from_rotvec(moved[3:]) * self._pose.rotation
        self._pose = Pose.from_rotation(self._pose.position_m + moved[:3], turned)
        self._applied.publish(twist_to_msg(twist, now_ns, "tcp"))
        if self._mute:
            return
        state = RobotState(
            arm=self._name,
            stamp_ns=now_ns,
            T_base_tcp=self._pose,
            twist=twist,
            wrench=self._wrench,
            joints_rad=self._home + 0.1 * np.resize(self._pose.position_m - self._start.position_m, len(self._home)),
            joint_speeds_rad_s=np.zeros(len(self._home)),
            gripper=0.5,
        )
        if self._stuck and self._said is not None:
            state = replace(self._said, stamp_ns=now_ns)  # what a joint_state_publisher makes of a dead driver
        self._said = state
        self._state.publish(self.sealer.seal(topics.state(self._name), state_to_msg(state)))


sys.exit(run_node("robot", KinematicRobot))
