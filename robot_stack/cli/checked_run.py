"""Loads a run and refuses, while its files can still be named, what one of its processes would refuse at its start."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from robot_stack.cli.extras import EXTRA_OF
from robot_stack.config.files.mistake import raise_if_any
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.types.errors import ConfigError
from robot_stack.workcell.reach import boxes_of_others


def load_checked(name: str | Path, overrides: Sequence[str] = (), root: Path | None = None) -> ResolvedRun:
    """Load a run as `load_run` does, and check the sections that belong to its parts.

    What this machine lacks the library for is not checked, with a line that says so: a robot's PC has no simulator.

    Raises:
        ConfigError: One line per mistake over all files.
    """
    resolved = load_run(name, overrides, root)
    said = []
    for check in (_check_boxes, _check_learning, _check_scene):
        try:
            check(resolved)
        except ConfigError as error:
            said.append(str(error))
        except ModuleNotFoundError as error:
            if error.name not in EXTRA_OF:
                raise
            extra = EXTRA_OF[error.name]
            print(
                f"not all is checked here: {error.name} is missing; pip install 'robot-stack[{extra}]'", file=sys.stderr
            )
    if said:
        raise ConfigError("\n".join(said))
    return resolved


def _check_boxes(resolved: ResolvedRun) -> None:
    raise_if_any(boxes_of_others(resolved))


def _check_learning(resolved: ResolvedRun) -> None:
    from robot_stack.learner.settings import check_settings

    check_settings(resolved)


def _check_scene(resolved: ResolvedRun) -> None:
    real = [name for name, robot in resolved.robots.items() if robot.backend != "sim"]
    if real:
        drawn = [name for name, camera in resolved.cameras.items() if camera.backend == "sim"]
        text = f"camera is drawn by the simulator, must be a real one beside the real arm {real[0]}; name another model"
        raise_if_any(resolved.mistake(f"cell.cameras.{name}.model", text) for name in drawn)
    else:
        from robot_stack.workcell.build import check_scene

        check_scene(resolved)
