"""The identity of a store and its episodes, which belong to one spec and one task."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

from robot_stack.disk.durable import write_durable, write_json
from robot_stack.replay.columns import SCHEMA_VERSION
from robot_stack.types.errors import StoreError
from robot_stack.types.spec import Spec


def check_identity(path: Path, spec: Spec, task: str) -> None:
    """Compare the identity file of a store with what is wanted, or write it if there is none.

    Raises:
        StoreError: Naming every field that differs.
    """
    wanted = {"schema": SCHEMA_VERSION, "task": task, "spec": json.loads(spec.to_json())}
    if not path.exists():
        write_json(path, wanted)
        return
    try:
        found = json.loads(path.read_text())
    except (ValueError, RecursionError) as error:
        raise StoreError(f"file {path} is unreadable ({error}), must be JSON; restore it from a copy") from error
    wrong = differences(found, wanted)
    if wrong:
        raise StoreError(f"store {path.parent}: {'; '.join(wrong)}; choose another run directory")


def id_of(path: Path) -> str:
    """Read the random name of a store from its file, or make one that stays.

    Raises:
        OSError: If the disk refuses.
    """
    if not path.exists():
        write_durable(path, secrets.token_hex(4))
    return path.read_text()


def check_spec(found: Spec, wanted: Spec, name: str) -> None:
    """Raise StoreError naming every field in which two specs differ."""
    if found == wanted:
        return
    wrong = differences(json.loads(found.to_json()), json.loads(wanted.to_json()), "spec")
    if wrong:
        raise StoreError(f"{name}: {'; '.join(wrong)}; record it anew on this cell, or leave it out")


def differences(found: object, wanted: object, name: str = "") -> list[str]:
    """List every leaf in which two JSON values differ, as `<path> is <found>, must be <wanted>`."""
    if isinstance(found, dict) and isinstance(wanted, dict) and found.keys() == wanted.keys():
        return [d for key in wanted for d in differences(found[key], wanted[key], f"{name}.{key}".lstrip("."))]
    if isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        return [d for i, w in enumerate(wanted) for d in differences(found[i], w, f"{name}[{i}]")]
    return [] if found == wanted else [f"{name} is {found!r}, must be {wanted!r}"]
