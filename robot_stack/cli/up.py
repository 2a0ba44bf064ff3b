"""`robot-stack up RUN`: all processes of a run on this machine, without the ros2 command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robot_stack.cli.checked_run import load_checked
from robot_stack.cli.extras import check_torch
from robot_stack.cli.run_folder import RUNS, own_folder
from robot_stack.cli.supervise import supervise
from robot_stack.processes.prepared_run import choose_table, prepared, usual_folder
from robot_stack.runs.beginning import Beginning, command_line
from robot_stack.runs.folder import Part, begun
from robot_stack.runs.paths import RunPaths


def run(
    name: str,
    overrides: Sequence[str] = (),
    root: Path | None = None,
    folder: Path | None = None,
    cell_only: bool = False,
    remote_learner: bool = False,
    timeout_s: float | None = None,
) -> int:
    """Start the processes of a run, bring them up in order and watch them until they end; returns the exit code.

    Raises:
        ConfigError: If a file is wrong, the folder is of another run or of one that is going on, or the cell's DDS
            domain is taken.
        ModuleNotFoundError: If there is no torch here, and a process needs it.
    """
    resolved = load_checked(name, overrides, root)
    if not cell_only:
        check_torch()
    place = own_folder(resolved, usual_folder(resolved, RUNS) if folder is None else folder)
    parts = (Part.CELL,) if cell_only or remote_learner else tuple(Part)
    with begun(resolved, place, *parts), prepared(resolved, place) as ready:
        flags = [text for text, said in (("--cell-only", cell_only), ("--remote-learner", remote_learner)) if said]
        again = command_line("up", name, "--folder", str(ready.folder), *flags, overrides=overrides, root=root)
        Beginning(command=again).write(ready.folder)
        table = choose_table(resolved, ready.folder, cell_only=cell_only, remote_learner=remote_learner)
        store = None if remote_learner or cell_only else RunPaths(ready.folder).store.root
        saved = RunPaths(ready.folder).policy("policy")
        before_s = _written_s(saved)

        def onward(code: int) -> str:
            if code:
                return f"{command_line('doctor', name, overrides=overrides, root=root)}, then {again}"
            if cell_only:
                return f"{again}, to go on"
            learned = _written_s(saved) > before_s
            return command_line("report", str(ready.folder)) + ("" if learned else f", or {again}, to go on")

        return supervise(resolved, ready, table, timeout_s, store=store, onward=onward)


def _written_s(path: Path) -> float:
    """Return when a file was written, in seconds since the epoch; 0 if there is none."""
    return path.stat().st_mtime if path.exists() else 0.0
