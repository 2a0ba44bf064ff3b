"""JSON Schemas of the YAML files, for completion and checks in an editor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Union

from pydantic import Field, TypeAdapter

from robot_stack.config.camera import CameraConfig
from robot_stack.config.cell import CellConfig
from robot_stack.config.drivers import DriverRobot  # noqa: F401 (its kinds belong to RobotConfig)
from robot_stack.config.feetech import So101Robot  # noqa: F401 (likewise)
from robot_stack.config.robot import RobotConfig
from robot_stack.config.run import RunConfig
from robot_stack.config.safety import SafetyConfig
from robot_stack.config.section import Section, kinds
from robot_stack.config.task import TaskConfig
from robot_stack.config.teleop import TeleopConfig

MODELS: dict[str, type[Section]] = {
    "robots": RobotConfig,
    "cameras": CameraConfig,
    "teleop": TeleopConfig,
    "safety": SafetyConfig,
    "cells": CellConfig,
    "tasks": TaskConfig,
    "runs": RunConfig,
}
"""Folder -> model of the files in it."""


def schema_texts() -> dict[str, str]:
    """Return file name -> JSON Schema, one per folder."""
    return {f"{folder}.schema.json": json.dumps(_schema(model), indent=2) + "\n" for folder, model in MODELS.items()}


def _schema(model: type[Section]) -> dict[str, Any]:
    """Return the JSON Schema of a section, or of all its kinds, told apart by their tag."""
    choices = tuple(kinds(model).values())
    if not choices:
        return model.model_json_schema()
    union: Any = Annotated[Union[choices], Field(discriminator=model.tag)]  # noqa: UP007 (a tuple of types)
    return {**TypeAdapter(union).json_schema(), "title": model.__name__, "description": model.__doc__}


def write_schemas(root: Path) -> tuple[Path, ...]:
    """Write the schemas to `root`/schema and return their paths."""
    folder = root / "schema"
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in schema_texts().items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return tuple(written)
