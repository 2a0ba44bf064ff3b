"""A node that listens in the thread of its caller, for commands that look at a cell and end again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import rclpy
from rclpy.client import Client
from rclpy.executors import Executor, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.signals import SignalHandlerOptions
from rclpy.task import Future

NodeT = TypeVar("NodeT", bound=Node)
REQUEST_S = 1.0
SLICE_S = 0.05


class Listening(Generic[NodeT]):
    """A node and its executor; messages are taken only in `listen` and `ask`.

    Attributes:
        node: Keeps what arrives.
        starved_s: Longest time that this process was kept from listening by others.
    """

    def __init__(self, node: NodeT, executor: Executor) -> None:
        self.node = node
        self.starved_s = 0.0
        self._executor = executor

    def listen(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Take messages for so many seconds or until a condition, looked at often, holds; return whether it did."""
        deadline_s = time.monotonic() + seconds
        while not until():
            began_s = time.monotonic()
            if began_s >= deadline_s:
                return False
            slice_s = min(SLICE_S, deadline_s - began_s)
            self._executor.spin_until_future_complete(Future(), slice_s)
            self.starved_s = max(self.starved_s, time.monotonic() - began_s - slice_s)
        return True

    def ask(self, client: Client, request: Any) -> Any:
        """Call a service and return its answer, or None if there is none within a second."""
        if not client.service_is_ready():
            return None
        future = client.call_async(request)
        self._executor.spin_until_future_complete(future, REQUEST_S)
        return future.result() if future.done() else None


@contextmanager
def listening(make: Callable[[], NodeT]) -> Iterator[Listening[NodeT]]:
    """Join the cell in the environment of this process, and leave it at the end of the `with` block."""
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    try:
        node = make()
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        try:
            yield Listening(node, executor)
        finally:
            executor.shutdown()
            node.destroy_node()
    finally:
        rclpy.try_shutdown()
