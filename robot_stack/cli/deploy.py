"""`robot-stack deploy RUN`: a saved policy on the cell, without a learner; every episode is recorded."""

from __future__ import annotations

from robot_stack.cli.run_folder import find_folder, policy_file
from robot_stack.cli.supervise import supervise
from robot_stack.config.resolve import load_resolved
from robot_stack.processes.prepared_run import prepared
from robot_stack.processes.table import cell_processes, console_process, managed, session_process
from robot_stack.runs.paths import RunPaths


def run(name: str, episodes: int = 20, policy: str = "policy") -> int:
    """Run the policy on the cell it was trained on; returns the exit code.

    Raises:
        ConfigError: If there is no such run or policy, or the cell's DDS domain is taken.
    """
    folder = find_folder(name)
    path = policy_file(folder, policy)
    resolved = load_resolved(RunPaths(folder).resolved)
    with prepared(resolved, folder) as ready:
        words = ("--policy", str(path), "--episodes", str(episodes))
        session = session_process("deployed", folder, *words)
        rows = (*cell_processes(resolved, folder), console_process(resolved, folder), session)
        code = supervise(resolved, ready, managed(rows, folder))
    print(f"Next: robot-stack report {name}" if code == 0 else f"Next: robot-stack doctor {resolved.run.cell}")
    return code
