"""`robot-stack env [RUN]`: exports that let `ros2` commands in a shell find this package, and see the cell of a run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from robot_stack.processes.prepared_run import DOMAIN
from robot_stack.processes.profile import PROFILE_FILE, package_path, ros_environment
from robot_stack.processes.table import RESOLVED
from robot_stack.types.errors import ConfigError


def run(folder: Path | None) -> int:
    """Print `export NAME=value` lines, with a run folder those of its run too; `eval "$(robot-stack env FOLDER)"`."""
    try:
        environment = package_path() if folder is None else environment_of(folder)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    for name, value in environment.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def environment_of(folder: Path) -> dict[str, str]:
    """Return the ROS environment that the processes of the run in `folder` were started with.

    Raises:
        ConfigError: If it is no folder of a run that has been started.
    """
    missing = [name for name in (RESOLVED, PROFILE_FILE, DOMAIN) if not (folder / name).is_file()]
    if missing:
        raise ConfigError(f"run folder is {folder}, must hold {', '.join(missing)}; start the run with robot-stack up")
    return ros_environment((folder / PROFILE_FILE).resolve(), int((folder / DOMAIN).read_text()))
