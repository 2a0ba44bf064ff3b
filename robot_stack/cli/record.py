"""`robot-stack record CELL`: demonstrations by hand, each on disk when it ends; a second start goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robot_stack.cli.run_folder import load_cell, own_folder
from robot_stack.cli.supervise import closed_episodes, supervise
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.table import cell_processes, console_process, managed, session_process
from robot_stack.replay.outcome import Outcome
from robot_stack.runs.beginning import command_line
from robot_stack.runs.folder import Part, begun
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.statistics import EpisodeAccount, balanced
from robot_stack.teleop.bindings import Device, table
from robot_stack.types.transition import EpisodeKind


def run(
    name: str,
    overrides: Sequence[str] = (),
    root: Path | None = None,
    folder: Path | None = None,
    episodes: int | None = None,
) -> int:
    """Record demonstrations until there are enough; returns the exit code.

    Raises:
        ConfigError: If a file is wrong, the folder is of another run, or that is going on.
    """
    resolved = load_cell(name, overrides, root)
    wanted = resolved.run.training.demos if episodes is None else episodes
    place = own_folder(resolved, folder)
    with begun(resolved, place, Part.CELL, Part.LEARNER), prepared(resolved, place) as ready:
        if resolved.teleop.device in tuple(Device):
            column = Device(resolved.teleop.device)
            print(table([Device.KEYBOARD if column is Device.BROWSER else column]))  # a page that drives has its keys
        recorder = session_process("recorder", ready.folder, "--episodes", str(wanted))
        console = console_process(resolved, ready.folder)
        rows = (*cell_processes(resolved, ready.folder), console, recorder)

        def onward(code: int) -> str:
            if code:
                return command_line("doctor", name, overrides=overrides, root=root)
            chosen = ("--folder", str(folder)) if folder is not None else ()
            if _recorded(resolved, ready.folder) >= wanted:
                return command_line("train", resolved.name, *chosen, overrides=overrides, root=root)
            words = ("record", name, *chosen, *(("--episodes", str(episodes)) if episodes is not None else ()))
            return f"{command_line(*words, overrides=overrides, root=root)}, to go on"

        store = RunPaths(ready.folder).store.root
        return supervise(resolved, ready, managed(rows, ready.folder), store=store, onward=onward)


def _recorded(resolved: ResolvedRun, folder: Path) -> int:
    """Count the demonstrations that ended well, as the recorder does, which may have the store open meanwhile."""
    root, well = RunPaths(folder).store.root, Outcome.SUCCESS.name.lower()
    shown = [
        each.header for each in closed_episodes(root) if each.header.kind is EpisodeKind.DEMO and each.outcome == well
    ]
    return len(balanced([EpisodeAccount(header=header) for header in shown], [turn.id for turn in resolved.task.turns]))
