"""Topics and message definitions of an episode in an MCAP file.

| topic | type | one per | carries |
| --- | --- | --- | --- |
| /episode/about | std_msgs/String | episode | JSON: header, end, spec, labels, stages, preferences, task |
| /<camera>/obs | sensor_msgs/Image rgb8 | frame | the image as the policy saw it |
| /observation/state | sensor_msgs/JointState | frame | `name` and `position`: the proprio vector, SI units |
| /observation/timing | sensor_msgs/JointState | frame | age_s and skew_s |
| /action/executed | sensor_msgs/Joy | action | axes in [-1, 1]; buttons: source, gripper pressed, clipped, sources |
| /action/proposed, /action/human | sensor_msgs/Joy | action | axes in [-1, 1] |
| /action/params | sensor_msgs/JointState | action | version and age_s of the policy's parameters |

Header stamps are the control ticks; an action bears the stamp of the frame before it. Times in the log are the same
ticks, moved so that the first one lies at the wall-clock start of the episode.
"""

from __future__ import annotations

_HEADER = """================================================================================
MSG: std_msgs/Header
builtin_interfaces/Time stamp
string frame_id
================================================================================
MSG: builtin_interfaces/Time
int32 sec
uint32 nanosec
"""

STRING = "std_msgs/msg/String"
IMAGE = "sensor_msgs/msg/Image"
JOINT_STATE = "sensor_msgs/msg/JointState"
JOY = "sensor_msgs/msg/Joy"

DEFINITIONS = {
    STRING: "string data\n",
    IMAGE: "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\nuint8 is_bigendian\nuint32 step\n"
    "uint8[] data\n" + _HEADER,
    JOINT_STATE: "std_msgs/Header header\nstring[] name\nfloat64[] position\nfloat64[] velocity\nfloat64[] effort\n"
    + _HEADER,
    JOY: "std_msgs/Header header\nfloat32[] axes\nint32[] buttons\n" + _HEADER,
}
"""Type -> definition with all it contains, as a bag of ROS 2 holds it."""

ABOUT = "/episode/about"
STATE = "/observation/state"
TIMING = "/observation/timing"
EXECUTED = "/action/executed"
PROPOSED = "/action/proposed"
HUMAN = "/action/human"
PARAMS = "/action/params"


def camera_topic(camera: str) -> str:
    """Return the topic of a camera's images."""
    return f"/{camera}/obs"
