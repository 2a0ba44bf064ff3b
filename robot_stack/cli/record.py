"""`robot-stack record CELL`: demonstrations by hand, each on disk when it ends; a second start goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robot_stack.cli.run_folder import load_cell, own_folder
from robot_stack.cli.supervise import supervise
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.table import cell_processes, console_process, managed, session_process
from robot_stack.teleop.bindings import Device, table


def run(
    name: str,
    overrides: Sequence[str] = (),
    root: Path | None = None,
    folder: Path | None = None,
    episodes: int | None = None,
) -> int:
    """Record demonstrations until there are enough; returns the exit code.

    Raises:
        ConfigError: If a file is wrong, or the folder is of another run.
    """
    resolved = load_cell(name, overrides, root)
    wanted = resolved.run.training.demos if episodes is None else episodes
    with prepared(resolved, own_folder(resolved, folder)) as ready:
        if resolved.teleop.device in tuple(Device):
            column = Device(resolved.teleop.device)
            print(table([Device.KEYBOARD if column is Device.BROWSER else column]))  # a page that drives has its keys
        recorder = session_process("recorder", ready.folder, "--episodes", str(wanted))
        console = console_process(resolved, ready.folder)
        rows = (*cell_processes(resolved, ready.folder), console, recorder)
        code = supervise(resolved, ready, managed(rows, ready.folder))
    print(f"Next: robot-stack train {resolved.name}" if code == 0 else f"Next: robot-stack doctor {name}")
    return code
