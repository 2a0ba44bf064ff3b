"""The process behind `robot-stack record`, which puts an operator's demonstrations into the run's store."""

from __future__ import annotations

import argparse
import sys

from robot_stack.nodes.actor.session import Session, run_session
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.rollout.clock import SteadyClock
from robot_stack.rollout.record import Recorder
from robot_stack.runs.paths import RunPaths


def record(session: Session) -> int:
    """Record until there are as many demonstrations as asked for, and return the exit code."""
    resolved, wanted = session.resolved, session.options.episodes
    with EpisodeStore(RunPaths(session.folder).store.root, resolved.spec(), resolved.task.name) as store:
        have = Recorder(resolved, session.cell, SteadyClock(), store, session.say, session.said).run(
            wanted, session.stop
        )
    session.say(f"{have} of {wanted} demonstrations are in {RunPaths(session.folder).store.root}")
    return 0


def main() -> int:
    """Run the process that records demonstrations and return its exit code."""
    return run_session("recorder", record, _arguments)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--episodes", type=int, required=True, help="demonstrations that ended well, in all")


if __name__ == "__main__":
    sys.exit(main())
