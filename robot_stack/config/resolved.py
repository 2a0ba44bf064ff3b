"""A run with everything that it names, checked, and where each value came from."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel
from ruamel.yaml import YAML

from robot_stack.config.base import SavedBase
from robot_stack.config.camera import CameraConfig
from robot_stack.config.cell import CellConfig, Mount, TaughtPose, Workspace
from robot_stack.config.environment import KEY
from robot_stack.config.files.located import Located
from robot_stack.config.files.mistake import Mistake
from robot_stack.config.robot import RobotConfig
from robot_stack.config.run import RunConfig
from robot_stack.config.safety import SafetyConfig
from robot_stack.config.section import ModelT, validate_section
from robot_stack.config.task import StartConfig, TaskArm, TaskConfig
from robot_stack.config.teleop import TeleopConfig
from robot_stack.types.errors import ConfigError
from robot_stack.types.pose import Pose
from robot_stack.types.spec import (
    BASE,
    BASE_NOISE,
    BASE_TICKS,
    TASK,
    ArmSpec,
    CameraSpec,
    GripperKind,
    ProprioField,
    Spec,
)

DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunArm:
    """One arm of a run, with what several files say of it.

    Attributes:
        name: In topics, spec and messages.
        T_cell_base: Where it stands.
        workspace: Where its TCP may be.
        action: What an action of 1.0 means.
        teleop: The device that drives it, alone or in turn with others.
        start: Where it goes before an episode; None leaves it where it is.
    """

    name: str
    robot: RobotConfig
    T_cell_base: Pose
    workspace: Workspace
    action: TaskArm
    teleop: TeleopConfig
    poses: Mapping[str, TaughtPose]
    start: StartConfig | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRun:
    """A run with everything that it names, complete and checked.

    Attributes:
        name: Name of the run file.
        robots: Arm -> robot, in the order of the cell. The only arm of the short form is called as its robot.
        cameras: Camera name -> camera, with the cell's crop.
        teleops: Arm -> the teleop device of that arm alone; or "" -> the one device of the cell.
        safety: The cell's limits, made tighter by the task and the command line, never looser.
        tree: All of it as written, with marks: `run`, `cell`, `robot` or `robots.<arm>`, `cameras.<name>`, `teleop` or
            `teleops.<arm>`, `safety`, `task`.
    """

    name: str
    run: RunConfig
    cell: CellConfig
    robots: Mapping[str, RobotConfig]
    cameras: Mapping[str, CameraConfig]
    teleops: Mapping[str, TeleopConfig]
    safety: SafetyConfig
    task: TaskConfig
    tree: Located

    @property
    def is_environment(self) -> bool:
        """Return whether an environment stands in the cell's place."""
        return KEY in self.task.sim

    @property
    def simulated(self) -> bool:
        """Return whether no arm of the cell is a real one."""
        return all(robot.backend == "sim" for robot in self.robots.values())

    @property
    def robot(self) -> RobotConfig:
        """Return the robot of the only arm.

        Raises:
            ConfigError: If there are several.
        """
        if len(self.robots) != 1:
            raise ConfigError(f"arms are {', '.join(self.robots)}, must be one here; take the robot of each")
        return next(iter(self.robots.values()))

    @property
    def teleop(self) -> TeleopConfig:
        """Return the only teleop device.

        Raises:
            ConfigError: If each arm has its own.
        """
        if len(self.teleops) != 1:
            raise ConfigError(f"teleop devices are of {', '.join(self.teleops)}, must be one here; take that of each")
        return next(iter(self.teleops.values()))

    @property
    def arms(self) -> Mapping[str, RunArm]:
        """Return the arms by name, in the order of the action vector."""
        return {name: self._arm(name, robot) for name, robot in self.robots.items()}

    def _arm(self, name: str, robot: RobotConfig) -> RunArm:
        placed, task = self.cell.arms.get(name), self.task
        mount = Mount() if placed is None else placed.mount
        return RunArm(
            name=name,
            robot=robot,
            T_cell_base=Pose.from_rpy(np.array(mount.position_m), np.array(mount.rpy_rad)),
            workspace=_given(self.cell.workspace if placed is None else placed.workspace, name),
            action=_given(task.arms.get(name, task.arm), name),
            teleop=self.teleops[name if name in self.teleops else ""],
            poses=self.cell.poses if placed is None else placed.poses,
            start=task.reset.start if placed is None else task.reset.starts.get(name),
        )

    def spec(self) -> Spec:
        """Return the shapes of observation and action."""
        sensed = Spec(
            arms=tuple(
                ArmSpec(
                    name=arm.name,
                    axes=arm.action.axes,
                    translation_m=arm.action.translation_m,
                    rotation_rad=arm.action.rotation_rad,
                    gripper=GripperKind(arm.action.gripper),
                )
                for arm in self.arms.values()
            ),
            cameras=tuple(
                CameraSpec(name=name, height_px=camera.policy_height_px, width_px=camera.policy_width_px)
                for name, camera in self.cameras.items()
            ),
            proprio=(*(ProprioField(name=field.name, size=field.size) for field in self.task.proprio), *self._told()),
            rate_hz=float(self.run.rate_hz),
        )
        base = self.run.base
        if base is None:
            return sensed
        said = [ProprioField(name=BASE, size=sensed.action_size)]
        if not isinstance(base, SavedBase) and base.noise is not None:
            said = [ProprioField(name=BASE_NOISE, size=base.noise), ProprioField(name=BASE_TICKS, size=1), *said]
        return replace(sensed, proprio=(*sensed.proprio, *said))

    def _told(self) -> tuple[ProprioField, ...]:
        """Return the field that says which of several tasks is at hand, where nobody needs to declare it."""
        return (ProprioField(name=TASK, size=len(self.task.turns)),) if self.task.others else ()

    def mistake(self, key: str, text: str) -> Mistake:
        """Return a mistake at the place where a dotted key is written, or where it is missing."""
        node, _ = self.tree.nearest(key.split("."))
        return Mistake(mark=node.mark, key=key, text=text)

    def section(self, key: str, model: type[ModelT], *, without: str | None = None) -> ModelT:
        """Check a free section, e.g. "run.algorithm.settings" or "task.sim", against its owner's model.

        Args:
            key: Of the section.
            model: Of its owner.
            without: A key in it that belongs to another owner.

        Raises:
            ConfigError: If it does not fit, in the words and with the places of any other mistake.
        """
        path = key.split(".")
        node, depth = self.tree.nearest(path)
        if depth < len(path):  # left out: all defaults
            node = Located(value={}, mark=node.mark, path=(*node.path, *path[depth:]))
        if without is not None:
            node = replace(node, value={name: item for name, item in node.entries.items() if name != without})
        return validate_section(node, model)

    def parts(self) -> dict[str, BaseModel]:
        """Return every model by its dotted key."""
        one_robot = not self.cell.arms
        return {
            "run": self.run,
            "cell": self.cell,
            **{"robot" if one_robot else f"robots.{name}": robot for name, robot in self.robots.items()},
            **{f"cameras.{name}": camera for name, camera in self.cameras.items()},
            **{f"teleops.{name}" if name else "teleop": teleop for name, teleop in self.teleops.items()},
            "safety": self.safety,
            "task": self.task,
        }

    def values(self, owned: Mapping[str, BaseModel] | None = None) -> Iterator[tuple[str, object, str]]:
        """Yield dotted key, value, and origin: "file:line", "--set key=value", or "default".

        A list of mappings gives one entry per mapping, any other list is one value.

        Args:
            owned: Free sections by their dotted keys, checked by their owners, so that their defaults are yielded too.
        """
        for part, model in self.parts().items():
            dumped = model.model_dump(mode="json")
            for key, section in (owned or {}).items():
                first, *path = key.split(".")
                if first == part:
                    _put(dumped, path, section.model_dump(mode="json"))
            for key, value in _flat(part, dumped):
                node = self.tree.get(*key.split("."))
                yield key, value, node.mark.origin if node is not None else DEFAULT

    def to_yaml(self) -> str:
        """Return the resolved run as one YAML document; `load_resolved` reads it back."""
        yaml = YAML()
        yaml.width = 1_000_000  # type: ignore[assignment]
        stream = io.StringIO()
        yaml.dump(self.document(), stream)
        return stream.getvalue()

    def document(self) -> dict[str, object]:
        """Return the resolved run as plain data: mappings, lists, text, numbers, true, false and null."""
        document: dict[str, object] = {"name": self.name, "cameras": {}}
        for part, model in self.parts().items():
            kind, _, name = part.partition(".")
            dumped = model.model_dump(mode="json")
            document[kind] = {**_mapping(document.get(kind)), name: dumped} if name else dumped
        return document


T = TypeVar("T")


def _given(value: T | None, arm: str) -> T:
    """Return a value that the checks of the files have made sure is there."""
    if value is None:
        raise ConfigError(f"settings of arm {arm} are missing, must be in the cell and the task; add them")
    return value


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _put(tree: dict[str, Any], path: Sequence[str], section: dict[str, Any]) -> None:
    for name in path[:-1]:
        tree = tree[name]
    tree[path[-1]] = section


def _flat(key: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _flat(f"{key}.{name}", item)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        yield from ((f"{key}.{index}", item) for index, item in enumerate(value))
    else:
        yield key, value
