"""Names of the topics and services of a cell, relative to its namespace; those of one arm are under its name.

What anybody may read or send, in the messages that ROS has for it:

| topic | type | offered | rate | carries |
| --- | --- | --- | --- | --- |
| <arm>/<view> | as in tools | R 10 | 50 Hz | one of `VIEWS` of the measured state, while one subscribes |
| <arm>/applied | TwistStamped | R 10 | 100 Hz | what the motors get, while one subscribes |
| <arm>/policy/cmd | TwistStamped | R 1 | control | in: motion that somebody else's policy asks for, tcp or base frame |
| <arm>/policy/gripper | JointState | R 1 | control | in: the opening that it asks for, with the same stamp |
| <camera>/obs | Image rgb8 | R 1 | camera | the policy's image, cropped and resized |
| <camera>/obs/compressed | CompressedImage | R 1 | camera | the same as JPEG, while one subscribes |
| <camera>/captured/compressed | CompressedImage | R 1 | 5 Hz | the whole image, upright, JPEG, while one subscribes |
| <camera>/camera_info | CameraInfo | R 1 | camera | lens of <camera>/obs, where it is known, on demand |
| robot_description | String | latched | start | URDF of the simulated cell; a real arm's comes from its driver |
| safety/mode | String | latched | change | "HOLD (policy silent): policy silent for 153 ms ...", of all arms |
| safety/estop | Bool | latched | change | true while STOP is latched, also over a restart |
| safety/limits | String | latched | change | limits in force, JSON by arm |
| safety/stop_input/<button> | Bool | R | button | in, from a wired stop button of the cell's file: true latches STOP |
| safety/stop_input | Bool | R | button | in, from a button that the cell's file does not name: true latches STOP |
| episode/status | String | latched | change | `EpisodeStatus` of the actor |
| episode/claim | String | R 10 | event | verdict that the reward model claims |
| episode/help | String | latched | change | "stall: no progress for 2.1 s ...", "" while it does not ask |
| episode/prompt | String | latched | change | what an operator is to do now, "" for nothing |
| cell/status | String | latched | change | "active", or which nodes are not and why; from the bring-up |

What the processes of the run tell each other, sealed or packed; the underscore hides it from `ros2 topic list`:

| topic under _wire/ | type | offered | rate | carries |
| --- | --- | --- | --- | --- |
| <arm>/state | JointState | R 10 | 100 Hz | all of a `RobotState` in one message, so that its parts cannot mix |
| <arm>/fault | DiagnosticArray | latched | change | one status: OK, or what the driver reports and its kind |
| <arm>/teleop/cmd | Joy | R 1 | 50 Hz, change | twist in [-1, 1], deadman, gripper press, device lost |
| <arm>/policy/cmd, .../gripper | as above | R 1 | control | the same from the run's own actor, with its session |
| <arm>/safety/cmd | TwistStamped | R 1 | 100 Hz | the only motion command that the robot process obeys |
| <arm>/safety/gripper | JointState | R 1 | change | the only gripper command |
| <arm>/safety/label | Joy | R 100 | 100 Hz | decision behind the command of the same stamp |
| teleop/events | Joy | R 10 | event | indices of `EVENTS`; from devices and from the console |
| teleop/page | Joy | R 1 | 25 Hz, change | hand at the console's page, while one has it; simulated arms only |
| safety/mode, .../limits, episode/..., cell/status | DiagnosticArray | as above, 1 Hz | | the same texts, sealed |
| safety/operator | Header | R 1 | 5 Hz | somebody has the console's page in view; from the console |
| reset/request, reset/done | Header | R 1, latched | event | seed in frame_id; in `done`, if it failed, why |
| sim/snapshot, sim/seen, sim/truth | JointState, JointState, Bool | R 1 | | only with the simulator |

R n: RELIABLE, KEEP_LAST n. Latched: RELIABLE, TRANSIENT_LOCAL, 1. Every node adds ~/heartbeat (Header, 20 Hz),
~/lifecycle (String, latched: its stage, and why not the next), the services of a managed node, and /diagnostics (1 Hz).
Stamps are ROS time everywhere (`nodes.ros_time` says how ages survive a step of the clock). Under _wire/ the sender
says in frame_id who it is: "tcp@actor-3f2a91c0" on policy/cmd, and with a seal that only processes of the run can make
on state, fault, safety/cmd, safety/gripper, safety/label, teleop/cmd, teleop/events, teleop/page, safety/operator and
the texts:
"tcp:POLICY@safety-91c03f2a#5d41..." (`control.safety.seal`). A second living sender is refused, a stranger always; of
a stranger's keys only `stop` and `hold` count.
"""

from __future__ import annotations

from dataclasses import dataclass

from robot_stack.config.robot import RobotConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmNames:
    """The TF frames and joint names of an arm in the messages for tools.

    Attributes:
        base: Frame of its base.
        tcp: Frame of its TCP.
        joints: In the order of the state.
        gripper: What its opening in [0, 1] is called among joints.
    """

    base: str
    tcp: str
    joints: tuple[str, ...]
    gripper: str

    @classmethod
    def of(cls, arm: str, robot: RobotConfig) -> ArmNames:
        """Return a driver's own names; those of a simulated arm begin with the arm's, so that two do not collide."""
        prefix = f"{arm}_" if robot.backend == "sim" else ""
        return cls(
            base=prefix + robot.base_frame,
            tcp=prefix + robot.tcp_frame,
            joints=tuple(prefix + joint.name for joint in robot.joints),
            gripper=f"{arm}_gripper_opening",
        )


WIRE = "_wire"
"""Under it is what processes of the run tell each other."""
VIEWS = ("joint_states", "tcp_pose", "tcp_twist", "wrench", "gripper")
EVENTS = f"{WIRE}/teleop/events"
MODE = "safety/mode"
ESTOP = "safety/estop"
LIMITS = "safety/limits"
STOP_INPUT = "safety/stop_input"
"""Of a button that no file names."""
OPERATOR = f"{WIRE}/safety/operator"
ROBOT_DESCRIPTION = "robot_description"
STATUS = "episode/status"
CLAIM = "episode/claim"
HELP = "episode/help"
PROMPT = "episode/prompt"
CELL_STATUS = "cell/status"
RESET_REQUEST = f"{WIRE}/reset/request"
RESET_DONE = f"{WIRE}/reset/done"
SNAPSHOT = f"{WIRE}/sim/snapshot"
SEEN = f"{WIRE}/sim/seen"
TRUTH = f"{WIRE}/sim/truth"

SAFETY_REQUESTS = (
    "arm",
    "disarm",
    "start_policy",
    "start_demo",
    "end_episode",
    "hold",
    "resume",
    "stop",
    "clear_stop",
)
"""Trigger services under safety/; the answer's message says why a request was refused."""


def sealed(topic: str) -> str:
    """Return the topic on which processes of the run tell each other what tools read on a topic of texts."""
    return f"{WIRE}/{topic}"


def state(arm: str) -> str:
    """Return the topic of an arm's whole state."""
    return f"{WIRE}/{arm}/state"


def state_view(arm: str, view: str) -> str:
    """Return the topic of one part of an arm's state, out of `VIEWS`."""
    return f"{arm}/{view}"


def fault(arm: str) -> str:
    """Return the topic on which an arm's driver reports its fault."""
    return f"{WIRE}/{arm}/fault"


def recover(arm: str) -> str:
    """Return the name of a real arm's Trigger service, called when an operator has cleared the driver's fault."""
    return f"{arm}/recover"


def applied(arm: str) -> str:
    """Return the topic of the twist that an arm's motors get."""
    return f"{arm}/applied"


def teleop(arm: str) -> str:
    """Return the topic of an operator's teleop samples for an arm."""
    return f"{WIRE}/{arm}/teleop/cmd"


def foreign_policy(arm: str) -> str:
    """Return the topic on which a policy of somebody else may ask for motion of an arm."""
    return f"{arm}/policy/cmd"


def foreign_policy_gripper(arm: str) -> str:
    """Return the topic on which a policy of somebody else may ask for an opening of an arm's gripper."""
    return f"{arm}/policy/gripper"


def policy(arm: str) -> str:
    """Return the topic of the policy's motion command for an arm."""
    return f"{WIRE}/{arm}/policy/cmd"


def policy_gripper(arm: str) -> str:
    """Return the topic of the policy's gripper command for an arm."""
    return f"{WIRE}/{arm}/policy/gripper"


def command(arm: str) -> str:
    """Return the topic of the motion command that an arm obeys."""
    return f"{WIRE}/{arm}/safety/cmd"


def command_gripper(arm: str) -> str:
    """Return the topic of the gripper command that an arm obeys."""
    return f"{WIRE}/{arm}/safety/gripper"


def label(arm: str) -> str:
    """Return the topic of the safety filter's decisions about an arm's commands."""
    return f"{WIRE}/{arm}/safety/label"


def observation(camera: str) -> str:
    """Return the topic of a camera's images as the policy sees them."""
    return f"{camera}/obs"


def compressed(camera: str) -> str:
    """Return the topic of a camera's images as the policy sees them, as JPEG."""
    return f"{observation(camera)}/compressed"


def captured(camera: str) -> str:
    """Return the topic of a camera's whole images, upright and before the crop, as JPEG."""
    return f"{camera}/captured/compressed"


def optical_frame(camera: str) -> str:
    """Return the TF frame of a camera: z forward, x right, y down."""
    return f"{camera}_optical_frame"


def camera_info(camera: str) -> str:
    """Return the topic that tells how a camera's image was projected."""
    return f"{camera}/camera_info"


def lifecycle(node: str) -> str:
    """Return the topic on which a node publishes its stage."""
    return f"{node}/lifecycle"


def stop_input(button: str) -> str:
    """Return the topic of a wired stop button."""
    return f"{STOP_INPUT}/{button}"


def safety_service(request: str) -> str:
    """Return the name of the service for a request to the safety filter."""
    return f"safety/{request}"
