"""`robot-stack env [RUN]`: exports that let `ros2` commands in a shell find this package, and see the cell of a run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from robot_stack.processes.profile import IMAGES_FILE, package_path, ros_environment
from robot_stack.runs.paths import RunPaths
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
    """Return a ROS environment in which tools meet the processes of the run in `folder`, and its cameras' drivers.

    Raises:
        ConfigError: If it is no folder of a run that has been started.
    """
    paths = RunPaths(folder)
    missing = [path.name for path in (paths.resolved, paths.domain) if not path.is_file()]
    if missing:
        raise ConfigError(f"run folder is {folder}, must hold {', '.join(missing)}; start the run with robot-stack up")
    profile = folder / IMAGES_FILE
    return ros_environment(profile.resolve() if profile.is_file() else None, int(paths.domain.read_text()))
