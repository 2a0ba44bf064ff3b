"""What a run does once its cell has stopped, and how it ended, in a file of its folder for whoever looks on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path

from robot_stack.disk.durable import write_durable
from robot_stack.runs.paths import RunPaths


class StageName(StrEnum):
    """The parts of a run that come after its cell; without one of them the cell is up."""

    CLOSING = "closing"
    CLONING = "cloning"
    EVALUATING = "evaluating"
    REPORT = "report"
    ENDED = "ended"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The stage of a run whose cell has stopped.

    Attributes:
        name: Which.
        text: What is done in it, or how the run ended, in words.
        share: Of it that is done, in [0, 1]; None if nobody knows.
        result: Lines with the figures of a run that has ended.
        next_step: What to run next; "" while it goes on.
    """

    name: StageName
    text: str = ""
    share: float | None = None
    result: tuple[str, ...] = ()
    next_step: str = ""

    @property
    def final(self) -> bool:
        """Return whether nothing of the run comes after it."""
        return self.name in (StageName.ENDED, StageName.FAILED)

    def write(self, folder: Path) -> None:
        """Write it into the folder of a run, in place of the one before.

        Raises:
            OSError: If the disk refuses.
        """
        write_durable(RunPaths(folder).stage, json.dumps(asdict(self)))

    @classmethod
    def read(cls, folder: Path) -> Stage | None:
        """Return the stage in the folder of a run; None while its cell is up, or if nobody can read it."""
        try:
            said = json.loads(RunPaths(folder).stage.read_text())
            return cls(
                name=StageName(said["name"]),
                text=str(said["text"]),
                share=None if said["share"] is None else float(said["share"]),
                result=tuple(map(str, said["result"])),
                next_step=str(said["next_step"]),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @staticmethod
    def begin(folder: Path) -> None:
        """Forget the stage of an earlier start in this folder: the cell comes up."""
        RunPaths(folder).stage.unlink(missing_ok=True)
