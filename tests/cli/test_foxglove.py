"""A layout for Foxglove: every panel is placed once, and every topic is one that the cell has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from robot_stack.cli.main import main
from robot_stack.nodes import topics


def panels_of(layout: Any) -> Iterator[str]:
    if isinstance(layout, str):
        yield layout
    else:
        assert layout["direction"] in ("row", "column")
        assert 0 < layout["splitPercentage"] < 100
        yield from panels_of(layout["first"])
        yield from panels_of(layout["second"])


def topics_of(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for part in value.values():
            yield from topics_of(part)
    elif isinstance(value, list):
        for part in value:
            yield from topics_of(part)
    elif isinstance(value, str) and value.startswith("/"):
        yield value.split(".")[0]


def documented(topic: str) -> bool:
    """Whether the table of topics has it, its arm or camera in angle brackets there."""
    names = re.findall(r"^\| ([^|]+) \|", topics.__doc__ or "", flags=re.MULTILINE)
    patterns = [re.sub(r"<view>", "[a-z_]+", re.sub(r"<(arm|camera)>", "[a-z0-9_]+", name)) for name in names]
    return any(re.fullmatch(pattern, topic.removeprefix(f"{topics.WIRE}/")) for pattern in patterns)


@pytest.mark.parametrize(("run", "cell", "plots"), [("peg_insert", "sim", 2), ("two_arm_insert", "sim_two_arms", 4)])
def test_panels_are_placed_once_and_topics_exist(
    run: str, cell: str, plots: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["foxglove", run]) == 0
    layout = json.loads(capsys.readouterr().out)
    placed = list(panels_of(layout["layout"]))
    assert sorted(placed) == sorted(layout["configById"])
    assert len(set(placed)) == len(placed)
    assert sum(name.startswith("Plot!") for name in placed) == plots
    found = set(topics_of(layout["configById"])) - {"/diagnostics", "/rosout"}
    assert len(found) >= 6
    assert [topic for topic in found if not documented(topic.removeprefix(f"/{cell}/"))] == []
