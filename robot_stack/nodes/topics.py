"""Names on the wire, relative to the namespace of the cell.

| topic | type | offered | rate | carries |
| --- | --- | --- | --- | --- |
| state/arm | JointState | R 10 | 100 Hz | all of a `RobotState` in one message, so that its parts cannot mix |
| state/joints, tcp_pose, tcp_twist, wrench, gripper | ...Stamped | R 10 | 50 Hz | for tools, while one subscribes |
| robot/applied | TwistStamped | R 10 | 100 Hz | what the motors get, for tools, while one subscribes |
| robot/fault | String | latched | change | sentence, "" when there is none |
| <camera>/obs | Image rgb8 | R 1 | camera | the policy's image, cropped and resized |
| teleop/cmd | Joy | R 1 | 50 Hz | twist in [-1, 1], deadman, gripper press |
| teleop/events | Joy | R 10 | event | indices of `EVENTS`; a console may publish here too |
| policy/cmd | TwistStamped | R 1 | control | m/s and rad/s in the frame of the header |
| policy/gripper | JointState | R 1 | control | wanted opening, same stamp; if the task has a gripper |
| safety/cmd | TwistStamped | R 1 | 100 Hz | the only motion command that the robot process obeys |
| safety/gripper | JointState | R 1 | wish | the only gripper command |
| safety/label | Joy | R 100 | 100 Hz | decision behind the command of the same stamp |
| safety/mode | String | latched | change | "HOLD: policy silent for 153 ms ..." |
| safety/estop | Bool | latched | change | true while STOP is latched |
| episode/status | String | latched | change | `EpisodeStatus` of the actor |
| episode/claim | String | R 10 | event | verdict that the reward model claims |
| reset/request, reset/done | Header | R 1, latched | event | seed in frame_id; in `done`, if it failed, why |
| sim/snapshot, sim/seen, sim/truth | JointState, JointState, Bool | R 1 | | only with the simulator |

R n: RELIABLE, KEEP_LAST n. Latched: RELIABLE, TRANSIENT_LOCAL, 1. Every node adds ~/heartbeat (Header, 20 Hz) and
/diagnostics (1 Hz). Stamps are CLOCK_MONOTONIC nanoseconds of the cell's only host, so that no age follows a jump of
the wall clock; /diagnostics is stamped with wall time, for foreign tools.
"""

STATE = "state/arm"
STATE_VIEWS = ("state/joints", "state/tcp_pose", "state/tcp_twist", "state/wrench", "state/gripper")
FAULT = "robot/fault"
APPLIED = "robot/applied"
TELEOP = "teleop/cmd"
EVENTS = "teleop/events"
POLICY = "policy/cmd"
POLICY_GRIPPER = "policy/gripper"
COMMAND = "safety/cmd"
COMMAND_GRIPPER = "safety/gripper"
LABEL = "safety/label"
MODE = "safety/mode"
ESTOP = "safety/estop"
STATUS = "episode/status"
CLAIM = "episode/claim"
RESET_REQUEST = "reset/request"
RESET_DONE = "reset/done"
SNAPSHOT = "sim/snapshot"
SEEN = "sim/seen"
TRUTH = "sim/truth"

RECOVER = "robot/recover"
"""Trigger service of a real arm's robot process: a person has cleared the driver's fault."""

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


def observation(camera: str) -> str:
    """Topic of a camera's images as the policy sees them."""
    return f"{camera}/obs"


def safety_service(request: str) -> str:
    """Service of a request to the safety filter."""
    return f"safety/{request}"
