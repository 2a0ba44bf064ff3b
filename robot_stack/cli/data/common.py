"""Common parts of the words of `robot-stack data`: they find the episodes, and tell what was done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robot_stack.cli.run_folder import RUNS, find_folder
from robot_stack.config.resolve import load_resolved
from robot_stack.datasets.new_store import NewStore
from robot_stack.datasets.store_view import StoreView, open_store
from robot_stack.replay.layout import StorePaths
from robot_stack.runs.beginning import command_line
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError, StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Result of a word of `robot-stack data`, for scripts and for people.

    Attributes:
        lines: For people; the last one says what to do next.
    """

    document: dict[str, Any]
    lines: Sequence[str]
    code: int = 0


def find_data(name: str) -> StoreView:
    """Open the episodes of a run, or of a folder that was made from some.

    Raises:
        ConfigError: If there is neither.
        StoreError: If it cannot be read.
    """
    for candidate in (RUNS / name, Path(name)):
        paths = RunPaths(candidate)
        if paths.store.identity.is_file():
            if not paths.resolved.is_file():
                return open_store(paths.store.root)
            task = load_resolved(paths.resolved).task
            return open_store(paths.store.root, task.text, {turn.id: turn.text for turn in task.turns[1:]})
        if StorePaths(candidate).identity.is_file():
            return open_store(candidate)
    paths = RunPaths(Path(name))
    if paths.folder.is_dir() and not paths.resolved.is_file():
        alone, within = StorePaths(paths.folder).identity, paths.store.identity
        raise ConfigError(
            f"folder is {name}, must hold {alone.name} or {within.relative_to(paths.folder)}; name a run or a dataset"
        )
    folder = find_folder(name)
    raise StoreError(f"store of {folder} is missing, must hold episodes; let the run record some")


def run_of(name: str) -> Path | None:
    """Return the folder of the run whose episodes `find_data` opens, or None where that is no run."""
    for candidate in (RUNS / name, Path(name)):
        paths = RunPaths(candidate)
        if paths.store.identity.is_file():
            return candidate if paths.resolved.is_file() else None
    return None


def written(out: Path, stores: Sequence[NewStore]) -> Said:
    """Tell what was written to `out`, what has another id there, and what was left out of it."""
    renamed = {old: new for store in stores for old, new in store.renamed.items()}
    left_out = {episode_id: why for store in stores for episode_id, why in store.left_out.items()}
    count = sum(len(store.taken) for store in stores)
    lines = [f"renamed: {old} is now {new}" for old, new in renamed.items()]
    lines += [f"FAIL left out {episode_id}: {why}" for episode_id, why in left_out.items()]
    warnings = [text for store in stores for text in store.warnings]
    lines += [f"WARN {text}" for text in warnings]
    lines.append(f"{out}: {count} episodes; what they were made from is unchanged")
    following = out if len(stores) == 1 else out / stores[0].root.name
    lines.append(f"Next: {command_line('data', 'list', str(following))}")
    document = {"folder": str(out), "episodes": count, "left_out": left_out, "renamed": renamed, "warnings": warnings}
    return Said(document=document, lines=lines)


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        key, mark, value = text.partition("=")
        if not (key and mark and value):
            raise ConfigError(f"{option} is {text!r}, must be NAME=VALUE; write both")
        if key in found:
            raise ConfigError(f"{option} of {key} is given twice, must be given once; leave one out")
        found[key] = value
    return found


def number(part: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ConfigError(f"share of {part} is {text!r}, must be a number; e.g. {part}=0.8") from error
