"""Facts of makers' repositories about robot files, and the table of them in docs/robots.md.

`python -m tests.makers.robot_facts` writes the table anew.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from robot_stack.config.drivers import DriverRobot, asked_controllers
from robot_stack.config.files.library import config_root
from robot_stack.config.kinds import ROBOTS

FILES = sorted((Path(__file__).parent / "robots").glob("*.yaml"), key=lambda path: path.stem)
DOCS = Path(__file__).parents[2] / "docs" / "robots.md"
BEGIN, END = "<!-- makers: begin -->", "<!-- makers: end -->"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One name or number of a maker's driver, and where it stands.

    Attributes:
        robots: Our robot files that it is about.
        field: Place in the robot file, dotted; or "controllers", or "commands.KEY".
        says: What stands there, or None if there is a list of what may stand there.
        among: All that the driver has, of which the file may name some.
        distros: Distribution -> commit.
        repository: Its address.
        path: File in it.
    """

    robots: tuple[str, ...]
    field: str
    says: Any
    among: tuple[str, ...]
    distros: dict[str, str]
    repository: str
    path: str


def read(path: Path) -> dict[str, Any]:
    """A YAML file as it stands; each caller's own, to change as it likes."""
    return deepcopy(_parsed(path))


@cache
def _parsed(path: Path) -> dict[str, Any]:
    return YAML(typ="safe").load(path)


def facts_of(fixture: dict[str, Any]) -> Iterator[Fact]:
    """Each fact of a fixture, on the distributions that it is about."""
    first = next(iter(fixture["sources"]))
    for each in fixture["facts"]:
        source = fixture["sources"][each.get("source", first)]
        on = each.get("on", list(source["commits"]))
        robots = (each["robot"],) if "robot" in each else tuple(fixture["robots"])
        yield Fact(
            robots=robots,
            field=each["field"],
            says=each.get("says"),
            among=tuple(each.get("among", ())),
            distros={distro: source["commits"][distro] for distro in on},
            repository=source["repository"],
            path=each["path"],
        )


def robot_on(name: str, changes: dict[str, Any]) -> DriverRobot:
    """Our file of a robot, with what its comment says to change on a distribution."""
    said = read(config_root() / "robots" / f"{name}.yaml")
    for field, value in changes.items():
        *parts, last = field.split(".")
        place = said
        for part in parts:
            place = place[part]
        place[last] = value
    robot = ROBOTS.builtin[said["backend"]].model_validate_json(json.dumps(said))
    assert isinstance(robot, DriverRobot)
    return robot


def value_of(robot: DriverRobot, field: str) -> Any:
    """What our file says at that place; a list of sections gives the list of their fields."""
    if field == "controllers":
        return list(asked_controllers(robot))
    first, _, rest = field.partition(".")
    if first == "commands":
        return robot.command_topics[rest]
    found: Any = robot.model_dump()
    for part in field.split("."):
        found = [each[part] for each in found] if isinstance(found, list | tuple) else found[part]
    return list(found) if isinstance(found, tuple) else found


def behaviours_of(fixture: dict[str, Any]) -> Iterator[str]:
    """Each sentence about what a maker's driver does, on which our code builds and no field of a robot file says."""
    first = next(iter(fixture["sources"]))
    for each in fixture.get("behaves", ()):
        source = fixture["sources"][each.get("source", first)]
        says = " ".join(each["says"].split())
        yield f"{says} ({source['repository'].rpartition('/')[2]}: {each['path']})"


def bullets(path: Path, sentences: Iterable[str]) -> list[str]:
    """Sentences about a fixture's robots, one bullet each, in lines of 118 columns."""
    shown = (f"- `{path.stem}`: {' '.join(each.split())}" for each in sentences)
    return [
        textwrap.fill(each, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for each in shown
    ]


def table() -> str:
    """Every fact in one line, then where the commits are, what the drivers do besides, and what was not found."""
    lines = ["| robot file | distribution | field | the maker's | read in |", "| --- | --- | --- | --- | --- |"]
    commits: dict[tuple[str, str], dict[str, None]] = {}
    missing: list[str] = []
    behaviours: list[str] = []
    for path in FILES:
        fixture = read(path)
        for fact in facts_of(fixture):
            name = fact.repository.rpartition("/")[2]
            shown = fact.says if not fact.among else f"has {', '.join(fact.among)}"
            value = ", ".join(str(each) for each in shown) if isinstance(shown, list) else str(shown)
            where = f"{name}: {fact.path}"
            lines.append(
                f"| {', '.join(fact.robots)} | {', '.join(fact.distros)} | `{fact.field}` | {value} | {where} |"
            )
        for source in fixture["sources"].values():
            for distro, commit in source["commits"].items():
                commits.setdefault((source["repository"], commit), {})[distro] = None
        missing += bullets(path, fixture.get("not_found", ()))
        behaviours += bullets(path, behaviours_of(fixture))
    lines += ["", "| repository | distribution | commit |", "| --- | --- | --- |"]
    for (repository, commit), distros in sorted(commits.items()):
        lines.append(f"| {repository} | {', '.join(distros)} | `{commit[:12]}` |")
    lines += ["", "What the drivers do, on which the code builds:", "", *behaviours]
    return "\n".join([*lines, "", "What could not be found:", "", *missing])


def main() -> int:
    """Write the table between its marks in the docs."""
    text = DOCS.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    DOCS.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
