"""The resolution of a run's name into everything it needs. Every mistake in every file is found in one go.

A key of `--set` starts with a part (`safety.max_speed_m_s`, `cameras.wrist.rate_hz`, `task.episode_steps`); any other
key is the run file's (`seed`, `algorithm.settings.batch_size`, `task=stack`). With several arms `robots.left` stands
where with one there is `robot`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from robot_stack.config.cell import MOUNTED, CellConfig
from robot_stack.config.cross import contradictions
from robot_stack.config.environment import KEY, SAID, EnvironmentConfig, declared_parts, find_environments
from robot_stack.config.files.library import read_named, roots_of, run_file
from robot_stack.config.files.located import Located, Mark, located
from robot_stack.config.files.mistake import Mistake, hint, raise_if_any
from robot_stack.config.files.overrides import Override, apply, parse_override
from robot_stack.config.files.yaml_text import read
from robot_stack.config.kinds import CAMERAS, ROBOTS, TELEOPS
from robot_stack.config.resolved import ResolvedRun
from robot_stack.config.run import RunConfig
from robot_stack.config.safety import SafetyConfig, is_limit, tighten, tightest
from robot_stack.config.section import Tagged, check
from robot_stack.config.task import TaskConfig
from robot_stack.config.tasks import merged
from robot_stack.types.errors import ConfigError, SpecError

PARTS = ("run", "cell", "robot", "teleop", "safety", "task")
GROUPS = ("cameras", "robots", "teleops")
"""Parts of which there is one by each name."""
KEYS = {"robots": "robot", "teleop": "teleop"}
"""Folder -> the key of a cell, or of an arm in it, that names a file there."""
CELL_LIMITS = ("workspace", "arms", "apart_m", "surroundings", "held", "safety", "stop_inputs")
CELL_TIMEOUTS = ("teleop_silence_s", "downstream_timeout_s")
ROBOT_LIMITS = ("joints", "kinematics", "collision", "wrench", "max_tcp_speed_m_s", "max_tcp_rotation_speed_rad_s")
FIXED = {
    **{("cell", key): "edit the cell file" for key in (*CELL_LIMITS, *CELL_TIMEOUTS)},
    **{(part, key): "edit the robot file" for part in ("robot", "robots") for key in ROBOT_LIMITS},
    ("safety", "braking_m_s2"): "edit the safety file",
    ("safety", "rotation_braking_rad_s2"): "edit the safety file",
    ("task", "safety"): "set safety.<limit>, which can only be made tighter, or edit the task file",
}
"""Part and key of limits, and of what they are watched by, that only a file can hold."""
T = TypeVar("T", bound=BaseModel)


def load_run(name_or_path: str | Path, overrides: Sequence[str] = (), root: Path | None = None) -> ResolvedRun:
    """Load a run by name or path, with all it names.

    Args:
        name_or_path: Name of a file in runs/, or a path to one; see `roots_of`.
        overrides: Texts `dotted.key=value`.
        root: A folder to search before ./hardware_configs and the shipped one.

    Raises:
        ConfigError: One line per mistake over all files: `file:line:col: dotted.key: message`.
    """
    roots = roots_of(name_or_path, root)
    return _Resolver(overrides, roots).resolve(run_file(name_or_path, roots))


def load_resolved(path: Path, overrides: Sequence[str] = ()) -> ResolvedRun:
    """Load a run as `ResolvedRun.to_yaml` saved it; no other file is read.

    Args:
        path: Of the saved file.
        overrides: Texts `dotted.key=value`, of what is to be different from the run.

    Raises:
        ConfigError: If the file was changed into something that does not fit, or an override does not.
    """
    mistakes: list[Mistake] = []
    tree = read(path, mistakes, saved=True)
    raise_if_any(mistakes)
    resolver = _Resolver(overrides, ())
    if tree is not None:
        resolver.take(tree)
    name = tree.get("name") if tree is not None else None
    return resolver.finish(str(name.value) if name is not None else path.stem)


def with_cell_of(saved: ResolvedRun, now: ResolvedRun) -> ResolvedRun:
    """Return a saved run on the cell as another run has it now: its arms, cameras, devices, boxes and limits.

    A limit that was tighter then, by the command line perhaps, stays so.

    Raises:
        ConfigError: If the task does not fit that cell.
    """
    resolver = _Resolver((), ())
    for part in now.parts():
        tree = (saved if part in ("run", "task") else now).tree.get(*part.split("."))
        resolver.add(part, tightest(tree, saved.safety) if part == "safety" and tree is not None else tree)
    return resolver.finish(saved.name)


def is_said_in_a_file_alone(key: str) -> bool:
    """Return whether the value of a dotted key cannot be set on the command line."""
    return _remedy(*_part_of(tuple(key.split(".")))) is not None


class _Resolver:
    """A resolver that gathers the trees of one run, then its mistakes, then its models."""

    def __init__(self, overrides: Sequence[str], roots: tuple[Path, ...]) -> None:
        self._roots = roots
        self._mistakes: list[Mistake] = []
        self._trees: dict[str, Located] = {}
        parsed = (parse_override(text, self._mistakes) for text in overrides)
        self._overrides = [_with_part(override) for override in parsed if override is not None]
        self._refuse_fixed()

    def resolve(self, path: Path) -> ResolvedRun:
        """Resolve everything behind a run file."""
        run = self.add("run", read(path, self._mistakes))
        task = self.add("task", self._task(run))
        cell = self.add("cell", self._named("cells", run, "cell"))
        named = None if task is None else task.get("sim", KEY)
        if run is not None and cell is not None and task is not None and named is not None:
            self._declare(run, cell, task, named)
            raise_if_any(self._mistakes)  # what is missing now follows from them
            self._refuse_stray_overrides()
            return self.finish(path.stem)
        for part, kind, holder in _hardware(cell):
            self.add(part, self._named(kind, holder, KEYS[kind]))
        self._safety(self._named("safety", cell, "safety"), task)
        cameras = cell.get("cameras") if cell is not None else None
        for name, camera in (cameras.entries if cameras is not None else {}).items():
            tree = self._named("cameras", camera, "model")
            self.add(f"cameras.{name}", _mounted(tree, camera) if tree is not None else None)
        self._refuse_stray_overrides()
        return self.finish(path.stem)

    def _declare(self, run: Located, cell: Located, task: Located, named: Located) -> None:
        """Add the parts of a run whose task names an environment: they follow from what that takes and shows."""
        for holder, keys, whose in ((task, SAID, "task"), (cell, ("robot", "arms", "cameras", "teleop"), "cell")):
            for key in keys:
                if (node := holder.get(key)) is not None:
                    text = f"{key} is given beside an environment, which says it itself or has none; remove it"
                    self._mistakes.append(Mistake(mark=node.mark, key=f"{whose}.{key}", text=text))
        config, rate = check(task.entries["sim"], EnvironmentConfig, self._mistakes), run.get("rate_hz")
        if config is None or rate is None or not isinstance(rate.value, int | float):
            return
        try:
            spec = find_environments().declare(config, float(rate.value))
        except (ConfigError, SpecError) as error:
            self._mistakes.append(Mistake(mark=named.mark, key="task.sim.gymnasium", text=str(error)))
            return
        mark = Mark(source=f"environment {config.gymnasium}")
        for part, content in declared_parts(spec):
            tree = self._trees.get(part)
            made = located(content, mark, (part,))
            if tree is None:
                self.add(part, made)
                continue
            for key, node in made.entries.items():  # a cell or a task that the files began
                if tree.get(key) is None:
                    tree = tree.with_value((key,), node)
            self._trees[part] = tree
        self._safety(self._named("safety", cell, "safety"), task)

    def take(self, tree: Located) -> None:
        """Take the trees of a saved run."""
        legal = (*PARTS, *GROUPS, "name")
        for key, node in tree.entries.items():
            if key not in legal:
                text = f"extra inputs are not permitted{hint(key, legal)}"
                self._mistakes.append(Mistake(mark=node.mark, key=key, text=text))
        named = [part for part, _, _ in _hardware(tree.get("cell"))]
        for part in ("run", "cell", *named, "safety", "task"):
            path = tuple(part.split("."))
            self.add(part, tree.get(*path) or Located(value={}, mark=tree.mark, path=path))
        cameras = tree.get("cameras")
        for name, camera in (cameras.entries if cameras is not None else {}).items():
            self.add(f"cameras.{name}", camera)
        self._refuse_stray_overrides()

    def finish(self, name: str) -> ResolvedRun:
        """Check the trees gathered so far, and return the run with their models."""
        run, cell = self._check("run", RunConfig), self._check("cell", CellConfig)
        safety, task = self._check("safety", SafetyConfig), self._check("task", TaskConfig)
        robots = self._check_group("robot", "robots", ROBOTS)
        teleops = self._check_group("teleop", "teleops", TELEOPS)
        cameras = self._check_group("", "cameras", CAMERAS)
        raise_if_any(self._mistakes)
        if "" in robots:  # the only arm is called as its robot
            robots = {robot.name: robot for robot in robots.values()}
        parts = dict(run=run, cell=cell, robots=robots, cameras=cameras, teleops=teleops, safety=safety, task=task)
        resolved = ResolvedRun(name=name, tree=self._tree(), **parts)  # type: ignore[arg-type]
        raise_if_any(contradictions(resolved))
        return resolved

    def _named(self, kind: str, holder: Located | None, key: str) -> Located | None:
        reference = holder.get(key) if holder is not None else None
        return read_named(kind, reference, self._roots, self._mistakes) if reference is not None else None

    def _task(self, run: Located | None) -> Located | None:
        """Return the task of a run; with several, the first one with what the others do otherwise."""
        listed = run.get("tasks") if run is not None else None
        if listed is None or not isinstance(listed.value, tuple) or not listed.value:
            return self._named("tasks", run, "task")
        found = [read_named("tasks", each, self._roots, self._mistakes) for each in listed.value]
        if len(found) < 2 or any(tree is None for tree in found):
            return None  # the mistakes say why
        return merged([tree for tree in found if tree is not None], listed.mark, self._mistakes)

    def add(self, part: str, tree: Located | None) -> Located | None:
        """Add a part as a file has it, with what the command line says of it; return it."""
        if tree is None:
            return None
        for override in (each for owner, each in self._overrides if owner == part):
            tree = apply(tree, override, self._mistakes)
            others = tree.get("others")
            if part == "task" and override.path[0] == "sim" and others is not None:  # several tasks are in one scene
                alike = tuple(apply(other, override, self._mistakes) for other in others.entries.values())
                tree = tree.with_value(("others",), replace(others, value=alike))
        self._trees[part] = tree
        return tree

    def _safety(self, base: Located | None, task: Located | None) -> None:
        """Add the base limits, tightened by the task's, then by the command line's: each only tighter than before."""
        if base is None:
            return
        from_task = task.get("safety") if task is not None else None
        if from_task is not None:
            base = tighten(base, from_task, self._mistakes)
        others = []
        for part, override in self._overrides:
            if part == "safety" and is_limit(override.path, override.value):
                asked: dict[str, Located] = {override.path[0]: override.value}
                base = tighten(base, Located(value=asked, mark=override.value.mark), self._mistakes)
            else:
                others.append((part, override))
        self._overrides = others
        self.add("safety", base)

    def _check(self, part: str, model: type[T] | Tagged[T]) -> T | None:
        tree = self._trees.get(part)
        return check(tree, model, self._mistakes) if tree is not None else None

    def _check_group(self, single: str, group: str, model: type[T] | Tagged[T]) -> dict[str, T]:
        """Return the models of a group by name; that of a part that stands alone is called ""."""
        found = {}
        for part in self._trees:
            kind, _, name = part.partition(".")
            if part == single or kind == group:
                checked = self._check(part, model)
                if checked is not None:
                    found[name] = checked
        return found

    def _refuse_fixed(self) -> None:
        for part, override in self._overrides:
            remedy = _remedy(part, override.path)
            if remedy is not None:
                text = f"{part}.{override.path[0]} is a limit and cannot be set on the command line; {remedy}"
                self._mistakes.append(Mistake(mark=override.value.mark, key=override.value.key, text=text))

    def _refuse_stray_overrides(self) -> None:
        if self._mistakes:
            return  # a part may be missing for that reason
        for part, override in self._overrides:
            if part not in self._trees:
                text = f"there is no '{part}' in this run{hint(part, self._trees)}"
                self._mistakes.append(Mistake(mark=override.value.mark, key=override.value.key, text=text))

    def _tree(self) -> Located:
        root = Located(value={}, mark=Mark(source="resolved run"))
        for part, tree in self._trees.items():
            root = root.with_value(part.split("."), tree)
        return root


def _hardware(cell: Located | None) -> Iterator[tuple[str, str, Located]]:
    """Yield part, folder and holder of the name, of each robot and each teleop device that a cell names."""
    if cell is None:
        return
    arms = cell.get("arms")
    holders = [("", cell), *((name, arm) for name, arm in (arms.entries if arms is not None else {}).items())]
    for kind, key in KEYS.items():
        for name, holder in holders:
            reference = holder.get(key)
            if reference is not None and reference.value is not None:
                yield (f"{key}s.{name}" if name else key), kind, holder


def _mounted(model: Located, camera: Located) -> Located:
    """Return a camera's model with what the cell says about this one."""
    for key in MOUNTED:
        node = camera.get(key)
        if node is not None and node.value is not None:
            model = model.with_value((key,), node)
    return model


def _with_part(override: Override) -> tuple[str, Override]:
    """Return the part an override belongs to, and the override with its path inside that part."""
    part, path = _part_of(override.path)
    return part, replace(override, path=path)


def _part_of(path: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the part that a key belongs to, and its path inside that part."""
    first, *rest = path
    if first in GROUPS and len(rest) > 1:
        return f"{first}.{rest[0]}", tuple(rest[1:])
    if first in PARTS and rest:
        return first, tuple(rest)
    return "run", path


def _remedy(part: str, path: tuple[str, ...]) -> str | None:
    """Return what to do instead of setting a key that only a file can hold; None for any other."""
    return FIXED.get((part.partition(".")[0], path[0]))
