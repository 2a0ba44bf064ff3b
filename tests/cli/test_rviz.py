"""A configuration for RViz: it knows every name in it, and every topic and frame is one that the cell has."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from ruamel.yaml import YAML

from robot_stack.cli.cell.rviz import configuration
from robot_stack.cli.main import main
from robot_stack.config.files.library import config_root
from robot_stack.config.resolve import load_run
from robot_stack.workcell.build import build_world
from sim.description import urdf_of
from tests.cli.test_foxglove import documented

RVIZ = YAML(typ="safe").load(Path(__file__).parents[1] / "makers/tools/rviz.yaml")
OF_ALL = {"Class", "Name", "Enabled", "Value"}


def printed(run: str, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert main(["rviz", run, *more]) == 0
    found: dict[str, Any] = YAML(typ="safe").load(capsys.readouterr().out)
    return found


def displays_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    displays: list[dict[str, Any]] = found["Visualization Manager"]["Displays"]
    return displays


def kind_of(display: dict[str, Any]) -> str:
    return str(display["Class"]).removeprefix("rviz_default_plugins/")


def topics_of(found: dict[str, Any]) -> dict[str, list[str]]:
    """Topics by the kind of display that shows them."""
    shown: dict[str, list[str]] = {}
    for display in displays_of(found):
        for name in ("Topic", "Description Topic"):
            if name in display:
                shown.setdefault(kind_of(display), []).append(display[name]["Value"])
    return shown


@pytest.mark.parametrize("run", ["peg_insert", "two_arm_insert", "fr3_table", "ur5e_table", "so101_table"])
def test_rviz_knows_every_display_property_and_policy(run: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(run, capsys)
    for display in displays_of(found):
        assert set(display) - OF_ALL <= set(RVIZ["displays"][kind_of(display)]), display["Name"]
        for name in {"Topic", "Description Topic"} & set(display):
            topic = display[name]
            assert all(topic[policy] in RVIZ["topic"][policy] for policy in RVIZ["topic"])
            assert set(topic) == {"Value", "Depth", *RVIZ["topic"]}
    manager = found["Visualization Manager"]
    assert {kind_of(tool) for tool in manager["Tools"]} <= set(RVIZ["tools"])
    assert set(manager["Views"]["Current"]) - {"Class", "Name"} <= set(RVIZ["view"])


@pytest.mark.parametrize(("run", "cell", "arms"), [("peg_insert", "sim", 1), ("two_arm_insert", "sim_two_arms", 2)])
def test_a_simulated_cell_is_drawn_from_the_root_of_its_own_description(
    run: str, cell: str, arms: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = printed(run, capsys)
    shown = topics_of(found)
    assert shown["RobotModel"] == [f"/{cell}/robot_description"]
    assert len(shown["Pose"]) == len(shown["Wrench"]) == arms
    assert len(shown["Image"]) == 2
    every = [topic for topics in shown.values() for topic in topics]
    assert [topic for topic in every if not documented(topic.removeprefix(f"/{cell}/"))] == []
    tree = ElementTree.fromstring(urdf_of(build_world(load_run(run)), ()))
    children = {joint.find("child").attrib["link"] for joint in tree.iter("joint")}  # type: ignore[union-attr]
    roots = {link.attrib["name"] for link in tree.iter("link")} - children
    assert roots == {found["Visualization Manager"]["Global Options"]["Fixed Frame"]}


@pytest.mark.parametrize(
    ("kinematics", "wanted"),
    [
        (None, "/robot_description"),
        ("{source: urdf_topic, topic: /left/description, base_link: b, tcp_link: t}", "/left/description"),
        ("{source: urdf_file, path: arm.urdf, base_link: b, tcp_link: t}", "arm.urdf"),
    ],
)
def test_a_real_arm_is_drawn_by_the_urdf_that_its_robot_file_names(
    kinematics: str | None, wanted: str, tmp_path: Path
) -> None:
    if kinematics is not None:
        text = (config_root() / "robots" / "fr3_franka.yaml").read_text()
        text, replaced = re.subn(r"^kinematics:.*\n(?: .*\n)+", f"kinematics: {kinematics}\n", text, flags=re.M)
        assert replaced == 1
        (tmp_path / "robots").mkdir()
        (tmp_path / "robots" / "fr3_franka.yaml").write_text(text)
    found = configuration(load_run("fr3_table", root=tmp_path))
    assert found["Visualization Manager"]["Global Options"]["Fixed Frame"] == load_run("fr3_table").robot.base_frame
    (model,) = [display for display in displays_of(found) if kind_of(display) == "RobotModel"]
    if model["Description Source"] == "File":
        assert model["Description File"] == wanted
    else:
        topic = model["Description Topic"]
        assert (topic["Value"], topic["Durability Policy"]) == (wanted, "Transient Local")


def test_no_force_is_shown_of_an_arm_that_measures_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert "Wrench" in topics_of(printed("fr3_table", capsys))
    assert "Wrench" not in topics_of(printed("so101_table", capsys))


def test_a_cell_without_a_run_is_shown_by_its_name_and_an_unknown_one_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(config_root(), tmp_path / "mine")
    assert displays_of(printed("fr3_table", capsys, "--root", str(tmp_path / "mine")))
    assert main(["rviz", "nowhere"]) == 1
    assert "nowhere" in capsys.readouterr().err


def test_an_environment_has_no_topics_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("gymnasium", reason="no gymnasium on this machine")
    assert main(["rviz", "mountain_car"]) == 1
    assert "is of an environment, must be of a cell to have topics" in capsys.readouterr().err
