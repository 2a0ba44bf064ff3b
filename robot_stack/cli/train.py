"""`robot-stack train RUN`: the learner alone, on the machine with the GPU."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from robot_stack.cli.checked_run import load_checked
from robot_stack.cli.run_folder import own_folder
from robot_stack.disk.durable import write_durable
from robot_stack.processes.table import ONE_THREAD
from robot_stack.runs.beginning import Beginning, command_line
from robot_stack.runs.folder import Part, begun
from robot_stack.runs.paths import RunPaths


def run(
    name: str,
    overrides: Sequence[str] = (),
    root: Path | None = None,
    folder: Path | None = None,
    address: str | None = None,
) -> int:
    """Serve actors and train until the learner has had enough; returns the exit code.

    Raises:
        StackError: If a file is wrong, the folder is of another run, its learner is going on, or a resume would not be
            exact.
    """
    resolved = load_checked(name, overrides, root)
    place = own_folder(resolved, folder)
    with begun(resolved, place, Part.LEARNER):
        write_durable(RunPaths(place).resolved, resolved.to_yaml())
        chosen = () if folder is None else ("--folder", str(folder))
        heard = () if address is None else ("--address", address)
        again = command_line("train", name, *chosen, *heard, overrides=overrides, root=root)
        Beginning(command=again).write(place)
        for variable, value in ONE_THREAD.items():
            os.environ.setdefault(variable, value)  # read when torch is imported
        from robot_stack.learner.process import main

        where = resolved.cell.learner_address if address is None else address
        acting = command_line("act", name, *chosen, overrides=overrides, root=root)
        print(f"{resolved.name}: learner at {where}, in {place}. On the robot's machine: {acting}", flush=True)
        code = main(["--run", str(RunPaths(place).resolved), "--address", where])
        learned = RunPaths(place).policy("policy").exists()
        print(f"Next: {command_line('report', str(place))}" if learned else f"Next: {again}, to go on")
        return code
