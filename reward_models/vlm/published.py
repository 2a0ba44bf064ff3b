"""Prompt files made from the files that a model was published with, which none of our own words can stand for.

Weights were fine-tuned on one wording, so they should be asked in it. It is read from where its authors have put it:
GRM's from `examples/inference.py` of their repository (a text with a task and eight images, found without running
anything), RoboReward's from the card beside its weights.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path

from reward_models.vlm.grm import SLOTS
from robot_stack.types.errors import RewardError

IMAGE = "<image>"
GRM_IMAGES = ("start", "goal", *(f"{moment}_{slot}" for moment in ("before", "after") for slot in SLOTS))
"""The images of GRM's question, in the order in which it was trained to see them."""

_INSTRUCTION = re.compile(r"Task:\s*<[A-Za-z_ ]+>")


def grm_prompt(text: str) -> str:
    """Find GRM's question in a Python source, and name its images; return a prompt file.

    Raises:
        RewardError: If no text in it has a task and eight images.
    """
    try:
        constants = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    except (SyntaxError, ValueError) as error:
        raise RewardError(f"source is no Python ({error}), must be examples/inference.py of Robo-Dopamine") from error
    texts = [one for one in constants if isinstance(one, str) and "{task}" in one]
    found = [one for one in texts if one.count(IMAGE) == len(GRM_IMAGES)]
    if not found:
        raise RewardError(
            f"source has no text with {{task}} and {len(GRM_IMAGES)} {IMAGE}, must be examples/inference.py of "
            "Robo-Dopamine; give that file"
        )
    first, *rest = found[0].strip().split(IMAGE)
    question = first + "".join(f"{{{name}}}{part}" for name, part in zip(GRM_IMAGES, rest, strict=True))
    return f"[pair]\n{question}\n"


def roboreward_prompt(text: str) -> str:
    """Find RoboReward's question in its model card, and put the frames before it; return a prompt file.

    Raises:
        RewardError: If the card has no text that asks for an answer and ends with the task.
    """
    lines = text.splitlines()
    begin = next((i for i, line in enumerate(lines) if "ANSWER:" in line and not _INSTRUCTION.search(line)), None)
    ends = [i for i, line in enumerate(lines) if _INSTRUCTION.search(line)]
    end = next((i for i in ends if begin is not None and i >= begin), None)
    if begin is None or end is None:
        raise RewardError(
            "card has no question that asks for ANSWER: and ends with Task: <...>, must be the README.md of "
            "RoboReward's weights; give that file, or their folder"
        )
    question = [line.strip().removeprefix("> ").strip("`") for line in lines[begin : end + 1]]
    words = _INSTRUCTION.sub("Task: {task}", "\n".join(question))
    return f"[progress]\n{{frames}}{words}\n"


_READERS: dict[str, tuple[str, Callable[[str], str]]] = {
    "grm": ("inference.py", grm_prompt),
    "roboreward": ("README.md", roboreward_prompt),
}


def published_prompt(family: str, source: Path) -> str:
    """Read the published wording of a family from a file, or from the folder that has it; return a prompt file.

    Raises:
        RewardError: If the family has none to be read, or the file does not have it.
    """
    if family not in _READERS:
        raise RewardError(
            f"published wording of {family!r} cannot be read, must be of one of {', '.join(_READERS)}; write a "
            "prompt_file by hand"
        )
    name, read = _READERS[family]
    places = [source / name, source / "examples" / name] if source.is_dir() else [source]
    path = next((place for place in places if place.is_file()), places[0])
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RewardError(f"source is {path}, must be a text file that can be read ({error})") from error
    return read(text)
