"""`robot-stack scene RUN`: a view of a running cell in three dimensions, in a browser of this machine."""

from __future__ import annotations

import signal
import threading

from robot_stack.cli.cell.own_cell import own_cell, say
from robot_stack.cli.run_folder import find_folder
from robot_stack.config.resolve import load_resolved
from robot_stack.disk.durable import write_durable
from robot_stack.processes.table import namespace_of
from robot_stack.runs.beginning import command_line
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError
from robot_stack.workcell.ending import ending_signals

PORT = 8643


def run(name: str, port: int = PORT) -> int:
    """Serve the view until Ctrl-C; returns the exit code.

    Raises:
        StackError: If no such run was started, or the view's library is not installed.
    """
    folder = find_folder(name)
    resolved = load_resolved(RunPaths(folder).resolved)
    if resolved.is_environment:
        raise ConfigError(f"run {name} is of an environment, must be of a cell to have a scene; look at its report")
    over = threading.Event()
    for each in ending_signals():
        signal.signal(each, lambda *_: over.set())
    with own_cell(resolved, folder, running=True):
        try:
            from robot_stack.console.scene_view import SceneView
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"{error.name} is missing, must be there for the view; pip install 'robot-stack[scene]'"
            ) from error
        from robot_stack.nodes.tools.scene import watch  # ROS reads its environment when it is loaded

        view = SceneView(port, f"{resolved.name} · robot-stack")
        address = RunPaths(folder).scene
        try:
            write_durable(address, view.address + "\n")
            print(f"{view.address}  (on this machine alone; Ctrl-C ends it)", flush=True)
            watch(resolved, namespace_of(resolved), view, say, over.is_set)
        finally:
            address.unlink(missing_ok=True)
            view.close()
    print(f"Next: {command_line('data', 'view', name)}")
    return 0
