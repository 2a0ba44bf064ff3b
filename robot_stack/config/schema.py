"""JSON Schemas of the YAML files, for completion and checks in an editor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from robot_stack.config.cell import CellConfig
from robot_stack.config.kinds import CAMERAS, ROBOTS, TELEOPS
from robot_stack.config.run import RunConfig
from robot_stack.config.safety import SafetyConfig
from robot_stack.config.section import Section, Tagged
from robot_stack.config.task import TaskConfig

MODELS: dict[str, type[Section] | Tagged[Any]] = {
    "robots": ROBOTS,
    "cameras": CAMERAS,
    "teleop": TELEOPS,
    "safety": SafetyConfig,
    "cells": CellConfig,
    "tasks": TaskConfig,
    "runs": RunConfig,
}
"""Folder -> model of the files in it."""


OF_ENVIRONMENTS: dict[type[Section], tuple[str, ...]] = {
    CellConfig: ("cameras",),
    TaskConfig: ("proprio", "reset", "success"),
}
"""Keys that a file may leave out where a task names an environment."""


def schema_texts() -> dict[str, str]:
    """Return file name -> JSON Schema, one per folder."""
    return {f"{folder}.schema.json": json.dumps(_schema(model), indent=2) + "\n" for folder, model in MODELS.items()}


def _schema(model: type[Section] | Tagged[Any]) -> dict[str, Any]:
    """Return the JSON Schema of a section, or of all its built-in kinds, told apart by their tag."""
    if not isinstance(model, Tagged):
        schema = model.model_json_schema()
        needless = [key for key in schema["required"] if key in OF_ENVIRONMENTS.get(model, ())]
        if needless:  # an editor knows no environment, and must not ask for what one says
            schema["required"] = [key for key in schema["required"] if key not in needless]
        return schema
    base = model.base
    return {**TypeAdapter(model.union).json_schema(), "title": base.__name__, "description": base.__doc__}


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
