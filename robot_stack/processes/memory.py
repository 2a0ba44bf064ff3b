"""Memory of a process and its descendants, shared pages counted once."""

from __future__ import annotations

from pathlib import Path


def tree_megabytes(root_pid: int) -> float:
    """Return the proportional set size of `root_pid` and everything below it, in MB.

    Processes that end meanwhile count 0.
    """
    return sum(_pss_kb(pid) for pid in _tree(root_pid)) / 1024


def _tree(root_pid: int) -> list[int]:
    pids = [root_pid]
    for pid in pids:
        for path in Path(f"/proc/{pid}/task").glob("*/children"):
            try:
                pids += [int(child) for child in path.read_text().split()]
            except OSError:
                continue
    return pids


def _pss_kb(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0
