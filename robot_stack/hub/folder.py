"""What travels of a run: named files only, so that keys, addresses and logs of a lab never do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from safetensors import SafetensorError, safe_open

from robot_stack.config.environment import KEY
from robot_stack.config.files.mistake import Mistake, raise_if_any
from robot_stack.config.files.yaml_text import read
from robot_stack.config.resolve import load_resolved
from robot_stack.config.resolved import ResolvedRun
from robot_stack.datasets.draft import new_folder
from robot_stack.disk.durable import disk_errors
from robot_stack.hub.card import About, policy_card
from robot_stack.runs.evaluation import read_evaluation
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError, StoreError

CARD = "README.md"
EPISODES = (CARD, "meta/*.json", "meta/*.parquet", "data/*.parquet", "videos/*.mp4")
"""What is taken of a LeRobotDataset, in any depth: tables and videos, no program."""
MAX_BYTES = 2_000_000_000
"""Of one file; a policy has some megabytes."""


def _wanted(folder: Path) -> tuple[Path, ...]:
    paths = RunPaths(folder)
    return paths.resolved, paths.policy("policy"), paths.summary, paths.evaluation("policy")


def travelling(folder: Path) -> Iterator[Path]:
    """Yield the files of a shared policy that are in a folder, the card not among them."""
    yield from (path for path in _wanted(folder) if path.is_file() and not path.is_symlink())


def names() -> list[str]:
    """Return the names of all files that travel, the card among them."""
    return [CARD, *(path.name for path in _wanted(Path()))]


def gather(run: Path, policy: str, about: About, out: Path, hub: ModuleType) -> None:
    """Copy what travels of a run into a new folder, with a card.

    The summary is that of the run's own policy, and stays behind where another one is given away.

    Args:
        run: Folder of the run.
        policy: Name of the one that becomes `policy.safetensors`.
        about: For the card, with the figures of that policy.
        out: New, or empty.
        hub: The package huggingface_hub.

    Raises:
        StoreError: If `out` has something in it, the policy cannot be read, or the disk refuses.
        ConfigError: If the policy is of another spec than the run.
    """
    refuse_taken(out)
    _check_policy(RunPaths(run).policy(policy), about.resolved)
    with disk_errors(f"writing {out}"):
        out.mkdir(parents=True, exist_ok=True)
        given, theirs = RunPaths(run), RunPaths(out)
        copies = {given.resolved: theirs.resolved, given.policy(policy): theirs.policy("policy")}
        if evaluation_of(run, policy) is not None:
            copies[given.evaluation(policy)] = theirs.evaluation("policy")
        if policy == "policy":
            copies[given.summary] = theirs.summary
        for source, target in copies.items():
            if source.is_file():
                shutil.copyfile(source, target)
        (out / CARD).write_text(policy_card(about, hub))


def evaluation_of(run: Path, policy: str) -> dict[str, Any] | None:
    """Return the evaluation of a policy in a run's folder; None if there is none, or it is of earlier parameters.

    Raises:
        StoreError: If one of the two cannot be read.
    """
    told = read_evaluation(RunPaths(run).evaluation(policy))
    version = int(_policy_metadata(RunPaths(run).policy(policy))["version"])
    return told if told is not None and told.get("params_version") == version else None


def refuse_taken(out: Path) -> None:
    """Refuse to write into a place that has something in it.

    Raises:
        StoreError: If it is no folder, or not empty.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise StoreError(f"folder {out} has something in it, must be new or empty; choose another one")


def receive(source: Path, out: Path, say: Callable[[str], None] = lambda told: None) -> ResolvedRun:
    """Take a shared policy into a run's folder; only files that travel are taken, and only if they are sound.

    Nothing of it is executed: the run is checked as a file of one's own would be, weights are safetensors. A large
    reward model, which no policy needs to act, is left out: it may bring code, or a server that is sent images and a
    token.

    Args:
        source: Folder of what was shared.
        out: Becomes the run's.
        say: Told what is left out.

    Raises:
        StoreError: If `out` is taken, a file is missing, too large or unreadable, or the disk refuses.
        ConfigError: If the run is none, or of hardware or settings that this version does not know.
    """
    refuse_taken(out)
    paths = RunPaths(source)
    given = list(travelling(source))
    for path in (paths.resolved, paths.policy("policy")):
        if path not in given:
            raise StoreError(
                f"{path.name} is missing in {source}, must be there; is it a policy that push has written?"
            )
    for path in given:
        if path.stat().st_size > MAX_BYTES:
            raise StoreError(
                f"{path.name} has {path.stat().st_size} bytes, must have at most {MAX_BYTES}; it is no file of a policy"
            )
    large = _large_model(paths.resolved)
    resolved = load_resolved(paths.resolved, [] if large is None else ["run.reward.rescore=null"])
    if resolved.run.base is not None:
        raise ConfigError(
            f"run.yaml in {source} has a base policy of kind {resolved.run.base.kind!r}, must have none: it would "
            "start a program of its maker's choice here, or show a server what the cameras see; write a run of your "
            "own with it"
        )
    if resolved.is_environment:
        raise ConfigError(
            f"run.yaml in {source} has the environment {resolved.task.sim[KEY]!r}, must have none: it is made by code "
            "that its maker names; write a run of your own with it"
        )
    if large is not None:
        say(
            f"The large reward model {large} of its maker is left out: it may bring code of its own, or ask a "
            "server of theirs."
        )
    _check_policy(paths.policy("policy"), resolved)
    _check_summary(paths.summary)
    if evaluation_of(source, "policy") is None:
        given = [path for path in given if path != paths.evaluation("policy")]
    if out.exists():
        with disk_errors(f"replacing {out}"):
            out.rmdir()
    with new_folder(out) as draft:
        for path in given:
            shutil.copyfile(path, draft / path.name)
        if large is not None:
            RunPaths(draft).resolved.write_text(resolved.to_yaml())
    return resolved


def _large_model(path: Path) -> str | None:
    """Return the name of the large reward model in a run's file, which may be a plug-in that is not here; else None."""
    mistakes: list[Mistake] = []
    tree = read(path, mistakes, saved=True)
    raise_if_any(mistakes)
    said = None if tree is None else tree.get("run", "reward", "rescore")
    if said is None or said.value is None:
        return None
    name = said.get("name")
    return "without a name" if name is None else repr(name.value)[:80]


def _policy_metadata(path: Path) -> dict[str, str]:
    """Return what the file of a policy says of itself: at least the version and the spec of its cell."""
    try:
        with safe_open(path, "np") as file:
            metadata = file.metadata() or {}
    except (OSError, SafetensorError) as error:
        raise StoreError(f"{path.name} is unreadable ({error}), must be a policy that a learner wrote") from error
    version = metadata.get("version", "")
    if not (version.isdecimal() and len(version) < 20) or "spec_digest" not in metadata:
        raise StoreError(
            f"{path.name} says neither version nor spec of its cell, must be a policy that a learner wrote"
        )
    return metadata


def _check_policy(path: Path, resolved: ResolvedRun) -> None:
    metadata = _policy_metadata(path)
    if metadata["spec_digest"] != resolved.spec().digest:
        raise ConfigError(
            f"{path.name} is of another spec (arms, cameras, proprio or rate) than "
            f"{RunPaths(path.parent).resolved.name}, must be of the same; they are not from one run"
        )


def _check_summary(path: Path) -> None:
    if path.is_file():
        try:
            told = json.loads(path.read_text())
        except (ValueError, RecursionError) as error:
            raise StoreError(f"{path.name} is no JSON ({error}), must be what report has written") from error
        if not isinstance(told, dict):
            raise StoreError(f"{path.name} holds a {type(told).__name__}, must be what report has written")
