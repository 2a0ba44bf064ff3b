"""The set-up page in a real browser: from what is connected to files that a run takes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from robot_stack.cli.checked_run import load_checked
from robot_stack.cli.main import main
from robot_stack.config.camera import TopicCameraConfig, V4l2CameraConfig
from robot_stack.config.feetech import So101Robot
from robot_stack.config.teleop import GamepadTeleop, So101LeaderTeleop
from robot_stack.teleop.connected import ConnectedDevice
from robot_stack.types.surveyed import Surveyed
from tests.console.browser_rig import (
    PHONE,
    axe_finds_nothing,
    every_look,
    needs_chromium,
    picture,
    says,
    sync_api,
    until,
)
from tests.console.setup_rig import UR_STANDS, Bench, camera, franka_bench, setting_up, so101_bench, ur_drivers

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = [needs_chromium, pytest.mark.long]

STICKING_OUT = """() => [...document.querySelectorAll("body *")]
    .filter((each) => !each.closest("pre, svg, .view") && each.getBoundingClientRect().right > innerWidth + 1)
    .map((each) => `${each.tagName} ${each.id} ${each.getBoundingClientRect().right}`)"""
PICTURES_SHOWN = "() => [...document.querySelectorAll('#cameras img')].filter((each) => each.naturalWidth > 0).length"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def ur_bench() -> Bench:
    return Bench(
        cameras=[camera("046d_HD_Pro_Webcam_C920_5D3C1B6F", 0, "5D3C1B6F")],
        devices=[
            ConnectedDevice(kind="gamepad", name="Sony DualSense", usb="054c:0ce6"),
            ConnectedDevice(kind="keyboard", name="AT Keyboard", usb="0001:0001"),
        ],
        hidden=("module hid is missing, must be there to read a SpaceMouse; pip install 'robot-stack[teleop]'",),
        drivers={11: ur_drivers()},
    )


@pytest.fixture
def ur_page(ur_bench: Bench, tab) -> Iterator[object]:
    with setting_up(ur_bench) as url:
        yield tab(url)


def drag(page, selector: str, start: tuple[float, float], end: tuple[float, float]) -> None:
    """From one place to another, as shares of an element's width and height."""
    page.locator(selector).scroll_into_view_if_needed()
    at = page.locator(selector).bounding_box()
    places = [(at["x"] + x * at["width"], at["y"] + y * at["height"]) for x, y in (start, end)]
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1], steps=4)
    page.mouse.up()


def write(page) -> None:
    sync_api.expect(page.locator("#write")).to_be_enabled()
    page.click("#write")
    says(page, "#written", "hardware_configs/runs/")


def as_the_tutorial_says(arm: str, written: str, name: str) -> None:
    """The cell that the page has made is one short file, that of the arm's tutorial but for what is drawn.

    Args:
        arm: The tutorial.
        written: Name of the cell.
        name: Of the cell in the tutorial.
    """
    page = (DOCS / "tutorials" / f"{arm}.md").read_text()
    (block,) = re.findall(rf'```yaml title="hardware_configs/cells/{name}.yaml"\n(.*?)```', page, flags=re.DOTALL)
    text = Path(f"hardware_configs/cells/{written}.yaml").read_text()
    drawn = re.compile(r"(?<=[ \[])-?\d+(\.\d+)?(?=[,\]}])")
    assert drawn.sub("N", text) == drawn.sub("N", block).replace(name, written)
    assert len(text.splitlines()) <= 40
    assert main(["show", written]) == 0, "the command that comes next there"


def test_an_fr3_with_a_spacemouse_pedals_and_a_keypad_becomes_a_run(tab):
    with setting_up(franka_bench()) as url:
        page = tab(url)
        page.fill("#domain", "10")
        page.click("#listen")
        sync_api.expect(page.locator("#robot")).to_have_value("fr3_franka")
        says(page, "#controller", "Its controller listens on /target_pose.")
        page.select_option("#teleop", "spacemouse_pedal")
        page.select_option("[data-key='pedal.match']", "3553:b001")
        page.select_option("[data-key='keyboard.match']", "046d:c52b")
        page.fill("#name", "bench")
        says(page, "#fits", "Everything fits")
        picture(page, "setup_fr3")
        write(page)
    run = load_checked("bench")
    assert (run.cell.robot, run.cell.dds_domain) == ("fr3_franka", 10)
    topics = {name: camera.source_topic for name, camera in run.cameras.items()}
    assert topics == {"wrist": "/camera/wrist/color/image_rect_raw", "front": "/camera/front/color/image_raw"}
    as_the_tutorial_says("franka", "bench", "my_fr3")


def test_a_ur5e_with_a_camera_of_each_kind_and_a_gamepad_becomes_a_run(ur_page, empty_folder):
    page = ur_page
    says(page, "#hidden", "module hid is missing")
    page.fill("#domain", "11")
    page.click("#listen")
    says(page, "#heard", "described as ur5e")
    says(page, "#heard", "those of ur5e, which is chosen")
    sync_api.expect(page.locator("#robot")).to_have_value("ur5e")
    says(page, "#controller", "Its controller listens on /scaled_joint_trajectory_controller/joint_trajectory.")
    says(page, "#cameras", "encoding is 16UC1")
    until(lambda: page.evaluate(PICTURES_SHOWN) == 2, "the pictures", page)
    sync_api.expect(page.locator("[aria-label='/depth/image is used as']")).to_have_value("")
    page.select_option("#teleop", "gamepad")
    sync_api.expect(page.locator("[data-key=match]")).to_have_value("054c:0ce6")
    says(page, "#refused", "no name yet")
    drag(page, "#cameras li:nth-child(2) .view", (0.25, 0.2), (0.6, 0.9))
    page.fill("#name", "bench")
    says(page, "#fits", "Everything fits")
    picture(page, "setup_ur5e")
    assert not list(empty_folder.iterdir()), "nothing is written before the button is pressed"
    write(page)
    says(page, "#next", "robot-stack doctor bench")
    picture(page, "setup_written")
    run = load_checked("bench")
    assert (run.cell.robot, run.cell.dds_domain, run.task.name) == ("ur5e", 11, "bench")
    wrist, front = run.cameras["wrist"], run.cameras["front"]
    assert isinstance(wrist, V4l2CameraConfig)
    assert (run.cell.cameras["wrist"].model, wrist.serial) == ("logitech_c920", "5D3C1B6F")
    assert isinstance(front, TopicCameraConfig)
    assert (front.source_topic, front.width_px, front.height_px) == ("/camera/front/color/image_raw", 1280, 720)
    roi = front.roi_px
    assert roi is not None
    assert (roi.height, abs(roi.left - 320) < 12, abs(roi.top - 144) < 12) == (roi.width, True, True)
    assert 440 < roi.width < 520, "seven tenths of the height, drawn over a third of the width"
    device = run.teleops[""]
    assert isinstance(device, GamepadTeleop)
    assert (device.match.usb, device.match.name) == ("054c:0ce6", None)
    as_the_tutorial_says("ur5e", "bench", "my_ur5e")


def test_an_so101_at_two_ports_needs_no_word_of_ros(tab, tmp_path):
    bench = so101_bench(tmp_path)
    with setting_up(bench) as url:
        page = tab(url)
        sync_api.expect(page.locator("#robot")).to_have_value("so101_bus")
        sync_api.expect(page.locator("#teleop")).to_have_value("so101_leader")
        page.click("#arm-port button")
        says(page, "#arm-port", "now move one arm by hand")
        bench.servos[bench.ports[1]]["3"] += 200
        page.click("#arm-port button")
        says(page, "#arm-port", "usb-1a86_USB_Single_Serial_5A691-if00: 6 servos answer, and THIS ONE HAS MOVED")
        page.select_option("#arm-port-port", bench.ports[1])
        page.select_option("#leader-port-port", bench.ports[1])
        page.fill("#name", "desk")
        says(page, "#refused", "arm and leader have one serial port")
        page.select_option("#leader-port-port", bench.ports[0])
        page.click("#again")
        says(page, "#arm-port", "unplug what is no arm")
        sync_api.expect(page.locator("#arm-port-port")).to_have_value(bench.ports[1])
        sync_api.expect(page.locator("#leader-port-port")).to_have_value(bench.ports[0])
        page.select_option("[data-key='pedal.match']", "3553:b001")
        page.fill("#name", "desk")
        says(page, "#fits", "Everything fits")
        picture(page, "setup_so101")
        write(page)
    run = load_checked("desk")
    arm, leader = next(iter(run.robots.values())), run.teleops[""]
    assert isinstance(arm, So101Robot)
    assert isinstance(leader, So101LeaderTeleop)
    assert (arm.servos.port, arm.servos.calibration) == (bench.ports[1], bench.calibrations[0])
    assert (leader.servos.port, leader.servos.calibration) == (bench.ports[0], bench.calibrations[1])
    assert run.cell.robot == run.cell.teleop == "desk"
    assert {name: each.serial for name, each in run.cell.cameras.items()} == {"wrist": "A1", "front": "5D3C1B6F"}
    as_the_tutorial_says("so101", "desk", "my_so101")


def test_a_box_that_leaves_home_is_refused_where_it_is_drawn(ur_page):
    page = ur_page
    page.select_option("#robot", "ur5e")
    page.fill("#name", "bench")
    says(page, "#fits", "Everything fits")
    low = page.locator("[aria-label='lower corner, z in metres']")
    before = float(low.input_value())
    drag(page, "#side .grip[data-name=low]", (0.5, 0.5), (0.5, 6.0))
    until(lambda: float(low.input_value()) < before - 0.02, "a lower box", page)
    page.fill("[aria-label='upper corner, z in metres']", "0.2")
    says(page, "#refused", "the home of robot ur5e has its tool at")
    sync_api.expect(page.locator("#write")).to_be_disabled()
    picture(page, "setup_refused")


def test_poses_are_kept_as_the_arm_stands_and_episodes_begin_at_one(ur_page, ur_bench, empty_folder):
    page = ur_page
    page.select_option("#robot", "ur5e")
    page.fill("#name", "bench")
    sync_api.expect(page.locator("#keep")).to_be_disabled()
    page.click("#where")
    says(page, "#stands", "Where it stands is not known: nobody publishes its joints")
    page.fill("#domain", "11")
    ur_bench.drivers[11] = ur_drivers(moving=("elbow_joint",))
    page.click("#where")
    says(page, "#stands", "elbow_joint moved while it was looked at")
    sync_api.expect(page.locator("#keep")).to_be_disabled()
    assert page.locator("polyline.now").count() == 2, "it is drawn all the same"
    ur_bench.drivers[11] = ur_drivers()
    page.click("#where")
    says(page, "#stands", "m.")
    tool = [float(each) for each in page.locator("#stands").text_content().split("at ")[1].split(" m")[0].split(", ")]
    page.fill("#pose", "Above!")
    page.click("#keep")
    says(page, "#stands", "cannot be called “Above!”")
    page.fill("#pose", "above")
    page.click("#keep")
    sync_api.expect(page.locator("#begin")).to_have_value("above")
    page.click("#stretch")
    high = [page.locator(f"[aria-label='upper corner, {axis} in metres']").input_value() for axis in "xyz"]
    low = [page.locator(f"[aria-label='lower corner, {axis} in metres']").input_value() for axis in "xyz"]
    assert all(float(a) < at < float(b) for a, at, b in zip(low, tool, high))
    ur_bench.drivers[11] = ur_drivers(angles=(0.0, -1.5, 1.4, -1.5, -1.6, 0.0))
    page.click("#where")
    sync_api.expect(page.locator("#keep")).to_be_enabled()
    says(page, "#fits", "Everything fits")
    picture(page, "setup_poses")
    for name in ("bin", "spare"):
        page.fill("#pose", name)
        page.click("#keep")
    page.click("[aria-label='forget spare']")
    sync_api.expect(page.locator("[aria-label='forget above']")).to_be_focused()
    says(page, "#files", "poses:")
    write(page)
    run = load_checked("bench")
    assert run.task.reset.start.pose == "above"
    assert set(run.cell.poses) == {"above", "bin"}
    assert run.cell.poses["above"].joints_rad == UR_STANDS
    assert run.cell.poses["above"].position_m == pytest.approx(tool, abs=1e-3)
    assert run.cell.poses["bin"].joints_rad == (0.0, -1.5, 1.4, -1.5, -1.6, 0.0)


def test_a_double_click_on_forget_forgets_one_pose(ur_page):
    """Where it was is the next pose's, at once. A pair that a busy machine drew apart is done again."""
    page = ur_page
    page.evaluate("window.downs = []; addEventListener('pointerup', () => downs.push(performance.now()), true)")
    page.select_option("#robot", "ur5e")
    page.fill("#domain", "11")
    page.click("#where")
    sync_api.expect(page.locator("#keep")).to_be_enabled()
    for turn in range(10):
        for name in ("a", "b"):
            page.fill("#pose", f"{name}{turn}")
            page.click("#keep")
        button = page.locator(f"[aria-label='forget a{turn}']")
        button.scroll_into_view_if_needed()
        box = button.bounding_box()
        page.wait_for_timeout(700)
        page.mouse.dblclick(box["x"] + 5, box["y"] + 5)
        one, other = page.evaluate("downs.slice(-2)")
        if other - one < 600:
            break
    else:
        raise AssertionError("two clicks were never near each other")
    assert page.locator(f"[aria-label='forget a{turn}']").count() == 0
    assert page.locator(f"[aria-label='forget b{turn}']").count() == 1


def test_a_box_that_was_drawn_stays_when_the_arm_is_looked_at(ur_page):
    page = ur_page
    page.select_option("#robot", "ur5e")
    page.fill("[aria-label='upper corner, z in metres']", "0.7")
    page.fill("#domain", "11")
    page.click("#where")
    says(page, "#stands", "Its tool is at")
    sync_api.expect(page.locator("[aria-label='upper corner, z in metres']")).to_have_value("0.7")
    sync_api.expect(page.locator("#side")).to_have_attribute(
        "aria-label", "the box, the arm at home, the arm now, from the side"
    )


def test_nothing_is_kept_while_somebody_looks(ur_page, ur_bench):
    page = ur_page
    page.select_option("#robot", "ur5e")
    page.fill("#domain", "11")
    page.click("#where")
    sync_api.expect(page.locator("#keep")).to_be_enabled()
    page.evaluate("document.getElementById('where').click(); document.getElementById('keep').click()")
    assert page.locator("#poses li").count() == 0
    sync_api.expect(page.locator("#keep")).to_be_enabled()


def test_what_is_heard_of_a_domain_that_is_no_longer_chosen_is_no_place_of_the_arm(ur_page):
    page = ur_page
    page.select_option("#robot", "ur5e")
    page.fill("#domain", "11")
    page.evaluate("""() => {
        const domain = document.getElementById("domain");
        document.getElementById("where").click();
        domain.value = 12;
        domain.dispatchEvent(new Event("input"));
    }""")
    says(page, "#stands", "is not known")
    sync_api.expect(page.locator("#keep")).to_be_disabled()


def test_another_arm_has_none_of_the_poses(ur_page, ur_bench):
    page = ur_page
    page.fill("#domain", "11")
    page.select_option("#robot", "ur5e")
    page.click("#where")
    sync_api.expect(page.locator("#keep")).to_be_enabled()
    page.click("#keep")
    says(page, "#stands", "Kept as “start”")
    page.click("#keep")
    says(page, "#stands", "There is a pose “start” already")
    page.select_option("#robot", "ur10e")
    assert page.locator("#poses li").count() == 0
    sync_api.expect(page.locator("#begin")).to_have_value("")
    page.click("#where")
    sync_api.expect(page.locator("#keep")).to_be_enabled()
    page.fill("#domain", "12")
    sync_api.expect(page.locator("#keep")).to_be_disabled()
    page.select_option("#robot", "xarm6")
    sync_api.expect(page.locator("#keep")).to_be_disabled()
    assert page.locator("polyline.now").count() == 0


def test_an_so101_is_asked_where_it_stands(tab, tmp_path):
    bench = so101_bench(tmp_path)
    calibration = tmp_path / "robots" / "mine.json"
    calibration.parent.mkdir()
    names = ["shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper"]
    servos = {
        name: {"id": number, "drive_mode": 0, "homing_offset": 0, "range_min": 1048, "range_max": 3048}
        for number, name in enumerate(names, 1)
    }
    calibration.write_text(json.dumps(servos))
    bench.calibrations = [str(calibration)]
    with setting_up(bench) as url:
        page = tab(url)
        page.fill("#name", "desk")
        page.click("#where")
        says(page, "#stands", "Its tool is at")
        page.click("#keep")
        says(page, "#files", "poses:")
        page.select_option("#arm-port-port", bench.ports[1])
        assert page.locator("#poses li").count() == 0
        sync_api.expect(page.locator("#keep")).to_be_disabled()
        page.select_option("#arm-port-port", bench.ports[0])
        bench.limp = 10
        page.click("#where")
        says(page, "#stands", "shoulder_lift moved while it was looked at")
        sync_api.expect(page.locator("#keep")).to_be_disabled()
        bench.limp = 0
        bench.stored = (0, 900, 3048)
        page.click("#where")
        says(page, "#stands", "That calibration is another arm's: servo shoulder_pan keeps")
        sync_api.expect(page.locator("#keep")).to_be_disabled()
        bench.stored = (0, 1048, 3048)
        del bench.servos[bench.ports[0]]["2"]
        page.click("#where")
        says(page, "#stands", "Not all of its servos answer")
        sync_api.expect(page.locator("#keep")).to_be_disabled()
        picture(page, "setup_so101_pose")


def test_what_is_missing_or_taken_or_twice_is_said_before_anything_is_written(ur_page, ur_bench, empty_folder):
    page = ur_page
    page.select_option("#robot", "ur5e")
    for name, said in (("My Table", "must be a-z"), ("fr3_table", "is taken by"), ("", "no name yet")):
        page.fill("#name", name)
        says(page, "#refused", said)
    page.fill("#name", "bench")
    page.select_option("#cameras select", "")
    says(page, "#refused", "No camera is used yet")
    page.fill("#domain", "11")
    page.click("#listen")
    says(page, "#heard", "described as ur5e")
    for select in page.locator("#cameras select").all():
        select.select_option("front")
    says(page, "#refused", "Two cameras are used as front")
    assert not list(empty_folder.iterdir())
    ur_bench.busy.add(ur_bench.cameras[0].name)
    page.click("#cameras li:first-child button:has-text('picture') >> nth=1")
    says(page, "#cameras", "close other programs")


def test_what_was_chosen_stays_when_drivers_are_heard_again(ur_page, ur_bench):
    page = ur_page
    page.select_option("#robot", "ur5e")
    page.fill("[aria-label='lower corner, x in metres']", "-0.45")
    page.select_option("#safety", "so101")
    page.fill("#domain", "11")
    page.click("#listen")
    says(page, "#heard", "described as ur5e")
    sync_api.expect(page.locator("[aria-label='lower corner, x in metres']")).to_have_value("-0.45")
    sync_api.expect(page.locator("#safety")).to_have_value("so101")
    silent, depth = ur_bench.drivers[11].images
    ur_bench.drivers[11] = Surveyed(
        joints={},
        robot="",
        images=[replace(silent, size_px=None, jpeg="", problem="nothing comes; is it stuck?"), depth],
    )
    page.click("#listen")
    says(page, "#cameras", "is it stuck?")
    ur_bench.drivers[11] = ur_drivers()
    page.click("#listen")
    until(lambda: page.evaluate(PICTURES_SHOWN) == 2, "the picture of a driver that speaks again", page)
    sync_api.expect(page.locator("[aria-label$='image_raw is used as']")).to_have_value("front")


def test_a_controller_that_is_not_started_is_named_with_those_that_are(ur_page, ur_bench):
    ur_bench.drivers[11] = replace(ur_drivers(), commanded={"/forward_velocity_controller/commands": "std_msgs/msg/F"})
    ur_page.fill("#domain", "11")
    ur_page.click("#listen")
    says(
        ur_page, "#controller", "Nobody listens on /scaled_joint_trajectory_controller/joint_trajectory, where its file"
    )
    says(ur_page, "#controller", "Controllers listen on /forward_velocity_controller/commands.")
    ur_bench.drivers[11] = replace(ur_drivers(), commanded={})
    ur_page.click("#listen")
    says(ur_page, "#controller", "No controller listens there.")
    ur_page.select_option("#robot", "so101_bus")
    sync_api.expect(ur_page.locator("#controller")).to_have_text("")


def test_one_camera_is_suggested_once(ur_page, ur_bench):
    both = ur_drivers()
    twin = replace(both.images[0], topic=f"{both.images[0].topic}/compressed", compressed=True)
    ur_bench.drivers[11] = replace(both, images=[both.images[0], twin], left_out=7)
    ur_page.fill("#domain", "11")
    ur_page.click("#listen")
    says(ur_page, "#heard", "2 topics with images (7 more were not listened to)")
    sync_api.expect(ur_page.locator("[aria-label$='image_raw/compressed is used as']")).to_have_value("")


def test_nobody_on_the_domain_is_said_with_what_to_look_at(ur_page):
    ur_page.fill("#domain", "3")
    ur_page.click("#listen")
    says(ur_page, "#heard", "Nobody publishes joint states on domain 3")


def test_beyond_this_machine_the_page_asks_for_its_token(ur_bench, tab):
    with setting_up(ur_bench, token="a-token-of-enough-characters") as url:
        page = tab(url.partition("#")[0])
        says(page, "#gate", "paste")
        axe_finds_nothing(page)
        page.fill("#token", url)
        page.click("#gate button")
        sync_api.expect(page.locator("#parts")).to_be_visible()


@every_look
def test_the_rules_of_axe_find_nothing_and_nothing_sticks_out(ur_bench, tab, scheme, size):
    with setting_up(ur_bench) as url:
        page = tab(url, viewport=size, color_scheme=scheme)
        page.fill("#domain", "11")
        page.click("#listen")
        says(page, "#heard", "described as ur5e")
        page.fill("#name", "bench")
        says(page, "#files", "source_topic")
        page.select_option("#robot", "ur5e")
        page.click("#where")
        sync_api.expect(page.locator("#keep")).to_be_enabled()
        page.fill("#pose", "above")
        page.click("#keep")
        says(page, "#poses", "above")
        axe_finds_nothing(page)
        assert page.evaluate(STICKING_OUT) == []
        picture(page, f"{'phone_setup' if size is PHONE else 'setup'}_{scheme}")
