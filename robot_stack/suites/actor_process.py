"""The actor process of a run whose task names an environment: the environment, the control loop and the learner's link.

    python -m robot_stack.suites.actor_process --run runs/NAME/run.yaml

There is no ROS in it. An environment has no clock: it stands still between two steps, and nothing of it could be
published in between, or be stopped by a safety filter. So it stands in the actor's own process, in lockstep.
"""

from __future__ import annotations

import argparse
import sys
import threading
from functools import partial

from robot_stack.config.resolve import load_resolved
from robot_stack.learner.settings import learning_settings
from robot_stack.rollout.actor import Actor, seed_of_start
from robot_stack.rollout.actor_process import actor_parser, deliver_and_close, run_until_stopped
from robot_stack.rollout.base.cell import with_base
from robot_stack.rollout.lockstep import CountingClient, Lockstep
from robot_stack.runs.paths import RunPaths
from robot_stack.transport.access.security import actor_credentials
from robot_stack.workcell.build import build_local_cell

STATUS_S = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Run episodes until the learner is done or a signal comes, and return 0; after a refusal or an error return 1."""
    options = actor_parser("robot_stack.suites.actor_process").parse_args(arguments)
    return run_until_stopped(partial(_run, options))


def _run(options: argparse.Namespace, stop: threading.Event) -> str:
    resolved = load_resolved(options.run)
    folder = RunPaths(options.run.parent).actor
    folder.mkdir(exist_ok=True)
    config = learning_settings(resolved).config
    cell = build_local_cell(resolved, seed=resolved.run.seed)
    client = CountingClient(
        options.learner or resolved.cell.learner_address,
        resolved.spec(), resolved.task.name, options.id, folder / f"{options.id}.spool",
        security=actor_credentials(resolved.cell.learner_certs, options.run.parent),
    )  # fmt: skip
    clock = Lockstep(
        cell,
        lambda: client.status(timeout_s=STATUS_S),
        lambda: client.online_steps,
        utd=config.utd,
        pretrain=config.pretrain_updates,
        arrived=client.arrived,
        stopping=stop.is_set,
    )
    client.connect()
    try:
        seed = seed_of_start(resolved, folder, options.id)
        with with_base(resolved, cell, waits=True, stopping=stop.is_set, seed=seed) as based:
            actor = Actor(resolved, folder, based, clock, client, options.id)
            return actor.run(stop, say=lambda text: print(text, flush=True))
    finally:
        deliver_and_close(client, stop)
        cell.close()


if __name__ == "__main__":
    sys.exit(main())
