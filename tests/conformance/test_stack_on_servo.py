"""The whole cell, each process its own, in front of a double of MoveIt Servo that moves the arm of the dry run."""

from __future__ import annotations

import os
import shutil
import signal
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("rclpy", reason="no ROS on this machine")

from geometry_msgs.msg import WrenchStamped
from sensor_msgs.msg import JointState

from robot_stack.config.resolve import load_run
from robot_stack.control.safety.seal import KEY_FILE, WireKey
from robot_stack.nodes import topics
from robot_stack.nodes.actor.cell import RosCell
from robot_stack.nodes.conversion import vector_to_msg
from robot_stack.nodes.qos import NEWEST
from robot_stack.nodes.seeing import seen_to_vector
from robot_stack.processes.supervisor import Supervisor
from robot_stack.processes.table import cell_processes
from robot_stack.runs.paths import RunPaths
from robot_stack.types.command import Mode
from robot_stack.types.errors import RobotError
from robot_stack.types.pose import rotate_twist
from robot_stack.types.transition import EpisodeKind
from robot_stack.workcell.build import build_world
from robot_stack.workcell.local_cell import see
from sim.scene import TIMESTEP_S
from tests.conformance.conformance_rig import ARM, Spinning, robot_of, wait_until
from tests.conformance.driver_doubles import SENSOR, ServoDouble

START_S = 40.0
WRENCH = {"topic": "/wrench_of_the_world", "acts": "on_tool", "frame": "tcp"}


class WorldArm:
    """The dry run's arm, task and contacts in the place of a kinematic arm."""

    def __init__(self, world) -> None:
        self.world = world
        self.opening = 0.0
        self._left_s = 0.0

    @property
    def angles(self):
        return self.world.state().joints_rad

    @property
    def speeds(self):
        return self.world.state().joint_speeds_rad_s

    @speeds.setter
    def speeds(self, _):
        """Told before every step; what counts is `follow` after it."""
        self.world.command(np.zeros(6))

    def pose(self):
        return self.world.state().T_base_tcp

    def follow(self, twist_base) -> None:
        self.world.command(rotate_twist(twist_base, self.pose().matrix.T))

    def advance(self, dt_s: float) -> None:
        self._left_s += dt_s
        steps = int(self._left_s / TIMESTEP_S)
        self._left_s -= steps * TIMESTEP_S
        self.world.advance(steps * TIMESTEP_S)


class WorldServo(ServoDouble):
    """MoveIt Servo on that arm; shows cameras and operator what there is to see."""

    def __init__(self, run) -> None:
        world = build_world(run)
        world.reset(1)
        super().__init__(WorldArm(world))
        self._world = world
        self._snapshots = self.create_publisher(JointState, f"/{run.run.cell}/{topics.SNAPSHOT}", NEWEST)
        self._seen = self.create_publisher(JointState, f"/{run.run.cell}/{topics.SEEN}", NEWEST)
        self._forces = self.create_publisher(WrenchStamped, WRENCH["topic"], SENSOR)
        self._count = 0
        self.next_seed: int | None = None
        self.seen = see(world)
        self.speed_m_s = 0.0

    def _publish(self) -> None:
        if self.next_seed is not None:
            self._world.reset(self.next_seed)
            self.next_seed = None
        super()._publish()
        self._count += 1
        now_ns, wrench, state = time.monotonic_ns(), WrenchStamped(), self._world.state()
        self.speed_m_s = float(np.linalg.norm(state.twist[:3]))
        wrench.header.frame_id = "tcp"
        force = wrench.wrench.force
        force.x, force.y, force.z = (float(entry) for entry in state.wrench[:3])
        self._forces.publish(wrench)
        if self._count % 3 == 0:
            self._snapshots.publish(vector_to_msg(self._world.snapshot(), now_ns))
        if self._count % 2 == 0:
            self.seen = see(self._world)
            self._seen.publish(vector_to_msg(seen_to_vector(self.seen), now_ns))


@pytest.fixture(scope="module")
def stack(ros, sim_run, tmp_path_factory):
    """The cell as the actor sees it, the supervisor of its processes, and the double."""
    changes = (f"cell.dds_domain={sim_run.cell.dds_domain}", "task.reset.by=operator", "teleop.page=null")
    by_operator = load_run("peg_insert", changes)
    real = replace(by_operator, robots={ARM: robot_of("servo", wrench=WRENCH)})
    folder, beside = tmp_path_factory.mktemp("cell"), tmp_path_factory.mktemp("sim")
    RunPaths(folder).resolved.write_text(real.to_yaml())
    RunPaths(beside).resolved.write_text(sim_run.to_yaml())
    key = WireKey.of_folder(folder)
    shutil.copy(folder / KEY_FILE, beside / KEY_FILE)  # two folders, one run
    chosen = {spec.name: spec for spec in cell_processes(sim_run, beside)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        chosen.update({spec.name: spec for spec in cell_processes(real, folder) if spec.name in ("robot", "safety")})
    double = Spinning(WorldServo(sim_run))
    log_folder = tmp_path_factory.mktemp("log")
    try:
        with Supervisor(tuple(chosen.values()), environment=dict(os.environ), log_folder=log_folder) as supervisor:
            cell = RosCell(real, namespace=real.run.cell, key=key)
            try:
                cell.connect(START_S)
                yield cell, supervisor, double.node
            finally:
                cell.close()
    finally:
        double.end()


def mode_of(cell):
    """None while safety has nothing to say."""
    try:
        return cell.mode()
    except RobotError:
        return None


def test_a_person_demonstrates_through_the_driver(stack):
    cell, _, double = stack
    wait_until(lambda: mode_of(cell) is Mode.READY, "READY", START_S)
    cell.start("demo", EpisodeKind.DEMO)
    said, deadline_s = (), time.monotonic() + 20.0
    while "success" not in said and time.monotonic() < deadline_s:
        time.sleep(0.05)
        said += cell.events()
    cell.finish()
    assert "success" in said
    assert double.seen.done
    assert double.heard.refused == []


def test_a_killed_robot_process_leaves_the_arm_at_rest_and_ends_the_run(stack):
    """Last: it ends the cell of this module."""
    cell, supervisor, double = stack
    double.next_seed = 2
    wait_until(lambda: double.next_seed is None and mode_of(cell) is Mode.READY, "a new scene", START_S)
    cell.start("demo_2", EpisodeKind.DEMO)
    wait_until(lambda: double.speed_m_s > 0.03, "motion")
    os.kill(supervisor.pid("robot"), signal.SIGKILL)
    killed_ns = time.monotonic_ns()
    wait_until(lambda: double.speed_m_s < 0.01, "rest, by the driver's own timeout")
    assert not [1 for arrived_ns, _ in double.heard.commands if arrived_ns > killed_ns + 50_000_000]
    wait_until(lambda: supervisor.step() or supervisor.ending, "end of the run")
    assert "robot" in supervisor.ending
