"""`robot-stack deploy RUN`: a saved policy on the cell, without a learner; every episode is recorded."""

from __future__ import annotations

from pathlib import Path

from robot_stack.cli.extras import check_torch
from robot_stack.cli.run_folder import run_and_policy
from robot_stack.cli.supervise import supervise
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.table import cell_processes, console_process, managed, session_process
from robot_stack.runs.beginning import command_line
from robot_stack.runs.folder import Part, begun
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.reward_version import newest_reward
from robot_stack.types.event import LabelSource


def run(name: str, episodes: int = 20, policy: str = "policy", judge: str | None = None) -> int:
    """Run the policy on the cell it was trained on; returns the exit code.

    Args:
        name: Folder of a run, or its name under runs/.
        episodes: How many.
        policy: Which of the run's policies, by the name of its file; "base": its base policy, which needs no training.
        judge: Who says that the task is done; None: the run's success model if it has a trusted one.

    Raises:
        ConfigError: If there is no such run or policy, its cell is going on, or the cell's DDS domain is taken.
        ModuleNotFoundError: If there is no torch here.
    """
    check_torch()
    resolved, folder, path = run_and_policy(name, policy)
    judge = judge or _judge_of(folder)
    with begun(resolved, folder, Part.CELL), prepared(resolved, folder) as ready:
        saved = () if path is None else ("--policy", str(path))
        session = session_process("deployed", folder, *saved, "--episodes", str(episodes), "--judge", judge)
        rows = (*cell_processes(resolved, folder), console_process(resolved, folder), session)
        store = RunPaths(RunPaths(folder).deployed).store.root

        def onward(code: int) -> str:
            return command_line("doctor", resolved.run.cell) if code else command_line("report", name)

        return supervise(resolved, ready, managed(rows, folder), store=store, onward=onward)


def _judge_of(folder: Path) -> str:
    """Return who can say that the task is done, and tell why if it is not the success model."""
    newest = newest_reward(folder)
    if newest is None or newest.alarm:
        why = "there is none" if newest is None else f"{newest.version} is no longer trusted ({newest.alarm})"
        print(f"The run's success model does not judge: {why}. An episode ends when the operator says so, or by time.")
        return LabelSource.OPERATOR
    print(f"The run's success model {newest.version} says when the task is done; the operator may refuse it.")
    return LabelSource.MODEL
