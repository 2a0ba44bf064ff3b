"""JSON Schemas of the YAML files, for completion and checks in an editor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from robot_stack.config.camera import CameraConfig
from robot_stack.config.cell import CellConfig
from robot_stack.config.drivers import ROBOTS
from robot_stack.config.run import RunConfig
from robot_stack.config.safety import SafetyConfig
from robot_stack.config.section import Choice, Section
from robot_stack.config.task import TaskConfig
from robot_stack.config.teleop import TeleopConfig

MODELS: dict[str, type[Section] | Choice[Any]] = {
    "robots": ROBOTS,
    "cameras": CameraConfig,
    "teleop": TeleopConfig,
    "safety": SafetyConfig,
    "cells": CellConfig,
    "tasks": TaskConfig,
    "runs": RunConfig,
}
"""Folder -> model of the files in it."""


def schema_texts() -> dict[str, str]:
    """File name -> JSON Schema, one per folder."""
    return {f"{folder}.schema.json": json.dumps(_schema(model), indent=2) + "\n" for folder, model in MODELS.items()}


def _schema(model: type[Section] | Choice[Any]) -> dict[str, Any]:
    return model.json_schema() if isinstance(model, Choice) else model.model_json_schema()


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
