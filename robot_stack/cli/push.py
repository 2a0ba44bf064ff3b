"""`robot-stack push RUN`: a policy or the episodes of a run, with a card, into a folder or on the Hub."""

from __future__ import annotations

import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

from robot_stack.cli.data.common import find_data
from robot_stack.cli.run_folder import find_folder, policy_file, say_progress
from robot_stack.config.resolve import load_resolved
from robot_stack.datasets.lerobot.export import export_lerobot
from robot_stack.datasets.summary import select
from robot_stack.hub.card import About, dataset_card
from robot_stack.hub.folder import CARD, evaluation_of, gather, refuse_taken
from robot_stack.hub.remote import client, upload
from robot_stack.replay.outcome import Outcome
from robot_stack.report.summary import build_summary
from robot_stack.runs.beginning import command_line
from robot_stack.runs.paths import RunPaths


def run(
    name: str, hub: str | None, folder: Path | None, policy: str, licence: str, *, data: bool, private: bool
) -> int:
    """Write the folder, and upload it if a repository is named; returns the exit code.

    Raises:
        ConfigError: If there is no such run or policy, or huggingface_hub is not installed.
        StoreError: If the folder has something in it, or policy or evaluation cannot be read.
        TransportError: If the Hub refuses or cannot be reached.
    """
    package, source = client(), find_folder(name)
    if not data:
        policy_file(source, policy)
    about = About(
        resolved=load_resolved(RunPaths(source).resolved),
        summary={**build_summary(source), "policy": _evaluated(source, policy)},
        version=version("robot-stack"),
        repository=hub or "",
        licence=licence,
    )
    with tempfile.TemporaryDirectory() as scratch:
        out = folder or Path(scratch) / "pushed"
        if data:
            refuse_taken(out)
            view = find_data(name)
            found = select(view, kind=None, outcomes=[Outcome.OPEN, Outcome.SUCCESS, Outcome.FAILURE], episodes=())
            chosen = [line.episode_id for line in found]
            if out.exists():
                out.rmdir()
            export_lerobot(view, chosen, out, codec="h264", on_episode=_say)
            (out / CARD).write_text(dataset_card(about, package, episodes=len(chosen)))
        else:
            gather(source, policy, about, out, package)
        if hub is None:
            read = CARD if data else f"{CARD} and run.yaml"
            import_it = ("data", "import", str(out), "--format", "lerobot", "--out", "EPISODES")
            take = command_line(*import_it if data else ("pull", "NAME", "--folder", str(out)))
            print(f"Written: {out}; read its {read} before you give it away\nTaken with: {take}")
            return 0
        print(f"Pushed: {upload(package, out, hub, 'dataset' if data else 'model', private=private)}")
    return 0


def _evaluated(folder: Path, policy: str) -> dict[str, Any]:
    """Return the figures of a policy's evaluation, each None where there was none of the policy as it is now."""
    told = evaluation_of(folder, policy) or {}
    return {key: told.get(key) for key in ("episodes", "success", "wilson95", "cycle_s")}


def _say(what: str, number: int, count: int) -> None:
    say_progress(f"{what} episode", number, count)
