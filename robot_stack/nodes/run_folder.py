"""The folder of a run, and the environment its processes share."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from robot_stack.config.resolved import ResolvedRun
from robot_stack.nodes.process_table import RESOLVED, ProcessSpec, cell_processes, process_table
from robot_stack.nodes.profile import claim_domain, ros_environment, write_profile

DOMAIN = "domain"
"""File in the folder with the number of the DDS domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run that is ready to start.

    Attributes:
        folder: Holds `RESOLVED`, logs, episodes, checkpoints.
        domain: DDS domain, claimed.
        environment: Of every process, whole.
    """

    folder: Path
    domain: int
    environment: dict[str, str]

    @property
    def log_folder(self) -> Path:
        """One log per process."""
        return self.folder / "log"


def new_folder(run: ResolvedRun, root: Path) -> Path:
    """runs/NAME/DATE_TIME, not yet made."""
    return root / run.name / time.strftime("%Y-%m-%d_%H%M%S")


@contextmanager
def prepared(run: ResolvedRun, folder: Path) -> Iterator[PreparedRun]:
    """Save the resolved run in `folder` and claim a DDS domain for as long as the context is open.

    Raises:
        ConfigError: If the domain of a real cell is taken by another run.
    """
    log_folder = folder / "log"
    log_folder.mkdir(parents=True, exist_ok=True)
    (folder / RESOLVED).write_text(run.to_yaml())
    with claim_domain(run.cell.dds_domain, exact=_has_drivers(run)) as domain:
        (folder / DOMAIN).write_text(f"{domain}\n")
        ros = ros_environment(write_profile(folder).resolve(), domain, log_folder.resolve())
        yield PreparedRun(folder=folder, domain=domain, environment={**os.environ, **ros})


def _has_drivers(run: ResolvedRun) -> bool:
    """Whether somebody else's processes wait for the run on the domain of its cell."""
    return run.robot.backend != "sim" or any(camera.backend == "topic" for camera in run.cameras.values())


def free_address(wanted: str) -> str:
    """`wanted`, host:port on this machine, or another port of that host if it is taken."""
    host, _, port = wanted.rpartition(":")
    for candidate in (int(port), 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, candidate))
            except OSError:
                continue
            return f"{host}:{probe.getsockname()[1]}"
    return wanted


def choose_table(
    resolved: ResolvedRun, folder: Path, *, cell_only: bool, remote_learner: bool
) -> tuple[ProcessSpec, ...]:
    """The rows that are asked for; a local learner moves to a free port if the cell's is taken."""
    if cell_only:
        return cell_processes(resolved, folder)
    address = resolved.cell.learner_address
    if not remote_learner:
        address = free_address(address)
    return process_table(resolved, folder, local_learner=not remote_learner, learner_address=address)
