"""`robot-stack pull NAME`: a policy that somebody has pushed, as a run under runs/NAME; or episodes, as a folder."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from robot_stack.cli.run_folder import RUNS
from robot_stack.disk.durable import disk_errors
from robot_stack.hub.folder import EPISODES, names, receive, refuse_taken
from robot_stack.hub.remote import client, download
from robot_stack.runs.beginning import command_line
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError
from robot_stack.types.names import check_name


def run(name: str, hub: str | None, folder: Path | None, revision: str, *, data: bool) -> int:
    """Fetch, check a policy, and only then put it into its place; returns the exit code.

    Raises:
        SpecError: If the name cannot be one of a run.
        ConfigError: If what was pulled is no run that this version knows, or huggingface_hub is not installed.
        StoreError: If the place is taken, or what was pulled is incomplete.
        TransportError: If the Hub refuses or cannot be reached.
    """
    if data:
        if hub is None:
            raise ConfigError(
                f"--folder {folder} has the episodes here already, must be --hub with --data; "
                f"{command_line('data', 'import', str(folder), '--format', 'lerobot', '--out', name)}"
            )
        out = Path(name)
        refuse_taken(out)
        draft = out.with_name(f".{out.name}.draft")  # stays if the download breaks off, which then goes on
        download(client(), hub, "dataset", draft, revision=revision, only=EPISODES)
        with disk_errors(f"writing {out}"):
            shutil.rmtree(draft / ".cache", ignore_errors=True)
            if out.exists():
                out.rmdir()
            draft.rename(out)
        print(f"Next: {command_line('data', 'import', str(out), '--format', 'lerobot', '--out', 'EPISODES')}")
        return 0
    out = RUNS / check_name(name, "name")
    refuse_taken(out)
    with tempfile.TemporaryDirectory() as scratch:
        source = folder or Path(scratch)
        if hub is not None:
            download(client(), hub, "model", source, revision=revision, only=names())
        resolved = receive(source, out, print)
    print(f"{out}: {resolved.run.algorithm.name} on {resolved.run.cell}, task {resolved.task.name}")
    if resolved.simulated:
        print(f"Next: robot-stack eval {name}")
    else:
        print(
            f"Limits, box and poses in {RunPaths(out).resolved} are those of its maker's cell, and nobody has "
            "checked them against yours."
        )
        print(f"Next: read and correct them, try the hardware emergency stop, then robot-stack deploy {name}")
    return 0
