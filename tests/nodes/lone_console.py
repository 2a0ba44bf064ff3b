"""The console's node by itself, which serves no page; a test hands it its messages."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import rclpy

from robot_stack.config.resolve import load_run
from robot_stack.nodes.base import NodeSettings
from robot_stack.nodes.tools.console import ConsoleNode
from robot_stack.processes.table import namespace_of


@contextmanager
def lone_console(folder: Path) -> Iterator[ConsoleNode]:
    """A console of peg_insert in `folder`, not yet configured, on the domain of the environment."""
    run = load_run("peg_insert")
    options = argparse.Namespace(run=folder / "run.yaml", state=None, learner="")
    rclpy.init()
    node = ConsoleNode(NodeSettings(run=run, namespace=namespace_of(run), options=options))
    try:
        yield node
    finally:
        node._server = None
        node.retire("over")
        node.destroy_node()
        rclpy.try_shutdown()
