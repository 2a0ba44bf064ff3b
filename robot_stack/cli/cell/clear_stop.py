"""`robot-stack clear-stop RUN`: ends the STOP of a cell, once an operator has looked at it and says so."""

from __future__ import annotations

import sys

from robot_stack.cli.cell.own_cell import own_cell
from robot_stack.cli.run_folder import find_folder
from robot_stack.config.resolve import load_resolved
from robot_stack.processes.table import namespace_of
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError

ANSWERS_S = 10.0
"""For the safety process to be found."""
WORD = "clear"
ASKED = f"""Look at the cell: why was it stopped, is that over, and is nobody within reach of the robot?
Type {WORD} and press Enter to end the STOP; anything else leaves it: """


def run(name: str) -> int:
    """Ask an operator at the terminal, then the safety process; the exit code is 1 if the STOP stays.

    The cell is disarmed afterwards: nothing moves before it is armed.

    Raises:
        ConfigError: If no such run was started, it has no cell, or nobody can be asked.
        StackError: If the run's environment cannot be read.
    """
    folder = find_folder(name)
    resolved = load_resolved(RunPaths(folder).resolved)
    if resolved.is_environment:
        raise ConfigError(f"run {name} is of an environment, must be of a cell to have a STOP; nothing can be stopped")
    if not sys.stdin.isatty():
        raise ConfigError("standard input is no terminal, must be one: an operator who sees the cell answers there")
    with own_cell(resolved, folder, running=True):
        from robot_stack.nodes.tools.listening import listening  # ROS reads its environment when it is loaded
        from robot_stack.nodes.tools.safety_requests import SafetyRequests

        with listening(lambda: SafetyRequests(namespace_of(resolved), ("clear_stop",))) as here:
            if not here.listen(ANSWERS_S, here.node.there):
                raise ConfigError(f"safety process of {folder} is not there, must run to end a STOP; start the run")
            print(ASKED, end="", flush=True)
            if sys.stdin.readline().strip() != WORD:
                print("The STOP stays.")
                return 1
            granted, said = here.node.ask(here, "clear_stop")
    if not granted:
        print(f"The STOP stays: {said}", file=sys.stderr)
        return 1
    print("The STOP is over. Next: arm the cell on the device")
    return 0
