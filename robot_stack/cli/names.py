"""Names on the command line where a cell is meant: of a run, of a cell, or a path."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from robot_stack.config.files.library import find, run_of_cell, search_path
from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun


def load_cell(name: str, overrides: Sequence[str] = (), root: Path | None = None) -> ResolvedRun:
    """Load the run of that name or path; for the name of a cell, load the run that names it.

    Raises:
        ConfigError: If there is neither, or several runs name the cell.
    """
    roots = search_path(root)
    is_cell = find("runs", name, roots) is None and find("cells", name, roots) is not None
    return load_run(run_of_cell(name, root) if is_cell else name, overrides, root)
