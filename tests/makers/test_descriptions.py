"""Arms as their makers describe them, against pinocchio, which read the same files (`descriptions/`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from robot_stack.control.kinematics.link_tree import LinkTree
from robot_stack.control.kinematics.urdf import chain_of_urdf

FILES = sorted((Path(__file__).parent / "descriptions").glob("*.yaml"))
ROUNDED = 2e-9
"""The fixtures have nine decimals."""
every = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def urdf_of(told: dict[str, Any]) -> str:
    """The part of the maker's file that kinematics reads, written anew."""
    links = [told["base"], *(joint["child"] for joint in told["joints"])]
    joints = []
    for joint in told["joints"]:
        axis = f'<axis xyz="{_words(joint["axis"])}"/>' if "axis" in joint else ""
        joints.append(
            f'<joint name="{joint["name"]}" type="{joint["type"]}"><parent link="{joint["parent"]}"/>'
            f'<child link="{joint["child"]}"/>{axis}'
            f'<origin xyz="{_words(joint["xyz"])}" rpy="{_words(joint["rpy"])}"/></joint>'
        )
    return "\n".join(["<robot>", *(f'<link name="{link}"/>' for link in links), *joints, "</robot>"])


def _words(numbers: list[float]) -> str:
    return " ".join(map(str, numbers))


@every
def test_an_arm_stands_where_pinocchio_says(path: Path) -> None:
    told = YAML(typ="safe").load(path)
    names = [joint["name"] for joint in told["joints"] if joint["type"] != "fixed"]
    assert [0.0, 0.0, 0.0] in [joint.get("axis") for joint in told["joints"]], (
        "the mark of an export from CAD, and legal"
    )
    text = urdf_of(told)
    chain = chain_of_urdf(text, base_link=told["base"], tcp_link=told["tip"], names=names, source=path.name)
    tree = LinkTree(text, source=path.name)
    assert len(told["stands"]) == 3
    for stand in told["stands"]:
        pose, jacobian = chain.jacobian(np.array(stand["angles"]))
        np.testing.assert_allclose(np.column_stack([pose.matrix, pose.position_m]), stand["pose"], atol=ROUNDED)
        np.testing.assert_allclose(jacobian, stand["jacobian"], atol=ROUNDED)
        frames = tree.frames(dict(zip(names, stand["angles"], strict=True)))
        np.testing.assert_allclose(frames[told["tip"]][:3], stand["pose"], atol=ROUNDED)
