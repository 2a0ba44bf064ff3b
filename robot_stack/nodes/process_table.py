"""Which processes a run consists of. One table for `robot-stack up`, `make sim` and the launch files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from robot_stack.config.resolved import ResolvedRun

RESOLVED = "run.yaml"
"""The resolved run inside its folder."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
"""Two numeric threads on two busy cores are nine times slower than one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """One process.

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
        stop_last: Stopped after the others, so that the arm is held while they save their work.
    """

    name: str
    argv: tuple[str, ...]
    required: bool = False
    respawn: bool = False
    env: Mapping[str, str] = field(default_factory=dict)
    nice: int = 0
    realtime: int = 0
    grace_s: float = 2.0
    stop_last: bool = False


class After(StrEnum):
    """What follows the end of a process."""

    RESPAWN = "respawn"
    END_RUN = "end the run"
    NOTHING = "nothing"


def after_end(spec: ProcessSpec, exit_code: int) -> After:
    """What the table says about a process that ended with `exit_code`, negative for a signal."""
    if spec.respawn and exit_code != 0:
        return After.RESPAWN
    return After.END_RUN if spec.required else After.NOTHING


def namespace_of(run: ResolvedRun) -> str:
    """Namespace of a run's cell."""
    return run.run.cell


def robot_node(run: ResolvedRun) -> str:
    """Module of the robot process: the simulator, or the face of a real arm's driver."""
    return "robot" if run.robot.backend == "sim" else "arm"


def cell_processes(run: ResolvedRun, folder: Path, *, python: str = sys.executable) -> tuple[ProcessSpec, ...]:
    """The cell without actor and learner: robot, safety, cameras, teleop, in the order in which they start.

    Args:
        run: The resolved run, saved in `folder` as `RESOLVED`.
        folder: Of the run.
        python: Interpreter.
    """

    def node(name: str, *more: str) -> tuple[str, ...]:
        where = ("--run", str(folder / RESOLVED), "--namespace", namespace_of(run))
        return (python, "-m", f"robot_stack.nodes.{name}", *where, *more)

    return (
        ProcessSpec(
            name="robot", argv=node(robot_node(run)), required=True, realtime=2, stop_last=True, env=ONE_THREAD
        ),
        ProcessSpec(name="safety", argv=node("safety"), required=True, realtime=2, stop_last=True, env=ONE_THREAD),
        *(
            ProcessSpec(
                name=f"camera_{name}",
                argv=node("camera", "--camera", name),
                respawn=True,
                realtime=1,
                env=ONE_THREAD,
            )
            for name in run.cameras
        ),
        ProcessSpec(name="teleop", argv=node("teleop"), respawn=True, realtime=1, env=ONE_THREAD),
    )


def process_table(
    run: ResolvedRun,
    folder: Path,
    *,
    local_learner: bool = True,
    learner_address: str = "",
    python: str = sys.executable,
) -> tuple[ProcessSpec, ...]:
    """All processes of a run on this machine, in the order in which they start.

    Args:
        run: The resolved run, saved in `folder` as `RESOLVED`.
        folder: Of the run.
        local_learner: False where the learner runs on another machine.
        learner_address: host:port; default: the cell's.
        python: Interpreter.
    """
    where = ("--run", str(folder / RESOLVED))
    address = learner_address or run.cell.learner_address
    learner = ProcessSpec(
        name="learner",
        argv=(python, "-m", "robot_stack.run.learner", *where, "--address", address),
        respawn=True,
        env=ONE_THREAD,
        nice=10,
        grace_s=20.0,
    )
    actor = ProcessSpec(
        name="actor",
        argv=(python, "-m", "robot_stack.nodes.actor", *where, "--namespace", namespace_of(run), "--learner", address),
        required=True,
        respawn=True,
        realtime=1,
        env=ONE_THREAD,
        grace_s=5.0,
    )
    return (*cell_processes(run, folder, python=python), *((learner,) if local_learner else ()), actor)
