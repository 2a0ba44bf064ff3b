"""`robot-stack bag RUN`: the live topics of a run that is going on, into MCAP files."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from shlex import quote

from robot_stack.cli.cell.own_cell import own_cell, say
from robot_stack.cli.run_folder import find_folder
from robot_stack.config.resolve import load_resolved
from robot_stack.datasets.bag.topic_log import TopicLog
from robot_stack.processes.table import namespace_of
from robot_stack.runs.paths import RunPaths

FOLDER = "bags"


def run(
    name: str, out: Path | None = None, seconds: float | None = None, everything: bool = False, as_json: bool = False
) -> int:
    """Record topics until Ctrl-C, then print what was recorded; the exit code is 1 if nothing came.

    Raises:
        StackError: If no such run was started, or the disk refuses.
    """
    folder = find_folder(name)
    resolved = load_resolved(RunPaths(folder).resolved)
    out = out or folder / FOLDER / time.strftime("%Y-%m-%d_%H%M%S")
    with own_cell(resolved, folder, running=True):
        from robot_stack.nodes.tools.topic_recorder import record_topics  # ROS reads its environment when it is loaded

        log = TopicLog(out)
        say(f"Recording to {out}. Ctrl-C ends it.")
        limit = {} if seconds is None else {"seconds": seconds}
        began_s = time.monotonic()
        skipped = record_topics(namespace_of(resolved), log, everything=everything, say=say, **limit)
        took_s = time.monotonic() - began_s
    for topic, why in skipped.items():
        print(f"left out: {topic} {why}", file=sys.stderr)
    if as_json:
        said = {"folder": str(out), "seconds": round(took_s, 1), "bytes": log.bytes_written}
        print(json.dumps({**said, "messages": dict(sorted(log.counts.items())), "left_out": skipped}))
        return int(not log.counts)
    for topic, count in sorted(log.counts.items()):
        print(f"{count:8d}  {count / took_s:6.1f} Hz  {topic}")
    total, size = log.counts.total(), log.bytes_written / 1e6
    print(f"{out}: {total} messages of {len(log.counts)} topics in {took_s:.0f} s, {size:.1f} MB")
    print(
        f"Next: ros2 bag info {quote(str(out))}/000.mcap, or open it with Foxglove"
        if total
        else f"Next: is {name} going on?"
    )
    return int(not total)
