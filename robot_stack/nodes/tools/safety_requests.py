"""A node that asks the safety process of a cell for something, for commands that do so at an operator's word."""

from __future__ import annotations

from typing import Any

from rclpy.client import Client
from rclpy.node import Node
from std_srvs.srv import Trigger

from robot_stack.nodes import topics
from robot_stack.nodes.tools.listening import Listening


def ask(here: Listening[Any], client: Client) -> tuple[bool, str]:
    """Ask the safety process for something; return whether it was granted, and what it said."""
    answer = here.ask(client, Trigger.Request())
    return (False, "the safety process does not answer") if answer is None else (answer.success, str(answer.message))


class SafetyRequests(Node):
    """A node with a client for each request that the safety process takes.

    Args:
        namespace: Of the cell.
        names: Of the requests.
    """

    def __init__(self, namespace: str, names: tuple[str, ...]) -> None:
        super().__init__("safety_requests", namespace=namespace)
        self._asked = {name: self.create_client(Trigger, topics.safety_service(name)) for name in names}

    def there(self) -> bool:
        """Return whether the safety process can be asked for all of it."""
        return all(client.service_is_ready() for client in self._asked.values())

    def ask(self, here: Listening[SafetyRequests], name: str) -> tuple[bool, str]:
        """Ask for something by its name, see `ask`."""
        return ask(here, self._asked[name])
