"""`robot-stack show RUN`: the resolved run, each value with the place it came from."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel

from robot_stack.cli.checked_run import load_checked
from robot_stack.config.resolved import ResolvedRun
from robot_stack.runs.beginning import command_line
from robot_stack.transport.access.security import is_loopback
from robot_stack.types.errors import ConfigError

WIDEST_SETTING = 64
FILES = (
    ".servos.calibration",
    ".twin.mjcf",
    ".kinematics.path",
    ".reference",
    ".learner_certs",
    ".base.policy",
    ".base.checkpoint",
    ".base.python",
    ".settings.weights",
    ".settings.prompt_file",
    ".settings.ca_file",
)
"""What the keys of files end with that a process reads when it starts; of several machines, each has its own."""


def run(name: str, overrides: Sequence[str] = (), as_json: bool = False, root: Path | None = None) -> int:
    """Print the resolved run; the exit code is 0, or 1 if a file is wrong."""
    try:
        resolved = load_checked(name, overrides, root)
        _check_start(resolved)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return 1
    for absent in _not_here(resolved):
        print(absent, file=sys.stderr)
    verb = ("sim", "--task") if resolved.is_environment else ("up",) if resolved.simulated else ("doctor",)
    following = command_line(*verb, resolved.name, overrides=overrides, root=root)
    print(as_json_text(resolved) if as_json else f"{as_table(resolved)}\nNext: {following}")
    return 0


def _not_here(resolved: ResolvedRun) -> Iterator[str]:
    """Yield a sentence for each file that the run names and this machine lacks: it may lie where it is read."""
    for key, value, origin in resolved.values(_owned(resolved)):
        reads = key.endswith(FILES) or (key.startswith("cameras.") and key.endswith(".path"))
        if isinstance(value, str) and reads and not _exists(value):
            yield f"{origin}: {key} is {value!r}, which is not here; it must be on the machine whose process reads it"


def _exists(path: str) -> bool:
    try:
        return Path(path).expanduser().exists()
    except RuntimeError:  # the home of somebody who is not known here
        return False


def _check_start(resolved: ResolvedRun) -> None:
    """Refuse an earlier run that is not there, if the learner, which copies it once, is on this machine."""
    start, address = resolved.run.start_from, resolved.cell.learner_address
    if start is not None and is_loopback(address) and not Path(start.run).expanduser().is_dir():
        text = f"folder is {start.run!r}, must be there, as the learner is on this machine; correct the path"
        raise ConfigError(str(resolved.mistake("run.start_from.run", text)))


def _owned(resolved: ResolvedRun) -> dict[str, BaseModel]:
    """Return the sections that belong to a run's parts, as far as this machine has the libraries to ask them."""
    owned: dict[str, BaseModel] = {}
    with suppress(ModuleNotFoundError):  # `load_checked` has said what is missing
        from robot_stack.learner.settings import learning_sections

        owned |= learning_sections(resolved)
    if resolved.simulated:
        with suppress(ModuleNotFoundError):
            from robot_stack.workcell.build import scene_sections

            owned |= scene_sections(resolved)
    return owned


def as_json_text(resolved: ResolvedRun) -> str:
    """Return the resolved run as JSON, for scripts."""
    values = {key: {"value": value, "origin": origin} for key, value, origin in resolved.values(_owned(resolved))}
    document = {"name": resolved.name, "spec_digest": resolved.spec().digest, "values": values}
    return json.dumps(document, indent=2)


def as_table(resolved: ResolvedRun) -> str:
    """Return the resolved run as text for people: `key: value   # origin`, origins aligned."""
    rows = [(f"{key}: {json.dumps(value)}", origin) for key, value, origin in resolved.values(_owned(resolved))]
    width = min(WIDEST_SETTING, max(len(setting) for setting, _ in rows))
    lines = [f"{setting:<{width}}  # {origin}" for setting, origin in rows]
    spec = resolved.spec()
    shapes = f"spec {spec.digest[:12]}: action {spec.action_size}, proprio {spec.proprio_size}, {spec.rate_hz:g} Hz"
    return "\n".join([*lines, "", shapes])
