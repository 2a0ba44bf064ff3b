"""A run with everything that it names, checked, and where each value came from."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel
from ruamel.yaml import YAML

from robot_stack.config.camera import CameraConfig
from robot_stack.config.cell import CellConfig
from robot_stack.config.located import Located
from robot_stack.config.robot import RobotConfig
from robot_stack.config.run import RunConfig
from robot_stack.config.safety import SafetyConfig
from robot_stack.config.section import ModelT, validate_section
from robot_stack.config.task import TaskConfig
from robot_stack.config.teleop import TeleopConfig
from robot_stack.types.spec import ArmSpec, CameraSpec, GripperKind, ProprioField, Spec

DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRun:
    """A run, complete.

    Attributes:
        name: Name of the run file.
        run: The run itself.
        cell: The cell it names.
        robot: The robot the cell names.
        cameras: Camera name -> camera, with the cell's crop.
        teleop: The teleop device the cell names.
        safety: The cell's limits, made tighter by the task and the command line, never looser.
        task: The task the run names.
        tree: All of it as written, with marks: `run`, `cell`, `robot`, `cameras.<name>`, `teleop`, `safety`, `task`.
    """

    name: str
    run: RunConfig
    cell: CellConfig
    robot: RobotConfig
    cameras: Mapping[str, CameraConfig]
    teleop: TeleopConfig
    safety: SafetyConfig
    task: TaskConfig
    tree: Located

    def spec(self) -> Spec:
        """Shapes of observation and action."""
        arm = self.task.arm
        return Spec(
            arms=(
                ArmSpec(
                    name=self.robot.name,
                    axes=arm.axes,
                    translation_m=arm.translation_m,
                    rotation_rad=arm.rotation_rad,
                    gripper=GripperKind(arm.gripper),
                ),
            ),
            cameras=tuple(
                CameraSpec(name=name, height_px=camera.policy_height_px, width_px=camera.policy_width_px)
                for name, camera in self.cameras.items()
            ),
            proprio=tuple(ProprioField(name=field.name, size=field.size) for field in self.task.proprio),
            rate_hz=float(self.run.rate_hz),
        )

    def section(self, key: str, model: type[ModelT]) -> ModelT:
        """A free section, e.g. "run.algorithm.settings" or "task.sim", checked against its owner's model.

        Raises:
            ConfigError: If it does not fit, in the words and with the places of any other mistake.
        """
        path = key.split(".")
        node, depth = self.tree.nearest(path)
        if depth < len(path):  # left out: all defaults
            node = Located(value={}, mark=node.mark, path=(*node.path, *path[depth:]))
        return validate_section(node, model)

    def parts(self) -> dict[str, BaseModel]:
        """Every model by its dotted key."""
        cameras = {f"cameras.{name}": camera for name, camera in self.cameras.items()}
        return {
            "run": self.run,
            "cell": self.cell,
            "robot": self.robot,
            **cameras,
            "teleop": self.teleop,
            "safety": self.safety,
            "task": self.task,
        }

    def values(self) -> Iterator[tuple[str, object, str]]:
        """Dotted key, value, and origin: "file:line", "--set key=value", or "default".

        A list of mappings gives one entry per mapping, any other list is one value.
        """
        for part, model in self.parts().items():
            for key, value in _flat(part, model.model_dump(mode="json")):
                node = self.tree.get(*key.split("."))
                yield key, value, node.mark.origin if node is not None else DEFAULT

    def to_yaml(self) -> str:
        """The resolved run as one YAML document; `load_resolved` reads it back."""
        document: dict[str, object] = {"name": self.name, "cameras": {}}
        for part, model in self.parts().items():
            target, _, camera = part.partition(".")
            dumped = model.model_dump(mode="json")
            if camera:
                document["cameras"] = {**_mapping(document["cameras"]), camera: dumped}
            else:
                document[target] = dumped
        yaml = YAML()
        yaml.width = 1_000_000  # type: ignore[assignment]
        stream = io.StringIO()
        yaml.dump(document, stream)
        return stream.getvalue()


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _flat(key: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _flat(f"{key}.{name}", item)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        yield from ((f"{key}.{index}", item) for index, item in enumerate(value))
    else:
        yield key, value
