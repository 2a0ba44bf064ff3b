"""The actor process: the cell over DDS on one side, the learner over gRPC on the other, the control loop between.

python -m robot_stack.nodes.actor.node --run runs/NAME/run.yaml
"""

from __future__ import annotations

import argparse
import sys
import threading
from functools import partial

from rclpy.utilities import remove_ros_args

from robot_stack.config.resolve import load_resolved
from robot_stack.control.safety.seal import WireKey
from robot_stack.nodes.actor.cell import RosCell
from robot_stack.processes.child import die_with_parent
from robot_stack.processes.table import namespace_of
from robot_stack.rollout.actor import Actor, seed_of_start
from robot_stack.rollout.actor_process import actor_parser, deliver_and_close, run_until_stopped
from robot_stack.rollout.base.cell import with_base
from robot_stack.rollout.clock import SteadyClock
from robot_stack.runs.paths import RunPaths
from robot_stack.transport.access.security import actor_credentials
from robot_stack.transport.client import LearnerClient
from robot_stack.workcell.ending import end_in_peace


def main(argv: list[str] | None = None) -> int:
    """Run episodes until the learner is done or a signal comes, and return 0; after a refusal or an error return 1."""
    die_with_parent()
    parser = actor_parser("robot_stack.nodes.actor.node")
    parser.add_argument("--managed", action="store_true", help="wait until a bring-up makes it active")
    options = parser.parse_args(remove_ros_args(sys.argv[1:] if argv is None else argv))
    sys.setswitchinterval(0.001)  # the thread that takes messages must not keep the control loop waiting
    try:
        return run_until_stopped(partial(_run, options))
    finally:
        end_in_peace()


def _run(options: argparse.Namespace, stop: threading.Event) -> str:
    resolved = load_resolved(options.run)
    folder = RunPaths(options.run.parent).actor
    folder.mkdir(exist_ok=True)
    address = options.learner or resolved.cell.learner_address
    client = LearnerClient(
        address, resolved.spec(), resolved.task.name, options.id, folder / f"{options.id}.spool",
        security=actor_credentials(resolved.cell.learner_certs, options.run.parent),
    )  # fmt: skip
    client.connect()
    try:
        key = WireKey.of_folder(options.run.parent)
        with (
            RosCell(
                resolved, namespace=namespace_of(resolved), key=key, managed=options.managed, stopping=stop.is_set
            ) as cell,
            with_base(
                resolved,
                cell,
                waits=False,
                stopping=stop.is_set,
                seed=seed_of_start(resolved, folder, options.id),
            ) as based,
        ):
            actor = Actor(resolved, folder, based, SteadyClock(), client, options.id)
            cell.report(actor.figures)
            return actor.run(stop, say=lambda text: print(text, flush=True))
    finally:
        deliver_and_close(client, stop)


if __name__ == "__main__":
    sys.exit(main())
