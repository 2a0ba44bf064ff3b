"""Run folder, DDS domain, environment, process table."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from robot_stack.cli import env
from robot_stack.config.camera import TopicCameraConfig
from robot_stack.config.files.library import run_of_cell
from robot_stack.config.resolve import load_resolved, load_run
from robot_stack.processes.prepared_run import choose_table, free_address, prepared
from robot_stack.processes.profile import IMAGES_FILE, PROFILE_FILE, claim_domain, write_profiles
from robot_stack.processes.table import cell_processes, console_process, process_table
from robot_stack.runs.paths import RunPaths
from robot_stack.types.errors import ConfigError

FOREIGN = TopicCameraConfig(
    backend="topic", source_topic="/x", freeze_s=None, width_px=64, height_px=64, policy_width_px=64,
    policy_height_px=64, rate_hz=30.0, max_age_s=0.2,
)  # fmt: skip

OWN_DOMAIN = 98
"""So far from those of other tests that no cell beside this one moves on to it."""


def test_a_second_run_gets_another_domain():
    with claim_domain(OWN_DOMAIN, exact=False) as first, claim_domain(OWN_DOMAIN, exact=False) as second:
        assert first == OWN_DOMAIN
        assert second == OWN_DOMAIN + 1
    with claim_domain(OWN_DOMAIN, exact=False) as again:
        assert again == OWN_DOMAIN


def test_a_real_cell_is_refused_rather_than_moved():
    with (
        claim_domain(82, exact=True),
        pytest.raises(ConfigError, match="82 is in use"),
        claim_domain(82, exact=True),
    ):
        pass


def test_a_run_with_a_foreign_camera_driver_stays_on_its_domain(run, tmp_path):
    with claim_domain(run.cell.dds_domain, exact=False) as taken:
        here = replace(run, cell=run.cell.model_copy(update={"dds_domain": taken}))
        with prepared(here, tmp_path / "simulated") as ready:
            assert ready.domain != taken
        with (
            pytest.raises(ConfigError, match=f"domain {taken} is in use"),
            prepared(replace(here, cameras={"wrist": FOREIGN}), tmp_path / "foreign"),
        ):
            pass


def test_the_claim_ends_with_its_process():
    code = (
        "import os, signal; from robot_stack.processes.profile import claim_domain\n"
        "with claim_domain(83, exact=False): os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    with claim_domain(83, exact=True) as domain:
        assert domain == 83


def test_another_program_on_the_domain_is_seen(tmp_path):
    pytest.importorskip("rclpy", reason="no ROS on this machine")
    code = "import rclpy; rclpy.init(domain_id=84); n = rclpy.create_node('x'); print('up', flush=True); input()"
    profile = {"FASTRTPS_DEFAULT_PROFILES_FILE": str(write_profiles(tmp_path))}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **profile}
    ) as other:
        try:
            assert other.stdout.readline() == b"up\n"
            with claim_domain(84, exact=False) as domain:
                assert domain == 85
        finally:
            other.kill()


@pytest.mark.parametrize(
    ("reach", "file", "transports", "interfaces"),
    [
        ("host", PROFILE_FILE, ["UDPv4"], ["127.0.0.1"]),
        ("host", IMAGES_FILE, ["UDPv4", "SHM"], ["127.0.0.1"]),
        ("network", PROFILE_FILE, ["UDPv4"], []),
        ("network", IMAGES_FILE, ["UDPv4", "SHM"], []),
    ],
)
def test_only_readers_of_whole_images_have_shared_memory(tmp_path, reach, file, transports, interfaces):
    tree = ElementTree.parse(write_profiles(tmp_path, reach).with_name(file))
    space = {"d": "http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles"}
    assert [each.text for each in tree.iterfind(".//d:transport_descriptor/d:type", space)] == transports
    assert [each.text for each in tree.iterfind(".//d:interfaceWhiteList/d:address", space)] == interfaces
    assert tree.findtext(".//d:useBuiltinTransports", namespaces=space) == "false"


def test_a_driver_camera_reads_images_over_shared_memory_and_nobody_else_does(run, tmp_path):
    (tmp_path / "profiles").mkdir()
    rows = cell_processes(replace(run, cameras={**run.cameras, "front": FOREIGN}), tmp_path)
    assert [row.name for row in rows if "FASTRTPS_DEFAULT_PROFILES_FILE" in row.env] == ["camera_front"]


def test_a_cell_that_leaves_the_middleware_to_the_shell_sets_none_of_its_variables(run, tmp_path):
    prepared_before = write_profiles(tmp_path)
    foreign = replace(run, cell=run.cell.model_copy(update={"dds_reach": "environment"}))
    shell = {name: value for name, value in os.environ.items() if not name.startswith(("RMW", "FAST", "ROS_AUTO"))}
    with pytest.MonkeyPatch.context() as patch:
        for name in set(os.environ) - set(shell):
            patch.delenv(name)
        patch.setenv("RMW_IMPLEMENTATION", "rmw_zenoh_cpp")
        with prepared(foreign, tmp_path) as ready:
            assert ready.environment["RMW_IMPLEMENTATION"] == "rmw_zenoh_cpp"
            assert "FASTRTPS_DEFAULT_PROFILES_FILE" not in ready.environment
            assert "ROS_AUTOMATIC_DISCOVERY_RANGE" not in ready.environment
            assert not prepared_before.exists()
            assert "RMW_IMPLEMENTATION" not in env.environment_of(tmp_path)


def test_a_prepared_folder_holds_the_run_and_its_exports(run, tmp_path, capsys):
    with prepared(run, tmp_path) as ready:
        assert load_resolved(RunPaths(tmp_path).resolved).spec() == run.spec()
        assert env.run(tmp_path) == 0
        printed = capsys.readouterr().out
        assert f"export ROS_DOMAIN_ID={ready.domain}\n" in printed
        assert str(tmp_path / IMAGES_FILE) in printed


def test_env_of_another_folder_says_what_is_missing(tmp_path, capsys):
    assert env.run(tmp_path) == 1
    assert "must hold run.yaml, domain" in capsys.readouterr().err


def test_the_table_starts_robot_and_safety_first_and_requires_them(run, tmp_path):
    table = process_table(run, tmp_path)
    assert [row.name for row in table] == [
        "robot", "safety", "camera_wrist", "camera_front", "teleop", "command_recorder", "console", "learner", "actor",
    ]  # fmt: skip
    assert [row.name for row in table if row.required and not row.respawn] == ["robot", "safety"]
    assert [row.name for row in table if row.stop_last] == ["robot", "safety"]


def test_each_arm_with_a_device_of_its_own_has_a_teleop_process(tmp_path):
    two_arms = load_run("two_arm_insert")
    own = replace(two_arms, teleops={"left": two_arms.teleop, "right": two_arms.teleop})
    rows = {row.name: row.argv for row in cell_processes(own, tmp_path) if row.name.startswith("teleop")}
    assert list(rows) == ["teleop_left", "teleop_right"]
    assert [argv[-2:] for argv in rows.values()] == [("--arm", "left"), ("--arm", "right")]
    assert [row.name for row in cell_processes(two_arms, tmp_path)] == [
        "robot", "safety", "camera_above", "camera_front", "teleop", "command_recorder",
    ]  # fmt: skip


def test_the_console_is_a_window_that_nobody_waits_for(run, tmp_path):
    (console,) = [row for row in process_table(run, tmp_path) if row.window]
    assert (console.name, console.required, console.respawn) == ("console", False, True)
    assert console.argv[-2:] == ("--learner", run.cell.learner_address)
    assert "--learner" not in console_process(run, tmp_path).argv


def test_a_remote_learner_is_not_started_here(run, tmp_path):
    table = process_table(run, tmp_path, local_learner=False, learner_address="gpu:50051")
    assert "learner" not in [row.name for row in table]
    assert table[-1].argv[-4:] == ("--learner", "gpu:50051", "--id", "actor")


def test_one_of_several_actors_has_an_id_of_its_own(run, tmp_path):
    table = choose_table(run, tmp_path, cell_only=False, remote_learner=True, actor_id="left", self_active=True)
    assert table[-1].argv[-2:] == ("--id", "left")


def test_the_cell_alone_has_neither_actor_nor_learner(run, tmp_path):
    chosen = choose_table(run, tmp_path, cell_only=True, remote_learner=False, self_active=True)
    assert chosen == (*cell_processes(run, tmp_path), console_process(run, tmp_path))


def test_managed_nodes_wait_for_a_bring_up_that_knows_their_order(run, tmp_path):
    *rows, bring_up = choose_table(run, tmp_path, cell_only=False, remote_learner=False)
    nodes = [row.name for row in rows if row.name not in ("learner", "console")]
    assert [word.removeprefix("--node=") for word in bring_up.argv if word.startswith("--node=")] == nodes
    assert [word for word in bring_up.argv if word.startswith("--required=")] == [
        "--required=robot",
        "--required=safety",
    ]
    assert all(("--managed" in row.argv) == (row.name in nodes) for row in rows)
    assert bring_up.speaks
    assert bring_up.respawn


def test_a_cell_is_found_by_the_run_that_names_it(tmp_path):
    assert run_of_cell("sim") == "peg_insert"
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "other.yaml").write_text("cell: sim\n")
    with pytest.raises(ConfigError, match="other, peg_insert name it; give one of them"):
        run_of_cell("sim", tmp_path)
    (tmp_path / "runs" / "sim.yaml").write_text("cell: sim\n")
    assert run_of_cell("sim", tmp_path) == "sim"
    with pytest.raises(ConfigError, match="did you mean 'sim'"):
        run_of_cell("simm")


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "[::1]")])
def test_a_taken_port_moves_the_learner(family, host):
    if family is socket.AF_INET6 and not os.path.exists("/proc/net/if_inet6"):
        pytest.skip("no IPv6 on this machine")
    with socket.socket(family) as taken:
        taken.bind((host.strip("[]"), 0))
        taken.listen()
        wanted = f"{host}:{taken.getsockname()[1]}"
        moved = free_address(wanted)
        assert moved != wanted
        assert moved.startswith(f"{host}:")
    assert free_address(wanted) == wanted
    assert free_address(f"{host}:0") != f"{host}:0"
