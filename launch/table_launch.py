"""The processes of robot_stack as launch descriptions.

`ros2 launch` reads this in the Python that ROS was installed for, whose libraries may be older than robot_stack needs:
so nothing of robot_stack is imported here. Its own Python prepares the run, says which processes there are, and decides
what follows when one ends (`robot_stack.processes.launch_rows`); this file starts them. Namespace, remapping rules and
parameters of a launch file that includes one of ours reach its nodes.
"""

import json
import os
import subprocess
import sys
import time

from launch.actions import (
    DeclareLaunchArgument,
    EmitEvent,
    ExecuteProcess,
    GroupAction,
    LogInfo,
    OpaqueFunction,
    TimerAction,
)
from launch.events import Shutdown
from launch.substitutions import LaunchConfiguration

from launch import LaunchDescription

try:
    from launch_ros.actions import Node
except ImportError as missing:
    raise RuntimeError(
        f"launch_ros cannot be imported ({missing}), must be installed beside launch; install ros-DISTRO-launch-ros, "
        "or start the same processes without it: robot-stack up"
    ) from missing

COMMON = (
    DeclareLaunchArgument("set", default_value="", description="overrides key=value, separated by spaces"),
    DeclareLaunchArgument(
        "folder",
        default_value="",
        description="run folder; default: runs/RUN where drivers or a learner elsewhere are, else a new one in it",
    ),
)
SCOPE = ("ros_namespace", "ros_remaps", "global_params")
"""Where launch_ros keeps what an including launch file has pushed for the nodes of its group."""


def argument(name, default=None, text=""):
    """Declare an argument of a launch file; without a default it must be given."""
    fields = {} if default is None else {"default_value": default}
    return DeclareLaunchArgument(name, description=text, **fields)


def flag(name, default, text):
    """Declare an argument that is true or false."""
    return DeclareLaunchArgument(name, default_value=default, choices=["true", "false"], description=text)


def interpreter(launch_file):
    """Return the Python of the virtual environment that holds a launch file, else of the activated one, else this."""
    around = os.path.normpath(os.path.join(os.path.abspath(launch_file), "../../../.."))
    for prefix in (around, os.environ.get("VIRTUAL_ENV")):
        if prefix and os.path.isfile(f"{prefix}/pyvenv.cfg"):
            return os.path.join(prefix, "bin", "python3")
    return sys.executable


def describe(kind, launch_file, *arguments):
    """Describe the launch of a table's processes.

    Args:
        kind: Which table: "sim", "workcell" or "learner".
        launch_file: Path of the launch file.
        arguments: Those of the launch file, beside `set` and `folder`.
    """
    declared = (*arguments, *COMMON)

    def start(context):
        values = {each.name: str(LaunchConfiguration(each.name).perform(context)) for each in declared}
        scope = {key: context.launch_configurations[key] for key in SCOPE if key in context.launch_configurations}
        return Table(interpreter(launch_file), kind, values, scope).actions()

    return LaunchDescription([*declared, OpaqueFunction(function=start)])


class Table:
    """The processes of a run, as robot_stack's own Python names them.

    That Python lives as long as the launch: it keeps the run's DDS domain claimed.
    """

    def __init__(self, python, kind, values, scope):
        values = {**values, "ros_namespace": scope.get("ros_namespace", "")}
        words = [python, "-m", "robot_stack.processes.launch_rows", kind, json.dumps(values)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._stack = subprocess.Popen(words, start_new_session=True, **pipes)  # Ctrl-C is for the processes
        told = self._hear()
        if told is None:
            raise RuntimeError(
                f"{python} cannot run robot_stack, must have it installed; activate the virtual environment that has "
                "its libraries. Its own words are above"
            )
        if "refused" in told:
            raise RuntimeError(told["refused"])
        self._told = told
        self._scope = scope
        self._started_s = {}

    def actions(self):
        """Return the actions that start all processes."""
        return [LogInfo(msg=self._told["said"]), *(self._action(row) for row in self._told["rows"])]

    def _action(self, row):
        self._started_s[row["name"]] = time.monotonic()
        watched = {
            "env": row["env"],
            "output": "both",
            "on_exit": lambda event, context: self._ended(row, event.returncode),
            "sigterm_timeout": str(row["grace_s"]),
        }
        if not row["node"]:
            return ExecuteProcess(cmd=row["cmd"], name=row["name"], **watched)
        program, *words = row["cmd"]
        # without `name`, which the node has itself: launch_ros would call each new start of it a second node
        where = {"exec_name": row["name"], "namespace": self._told["namespace"]}
        return Node(executable=program, arguments=words, **where, **watched)

    def _again(self, row):
        """Return an action that starts a process again, with what the including file gave it the first time."""
        restored = OpaqueFunction(function=lambda context: context.launch_configurations.update(self._scope))
        return GroupAction([restored, self._action(row)])

    def _ended(self, row, code):
        ran_s = time.monotonic() - self._started_s[row["name"]]
        then = self._ask({"ended": row["name"], "code": code, "ran_s": ran_s})
        if then == "respawn":
            again = OpaqueFunction(function=lambda _: [self._again(row)])
            return TimerAction(period=self._told["respawn_delay_s"], actions=[again])
        if then == "nothing":
            return None
        return EmitEvent(event=Shutdown(reason=f"{row['name']} ended with exit code {code}"))

    def _ask(self, question):
        """Return what follows the end of a process; the run's end, if nobody can say."""
        try:
            self._stack.stdin.write(json.dumps(question) + "\n")
            self._stack.stdin.flush()
        except OSError:
            return "end the run"
        told = self._hear()
        return "end the run" if told is None else told["then"]

    def _hear(self):
        line = self._stack.stdout.readline()
        return json.loads(line) if line else None
