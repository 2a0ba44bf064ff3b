"""The patterns that texts of configuration files must match, each with the words that say so to a person."""

from __future__ import annotations

NAME = r"^[a-z][a-z0-9_]*$"
FIELD = r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)?$"
ROS_NAME = r"^/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*$"
NAMESPACE = r"^[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*$"
PORT = r"(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5]?[0-9]{1,4})"
ADDRESS = rf"^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):{PORT}$"
IPV4 = r"^[0-9]{1,3}(\.[0-9]{1,3}){3}$"
DEVICE = r"^/dev/"
PLACE = r"^(/|~/)"
HTTP = r"^https?://[^\s/]+(/\S*)?$"
WEBSOCKET = r"^wss?://[^\s/]+(/\S*)?$"
FOURCC = r"^[A-Z0-9 ]{4}$"
USB = r"^[0-9a-f]{4}:[0-9a-f]{4}$"
KEY_CODE = r"^(KEY|BTN)_[A-Z0-9_]+$"
AXIS_CODE = r"^ABS_[A-Z0-9]+$"

WORDS = {
    NAME: ("a name of lower case letters, digits and underscores that begins with a letter", "front_camera"),
    FIELD: ("the name of a field, with several arms after the arm's name and a dot", "wrench or left.wrench"),
    ROS_NAME: ("a ROS name of letters, digits and underscores, its parts after single slashes", "/camera/image_raw"),
    NAMESPACE: ("a ROS namespace of letters, digits and underscores, without a slash at either end", "lab/cell_a"),
    ADDRESS: ("host:port, the port up to 65535, an IPv6 address in brackets", "192.168.1.20:50051"),
    IPV4: ("an IPv4 address", "192.168.1.20"),
    DEVICE: ("the path of a device", "/dev/v4l/by-id/usb-Camera-video-index0"),
    PLACE: ("a path from / or ~/, which means the same wherever a process is started", "~/runs/peg"),
    HTTP: ("an address that begins with http:// or https://", "http://127.0.0.1:8000"),
    WEBSOCKET: ("an address that begins with ws:// or wss://", "ws://127.0.0.1:8000"),
    FOURCC: ("a pixel format of four capitals, digits or spaces", "MJPG"),
    USB: ("vendor and product as lsusb prints them, in lower case", "256f:c635"),
    KEY_CODE: ("a key's name in linux/input-event-codes.h", "KEY_SPACE"),
    AXIS_CODE: ("an axis's name in linux/input-event-codes.h", "ABS_X"),
}
"""Pattern -> what a text must be, and an example of it."""
