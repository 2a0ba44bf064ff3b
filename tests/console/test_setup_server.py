"""The set-up page's server: what it takes, what it refuses, and that nothing is written but what was checked."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("uvicorn", reason="no server on this machine: pip install 'robot-stack[console]'")

from robot_stack.config.resolve import load_run
from robot_stack.types.surveyed import Surveyed
from robot_stack.workcell.build_arm import build_chain
from tests.console.browser_store import fetch
from tests.console.setup_rig import UR_STANDS, Bench, camera, setting_up, so101_bench, ur_drivers

JSON = {"Content-Type": "application/json"}
PORT = "/dev/serial/by-id/usb-1a86_USB_Single_Serial_5A680-if00"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    bench = so101_bench(tmp_path)
    bench.drivers[11] = ur_drivers("")
    with setting_up(bench) as address:
        yield address


def wish(**other: Any) -> dict[str, Any]:
    return {
        "name": "bench", "example": "fr3_table", "robot": "ur5e", "frame": "base", "low": [-0.6, -0.3, 0.35],
        "high": [-0.3, 0.05, 0.6], "table": 0.0, "cameras": {"wrist": {"model": "generic_v4l2", "serial": "A1"}},
        "teleop": "gamepad", "safety": "table", "domain": 11, **other,
    }  # fmt: skip


def ask(url: str, path: str, body: object, **headers: str) -> tuple[int, Any]:
    code, answer = fetch(url, path, json.dumps(body).encode(), **{**JSON, **headers})
    return code, json.loads(answer) if code == 200 else answer.decode()


def kept(joints: list[float], **other: object) -> dict[str, object]:
    """A pose of a UR5e, as the page sends it."""
    return {"joints_rad": joints, "position_m": [-0.4, -0.1, 0.5], "quaternion_xyzw": [1.0, 0.0, 0.0, 0.0], **other}


def test_what_was_checked_is_what_is_written(url: str, empty_folder: Path) -> None:
    code, would = ask(url, "api/preview", wish())
    assert (code, would["refused"]) == (200, [])
    assert not (empty_folder / "hardware_configs").exists()
    code, done = ask(url, "api/write", wish())
    assert (code, done["written"]) == (
        200,
        [f"hardware_configs/{kind}/bench.yaml" for kind in ("cells", "tasks", "runs")],
    )
    for each in would["files"]:
        assert (empty_folder / "hardware_configs" / each["file"]).read_text() == each["text"]
    assert load_run("bench").cell.cameras["wrist"].serial == "A1"
    assert (empty_folder / "hardware_configs" / "schema" / "cells.schema.json").is_file()
    code, again = ask(url, "api/write", wish())
    assert (code, "is taken by hardware_configs/" in again) == (409, True)


def test_no_file_of_any_kind_is_overwritten(url: str, empty_folder: Path) -> None:
    own = empty_folder / "hardware_configs" / "cameras" / "bench_front.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("mine\n")
    sized = {"front": {"model": "generic_topic", "topic": "/a/b", "size": [1280, 720]}}
    code, would = ask(url, "api/preview", wish(cameras=sized))
    assert code == 200
    assert "is taken by hardware_configs/cameras/bench_front.yaml" in " ".join(would["refused"])
    assert ask(url, "api/write", wish(cameras=sized))[0] == 409
    assert own.read_text() == "mine\n"


def test_an_arm_whose_home_nobody_knows_is_measured_before_it_moves(url: str) -> None:
    task = {"example": "so101_table", "robot": "so101", "frame": "base_link", "safety": "so101", "teleop": "spacemouse"}
    code, done = ask(url, "api/write", wish(**task))
    assert code == 200
    first, then = "robot-stack calibrate workspace bench", "robot-stack doctor --move bench"
    assert done["next"].index(first) < done["next"].index(then)


@pytest.mark.parametrize(
    "serial", ["123456", "1e5", "5E10", "0x1F", "true", "null", "0123", "a: b", "# x", "'\"", "1_000"]
)
def test_a_serial_number_comes_back_as_it_is_however_yaml_would_read_it(url: str, serial: str) -> None:
    code, _ = ask(url, "api/write", wish(cameras={"wrist": {"model": "generic_v4l2", "serial": serial}}))
    assert code == 200
    assert load_run("bench").cell.cameras["wrist"].serial == serial


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"robot": "../cells/sim"}, "robot is not as it must be"),
        ({"robot": "ur6"}, "robot: input should be one of fr3"),
        ({"example": "nothing"}, "'nothing' is not in runs/"),
        ({"name": "../../up"}, "name is '../../up', must be a-z"),
        ({"name": "x" * 60}, "must be a-z"),
        ({"name": "a\\q"}, "must be a-z"),
        ({"name": "a\\g<9>"}, "must be a-z"),
        (
            {"arm_port": {"port": "/dev/ttyACM0", "calibration": "a"},
             "leader_port": {"port": "/dev/ttyACM0", "calibration": "b"}},
            "one serial port",
        ),
        ({"low": [0.0, 0.0]}, "low"),
        ({"low": [0.0, 0.0, "high"]}, "low.2"),
        ({"high": [-0.7, 0.05, 0.6]}, "max_m is -0.7 in x, must be above min_m"),
        ({"cameras": {}}, "no camera is used yet"),
        ({"cameras": {"Wrist!": {"model": "generic_v4l2"}}}, "cameras"),
        ({"cameras": {"wrist": {"model": "generic_v4l2", "serial": "a\nb"}}}, "printable"),
        ({"cameras": {"wrist": {"model": "generic_topic", "topic": "no topic"}}}, "source_topic"),
        ({"cameras": {"wrist": {"model": "generic_v4l2", "device": "/etc/passwd"}}}, "device"),
        (
            {"cameras": {"wrist": {"model": "generic_v4l2", "serial": "A1",
                                   "crop": {"top": 400, "left": 0, "height": 200, "width": 200}}}},
            "roi_px ends at row 600",
        ),
        ({"teleop": "spacemice"}, "spacemice"),
        ({"found": {"match": "usb"}}, "found"),
        ({"found": {"nothing.match": "054c:0ce6"}}, "nothing"),
        ({"domain": 300}, "domain"),
        ({"table": None, "frame": "world"}, "workspace"),
        ({"arm_port": {"port": "/dev/null", "calibration": "x.json"}}, "servos"),
        ({"more": 1}, "more"),
        ({"poses": {"start": kept([0.0] * 5)}}, "5 angles, must be 6"),
        ({"poses": {"start": kept([9.0, -1.4, 1.7, -1.9, -1.55, 0.2])}}, "shoulder_pan_joint is 9.0"),
        ({"poses": {"start": kept([0.0] * 6, position_m=[0.0, 0.0])}}, "position_m"),
        ({"poses": {"start": kept([math.nan] * 6)}}, "joints_rad"),
        ({"poses": {"../start": kept([0.0] * 6)}}, "poses"),
        ({"start": "start"}, "must be one of the poses"),
        ({"poses": {"null": kept([0.0] * 6)}}, "which YAML reads otherwise"),
        ({"cameras": {"on": {"model": "generic_v4l2", "serial": "A1"}}}, "which YAML reads otherwise"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_nothing_is_written(
    url: str, empty_folder: Path, other: dict[str, Any], said: str
) -> None:
    code, answer = ask(url, "api/preview", wish(**other))
    assert said in (answer if code == 400 else " ".join(answer["refused"]))
    code, answer = ask(url, "api/write", wish(**other))
    assert (code in (400, 409), said in answer) == (True, True)
    assert str(empty_folder) not in answer, "files are named as they would be"
    assert not (empty_folder / "hardware_configs").exists()


@pytest.mark.parametrize(
    ("path", "body", "code", "said"),
    [
        ("api/ros", {"domain": 102}, 400, "domain"),
        ("api/ros", {"domain": "11"}, 400, "domain"),
        ("api/servos", {"port": "/dev/mem"}, 400, "port '/dev/mem' is not plugged in"),
        ("api/servos", {}, 400, "port"),
        ("api/servos", {"port": PORT, "robot": "../so101", "calibration": "a"}, 400, "robot"),
        ("api/servos", {"port": PORT, "robot": "so101_bus", "calibration": "/etc/passwd"}, 400, "is not here"),
        ("api/preview", [], 400, "request"),
    ],
)
def test_only_what_is_listed_is_looked_at(url: str, path: str, body: object, code: int, said: str) -> None:
    found = ask(url, path, body)
    assert (found[0], said in found[1]) == (code, True)


def test_pictures_are_taken_of_connected_cameras_alone(url: str) -> None:
    code, jpeg = fetch(url, "api/picture?camera=Sonix_Wrist_A1")
    assert (code, jpeg[:2]) == (200, b"\xff\xd8")
    code, said = fetch(url, "api/picture?camera=/dev/video9")
    assert (code, b"is not connected" in said) == (400, True)


def test_arms_with_the_same_joints_are_all_offered(url: str) -> None:
    code, found = ask(url, "api/ros", {"domain": 11})
    assert (code, found["speaks"]) == (200, ["ur10e", "ur3e", "ur5e"])
    assert [each["model"] for each in found["images"]] == ["generic_topic", "generic_topic"]
    code, found = ask(url, "api/ros", {"domain": 12})
    assert (code, found["joints"], found["speaks"]) == (200, {}, [])


def test_an_arm_that_speaks_is_shown_where_it_is_at_home_and_now(url: str) -> None:
    _, found = ask(url, "api/ros", {"domain": 11})
    stands = found["stands"]
    assert set(stands) == {"ur10e", "ur3e", "ur5e"}
    assert stands["ur5e"]["now"]["joints_rad"] == list(UR_STANDS)
    run = load_run("ur5e_table")
    (robot,) = run.robots.values()
    chain = build_chain(robot)
    assert chain is not None
    for where, angles in (("home", robot.home_rad), ("now", UR_STANDS)):
        told, pose = stands["ur5e"][where], chain.pose(np.array(angles))
        assert len(told["line_m"]) == 1 + 6 + 1
        assert np.allclose(told["line_m"][-1], pose.position_m, atol=1e-4)
        assert np.allclose(told["quaternion_xyzw"], pose.quaternion_xyzw, atol=1e-5)
        assert np.allclose(np.subtract(told["ahead_m"], told["line_m"][-1]), 0.05 * pose.matrix[:, 2], atol=2e-4)
    assert stands["ur5e"]["topic"] == "/joint_states", "where its file expects them, whoever else speaks of such joints"
    assert stands["ur5e"]["moving"] == []


def test_an_arm_without_kinematics_of_its_own_is_shown_by_the_description_of_its_driver(tmp_path: Path) -> None:
    (robot,) = load_run("so101_table", ["cell.robot=so101"]).robots.values()
    joints = [each.name for each in robot.joints]
    links = ["base_link", *(f"link{number}" for number in range(1, 5)), "gripper_frame_link"]
    urdf = '<robot name="so101">' + "".join(f'<link name="{link}"/>' for link in links)
    for joint, parent, child in zip(joints, links, links[1:], strict=False):
        urdf += (
            f'<joint name="{joint}" type="revolute"><parent link="{parent}"/><child link="{child}"/>'
            '<origin xyz="0 0 0.1"/><axis xyz="0 1 0"/><limit lower="-3" upper="3" effort="1" velocity="1"/></joint>'
        )
    angles = {joint: 0.1 * number for number, joint in enumerate(joints)}
    topic, own = robot.joint_states, robot.kinematics.topic  # type: ignore[union-attr]
    said = Surveyed(joints={topic: joints}, robot="so101", images=[], angles={topic: angles})
    broken = replace(said, descriptions={own: urdf})
    whole = replace(said, descriptions={own: urdf + "</robot>", "/leader/robot_description": "<robot/>"})
    far = replace(said, descriptions={own: urdf.replace("0 0 0.1", "0 0 1e308") + "</robot>"})
    leader = replace(whole, angles={"/leader/joint_states": angles})
    drivers = {1: said, 2: whole, 3: broken, 4: replace(whole, angles={}), 5: far, 6: leader}
    with setting_up(Bench(drivers=drivers)) as url:
        _, found = fetch(url, "api/found")
        assert next(arm["home"] for arm in json.loads(found)["arms"] if arm["file"] == "so101") is None
        answers = [ask(url, "api/ros", {"domain": domain})[1]["stands"]["so101"] for domain in drivers]
    assert [(each["home"] is None, each["now"] is None) for each in answers] == [
        (True, True), (False, False), (True, True), (False, True), (True, True), (False, True),
    ]  # fmt: skip
    x, z, turned = 0.0, 0.0, 0.0
    for angle in [0.0, *list(angles.values())[:-1]]:
        turned += angle
        x, z = x + 0.1 * math.sin(turned), z + 0.1 * math.cos(turned)
    assert answers[1]["now"]["line_m"][-1] == pytest.approx([x, 0.0, z], abs=1e-4)


def test_servos_that_answer_say_where_their_arm_is(tmp_path: Path) -> None:
    bench = so101_bench(tmp_path)
    calibration = tmp_path / "mine.json"
    names = ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"]
    servos = {
        name: {"id": number, "drive_mode": 0, "homing_offset": 0, "range_min": 1048, "range_max": 3048}
        for number, name in enumerate(names, 1)
    }
    calibration.write_text(json.dumps(servos))
    bench.calibrations = [str(calibration), str(tmp_path / "gone.json")]
    wanted = {"port": PORT, "robot": "so101_bus", "calibration": str(calibration)}
    bench.servos[PORT] = {str(number): 2048 + 100 * number for number in range(1, 7)}
    with setting_up(bench) as url:
        code, said = ask(url, "api/servos", wanted)
        assert (code, said["positions"]) == (200, bench.servos[PORT])
        ticks = [100 * number * 2 * math.pi / 4096 for number in range(1, 6)]
        assert said["now"]["joints_rad"] == pytest.approx(ticks, abs=1e-4)
        assert said["moving"] == []
        assert set(ask(url, "api/servos", {"port": PORT})[1]) == {"positions"}
        bench.limp = 10
        assert ask(url, "api/servos", wanted)[1]["moving"] == ["shoulder_lift"]
        bench.limp = 0
        bench.stored = (12, 1048, 3048)
        said = ask(url, "api/servos", wanted)[1]
        assert said["now"] is None, "by the calibration of another arm nobody knows where it is"
        assert "servo shoulder_pan keeps offset and range (12, 1048, 3048), must be (0, 1048, 3048)" in said["refused"]
        bench.stored = None
        said = ask(url, "api/servos", wanted)[1]
        assert (said["now"], said["refused"]) == (None, ""), "nor where no servo has told its own"
        bench.stored = (0, 1048, 3048)
        del bench.servos[PORT]["3"]
        assert ask(url, "api/servos", wanted)[1]["now"] is None, "one of its joints is not known"
        code, text = ask(url, "api/servos", {**wanted, "calibration": str(tmp_path / "gone.json")})
        assert (code in (400, 409), "cannot be read" in text) == (True, True)


def test_poses_that_were_kept_are_those_of_the_run(url: str) -> None:
    poses = {"start": kept([0.3, -1.4, 1.7, -1.9, -1.55, 0.2]), "above_bin": kept([0, -1.5, 1.5, -1.5, -1.5, 0])}
    assert ask(url, "api/write", wish(poses=poses, start="start"))[0] == 200
    run = load_run("bench")
    assert run.task.reset.start is not None
    assert run.task.reset.start.pose == "start"
    assert {name: pose.model_dump(mode="json") for name, pose in run.cell.poses.items()} == poses


def test_strangers_are_refused(tmp_path: Path) -> None:
    with setting_up(Bench(cameras=[camera("A_1", 0, "1")]), token="a-token-of-enough-characters") as address:
        url, _, token = address.partition("#")
        assert fetch(url, "api/found")[0] == 401
        assert fetch(url, "api/found", Authorization=f"Bearer {token}")[0] == 200
        told = {"Authorization": f"Bearer {token}", "Origin": "http://elsewhere"}
        assert ask(url, "api/write", wish(), **told)[0] == 403
    with setting_up(Bench()) as url:
        assert fetch(url, "api/found", Host="evil.example")[0] == 403
        assert fetch(url, "api/write", b"{}", **{"Content-Type": "text/plain"})[0] == 400
    assert not list(tmp_path.iterdir())


def test_every_shipped_arm_can_be_chosen_with_what_the_page_suggests(url: str) -> None:
    _, found = fetch(url, "api/found")
    offered = json.loads(found)
    assert {arm["file"] for arm in offered["arms"]} >= {"fr3_franka", "ur5e", "xarm7", "kinova_gen3", "so101_bus"}
    refused = {}
    for arm in offered["arms"]:
        task = next(
            (each for each in offered["tasks"] if each["feels_force"] == arm["feels_force"]), offered["tasks"][0]
        )
        low, high = arm["first_box"]
        port = {"port": "/dev/serial/by-id/usb-a", "calibration": "~/a.json"} if arm["on_port"] else None
        plan = wish(
            robot=arm["file"], frame=arm["base_frame"], low=low, high=high, example=task["run"], arm_port=port,
            safety="so101" if arm["on_port"] else "table",
        )  # fmt: skip
        refused[arm["file"]] = ask(url, "api/preview", plan)[1]["refused"]
    assert {name: said for name, said in refused.items() if said} == {}
