"""What pip, colcon and a reader of the licence rely on."""

from __future__ import annotations

import re
import tomllib

from catkin_pkg.package import parse_package
from packaging.requirements import Requirement

from tests.arch.source_tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LICENCE = re.findall(r'^    license="(.*)",$', (ROOT / "setup.py").read_text(), flags=re.MULTILINE)


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def requirements() -> list[Requirement]:
    extras = [text for texts in PROJECT["optional-dependencies"].values() for text in texts]
    found = [Requirement(text) for text in (*PROJECT["dependencies"], *extras)]
    return [requirement for requirement in found if requirement.name != PROJECT["name"]]  # an extra may name another


UNPINNED = {"lerobot", "metaworld"}
"""Their newest releases want an older torch, and an older MuJoCo, than those that are pinned: docs/so101.md,
docs/gymnasium.md."""


def test_every_dependency_is_pinned_within_its_bounds() -> None:
    known = pins()
    for requirement in requirements():
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in UNPINNED:
            assert name not in known
            continue
        assert name in known, f"{name} has no pin"
        assert requirement.specifier.contains(known[name], prereleases=True), requirement


def test_ros_package_is_valid_and_of_the_same_version() -> None:
    warnings: list[str] = []
    package = parse_package(str(ROOT / "package.xml"), warnings=warnings)
    package.validate(warnings=warnings)
    assert not warnings
    assert package.version == PROJECT["version"]
    assert package.licenses == LICENCE


def test_licence_is_the_one_that_the_metadata_names() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert LICENCE == ["Apache-2.0"]
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
