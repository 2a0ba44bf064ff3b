"""Licences of model weights: said when a model is loaded; a non-commercial one must be accepted.

Read from the model cards in 2026; the card of the files on this machine comes first, where it lies beside them.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

from robot_stack.types.errors import RewardError

LICENCES = {
    "InternRobotics/VLAC": "cc-by-nc-sa-4.0",
    "Qwen/Qwen3-VL-4B-Instruct": "apache-2.0",
    "Qwen/Qwen3-VL-8B-Instruct": "apache-2.0",
    "USC-PSI-Lab/LRM-models": "apache-2.0",
    "laion/CLIP-ViT-bigG-14-laion2B-39B-b160k": "mit",
    "tanhuajie2001/Robo-Dopamine-GRM-3B": "apache-2.0",
    "teetone/RoboReward-4B": "cc-by-4.0",
    "teetone/RoboReward-8B": "cc-by-4.0",
}
UNKNOWN = "unknown"

_CARD = re.compile(r"^license:[ \t]*[\"']?([A-Za-z0-9.-]+)[\"']?[ \t]*$", re.MULTILINE)
_NON_COMMERCIAL = re.compile(r"(^|-)nc(-|$)")
_log = logging.getLogger(__name__)


def licence_of(model: str, folder: Path | None) -> str:
    """Return the licence of a model, an identifier as the hub has it, or `UNKNOWN`.

    Args:
        model: Id on the hub, with a subfolder or without, or any other name.
        folder: Where the files lie, None if on a server.
    """
    if folder is not None:
        for place in (folder, folder.parent):  # adapters lie in subfolders, the card beside them
            written = _card_licence(place / "README.md")
            if written:
                return written
    return LICENCES.get("/".join(model.split("/")[:2]), UNKNOWN)


def check_licence(model: str, *, accepted: str | None, folder: Path | None = None) -> str:
    """Say the licence of a model and insist on a yes to one that is not for commercial work.

    Args:
        accepted: Licence that the settings accept in so many words.

    Raises:
        RewardError: If it is non-commercial and not accepted.
    """
    licence = licence_of(model, folder)
    if licence == UNKNOWN:
        _log.warning("reward model %s: licence unknown, read its card", model)
        return licence
    _log.info("reward model %s: licence %s", model, licence)
    if _NON_COMMERCIAL.search(licence) and accepted != licence:
        raise RewardError(
            f"licence of {model} is {licence}, which forbids commercial use, must be accepted; "
            f'if your use is allowed, set accept_license: "{licence}"'
        )
    return licence


def _card_licence(card: Path) -> str | None:
    """Read the licence from the header of a model card; None if there is no card or no licence in it."""
    try:
        text = card.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    parts = text.split("---", 2)
    found = _CARD.search(parts[1]) if len(parts) == 3 and not parts[0].strip() else None
    return found[1].lower() if found else None
