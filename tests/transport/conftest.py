"""A real server on loopback and a real client, both stopped whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from robot_stack.transport.access.security import Credentials
from robot_stack.transport.client import LearnerClient
from robot_stack.transport.server import LearnerServer
from tests.transport.fake_learner import SPEC, TASK, TOKEN, FakeLearner


@pytest.fixture
def serve() -> Iterator[Callable[..., LearnerServer]]:
    """serve(backend, address="127.0.0.1:0", security=TOKEN) -> a started server."""
    servers: list[LearnerServer] = []

    def start(backend: FakeLearner, address: str = "127.0.0.1:0", security: Credentials = TOKEN) -> LearnerServer:
        server = LearnerServer(backend, address, security)
        server.start()
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop(grace_s=0.0)


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Callable[..., LearnerClient]]:
    """connect(address, spec=..., task=..., ...) -> a connected client with the spool of this test."""
    clients: list[LearnerClient] = []

    def start(address: str, **changes: object) -> LearnerClient:
        fields = {"spec": SPEC, "task": TASK, "actor_id": "actor-1", "spool_dir": tmp_path / "spool", "security": TOKEN}
        fields |= changes
        client = LearnerClient(address, **fields)  # type: ignore[arg-type]
        client.connect()
        clients.append(client)
        return client

    yield start
    for client in clients:
        client.close(timeout_s=0.0)
