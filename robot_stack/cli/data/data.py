"""`robot-stack data`: look at episodes, check, change, merge, split them, and exchange them with other programs."""

from __future__ import annotations

import importlib
import json
from typing import Any

WORDS = {
    "list": "look",
    "show": "look",
    "view": "view",
    "check": "look",
    "edit": "make",
    "merge": "make",
    "split": "make",
    "export": "exchange",
    "import": "exchange",
}
"""Word -> module of this folder that does it."""


def run(what: str, as_json: bool = False, **options: Any) -> int:
    """Run one word of `robot-stack data`; returns the exit code, which for `check` is 1 if something is wrong.

    Raises:
        StackError: If it cannot be done; then nothing was written.
    """
    said = getattr(importlib.import_module(f"robot_stack.cli.data.{WORDS[what]}"), f"data_{what}")(**options)
    print(json.dumps(said.document) if as_json else "\n".join(said.lines))
    return int(said.code)
