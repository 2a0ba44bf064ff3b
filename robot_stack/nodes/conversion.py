"""Conversions between ROS messages and the types of this project.

With `drivers.messages` this is the only place that touches the arrays inside a message.

A message's array is always assigned as `array.array`: assigning an ndarray converts every element in Python, 264 ms
for a VGA image instead of 0.1 ms.
"""

from __future__ import annotations

import struct
from array import array

import cv2
import numpy as np
from builtin_interfaces.msg import Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from geometry_msgs.msg import PoseStamped, TransformStamped, TwistStamped, WrenchStamped
from sensor_msgs.msg import CameraInfo, CompressedImage, Image, JointState, Joy
from std_msgs.msg import Header

from robot_stack.control.safety.seal import MARK, frame_of
from robot_stack.nodes.ros_time import OFFSET
from robot_stack.sensing.lens import Lens
from robot_stack.sensing.pixels import view_of
from robot_stack.teleop.messages import JoyPacket
from robot_stack.types.command import Clamp, Command, Decision, Mode, Source
from robot_stack.types.errors import SpecError
from robot_stack.types.pose import Pose
from robot_stack.types.reason import Fault, FaultKind, Refusal, RefusalKind
from robot_stack.types.robot import EVENTS, RobotState, TeleopSample

FAULT_KIND = "kind"
"""Key of a fault's kind in its message."""
CLAMPS = tuple(Clamp)
"""Bits of the third button of a label, in this order."""
MODES = tuple(Mode)
MODE_MARK = ":"
JPEG_QUALITY = 90
FIXED_STATE = 20
"""Entries of a state before the joints: position 3, quaternion 4, twist 6, wrench 6, gripper 1."""


def time_of(stamp_ns: int) -> Time:
    """Convert a stamp in nanoseconds to a Time message."""
    return Time(sec=stamp_ns // 1_000_000_000, nanosec=stamp_ns % 1_000_000_000)


def header_of(stamp_ns: int, frame: str = "") -> Header:
    """Return a header with the ROS time of a stamp in nanoseconds on the steady clock."""
    return Header(stamp=time_of(stamp_ns + OFFSET.now_ns()), frame_id=frame)


def ros_ns_of(header: Header) -> int:
    """Return a header's stamp in nanoseconds as it stands there: ROS time, or a foreign sender's own clock."""
    return int(header.stamp.sec) * 1_000_000_000 + int(header.stamp.nanosec)


def stamp_ns_of(header: Header) -> int:
    """Return a header's stamp in nanoseconds on the steady clock, the inverse of `header_of`."""
    return ros_ns_of(header) - OFFSET.now_ns()


def _doubles(values: np.ndarray) -> array[float]:
    return array("d", np.asarray(values, dtype=np.float64).tobytes())


def _floats(values: np.ndarray) -> array[float]:
    return array("f", np.asarray(values, dtype=np.float32).tobytes())


def vector_to_msg(values: np.ndarray, stamp_ns: int) -> JointState:
    """Put a stamped vector, shape (N,), into a JointState message."""
    return JointState(header=header_of(stamp_ns), position=_doubles(values))


def vector_from_msg(msg: JointState) -> np.ndarray:
    """Copy the vector out of a message of `vector_to_msg`, float64, shape (N,)."""
    return np.array(msg.position, dtype=np.float64)


def twist_to_msg(twist: np.ndarray, stamp_ns: int, frame: str) -> TwistStamped:
    """Put a twist, shape (6,), in m/s and rad/s in a named frame, into a message."""
    msg = TwistStamped(header=header_of(stamp_ns, frame))
    linear, angular = msg.twist.linear, msg.twist.angular
    linear.x, linear.y, linear.z, angular.x, angular.y, angular.z = (float(entry) for entry in twist)
    return msg


def twist_from_msg(msg: TwistStamped) -> np.ndarray:
    """Read the twist out of a message, float64, shape (6,), the inverse of `twist_to_msg`."""
    linear, angular = msg.twist.linear, msg.twist.angular
    return np.array([linear.x, linear.y, linear.z, angular.x, angular.y, angular.z])


def frame_of_session(frame: str, session: str) -> str:
    """Add the sender's session id to a frame, unsealed: "tcp@actor-3f2a". A message has no other room for it."""
    return f"{frame}{MARK}{session}" if session else frame


def frame_and_session(text: str) -> tuple[str, str]:
    """Split a frame_id into frame and session id, the inverse of `frame_of_session`."""
    frame, _, session = text.partition(MARK)
    return frame, session


def frame_of_mode(frame: str, mode: Mode) -> str:
    """Add the state of control to the frame of a command to an arm: "tcp:POLICY"."""
    return f"{frame}{MODE_MARK}{mode}"


def mode_of_frame(text: str) -> Mode:
    """Return the state of control that a command names, sealed or not; DISARMED where it names none."""
    _, _, mode = frame_of(text).partition(MODE_MARK)
    return Mode(mode) if mode in MODES else Mode.DISARMED


def state_to_msg(state: RobotState) -> JointState:
    """Pack all of an arm's state but its fault into one vector message."""
    pose = state.T_base_tcp
    parts = (pose.position_m, pose.quaternion_xyzw, state.twist, state.wrench, [state.gripper])
    return vector_to_msg(np.concatenate([*parts, state.joints_rad, state.joint_speeds_rad_s]), state.stamp_ns)


def state_from_msg(msg: JointState, arm: str, fault: Fault | None = None) -> RobotState:
    """Unpack an arm's state, the inverse of `state_to_msg`.

    Raises:
        SpecError: If the length is wrong or the pose is none.
    """
    values = vector_from_msg(msg)
    joints, odd = divmod(len(values) - FIXED_STATE, 2)
    if joints < 0 or odd:
        raise SpecError(f"state has {len(values)} entries, must have {FIXED_STATE} and 2 per joint; update its sender")
    return RobotState(
        arm=arm,
        stamp_ns=stamp_ns_of(msg.header),
        T_base_tcp=Pose(position_m=values[:3], quaternion_xyzw=values[3:7]),
        twist=values[7:13],
        wrench=values[13:19],
        gripper=float(values[19]),
        joints_rad=values[FIXED_STATE : FIXED_STATE + joints],
        joint_speeds_rad_s=values[FIXED_STATE + joints :],
        fault=fault,
    )


def joints_to_msg(state: RobotState, names: list[str]) -> JointState:
    """Return the joint angles and speeds of a state as a message for tools."""
    return JointState(
        header=header_of(state.stamp_ns),
        name=names,
        position=_doubles(state.joints_rad),
        velocity=_doubles(state.joint_speeds_rad_s),
    )


def opening_to_msg(state: RobotState, name: str) -> JointState:
    """Return the opening of an arm's gripper, 0 closed and 1 open, as a message for tools."""
    return JointState(header=header_of(state.stamp_ns), name=[name], position=_doubles(np.array([state.gripper])))


def pose_to_msg(state: RobotState, frame: str) -> PoseStamped:
    """Return the pose of the TCP in the base frame as a message for tools."""
    msg = PoseStamped(header=header_of(state.stamp_ns, frame))
    point, turn = msg.pose.position, msg.pose.orientation
    point.x, point.y, point.z = (float(entry) for entry in state.T_base_tcp.position_m)
    turn.x, turn.y, turn.z, turn.w = (float(entry) for entry in state.T_base_tcp.quaternion_xyzw)
    return msg


def transform_to_msg(pose: Pose, header: Header, frame: str) -> TransformStamped:
    """Return the pose of a frame in that of the header as a message of TF."""
    msg = TransformStamped(header=header, child_frame_id=frame)
    shift, turn = msg.transform.translation, msg.transform.rotation
    shift.x, shift.y, shift.z = (float(entry) for entry in pose.position_m)
    turn.x, turn.y, turn.z, turn.w = (float(entry) for entry in pose.quaternion_xyzw)
    return msg


def pose_from_msg(msg: PoseStamped) -> Pose:
    """Read a foreign node's pose out of its message, in the frame of the header.

    Raises:
        SpecError: If it is not finite, or its quaternion is no rotation.
    """
    point, turn = msg.pose.position, msg.pose.orientation
    return Pose(
        position_m=np.array([point.x, point.y, point.z]),
        quaternion_xyzw=np.array([turn.x, turn.y, turn.z, turn.w]),
    )


def wrench_to_msg(state: RobotState, frame: str) -> WrenchStamped:
    """Return the force and torque on the TCP as a message for tools."""
    msg = WrenchStamped(header=header_of(state.stamp_ns, frame))
    force, torque = msg.wrench.force, msg.wrench.torque
    force.x, force.y, force.z, torque.x, torque.y, torque.z = (float(entry) for entry in state.wrench)
    return msg


def image_to_msg(image: np.ndarray, stamp_ns: int, frame: str) -> Image:
    """Put an RGB image, uint8, shape (H, W, 3), into a message."""
    height, width = image.shape[:2]
    return Image(
        header=header_of(stamp_ns, frame),
        height=height,
        width=width,
        encoding="rgb8",
        step=3 * width,
        data=array("B", image.tobytes()),
    )


def jpeg_to_msg(image: np.ndarray, stamp_ns: int, frame: str) -> CompressedImage:
    """Put an RGB image, uint8, shape (H, W, 3), into a message as JPEG."""
    file = cv2.imencode(".jpg", image[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY])[1]
    return CompressedImage(
        header=header_of(stamp_ns, frame), format="rgb8; jpeg compressed bgr8", data=array("B", file.tobytes())
    )


def lens_to_msg(lens: Lens) -> CameraInfo:
    """Return the calibration of an image; the header is the image's. P is K: nothing here rectifies an image."""
    (fx, fy), (cx, cy) = lens.focal_px, lens.centre_px
    return CameraInfo(
        width=lens.width_px,
        height=lens.height_px,
        distortion_model=lens.model,
        d=list(lens.distortion),
        k=[fx, 0.0, cx, 0.0, fy, cy, 0.0, 0.0, 1.0],
        r=[1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p=[fx, 0.0, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
    )


def image_from_msg(msg: Image) -> np.ndarray:
    """Copy the image out of a message of `image_to_msg`, RGB uint8, shape (H, W, 3).

    Raises:
        SpecError: If it is no tightly packed rgb8 image.
    """
    size = msg.height * msg.width * 3
    if msg.encoding != "rgb8" or not size or len(msg.data) != size:
        raise SpecError(f"image is {msg.encoding} of {len(msg.data)} bytes, must be rgb8 of {size}; fix its sender")
    return np.frombuffer(msg.data, np.uint8).reshape(msg.height, msg.width, 3).copy()


def raw_stamp_ns(raw: bytes) -> int:
    """Read the stamp of a serialised message that begins with a header, on the steady clock, without unpacking it.

    The stamp stands behind the four bytes that tell the byte order.

    Raises:
        SpecError: If it is no such message.
    """
    if len(raw) < 12:
        raise SpecError(f"message has {len(raw)} bytes, must have at least 12 to hold a header; update its sender")
    sec, nanosec = struct.unpack_from("<iI" if raw[1] & 1 else ">iI", raw, 4)
    return int(sec) * 1_000_000_000 + int(nanosec) - OFFSET.now_ns()


def pixels_of(msg: Image) -> np.ndarray:
    """View the pixels of any driver's image in their own layout, uint8, shape (H, W, channels), without a copy.

    Raises:
        SpecError: If the encoding is not taken, or size, step and data do not fit each other.
    """
    data = np.frombuffer(msg.data, np.uint8)
    return view_of(data, encoding=msg.encoding, height=msg.height, width=msg.width, step=msg.step)


def file_of(msg: CompressedImage) -> np.ndarray:
    """View the compressed file in a message without a copy, uint8, shape (N,)."""
    return np.frombuffer(msg.data, np.uint8)


def teleop_to_msg(sample: TeleopSample) -> Joy:
    """Put all of a teleop sample but its events into a message; its sender is in the seal."""
    buttons = array("i", [int(sample.deadman), sample.gripper, int(sample.lost)])
    return Joy(header=header_of(sample.stamp_ns), axes=_floats(sample.twist), buttons=buttons)


def teleop_from_msg(msg: Joy, session: str | None = None) -> TeleopSample:
    """Read a teleop sample of a sender out of a message, the inverse of `teleop_to_msg`; None is a stranger.

    Raises:
        SpecError: If there are not three buttons; what the axes say is judged by the safety filter.
    """
    if len(msg.buttons) != 3:
        raise SpecError(f"teleop command has {len(msg.buttons)} buttons, must have 3; update its sender")
    return TeleopSample(
        stamp_ns=stamp_ns_of(msg.header),
        twist=np.array(msg.axes, dtype=np.float64),
        deadman=bool(msg.buttons[0]),
        gripper=int(msg.buttons[1]),
        lost=bool(msg.buttons[2]),
        session=session,
    )


def page_to_msg(packet: JoyPacket, stamp_ns: int) -> Joy:
    """Put what an operator's hand does on the console's page into a message."""
    axes = array("f", packet.axes)
    return Joy(header=header_of(stamp_ns), axes=axes, buttons=array("i", packet.buttons))


def events_to_msg(events: tuple[str, ...], stamp_ns: int, device: str) -> Joy:
    """Put key events into a message, by their indices in `EVENTS`; the header names the device."""
    return Joy(header=header_of(stamp_ns, device), buttons=array("i", [EVENTS.index(event) for event in events]))


def events_from_msg(msg: Joy) -> tuple[str, ...]:
    """Read the key events out of a message, the inverse of `events_to_msg`; an unknown index is left out."""
    return tuple(EVENTS[index] for index in msg.buttons if 0 <= index < len(EVENTS))


def decision_to_msg(decision: Decision) -> Joy:
    """Put a decision of the safety filter about one arm into a message, its label.

    Axes: requested twist 6, executed twist 6, gripper. Buttons: source, mode, bits of clamps, gripper given.
    """
    command = decision.command
    gripper = 0.0 if command.gripper is None else command.gripper
    bits = sum(1 << CLAMPS.index(clamp) for clamp in decision.clamped)
    return Joy(
        header=header_of(command.stamp_ns, command.frame),
        axes=_floats(np.concatenate([decision.requested, command.twist, [gripper]])),
        buttons=array("i", [int(decision.source), MODES.index(decision.mode), bits, int(command.gripper is not None)]),
    )


def decision_from_msg(msg: Joy, arm: str) -> Decision:
    """Read a decision out of a label, the inverse of `decision_to_msg` up to float32 and the reason.

    Raises:
        SpecError: If it is no label.
    """
    if len(msg.axes) != 13 or len(msg.buttons) != 4:
        raise SpecError(f"label has {len(msg.axes)} axes and {len(msg.buttons)} buttons, must have 13 and 4")
    axes = np.array(msg.axes, dtype=np.float64)
    source, mode, bits, has_gripper = msg.buttons
    command = Command(
        arm=arm,
        twist=axes[6:12],
        frame=frame_of(msg.header.frame_id),
        gripper=float(axes[12]) if has_gripper else None,
        stamp_ns=stamp_ns_of(msg.header),
        source=Source(source),
    )
    clamped = tuple(clamp for index, clamp in enumerate(CLAMPS) if bits >> index & 1)
    return Decision(command=command, mode=MODES[mode], source=Source(source), requested=axes[:6], clamped=clamped)


def mode_to_text(mode: Mode, reason: Refusal | None) -> str:
    """Write the state of control as on safety/mode: "HOLD (policy silent): policy silent for 153 ms"."""
    return f"{mode} ({reason.kind}): {reason.text}" if reason else str(mode)


def mode_from_text(text: str) -> tuple[Mode, Refusal | None]:
    """Parse the state of control and its reason, the inverse of `mode_to_text`.

    Raises:
        SpecError: If it is no mode, or its reason is of no known kind.
    """
    head, _, reason = text.partition(": ")
    mode, bracket, kind = head.partition(" (")
    if mode not in MODES:
        raise SpecError(f"mode is {mode!r}, must be one of {[each.value for each in MODES]}; update its sender")
    if not bracket:
        return Mode(mode), None
    if kind[-1:] != ")" or kind[:-1] not in tuple(RefusalKind):
        raise SpecError(f"kind of reason is {kind!r}, must be one of {[*RefusalKind]}; update its sender")
    return Mode(mode), Refusal(kind=RefusalKind(kind[:-1]), text=reason)


def fault_to_msg(fault: Fault | None, arm: str, stamp_ns: int) -> DiagnosticArray:
    """Put what an arm's driver reports into a message of one status.

    It is OK where the arm is well; the kind of a fault stands among the status's values.
    """
    level = DiagnosticStatus.ERROR if fault else DiagnosticStatus.OK
    values = [KeyValue(key=FAULT_KIND, value=fault.kind.name)] if fault else []
    status = DiagnosticStatus(level=level, name=arm, message=fault.text if fault else "ok", values=values)
    return DiagnosticArray(header=header_of(stamp_ns), status=[status])


def fault_from_msg(msg: DiagnosticArray) -> Fault | None:
    """Read an arm's fault out of a message, None where it is well; the inverse of `fault_to_msg`.

    Raises:
        SpecError: If it has not one status, or its kind is unknown.
    """
    if len(msg.status) != 1:
        raise SpecError(f"fault has {len(msg.status)} statuses, must have 1; update its sender")
    status = msg.status[0]
    if status.level == DiagnosticStatus.OK:
        return None
    kind = next((pair.value for pair in status.values if pair.key == FAULT_KIND), "")
    if kind not in FaultKind.__members__:
        raise SpecError(f"kind of fault is {kind!r}, must be one of {list(FaultKind.__members__)}; update its sender")
    return Fault(kind=FaultKind[kind], text=status.message)
