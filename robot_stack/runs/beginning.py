"""How a run was begun: the command that goes on with it, in a file of its folder."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from robot_stack.disk.durable import write_durable
from robot_stack.runs.paths import RunPaths


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """The beginning of a run.

    Attributes:
        command: Goes on with the run where it stopped.
        quick: It goes through every phase in minutes, so its learning is not to be judged.
    """

    command: str
    quick: bool = False

    def write(self, folder: Path) -> None:
        """Write it into the folder of a run.

        Raises:
            OSError: If the disk refuses.
        """
        write_durable(RunPaths(folder).beginning, json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Beginning | None:
        """Return the beginning of the run in a folder, or None if nobody wrote it or nobody can read it."""
        try:
            said = json.loads(RunPaths(folder).beginning.read_text())
            return cls(command=str(said["command"]), quick=bool(said["quick"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None


def command_line(*words: str, overrides: Sequence[str] = (), root: Path | None = None) -> str:
    """Return a command of robot-stack as it is typed, with the options that every verb of a run has."""
    more = ["--root", str(root)] if root is not None else []
    return shlex.join(["robot-stack", *words, *more, *(word for each in overrides for word in ("--set", each))])
