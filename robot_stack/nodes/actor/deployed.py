"""The process behind `robot-stack deploy`: a saved policy on the cell, without a learner."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path

from robot_stack.disk.durable import write_durable
from robot_stack.learner.reward.success_model import run_success_model
from robot_stack.nodes.actor.session import Session, run_session
from robot_stack.replay.episode_store import EpisodeStore
from robot_stack.rollout.clock import SteadyClock
from robot_stack.rollout.deploy import deploy, in_words
from robot_stack.rollout.judged import BackgroundJudge
from robot_stack.rollout.params_file import load_params
from robot_stack.runs.paths import RunPaths
from robot_stack.types.event import LabelSource


def run_policy(session: Session) -> int:
    """Run as many episodes of the saved policy as asked for, write their summary, and return the exit code."""
    resolved, options = session.resolved, session.options
    params = None if options.policy is None else load_params(options.policy)
    folder = RunPaths(session.folder).deployed
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        store = stack.enter_context(EpisodeStore(RunPaths(folder).store.root, resolved.spec(), resolved.task.name))
        judge = None
        if options.judge == LabelSource.MODEL:
            judge = stack.enter_context(BackgroundJudge(run_success_model(session.folder, resolved)))
        told = deploy(
            resolved, params, session.cell, SteadyClock(), store, episodes=options.episodes, stop=session.stop,
            say=session.say, judge=judge, said=session.said,
        )  # fmt: skip
    summary = told.summary()
    write_durable(RunPaths(folder).summary, json.dumps(summary))
    session.say(f"{in_words(told)}; recorded in {folder}")
    return int(told.broken)


def main() -> int:
    """Run the process that deploys a policy and return its exit code."""
    return run_session("deployed", run_policy, _arguments)


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", type=Path, help="file that the learner saved; default: the run's base policy")
    parser.add_argument("--episodes", type=int, required=True)
    parser.add_argument(
        "--judge",
        choices=(LabelSource.MODEL, LabelSource.OPERATOR),
        required=True,
        help="who says that the task is done",
    )


if __name__ == "__main__":
    sys.exit(main())
