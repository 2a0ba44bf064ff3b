"""The folder of a run, and the environment its processes share."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from robot_stack.config.resolved import ResolvedRun
from robot_stack.disk.durable import write_durable
from robot_stack.processes.profile import IMAGES_FILE, PROFILE_FILE, claim_domain, ros_environment, write_profiles
from robot_stack.processes.shared_memory import remove_stale
from robot_stack.processes.table import (
    ProcessSpec,
    cell_processes,
    check_has_cell,
    console_process,
    managed,
    process_table,
)
from robot_stack.runs.paths import RunPaths
from robot_stack.runs.stage import Stage
from robot_stack.transport.access.link_token import LinkToken
from robot_stack.types.errors import ConfigError

MIN_FREE_MB = 500
"""Less than this, and a run would end in the middle of an episode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run that is ready to start.

    Attributes:
        folder: Holds the resolved run, logs, episodes, checkpoints.
        domain: DDS domain, claimed.
        environment: Of every process, whole.
    """

    folder: Path
    domain: int
    environment: dict[str, str]

    def taken_instead_of(self, wanted: int) -> str | None:
        """Return what to tell where the run could not have the domain of its cell; None where it has it."""
        if self.domain == wanted:
            return None
        return f"domain {wanted} is in use by another program; this run took {self.domain}"

    @property
    def log_folder(self) -> Path:
        """Return the folder that gets one log per process."""
        return RunPaths(self.folder).log


def usual_folder(run: ResolvedRun, root: Path) -> Path:
    """Return the folder of a run for which nobody named one; it is not made here.

    On a cell with drivers that is runs/NAME, in which `record`, `train` and `act` go on too: demonstrations that an
    operator has shown there are not asked for again. In simulation it is a new one, runs/NAME/DATE_TIME.
    """
    place = root / run.name
    return place if _has_drivers(run) else place / time.strftime("%Y-%m-%d_%H%M%S")


@contextmanager
def prepared(run: ResolvedRun, folder: Path) -> Iterator[PreparedRun]:
    """Save the resolved run in `folder`, with the token of its link, and claim a DDS domain while the context is open.

    What killed runs left in shared memory is removed first.

    Args:
        run: The resolved run.
        folder: Of the run; made if it is not there.

    Raises:
        ConfigError: If the domain of a real cell is taken by another run, or the disk is full.
        TransportError: If the token that is there cannot be used.
    """
    log_folder = RunPaths(folder).log
    log_folder.mkdir(parents=True, exist_ok=True)
    free_mb = shutil.disk_usage(folder).free >> 20
    if free_mb < MIN_FREE_MB:
        raise ConfigError(f"free space for {folder} is {free_mb} MB, must be at least {MIN_FREE_MB}; free some space")
    write_durable(RunPaths(folder).resolved, run.to_yaml())
    Stage.begin(folder)
    if run.cell.learner_certs is None:
        LinkToken.keep(folder)
    remove_stale()
    with claim_domain(run.cell.dds_domain, exact=_has_drivers(run)) as domain:
        write_durable(RunPaths(folder).domain, f"{domain}\n")
        ros = ros_environment(_profile(run, folder), domain, log_folder.resolve())
        yield PreparedRun(folder=folder, domain=domain, environment={**os.environ, **ros})


def _profile(run: ResolvedRun, folder: Path) -> Path | None:
    """Write what the cell's `dds_reach` asks for in `folder`; return the profile of control, if there is to be one."""
    if run.cell.dds_reach != "environment":
        return write_profiles(folder, run.cell.dds_reach, run.cell.dds_peers).resolve()
    for name in (PROFILE_FILE, IMAGES_FILE):  # of an earlier start in this folder
        (folder / name).unlink(missing_ok=True)
    return None


def _has_drivers(run: ResolvedRun) -> bool:
    """Return whether somebody else's processes wait for the run on the domain of its cell."""
    if run.is_environment:
        return False
    robots, cameras = run.robots.values(), run.cameras.values()
    return any(robot.backend != "sim" for robot in robots) or any(camera.backend == "topic" for camera in cameras)


def free_address(wanted: str) -> str:
    """Return `wanted`, host:port on this machine, or another port of that host if it is taken."""
    host, _, port = wanted.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    for candidate in (int(port), 0):
        try:
            with socket.socket(family) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((host.strip("[]"), candidate))
                return f"{host}:{probe.getsockname()[1]}"
        except OSError:
            continue
    return wanted


def choose_table(
    resolved: ResolvedRun,
    folder: Path,
    *,
    cell_only: bool,
    remote_learner: bool,
    actor_id: str = "actor",
    self_active: bool = False,
    python: str = sys.executable,
) -> tuple[ProcessSpec, ...]:
    """Return the processes that are asked for; a local learner moves to a free port if the cell's is taken.

    Args:
        resolved: The run.
        folder: Where it is saved.
        cell_only: No actor, no learner.
        remote_learner: The learner runs on the machine that the cell names.
        actor_id: Of the actor, unique among those of a learner.
        self_active: Every node brings itself up at once, in no order; else a bring-up does, in the table's.
        python: Interpreter.

    Raises:
        ConfigError: If the run has no cell, but an environment.
    """
    check_has_cell(resolved)
    if cell_only:
        table = (
            *cell_processes(resolved, folder, python=python),
            console_process(resolved, folder, python=python),
        )
    else:
        address = resolved.cell.learner_address
        if not remote_learner:
            address = free_address(address)
        table = process_table(
            resolved,
            folder,
            local_learner=not remote_learner,
            learner_address=address,
            actor_id=actor_id,
            python=python,
        )
    return table if self_active else managed(table, folder, python=python)
