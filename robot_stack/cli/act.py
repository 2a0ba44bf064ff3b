"""`robot-stack act RUN`: the cell and the actor, on the robot's machine; the learner runs where the cell says."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from robot_stack.cli.checked_run import load_checked
from robot_stack.cli.extras import check_torch
from robot_stack.cli.run_folder import RUNS, own_folder
from robot_stack.cli.supervise import supervise
from robot_stack.processes.prepared_run import choose_table, prepared
from robot_stack.runs.beginning import command_line
from robot_stack.runs.folder import Part, begun
from robot_stack.transport.access.link_token import LinkToken


def run(
    name: str,
    overrides: Sequence[str] = (),
    root: Path | None = None,
    folder: Path | None = None,
    actor_id: str = "actor",
) -> int:
    """Act until the learner is done; returns the exit code.

    Raises:
        ConfigError: If a file is wrong, the folder is of another run, or its cell is going on.
        TransportError: If the token of the learner cannot be used.
        ModuleNotFoundError: If there is no torch here.
    """
    resolved = load_checked(name, overrides, root)
    check_torch()
    place = own_folder(resolved, folder)
    with ExitStack() as going_on:
        going_on.enter_context(begun(resolved, place, Part.CELL))
        if resolved.cell.learner_certs is None:  # the learner is on this machine, in the run's usual folder
            LinkToken.pass_on(RUNS / resolved.name, place)
        ready = going_on.enter_context(prepared(resolved, place))
        table = choose_table(resolved, ready.folder, cell_only=False, remote_learner=True, actor_id=actor_id)

        def onward(code: int) -> str:
            deployed = "robot-stack deploy RUN, with the run folder of the learner"
            return command_line("doctor", name, overrides=overrides, root=root) if code else deployed

        return supervise(resolved, ready, table, store=None, onward=onward)
