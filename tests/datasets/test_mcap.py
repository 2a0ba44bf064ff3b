"""Episodes as bags: every message is CDR that others decode, and every number and pixel comes back."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from robot_stack.datasets.bag import messages
from robot_stack.datasets.store_view import StoreView, open_store
from robot_stack.types.errors import StoreError
from robot_stack.types.event import Verdict
from robot_stack.types.transition import back_id
from tests.datasets.data_rig import (
    assert_same_episode,
    contents,
    full_disk,
    label,
    made_episode,
    made_spec,
    there_and_back,
    two_arm_spec,
    write_folder,
)

reader = pytest.importorskip(
    "mcap_ros2.reader", reason="mcap-ros2-support is not installed: pip install 'robot-stack[export]'"
)

from robot_stack.datasets.bag.read import import_mcap, read_mcap  # noqa: E402
from robot_stack.datasets.bag.write import export_mcap  # noqa: E402


def quiet(what: str, number: int, count: int) -> None:
    assert 1 <= number <= count


@pytest.fixture(scope="module")
def bags(view: StoreView, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("mcap") / "bags"
    count = export_mcap(view, view.episodes, out, on_episode=quiet)
    assert count == sum(1 + 4 * (view.read(i).length + 1) + 4 * view.read(i).length for i in view.episodes)
    return out


def test_everything_comes_back_exactly(bags: Path, view: StoreView, tmp_path: Path) -> None:
    import_mcap(bags, tmp_path / "b", on_episode=quiet)
    again = open_store(tmp_path / "b")
    assert (again.episodes, again.task, again.text) == (view.episodes, view.task, view.text)
    assert sorted(again.labels, key=str) == sorted(view.labels, key=str)
    for episode_id in view.episodes:
        assert_same_episode(again.read(episode_id), view.read(episode_id))


def test_the_way_back_is_told_in_its_own_words(tmp_path: Path) -> None:
    view = there_and_back(tmp_path / "a")
    export_mcap(view, view.episodes, tmp_path / "out", on_episode=quiet)
    import_mcap(tmp_path / "out", tmp_path / "b", on_episode=quiet)
    again = open_store(tmp_path / "b")
    assert (again.text, again.others) == (view.text, {back_id(view.task): "put it back"})


def test_who_moved_each_of_two_arms_comes_back(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("000000-demo-a", two_arm_spec())])
    export_mcap(view, view.episodes, tmp_path / "bags", on_episode=quiet)
    import_mcap(tmp_path / "bags", tmp_path / "b", on_episode=quiet)
    again = open_store(tmp_path / "b").read("000000-demo-a")
    assert_same_episode(again, view.read("000000-demo-a"))
    assert again.arrays["sources"].shape == (20, 2)


def test_image_is_a_ros_image_with_the_stamp_of_its_tick(bags: Path, view: StoreView) -> None:
    episode = view.read(view.episodes[0])
    found = list(reader.read_ros2_messages(str(bags / f"{view.episodes[0]}.mcap"), topics=["/wrist/obs"]))
    assert len(found) == episode.length + 1
    assert found[0].schema.name == "sensor_msgs/msg/Image"
    message = found[3].ros_msg
    assert (message.height, message.width, message.encoding, message.step) == (16, 16, "rgb8", 48)
    assert message.header.frame_id == "wrist"
    stamp_ns = message.header.stamp.sec * 10**9 + message.header.stamp.nanosec
    assert stamp_ns == episode.arrays["stamp_ns"][3]
    assert bytes(message.data) == episode.arrays["image_wrist"][3].tobytes()
    assert found[0].log_time_ns == round(episode.header.started_unix_s * 1e9)


def test_rclpy_decodes_every_message(bags: Path, view: StoreView) -> None:
    pytest.importorskip("rclpy", reason="no ROS 2 in this environment")
    from mcap.reader import make_reader
    from rclpy.serialization import deserialize_message
    from sensor_msgs.msg import Image, JointState, Joy
    from std_msgs.msg import String

    types = {messages.STRING: String, messages.IMAGE: Image, messages.JOINT_STATE: JointState, messages.JOY: Joy}
    episode = view.read(view.episodes[1])
    executed = []
    with (bags / f"{view.episodes[1]}.mcap").open("rb") as file:
        for schema, channel, message in make_reader(file).iter_messages():
            assert schema is not None
            found = deserialize_message(message.data, types[schema.name])
            if channel.topic == messages.EXECUTED:
                executed.append(found.axes)
    np.testing.assert_array_equal(np.array(executed, np.float32), episode.arrays["executed"])


def test_definitions_are_those_of_the_installed_messages() -> None:
    pytest.importorskip("rclpy", reason="no ROS 2 in this environment")
    from sensor_msgs.msg import Image, JointState, Joy

    for kind, name in ((Image, messages.IMAGE), (JointState, messages.JOINT_STATE), (Joy, messages.JOY)):
        lines = messages.DEFINITIONS[name].partition("=")[0].strip().splitlines()
        fields = dict(line.split(" ")[::-1] for line in lines)
        installed = kind.get_fields_and_field_types()
        assert list(fields) == list(installed)
        spelled = {"float64": "double", "float32": "float"}
        for field, text in fields.items():
            inner = text.removesuffix("[]")
            wanted = spelled.get(inner, inner)
            assert installed[field] == (f"sequence<{wanted}>" if text.endswith("[]") else wanted)


def test_metadata_says_what_the_episode_is(bags: Path, view: StoreView) -> None:
    (message,) = reader.read_ros2_messages(str(bags / f"{view.episodes[3]}.mcap"), topics=[messages.ABOUT])
    about = json.loads(message.ros_msg.data)
    assert about["end"] == "timeout"
    assert [each["verdict"] for each in about["labels"]] == ["success", "failure", "failure"]


def refused(folder: Path, tmp_path: Path, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        import_mcap(folder, tmp_path / "b", on_episode=quiet)
    assert not (tmp_path / "b").exists()


def test_folder_without_bags_is_refused(tmp_path: Path) -> None:
    refused(tmp_path, tmp_path, r"number of \.mcap files in .* is 0, must be at least 1")


@pytest.mark.parametrize("spoil", ["cut", "flip", "empty", "text"])
def test_damaged_bag_is_named(spoil: str, bags: Path, view: StoreView, tmp_path: Path) -> None:
    shutil.copytree(bags, tmp_path / "copy")
    file = tmp_path / "copy" / f"{view.episodes[2]}.mcap"
    content = bytearray(file.read_bytes())
    if spoil == "flip":
        content[len(content) // 3] ^= 1
    file.write_bytes({"cut": content[: len(content) // 2], "flip": content, "empty": b"", "text": b"hello"}[spoil])
    refused(tmp_path / "copy", tmp_path, rf"file .*{view.episodes[2]}\.mcap is unreadable .*must be an episode")


def test_bag_of_something_else_is_named_with_its_topics(tmp_path: Path) -> None:
    from mcap_ros2.writer import Writer

    with (tmp_path / "x.mcap").open("wb") as file:
        writer = Writer(file)
        schema = writer.register_msgdef(messages.STRING, messages.DEFINITIONS[messages.STRING])
        writer.write_message("/chatter", schema, {"data": "hello"}, log_time=1)
        writer.finish()
    with pytest.raises(StoreError, match=r"topic /episode/about .* is missing \(there are /chatter\), must be there"):
        read_mcap(tmp_path / "x.mcap")


def test_bags_of_different_cells_are_refused_naming_the_field(bags: Path, tmp_path: Path) -> None:
    shutil.copytree(bags, tmp_path / "copy")
    other = write_folder(tmp_path / "a", [made_episode("z", made_spec(rate_hz=12.5))])
    export_mcap(other, ["z"], tmp_path / "more", on_episode=quiet)
    shutil.copyfile(tmp_path / "more" / "z.mcap", tmp_path / "copy" / "z.mcap")
    refused(tmp_path / "copy", tmp_path, r"file z\.mcap: spec\.rate_hz is 12\.5, must be 10\.0")


def test_same_episode_in_two_bags_is_refused(bags: Path, view: StoreView, tmp_path: Path) -> None:
    shutil.copytree(bags, tmp_path / "copy")
    shutil.copyfile(bags / f"{view.episodes[0]}.mcap", tmp_path / "copy" / "again.mcap")
    refused(tmp_path / "copy", tmp_path, "is there twice, must be there once")


def test_full_disk_leaves_no_bags(tmp_path: Path) -> None:
    view = write_folder(tmp_path / "a", [made_episode("e")], [label("e", Verdict.SUCCESS)])
    before = contents(tmp_path)
    with full_disk(), pytest.raises(StoreError, match=r"writing .*/b failed: File too large"):
        export_mcap(view, ["e"], tmp_path / "b", on_episode=quiet)
    assert contents(tmp_path) == before


def test_missing_package_is_named_with_how_to_get_it(
    view: StoreView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mcap_ros2.writer", None)
    with pytest.raises(StoreError, match=r"package mcap-ros2-support is missing.*robot-stack\[export\]"):
        export_mcap(view, view.episodes, tmp_path / "b", on_episode=quiet)
    assert not list(tmp_path.iterdir())
