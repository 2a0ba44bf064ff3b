"""The table of a run's processes, one for `robot-stack up`, `make sim` and the launch files."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from robot_stack.config.environment import KEY
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.profile import IMAGES_FILE, PROFILE_VARIABLE
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import MISCONFIGURED, UNPREPARED, ConfigError

"""The resolved run inside its folder."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Two numeric threads on two busy cores are nine times slower than one."""
TOOLS = ("bring_up", "command_recorder", "console")
"""Nodes that only look on."""
RESPAWN_DELAY_S = 0.5
RAPID_S, MAX_RAPID_FAILURES = 10.0, 5
"""A process that fails this often, each time sooner than this or before it came to its work, will not get better."""


SESSION_GRACE_S = 8.0
"""Who runs episodes waits up to 5 s for a safety process that no longer answers."""
ACTOR_GRACE_S = SESSION_GRACE_S + 5.0
"""An actor waits besides for the learner to have what it recorded, up to 5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """One process of a run, and how it is started, watched and stopped.

    Attributes:
        name: Unique in the table; its log is `<name>.log`.
        argv: Command line.
        required: Its end ends the run. With `respawn`, only a clean end does.
        respawn: After a failure it is started again.
        env: Added to the environment.
        nice: Added to the niceness.
        realtime: Priority before all ordinary processes, where the user may take it; 0 is ordinary. A busy machine
            then cannot delay the arm.
        grace_s: From SIGTERM to SIGKILL.
        stop_first: Stopped before the others, so that what it still has to deliver finds who takes it.
        stop_last: Stopped after the others, so that the arm is held while they save their work.
        speaks: What it writes to stderr is for the operator at the terminal.
        window: It only looks on: nobody waits until it is up, and the run goes on without it however often it fails.
    """

    name: str
    argv: tuple[str, ...]
    required: bool = False
    respawn: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0
    realtime: int = 0
    grace_s: float = 2.0
    stop_first: bool = False
    stop_last: bool = False
    speaks: bool = False
    window: bool = False


class After(StrEnum):
    """Consequence of a process's end for the run."""

    RESPAWN = "respawn"
    END_RUN = "end the run"
    NOTHING = "nothing"


class Restarts:
    """Rule for one process of the table: start it again, end the run, or neither, each time it ends."""

    def __init__(self, spec: ProcessSpec) -> None:
        self._spec = spec
        self._rapid_failures = 0

    def after(self, exit_code: int, ran_s: float) -> After:
        """Return what follows an end with `exit_code`, negative for a signal, `ran_s` after the start."""
        if self._spec.respawn and exit_code not in (0, MISCONFIGURED):
            rapid = ran_s < RAPID_S or exit_code == UNPREPARED
            self._rapid_failures = self._rapid_failures + 1 if rapid else 0
            if self._rapid_failures < MAX_RAPID_FAILURES:
                return After.RESPAWN
            return After.NOTHING if self._spec.window else After.END_RUN
        ends_the_run = self._spec.required or (exit_code == MISCONFIGURED and not self._spec.window)
        return After.END_RUN if ends_the_run else After.NOTHING


def module_of(node: str) -> str:
    """Return the name of the module that is the process of a node, for `python -m`."""
    return f"robot_stack.nodes.{'tools.' + node if node in TOOLS else node + '.node'}"


def program_of(module: str) -> str:
    """Return what a process calls itself where it says why it ends: its room, or its module where that says more."""
    return [part for part in module.split(".") if part not in ("node", "process")][-1]


def namespace_of(run: ResolvedRun) -> str:
    """Return the namespace of a run's cell, without the leading slash."""
    return run.cell.namespace or run.run.cell


def check_has_cell(run: ResolvedRun) -> None:
    """Refuse a run without a cell, where its nodes are asked for.

    Raises:
        ConfigError: If an environment stands in the cell's place.
    """
    if run.is_environment:
        raise ConfigError(
            f"run {run.name} is of the environment {run.task.sim[KEY]!r}, must be of a cell here; train on an "
            f"environment with robot-stack sim --task {run.name}"
        )


def cell_processes(run: ResolvedRun, folder: Path, *, python: str = sys.executable) -> tuple[ProcessSpec, ...]:
    """Return the cell's processes, without actor and learner, in the order in which they start.

    Args:
        run: The resolved run, saved in `folder`.
        folder: Of the run.
        python: Interpreter.

    Raises:
        ConfigError: If the run has no cell, but an environment.
    """
    check_has_cell(run)

    def node(name: str, *more: str) -> tuple[str, ...]:
        return (python, "-m", module_of(name), "--run", str(RunPaths(folder).resolved), *more)

    return (
        ProcessSpec(name="robot", argv=node("robot"), required=True, realtime=2, stop_last=True, env=ONE_THREAD),
        ProcessSpec(
            name="safety",
            argv=node("safety", *_stop_folder(run)),
            required=True,
            realtime=2,
            stop_last=True,
            env=ONE_THREAD,
        ),
        *(
            ProcessSpec(
                name=f"camera_{name}",
                argv=node("camera", "--camera", name),
                respawn=True,
                realtime=1,
                env={**ONE_THREAD, **_images_environment(run, folder, name)},
            )
            for name in run.cameras
        ),
        *(
            ProcessSpec(
                name=f"teleop_{arm}" if arm else "teleop",
                argv=node("teleop", *(("--arm", arm) if arm else ())),
                respawn=True,
                realtime=1,
                env=ONE_THREAD,
            )
            for arm in run.teleops
        ),
        ProcessSpec(name="command_recorder", argv=node("command_recorder"), respawn=True, realtime=1, env=ONE_THREAD),
    )


def _images_environment(run: ResolvedRun, folder: Path, camera: str) -> dict[str, str]:
    """Return what gives a process that reads a driver's whole images shared memory."""
    if run.cameras[camera].backend != "topic" or run.cell.dds_reach == "environment":
        return {}
    return {PROFILE_VARIABLE: str((folder / IMAGES_FILE).resolve())}


def learner_process(folder: Path, address: str, *, python: str = sys.executable) -> ProcessSpec:
    """Return the learner of the run saved in `folder`, serving at `address`, host:port."""
    return ProcessSpec(
        name="learner",
        argv=(
            *(python, "-m", "robot_stack.learner.process"),
            *("--run", str(RunPaths(folder).resolved), "--address", address),
        ),
        respawn=True,
        env=ONE_THREAD,
        nice=10,
        grace_s=20.0,
    )


def console_process(
    run: ResolvedRun, folder: Path, *, learner_address: str = "", python: str = sys.executable
) -> ProcessSpec:
    """Return the process of the operator's page; with the address of the learner, if there is one."""
    where = ("--run", str(RunPaths(folder).resolved), *_stop_folder(run))
    learner = ("--learner", learner_address) if learner_address else ()
    return ProcessSpec(
        name="console",
        argv=(python, "-m", module_of("console"), *where, *learner),
        respawn=True,
        window=True,
        env=ONE_THREAD,
        nice=5,
        grace_s=5.0,
    )


def _stop_folder(run: ResolvedRun) -> tuple[str, ...]:
    """Return the option that names the folder of what outlives a run of a real cell.

    That is its STOP, with which the next run comes up, and the token of its page.
    """
    if run.simulated:
        return ()
    home = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return ("--state", str(home / "robot-stack" / run.run.cell))


def process_table(
    run: ResolvedRun,
    folder: Path,
    *,
    local_learner: bool = True,
    learner_address: str = "",
    actor_id: str = "actor",
    python: str = sys.executable,
) -> tuple[ProcessSpec, ...]:
    """Return all processes of a run on this machine, in the order in which they start.

    Args:
        run: The resolved run, saved in `folder`.
        folder: Of the run.
        local_learner: False where the learner runs on another machine.
        learner_address: host:port; default: the cell's.
        actor_id: Of the actor, unique among those of a learner.
        python: Interpreter.
    """
    address = learner_address or run.cell.learner_address
    learner = learner_process(folder, address, python=python)
    if run.is_environment:
        return learner, _environment_actor(folder, address, actor_id, python=python)
    words = ("--run", str(RunPaths(folder).resolved), "--learner", address, "--id", actor_id)
    actor = ProcessSpec(
        name="actor",
        argv=(python, "-m", module_of("actor"), *words),
        required=True,
        respawn=True,
        realtime=1,
        env=ONE_THREAD,
        grace_s=ACTOR_GRACE_S,
        stop_first=True,
    )
    console = console_process(run, folder, learner_address=address, python=python)
    return (*cell_processes(run, folder, python=python), console, *((learner,) if local_learner else ()), actor)


def _environment_actor(folder: Path, address: str, actor_id: str, *, python: str) -> ProcessSpec:
    """Return the actor that has an environment in its own process, where there is no cell, and nothing to look at."""
    words = ("--run", str(RunPaths(folder).resolved), "--learner", address, "--id", actor_id)
    return ProcessSpec(
        name="actor",
        argv=(python, "-m", "robot_stack.suites.actor_process", *words),
        required=True,
        respawn=True,
        env=ONE_THREAD,
        grace_s=ACTOR_GRACE_S,
        stop_first=True,
    )


def session_process(module: str, folder: Path, *words: str, python: str = sys.executable) -> ProcessSpec:
    """Return a process with a control loop, in the actor's place: `robot_stack.nodes.actor.<module>`."""
    return ProcessSpec(
        name="actor",
        argv=(python, "-m", f"robot_stack.nodes.actor.{module}", "--run", str(RunPaths(folder).resolved), *words),
        required=True,
        realtime=1,
        env=ONE_THREAD,
        grace_s=SESSION_GRACE_S,
        speaks=True,
    )


def managed(table: Sequence[ProcessSpec], folder: Path, *, python: str = sys.executable) -> tuple[ProcessSpec, ...]:
    """Return the same rows, whose nodes wait until one more row brings them up, in the order of the table.

    Args:
        table: From `cell_processes` or `process_table`.
        folder: Of the run, which is saved there.
        python: Interpreter.
    """
    nodes = [row for row in table if row.argv[2].startswith("robot_stack.nodes.") and not row.window]
    words = [f"--node={row.name}" for row in nodes]
    words += [f"--required={row.name}" for row in nodes if row.required and not row.respawn]
    bring_up = ProcessSpec(
        name="bring_up",
        argv=(python, "-m", module_of("bring_up"), "--run", str(RunPaths(folder).resolved), *words),
        respawn=True,
        env=ONE_THREAD,
        speaks=True,
    )
    return (*(replace(row, argv=(*row.argv, "--managed")) if row in nodes else row for row in table), bring_up)
