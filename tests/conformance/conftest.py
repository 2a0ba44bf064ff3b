"""Shared by the conformance tests; the fake devices live beside the tests of the package they stand in for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from robot_stack.config.resolve import load_run
from robot_stack.config.resolved import ResolvedRun
from robot_stack.processes.profile import claim_domain, ros_environment, write_profiles
from robot_stack.types.errors import ConfigError

DOMAIN = 70


@pytest.fixture(scope="session")
def sim_run() -> ResolvedRun:
    """The dry run."""
    return load_run("peg_insert", [f"cell.dds_domain={DOMAIN}"])


@pytest.fixture(scope="module")
def ros(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """ROS in this process, on a domain of its own."""
    rclpy = pytest.importorskip("rclpy", reason="no ROS on this machine")
    from rclpy.signals import SignalHandlerOptions

    with claim_domain(DOMAIN, exact=False) as domain:
        before = dict(os.environ)
        os.environ.update(ros_environment(write_profiles(tmp_path_factory.mktemp("ros")), domain))
        from rclpy.context import Context

        from tests.conformance import driver_doubles

        driver_doubles.CONTEXT = Context()
        contexts = (None, driver_doubles.CONTEXT)
        for context in contexts:
            rclpy.init(context=context, signal_handler_options=SignalHandlerOptions.NO)
        try:
            yield
        finally:
            for context in contexts:
                rclpy.try_shutdown(context=context)
            os.environ.clear()
            os.environ.update(before)


@pytest.fixture(scope="module")
def make_bench(ros: None, sim_run: ResolvedRun) -> Callable[..., Any]:
    """Opens a bench of a backend; `changes` go into the robot file, `double` takes the place of the usual one."""
    from tests.conformance.conformance_rig import ARM, BACKENDS, Bench, end_unbuilt, robot_of

    @contextmanager
    def open_bench(backend: str, double: Any = None, **changes: Any) -> Iterator[Any]:
        usual = BACKENDS[backend][0]
        run = sim_run if usual is None else replace(sim_run, robots={ARM: robot_of(backend, **changes)})
        try:
            bench = Bench(run, usual if double is None else double)
        except ConfigError as error:
            end_unbuilt(error)
            raise
        try:
            yield bench
        finally:
            bench.close()

    return open_bench
